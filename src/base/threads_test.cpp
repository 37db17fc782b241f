#include "base/threads.h"

#include <array>
#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <mutex>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>

#include <unistd.h>

#include <gtest/gtest.h>
#include <sys/wait.h>

namespace epilogue {
namespace {

class Threads : public testing::Test {
 protected:
  ~Threads() override { set_thread_count(before_); }
  const int before_ = thread_count();
};

std::set<std::string> threads_of_this_process() {
  std::set<std::string> ids;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task"))
    ids.insert(task.path().filename().string());
  return ids;
}

// Runs `share` over [0, count) and checks that each element is in one of its pieces, none longer than
// `longest`.
template <class Share>
void expect_each_once(int64_t count, int64_t longest, const Share& share) {
  std::mutex mutex;
  std::multiset<int64_t> seen;
  share([&](int64_t begin, int64_t end) {
    const std::lock_guard lock(mutex);
    EXPECT_LE(end - begin, longest);
    for (int64_t i = begin; i < end; ++i) seen.insert(i);
  });
  EXPECT_EQ(static_cast<int64_t>(seen.size()), count);
  EXPECT_EQ(static_cast<int64_t>(std::set(seen.begin(), seen.end()).size()), count);
}

TEST_F(Threads, EachElementIsInOnePiece) {
  for (const int threads : {1, 2, 5})
    for (const int64_t count : {0, 1, 4, 7, 100})
      for (const int64_t least : {1, 3, 1000}) {
        set_thread_count(threads);
        expect_each_once(count, count,
                         [&](const auto& body) { EXPECT_LE(parallel_for(count, least, body), threads); });
        expect_each_once(count, threads == 1 ? count : least, [&](const auto& body) {
          EXPECT_LE(parallel_shares(count, least, threads,
                                    [&](int thread, int64_t begin, int64_t end) {
                                      EXPECT_LT(thread, threads);
                                      body(begin, end);
                                    }),
                    threads);
        });
      }
}

// The first thread waits until all else is done, so the others must have taken what was left of its share.
TEST_F(Threads, WhoIsDoneHelpsTheOthers) {
  set_thread_count(2);
  std::atomic<int> left{7};
  const int used = parallel_shares(8, 1, 2, [&](int, int64_t begin, int64_t) {
    if (begin != 0) {
      --left;
      return;
    }
    while (left.load() > 0) std::this_thread::yield();
  });
  EXPECT_EQ(used, 2);
}

// Memory that belongs to a number is never used by two threads at once.
TEST_F(Threads, EachHasANumberOfItsOwn) {
  set_thread_count(4);
  std::array<std::atomic<int>, 4> inside{};
  parallel_shares(400, 1, 4, [&](int thread, int64_t, int64_t) {
    EXPECT_EQ(inside[static_cast<size_t>(thread)]++, 0);
    std::this_thread::yield();
    --inside[static_cast<size_t>(thread)];
  });
}

// A thread that ends with a smaller piece of work is one to be created for the next larger one.
TEST_F(Threads, StayWhenFewerOfThemHaveWork) {
  set_thread_count(6);
  const auto nothing = [](int64_t, int64_t) {};
  parallel_for(6, 1, nothing);
  const std::set<std::string> all = threads_of_this_process();
  for (const int64_t pieces : {2, 6, 3, 5, 6}) parallel_for(pieces, 1, nothing);
  EXPECT_EQ(threads_of_this_process(), all);
}

TEST_F(Threads, APiecesExceptionReachesTheCaller) {
  set_thread_count(4);
  const auto throws = [](int64_t begin, int64_t) {
    if (begin == 2) throw std::runtime_error("of a piece");
  };
  EXPECT_THROW(parallel_for(4, 1, throws), std::runtime_error);
  const auto share_throws = [&](int, int64_t begin, int64_t end) { throws(begin, end); };
  EXPECT_THROW(parallel_shares(4, 1, 4, share_throws), std::runtime_error);
}

TEST_F(Threads, NoMoreThanThereIsWorkFor) {
  set_thread_count(4);
  const auto nothing = [](int64_t, int64_t) {};
  EXPECT_EQ(parallel_for(2, 1, nothing), 2);
  const auto no_share = [](int, int64_t, int64_t) {};
  EXPECT_EQ(parallel_shares(2, 1, 4, no_share), 2);
  EXPECT_EQ(parallel_shares(0, 1, 4, no_share), 0);
}

void fork_after_a_team_has_worked() {
  set_thread_count(3);
  const auto nothing = [](int64_t, int64_t) {};
  if (parallel_for(3, 1, nothing) != 3) std::exit(1);
  const pid_t child = fork();
  if (child == 0) {
    alarm(20);
    _exit(parallel_for(3, 1, nothing) == 1 && thread_count() == 1 ? 0 : 1);
  }
  int status = -1;
  waitpid(child, &status, 0);
  std::exit(status == 0 && parallel_for(3, 1, nothing) == 3 ? 0 : 1);
}

TEST(ThreadsDeathTest, AChildWorksAloneWhereTheTeamIsItsParents) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(fork_after_a_team_has_worked(), testing::ExitedWithCode(0), "");
}

TEST_F(Threads, APieceRunsItsOwnPiecesItself) {
  set_thread_count(3);
  std::atomic<int> sum{0};
  parallel_for(3, 1, [&](int64_t, int64_t) {
    EXPECT_EQ(parallel_shares(10, 2, 3,
                              [&](int thread, int64_t begin, int64_t end) {
                                EXPECT_EQ(thread, 0);
                                sum += static_cast<int>(end - begin);
                              }),
              1);
  });
  EXPECT_EQ(sum.load(), 30);
}

}  // namespace
}  // namespace epilogue
