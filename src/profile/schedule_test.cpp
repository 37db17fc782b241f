#include <gtest/gtest.h>

#include "epilogue/profiler.h"

namespace epilogue {
namespace {

// torch.profiler.schedule's inner function, line by line (its "/" is a true division).
ProfilerAction torch_rule(const Schedule& s, int64_t step) {
  if (step < s.skip_first) return ProfilerAction::none;
  step -= s.skip_first;
  const int64_t num_steps = s.wait + s.warmup + s.active;
  if (s.repeat > 0 && static_cast<double>(step) / static_cast<double>(num_steps) >= s.repeat)
    return ProfilerAction::none;
  const int64_t mod_step = step % num_steps;
  if (mod_step < s.wait) return ProfilerAction::none;
  if (mod_step < s.wait + s.warmup) return ProfilerAction::warmup;
  return mod_step < num_steps - 1 ? ProfilerAction::record : ProfilerAction::record_and_save;
}

TEST(Schedule, IsTorchsForEveryCombination) {
  for (int wait = 0; wait < 4; ++wait)
    for (int warmup = 0; warmup < 4; ++warmup)
      for (int active = 1; active < 4; ++active)
        for (int repeat = 0; repeat < 4; ++repeat)
          for (int skip_first = 0; skip_first < 4; ++skip_first) {
            const Schedule s{wait, warmup, active, repeat, skip_first};
            for (int64_t step = 0; step < 40; ++step) ASSERT_EQ(s.action(step), torch_rule(s, step));
          }
}

TEST(Schedule, WaitWarmupActiveInThisOrder) {
  using enum ProfilerAction;
  const Schedule s{.wait = 1, .warmup = 1, .active = 2, .repeat = 1, .skip_first = 1};
  const ProfilerAction expected[] = {none, none, warmup, record, record_and_save, none, none};
  for (int64_t step = 0; step < 7; ++step) EXPECT_EQ(s.action(step), expected[step]) << step;
}

TEST(Schedule, RefusesNegativeAndEmpty) {
  EXPECT_THROW(Schedule{.active = 0}.action(0), Error);
  EXPECT_THROW(Schedule{.wait = -1}.action(0), Error);
  EXPECT_THROW(Schedule{}.action(-1), Error);
}

}  // namespace
}  // namespace epilogue
