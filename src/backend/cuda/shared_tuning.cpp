#include "backend/cuda/shared_tuning.h"

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <utility>

#include <fmt/format.h>

#include "backend/cuda/own_gemm.h"
#include "backend/cuda/tuning.h"
#include "base/cache_dir.h"
#include "base/env.h"
#include "profile/event.h"

namespace epilogue::cuda {
namespace {

struct SharedTuning {
  std::mutex mutex;
  std::unique_ptr<Tuning> tuning;
  std::atomic<size_t> best = 0;  // what those take who do not wait
};

SharedTuning& tuning_of(const GemmKey& key, int device) {
  static std::mutex mutex;
  static auto& all =
      *new std::map<std::pair<int, GemmKey>, std::unique_ptr<SharedTuning>>;  // threads outlive exit()
  const std::lock_guard lock(mutex);
  auto& shared = all[{device, key}];
  if (!shared) shared = std::make_unique<SharedTuning>();
  return *shared;
}

// See Tuning, and versions 11, 14 and 15 of bench/cuda/NOTES.md. With more rows it takes ways that are slower
// in a model: at 512 x 1024 x 2816 a down that makes the MLP 1.13 of G and not 1.07, at 1024 x 1024 x 4096 6%
// of `eager`.
TuningRules rules_of(const GemmKey& key) {
  // In a loop, where the next call begins under it and the card is at its power limit, one kernel gains 2 to
  // 5% more on two than a call timed alone shows. Pairs overlap while they are timed, so that a small gain
  // counts, and they differ by little.
  if (key.place == GemmPlace::whole_mlp)
    return {.credit = {.share = 0.03, .most_us = 10},
            .clearly = 0.98,
            .rounds = 10,
            .long_rounds = 10,
            .last_rounds = 12};
  if (key.m > 384) return {};
  return {.credit = {.share = 0.1, .most_us = key.place == GemmPlace::after_gated ? 4 : 1.5}};
}

// Some of cuBLASLt's kernels take longer to load than a call's share of time. The next two products then
// leave it at that, so that a call of a layer does not wait for three of them.
constexpr int kLeftAlone = 2;

int64_t bytes_of(const GemmKey& key) {
  const bool gated = key.place == GemmPlace::gated || key.place == GemmPlace::whole_mlp;
  const int64_t weights = key.n * (key.k * (gated ? 2 : 1) + key.last_n),
                rows = key.m * (key.k + key.n + key.last_n);
  return key.batch * (weights + rows) * static_cast<int64_t>(dtype_size(key.dtype));
}

std::string name_of(const GemmChoice& choice) {
  if (choice[0] == GemmWays::two_kernels) return "two kernels";
  if (choice[0] == GemmWays::one_kernel) return "one kernel";
  if (choice[0] == GemmWays::pair_with_cublaslt || choice[0] == GemmWays::pair_with_own)
    return "another pair";
  const auto own = choice[0] == GemmWays::own ? config_of(choice) : std::nullopt;
  return own ? name(*own) : "cuBLASLt's";
}

}  // namespace

GemmChoices& choices_of(CudaDevice& device) {
  static std::mutex mutex;
  static auto& all = *new std::map<int, std::unique_ptr<GemmChoices>>;  // as those of the tunings
  const std::lock_guard lock(mutex);
  auto& choices = all[device.index()];
  if (!choices) choices = std::make_unique<GemmChoices>(cache_dir(), device.platform());
  return *choices;
}

TuningState tune(CudaDevice& device, const GemmKey& key, const WaysToTune& ways) {
  static thread_local int left_alone = 0;  // products still to come that are
  SharedTuning& shared = tuning_of(key, device.index());
  const std::unique_lock lock(shared.mutex, std::try_to_lock);
  if (!lock.owns_lock()) {
    const size_t best = shared.best;  // perhaps already of another count of ways
    return {.best = best < ways.count ? best : 0};
  }
  // What is known of the products of an MLP may have come from another process meanwhile.
  if (!shared.tuning || shared.tuning->ways() != ways.count) {
    shared.tuning = std::make_unique<Tuning>(ways.count, ways.own_from, rules_of(key));
    shared.best = 0;
  }
  Tuning& tuning = *shared.tuning;
  const bool may_time = !tuning.over() && !device.capture() && profile::recording_now() == 0;
  bool times = may_time && left_alone == 0;
  if (may_time && left_alone > 0) --left_alone;
  if (times) times = tuning.try_some(device, {bytes_of(key), ways.x, ways.x_bytes, ways.run});
  if (times) {
    shared.best = tuning.best();
    if (tuning.loaded_slowly()) left_alone = kLeftAlone;
    if (tuning.over()) {
      GemmFinalists kept{ways.choice(tuning.best())};
      verbose_line("tuning", fmt::format("{}: {}, {}", key.to_string(), name_of(kept[0]), tuning.report()));
      if (key.place == GemmPlace::gated || key.place == GemmPlace::after_gated)  // for pairs of the two
        for (const size_t way : tuning.runners_up()) kept.push_back(ways.choice(way));
      choices_of(device).keep(key, std::move(kept), tuning.calm());
    }
  }
  return {tuning.best(), tuning.over(), times};
}

}  // namespace epilogue::cuda
