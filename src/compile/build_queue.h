// The thread that builds plans while calls go on.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>

namespace epilogue::compiler {

// One for the process; its thread starts with the first job and ends with the main thread.
class BuildQueue {
 public:
  static BuildQueue& instance();
  // Runs `job` on the thread, after those before it. It must not throw.
  void add(std::function<void()> job);
  // Finishes the job under way; the others are not begun, nor what is added from now on.
  void end();
  ~BuildQueue() { end(); }

 private:
  void work();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> jobs_;
  bool ending_ = false;
  std::thread thread_;
};

}  // namespace epilogue::compiler
