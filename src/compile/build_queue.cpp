#include "compile/build_queue.h"

#include <pthread.h>

namespace epilogue::compiler {

BuildQueue& BuildQueue::instance() {
  static BuildQueue queue;
  return queue;
}

void BuildQueue::add(std::function<void()> job) {
  const std::lock_guard lock(mutex_);
  jobs_.push_back(std::move(job));
  if (!thread_.joinable()) thread_ = std::thread([this] { work(); });
  changed_.notify_one();
}

// The process ends: the job under way is finished, the others are not begun.
BuildQueue::~BuildQueue() {
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
