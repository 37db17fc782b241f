#include "backend/cuda/warm_up.h"

#include <atomic>
#include <list>
#include <thread>

#include "backend/cuda/cublaslt.h"
#include "backend/cuda/kernels/gated_gemm.h"
#include "base/check.h"

namespace epilogue::cuda {
namespace {

class WarmUp {
 public:
  explicit WarmUp(CudaDevice& device) : thread_([this, &device] { run(device); }) {}
  ~WarmUp() {
    stop_ = true;
    thread_.join();
  }

 private:
  void run(CudaDevice& device) {
    try {
      device.make_current();
      GemmKey key{.m = 64, .n = 64, .k = 64, .a_ld = 64, .b_ld = 64};
      key.dtype = DType::bf16;
      if (!stop_) (void)GemmPlan(key).candidates(device, 1);
      if (!stop_ && device.properties().major == 9) (void)load_gated_gemms();
    } catch (const Error&) {
      // What fails here fails again where it is needed, and is reported there.
    }
  }

  std::atomic<bool> stop_ = false;
  std::thread thread_;
};

}  // namespace

// Of the thread, not of the program: when a program ends, its thread's objects go first. An object of the
// program would go after those that cuBLASLt makes meanwhile, which the warm-up still uses.
void warm_up(CudaDevice& device) {
  static thread_local std::list<WarmUp> begun;
  begun.emplace_back(device);
}

}  // namespace epilogue::cuda
