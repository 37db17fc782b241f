// The thread that builds plans while calls go on.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>

namespace epilogue::compiler {

// One for the process, there until its last moment; its thread starts with the first job and ends with the
// main thread. fork() waits for the job under way, whose locks the child would find taken, and leaves the
// child without the thread: it has a queue of its own, without the parent's jobs.
class BuildQueue {
 public:
  static BuildQueue& instance();
  // How often the process is a child of one that had a queue: jobs added under another number are not run.
  static int forks();

  // Runs `job` on the thread, after those before it. It must not throw. False where it is dropped: the queue
  // has ended, or the system has no thread for it.
  bool add(std::function<void()> job);
  // Finishes the job under way; the others are dropped, and what is added from now on.
  void end();

 private:
  BuildQueue() = default;
  void work();
  struct OfProcess;
  static OfProcess& of_process();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> jobs_;
  bool ending_ = false;
  std::thread thread_;
};

}  // namespace epilogue::compiler
