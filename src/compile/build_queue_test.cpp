#include "compile/build_queue.h"

#include <atomic>
#include <cstdlib>

#include <unistd.h>

#include <gtest/gtest.h>

namespace epilogue::compiler {
namespace {

// As a library that a job loads makes its objects: later than the queue, so that they go before it.
struct MadeByAJob {
  std::atomic<bool> gone = false;
  ~MadeByAJob() { gone = true; }
};

void exit_during_a_job() {
  static std::atomic<bool> begun = false;
  BuildQueue::instance().add([] {
    static MadeByAJob made;
    begun = true;
    for (int i = 0; i < 50; ++i) {
      usleep(1000);
      if (made.gone) _exit(3);
    }
  });
  while (!begun) usleep(100);
  std::exit(0);
}

TEST(BuildQueueDeathTest, AJobUnderWayIsFinishedBeforeWhatItUsesGoes) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");  // a process of its own, from the beginning
  EXPECT_EXIT(exit_during_a_job(), testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace epilogue::compiler
