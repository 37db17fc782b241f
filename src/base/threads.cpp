#include "base/threads.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <vector>

#include <omp.h>
#include <pthread.h>

#include "base/check.h"
#include "base/env.h"

namespace epilogue {
namespace {

struct Job {
  RangeFunction body;
  int64_t count;
  int pieces;
  // All threads, also where there are fewer pieces: GCC's OpenMP ends the threads that a smaller team leaves
  // over and creates them anew for the next larger one, which costs tens of microseconds each.
  int team;
  // The OpenMP runtime is not built with ThreadSanitizer; these two show it the fork and the join.
  std::atomic<int> forked{0};
  std::atomic<int> joined{0};
  std::exception_ptr error;
  std::atomic<bool> failed{false};
};

void run_piece(Job& job, int piece) {
  (void)job.forked.load(std::memory_order_acquire);
  try {
    job.body(job.count * piece / job.pieces, job.count * (piece + 1) / job.pieces);
  } catch (...) {
    if (!job.failed.exchange(true)) job.error = std::current_exception();
  }
  job.joined.fetch_add(1, std::memory_order_release);
}

// Not instrumented: the capture struct of the region passes through the OpenMP runtime, unseen by
// ThreadSanitizer.
__attribute__((no_sanitize("thread"), noinline)) void fork_join(Job* job) {
#pragma omp parallel for schedule(static, 1) num_threads(job->team)
  for (int piece = 0; piece < job->pieces; ++piece) run_piece(*job, piece);
}

std::atomic<int> configured_threads{0};

// GCC's OpenMP waits for ever for the threads of a team that a fork() has left in the parent.
std::atomic<bool> team_is_the_parents{false};

void expect_forks() {
  static const int handler =
      pthread_atfork(nullptr, nullptr, [] { team_is_the_parents.store(true, std::memory_order_relaxed); });
  (void)handler;
}

}  // namespace

int core_count() { return omp_get_num_procs(); }

int thread_count() {
  if (team_is_the_parents.load(std::memory_order_relaxed)) return 1;
  int count = configured_threads.load(std::memory_order_relaxed);
  if (count == 0) {
    const int64_t asked = env_int(EnvVar::threads, std::min(omp_get_max_threads(), kMostThreads));
    EP_CHECK(asked >= 1 && asked <= kMostThreads, "{}: expected 1 to {}, got {}",
             env_row(EnvVar::threads).name, kMostThreads, asked);
    count = static_cast<int>(asked);
    set_thread_count(count);
  }
  return configured_threads.load(std::memory_order_relaxed);
}

void set_thread_count(int count) {
  count = std::clamp(count, 1, kMostThreads);
  configured_threads.store(count, std::memory_order_relaxed);
}

int parallel_for(int64_t count, int64_t grain, RangeFunction body) {
  if (count <= 0) return 0;
  const int64_t most = (count + std::max<int64_t>(grain, 1) - 1) / std::max<int64_t>(grain, 1);
  const int pieces = static_cast<int>(std::min<int64_t>(most, thread_count()));
  if (pieces <= 1 || omp_in_parallel()) {
    body(0, count);
    return 1;
  }
  Job job{.body = body, .count = count, .pieces = pieces, .team = thread_count(), .error = nullptr};
  expect_forks();
  job.forked.store(1, std::memory_order_release);
  fork_join(&job);
  (void)job.joined.load(std::memory_order_acquire);
  if (job.error) std::rethrow_exception(job.error);
  return pieces;
}

int parallel_shares(int64_t count, int64_t piece, int threads, ShareFunction body, ThreadFunction ended) {
  threads = static_cast<int>(std::min<int64_t>(threads, count));
  piece = std::max<int64_t>(piece, 1);
  if (threads <= 1)
    return parallel_for(count, count, [&](int64_t begin, int64_t end) {
      body(0, begin, end);
      ended(0);
    });
  struct alignas(64) Share {
    std::atomic<int64_t> next;
    int64_t end;
  };
  std::vector<Share> shares(static_cast<size_t>(threads));
  const auto size = static_cast<int64_t>(shares.size());
  for (int64_t i = 0; i < size; ++i) {
    Share& share = shares[static_cast<size_t>(i)];
    share.next = count * i / size;
    share.end = count * (i + 1) / size;
  }
  return parallel_for(size, 1, [&](int64_t first, int64_t) {
    for (int64_t i = 0; i < size; ++i) {
      Share& share = shares[static_cast<size_t>((first + i) % size)];
      for (int64_t begin = 0; (begin = share.next.fetch_add(piece, std::memory_order_relaxed)) < share.end;)
        body(static_cast<int>(first), begin, std::min(begin + piece, share.end));
    }
    ended(static_cast<int>(first));
  });
}

}  // namespace epilogue
