#include "compile/build_queue.h"

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

}  // namespace

BuildQueue& BuildQueue::instance() {
  static BuildQueue queue;
  return queue;
}

void BuildQueue::add(std::function<void()> job) {
  static thread_local const EndsWithMainThread ends;
  const std::lock_guard lock(mutex_);
  if (ending_) return;
  jobs_.push_back(std::move(job));
  if (!thread_.joinable()) thread_ = std::thread([this] { work(); });
  changed_.notify_one();
}

void BuildQueue::end() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
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
    job();
    lock.lock();
  }
}

}  // namespace epilogue::compiler
