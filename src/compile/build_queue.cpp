#include "compile/build_queue.h"

#include <atomic>
#include <system_error>
#include <vector>

#include <pthread.h>
#include <unistd.h>

namespace epilogue::compiler {
namespace {

// What a thread has of its own goes before the objects of the program: before those of NVRTC too, which are
// made by a job and still in use while it compiles.
struct EndsWithMainThread {
  ~EndsWithMainThread() {
    if (gettid() == getpid()) BuildQueue::instance().end();
  }
};

// Where the main thread added no job.
struct EndsWithProgram {
  ~EndsWithProgram() { BuildQueue::instance().end(); }
};

// A job that forks has the lock already.
thread_local bool runs_job = false;

}  // namespace

// Never destroyed: objects of the program that go after it may still call.
struct BuildQueue::OfProcess {
  std::atomic<BuildQueue*> queue = new BuildQueue;
  std::vector<BuildQueue*> of_parents;  // not used: here a leak checker finds them
  std::atomic<int> forks = 0;
  std::mutex job;  // of who runs one, and of who forks

  void lock_job() {
    if (!runs_job) job.lock();
  }
  void unlock_job() {
    if (!runs_job) job.unlock();
  }
};

BuildQueue::OfProcess& BuildQueue::of_process() {
  static OfProcess* const one = [] {
    // The parent's queue stays behind as it is: its mutex may be locked, its thread is not there to join.
    pthread_atfork([] { of_process().lock_job(); }, [] { of_process().unlock_job(); },
                   [] {
                     of_process().of_parents.push_back(of_process().queue);
                     of_process().queue = new BuildQueue;
                     ++of_process().forks;
                     of_process().unlock_job();
                   });
    return new OfProcess;
  }();
  return *one;
}

BuildQueue& BuildQueue::instance() { return *of_process().queue; }
int BuildQueue::forks() { return of_process().forks; }

bool BuildQueue::add(std::function<void()> job) {
  static const EndsWithProgram ends;
  static thread_local const EndsWithMainThread ends_sooner;
  const std::lock_guard lock(mutex_);
  if (ending_) return false;
  try {
    if (!thread_.joinable()) thread_ = std::thread([this] { work(); });
  } catch (const std::system_error&) {
    return false;
  }
  jobs_.push_back(std::move(job));
  changed_.notify_one();
  return true;
}

void BuildQueue::end() {
  std::deque<std::function<void()>> dropped;  // what they hold goes when the mutex is free
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
    dropped.swap(jobs_);
    changed_.notify_one();
  }
  if (thread_.joinable()) thread_.join();
}

void BuildQueue::work() {
  pthread_setname_np(pthread_self(), "ep-compile");
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] { return ending_ || !jobs_.empty(); });
    if (ending_) return;
    const std::function<void()> job = std::move(jobs_.front());
    jobs_.pop_front();
    lock.unlock();
    {
      const std::lock_guard no_fork(of_process().job);
      runs_job = true;
      job();
      runs_job = false;
    }
    lock.lock();
  }
}

}  // namespace epilogue::compiler
