#include "cli/cores.h"

#include <chrono>
#include <filesystem>
#include <fstream>
#include <string>
#include <system_error>

#include <fmt/format.h>

#include "base/threads.h"
#include "cli/output.h"

namespace epilogue::cli {
namespace {

double now_s() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// Linux: the second number of a thread's schedstat, in nanoseconds. A thread that builds in the background
// ("ep-compile") may wait: nobody waits for it.
double waited_for_cores_s() {
  double total = 0;
  std::error_code failed;
  for (const auto& thread : std::filesystem::directory_iterator("/proc/self/task", failed)) {
    std::ifstream name(thread.path() / "comm"), file(thread.path() / "schedstat");
    std::string called;
    if (name >> called && called.starts_with("ep-")) continue;
    double ran_ns = 0, waited_ns = 0;
    if (file >> ran_ns >> waited_ns) total += waited_ns * 1e-9;
  }
  return total;
}

}  // namespace

void warn_of_too_many_threads() {
  if (thread_count() > core_count())
    tell(fmt::format("{} threads on {}: they take turns, and every kernel waits for the last of them",
                     thread_count(), core_count() == 1 ? "1 core" : fmt::format("{} cores", core_count())));
}

void CoreWait::begin() {
  // A thread that is new waits for milliseconds until it is given a core of its own.
  parallel_for(thread_count(), 1, [](int64_t, int64_t) {});
  begun_s_ = now_s();
  waited_before_s_ = waited_for_cores_s();
}

void CoreWait::end() {
  seconds_ += now_s() - begun_s_;
  waited_s_ += waited_for_cores_s() - waited_before_s_;
}

void CoreWait::warn_if_disturbed() const {
  // A wake-up costs some microseconds on a calm machine as well; a neighbour's turn lasts milliseconds.
  constexpr double kLeastShare = 0.05, kLeastSeconds = 2e-3;
  const int threads = thread_count();
  const double share = waited_s_ / (seconds_ * threads);
  const bool among_themselves = threads > core_count();
  if (among_themselves || waited_s_ < kLeastSeconds || share < kLeastShare) return;
  tell(fmt::format(
      "disturbed: the threads waited {:.0f}% of the time for a core, so the times are longer "
      "than the layer's "
      "own; a calm machine helps{}",
      share * 100, threads > 1 ? fmt::format(", --threads {} or OMP_WAIT_POLICY=passive", threads / 2) : ""));
}

}  // namespace epilogue::cli
