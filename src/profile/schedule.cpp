#include "base/check.h"
#include "epilogue/profiler.h"

namespace epilogue {

ProfilerAction Schedule::action(int64_t step) const {
  EP_CHECK(wait >= 0 && warmup >= 0 && active > 0 && repeat >= 0 && skip_first >= 0 && step >= 0,
           "profiler schedule: expected active > 0 and nothing negative, got wait {}, warmup {}, active {}, "
           "repeat {}, skip_first {} at step {}",
           wait, warmup, active, repeat, skip_first, step);
  if (step < skip_first) return ProfilerAction::none;
  const int64_t cycle = int64_t{wait} + warmup + active;
  const int64_t past = step - skip_first;
  if (repeat > 0 && past / cycle >= repeat) return ProfilerAction::none;
  const int64_t at = past % cycle;
  if (at < wait) return ProfilerAction::none;
  if (at < wait + warmup) return ProfilerAction::warmup;
  return at < cycle - 1 ? ProfilerAction::record : ProfilerAction::record_and_save;
}

}  // namespace epilogue
