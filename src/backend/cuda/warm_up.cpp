#include "backend/cuda/warm_up.h"

#include <atomic>
#include <exception>
#include <list>
#include <system_error>
#include <thread>

#include "backend/cuda/cublaslt.h"
#include "backend/cuda/kernels/gated_gemm.h"
#include "profile/event.h"

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
      if (goes_on()) (void)GemmPlan(key).candidates(device, 1);
      for (const DType dtype : {DType::bf16, DType::f16})
        for (const bool gated : {false, true})
          if (goes_on() && device.properties().major == 9) (void)load_gated_gemm(dtype, gated);
    } catch (const std::exception&) {
      // What fails here fails again where it is needed, and is reported there.
    }
  }

  // A profile shows what was asked for alone.
  bool goes_on() const { return !stop_ && profile::recording_now() == 0; }

  std::atomic<bool> stop_ = false;
  std::thread thread_;
};

}  // namespace

// Of the thread that asks first, which is the main one as a rule: when a program ends, the objects of its
// last thread go first. An object of the program would go after those that cuBLASLt makes meanwhile and the
// warm-up still uses.
void warm_up(CudaDevice& device) {
  static thread_local std::list<WarmUp> begun;
  try {
    begun.emplace_back(device);
  } catch (const std::system_error&) {
    // No thread to be had: the first products do the work.
  }
}

}  // namespace epilogue::cuda
