#include "base/beside.h"

#include <list>
#include <system_error>
#include <thread>
#include <utility>

namespace epilogue {
namespace {

class Beside {
 public:
  explicit Beside(std::function<void(const std::atomic<bool>&)> work)
      : thread_([this, todo = std::move(work)] { todo(ending_); }) {}
  ~Beside() {
    ending_ = true;
    thread_.join();
  }
  Beside(const Beside&) = delete;
  Beside& operator=(const Beside&) = delete;

 private:
  std::atomic<bool> ending_ = false;
  std::thread thread_;
};

}  // namespace

void run_beside(std::function<void(const std::atomic<bool>& ending)> work) {
  static thread_local std::list<Beside> all;
  try {
    all.emplace_back(std::move(work));
  } catch (const std::system_error&) {
    // No thread to be had.
  }
}

}  // namespace epilogue
