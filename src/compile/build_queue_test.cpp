#include "compile/build_queue.h"

#include <atomic>
#include <cstdlib>
#include <fstream>
#include <mutex>

#include <unistd.h>

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "epilogue/compile.h"
#include "epilogue/ops.h"
#include "sanitized.h"

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

// Ends the process with 0 when a child in which `body` runs to its end does.
template <class Body>
[[noreturn]] void exit_as_a_child(const Body& body) {
  const pid_t child = fork();
  if (child == 0) {
    alarm(20);  // ends one that waits forever
    body();
    std::exit(0);
  }
  int status = -1;
  waitpid(child, &status, 0);
  std::exit(status == 0 ? 0 : 1);
}

Tensor twice(const Tensor& x) { return relu(add(x, x)); }

// A function is ready a moment before its job is gone. A child made in that moment has no thread to free what
// the job still held, which a leak checker tells there.
void wait_until_jobs_are_gone() {
  static std::atomic<bool> reached = false;
  BuildQueue::instance().add([] { reached = true; });
  while (!reached) usleep(100);
}

void fork_after_a_build() {
  const CompiledFunction f = compile(twice);
  f(ones({4}));
  f.wait_ready();
  wait_until_jobs_are_gone();
  exit_as_a_child([&] {
    f(ones({2, 2}));
    f.wait_ready();
    if (f.stats().builds != 2) std::exit(1);
  });
}

void fork_before_a_build_has_begun() {
  static std::atomic<bool> begun = false;
  BuildQueue::instance().add([] {
    begun = true;
    usleep(300000);
  });
  const CompiledFunction f = compile(twice);
  f(ones({4}));
  while (!begun) usleep(100);  // AddressSanitizer's heap may be locked in a child made while a thread begins
  exit_as_a_child([&] {
    f.wait_ready();  // for nothing: that build is the parent's
    f(ones({4}));
    f.wait_ready();
    if (f.stats().builds != 1) std::exit(1);
  });
}

// What a job locks is free in a child, where nobody would unlock it.
void fork_during_a_job() {
  static std::atomic<bool> begun = false;
  static std::mutex of_the_job;
  BuildQueue::instance().add([] {
    const std::lock_guard lock(of_the_job);
    begun = true;
    usleep(100000);
  });
  while (!begun) usleep(100);
  exit_as_a_child([] { const std::lock_guard lock(of_the_job); });
}

void fork_in_a_job() {
  static std::atomic<int> status = -1;
  BuildQueue::instance().add([] {
    const pid_t child = fork();
    if (child == 0) _exit(0);
    int ended = 1;
    waitpid(child, &ended, 0);
    status = ended;
  });
  alarm(20);
  while (status < 0) usleep(100);
  std::exit(status);
}

// A thread's stack of 8 MB takes more address space than there is left.
void call_without_room_for_a_thread() {
  const CompiledFunction f = compile(twice);
  const Tensor x = ones({4});
  rlim_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  rlimit before{};
  getrlimit(RLIMIT_AS, &before);
  const rlimit little{pages * static_cast<rlim_t>(getpagesize()) + (4 << 20), before.rlim_max};
  setrlimit(RLIMIT_AS, &little);
  const bool answers = f(x).numel() == 4;
  f.wait_ready();
  const bool builds = f.stats().builds > 0;
  setrlimit(RLIMIT_AS, &before);
  f(x);
  f.wait_ready();
  std::exit(answers && !builds && f.stats().builds == 1 ? 0 : 1);
}

void call_and_wait_after_the_queue_has_ended() {
  struct Server {
    CompiledFunction f;
    ~Server() {
      f(ones({3, 3}));
      f.wait_ready();
    }
  };
  static Server server;  // made before the queue, so that it goes after it
  server.f = compile(twice);
  BuildQueue::instance().add([] { usleep(100000); });
  server.f(ones({4}));  // not begun when the program ends
  alarm(20);
  std::exit(0);
}

class BuildQueueForkDeathTest : public testing::Test {
  void SetUp() override {
#ifdef __SANITIZE_THREAD__
    GTEST_SKIP() << "ThreadSanitizer allows no thread in a child of a process with threads";
#endif
    GTEST_FLAG_SET(death_test_style, "threadsafe");
  }
};

TEST_F(BuildQueueForkDeathTest, AChildBuildsOnAThreadOfItsOwnAndEnds) {
  EXPECT_EXIT(fork_after_a_build(), testing::ExitedWithCode(0), "");
}

TEST_F(BuildQueueForkDeathTest, AChildBuildsWhatTheParentHadNotBuilt) {
  EXPECT_EXIT(fork_before_a_build_has_begun(), testing::ExitedWithCode(0), "");
}

TEST_F(BuildQueueForkDeathTest, AChildFindsNoLockTakenByAJobOfItsParent) {
  EXPECT_EXIT(fork_during_a_job(), testing::ExitedWithCode(0), "");
}

TEST_F(BuildQueueForkDeathTest, AJobMayFork) { EXPECT_EXIT(fork_in_a_job(), testing::ExitedWithCode(0), ""); }

TEST(BuildQueueDeathTest, WithoutAThreadCallsAreAnsweredAndALaterOneBuilds) {
  if (kSanitized) GTEST_SKIP() << "a sanitizer needs address space of its own";
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(call_without_room_for_a_thread(), testing::ExitedWithCode(0), "");
}

TEST(BuildQueueDeathTest, WaitingReturnsWhenTheQueueHasEnded) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(call_and_wait_after_the_queue_has_ended(), testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace epilogue::compiler
