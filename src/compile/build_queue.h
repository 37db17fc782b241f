// The thread that builds plans while calls go on.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>

namespace epilogue::compiler {

// One for the process; its thread starts with the first job and ends with the process.
class BuildQueue {
 public:
  static BuildQueue& instance();
  // Runs `job` on the thread, after those before it. It must not throw.
  void add(std::function<void()> job);
  ~BuildQueue();

 private:
  void work();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> jobs_;
  bool ending_ = false;
  std::thread thread_;
};

}  // namespace epilogue::compiler
