// What the tests of the simulated device share.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <functional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <dlfcn.h>
#include <unistd.h>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "epilogue/device.h"
#include "epilogue/nn.h"
#include "epilogue/ops.h"
#include "simulated_cuda/simulated_device.h"

namespace epilogue {

inline const Device kCuda{DeviceType::cuda, 0};

// The simulated device, and a cache folder of the test's own.
class SimulatedCuda : public testing::Test {
 protected:
  using Kernel = simulated_cuda::Kernel;

  SimulatedCuda() {
    const char* folder = std::getenv("SIMULATED_CACHE_DIR");
    cache_ = folder ? folder : fmt::format("{}/simulated_cuda.{}", testing::TempDir(), getpid());
    setenv("EPILOGUE_CACHE_DIR", cache_.c_str(), 1);
    setenv("EPILOGUE_CUDA_MODULE", SIMULATED_CUDA_MODULE, 1);
    void* module = dlopen(SIMULATED_CUDA_MODULE, RTLD_NOW | RTLD_LOCAL);
    if (!module) throw std::runtime_error(dlerror());
    device_ = reinterpret_cast<decltype(&simulated_cuda_device)>(dlsym(module, "simulated_cuda_device"))();
  }
  ~SimulatedCuda() override {
    EXPECT_TRUE(device_->forbidden.empty()) << fmt::format("{}", fmt::join(device_->forbidden, ", "));
    device_->forbidden.clear();
    if (!std::getenv("SIMULATED_CACHE_DIR")) std::filesystem::remove_all(cache_);
  }

  // Of these kernels each takes what is said, of all others `slow`: so that nothing else is chosen.
  void times(std::vector<std::pair<std::string, double>> named, double slow = 100) {
    device_->microseconds = [named = std::move(named), slow](const Kernel& kernel) {
      for (const auto& [name, us] : named)
        if (kernel.name.starts_with(name)) return us;
      return slow;
    };
  }
  std::vector<Kernel> kernels_of(const std::function<void()>& call) {
    device_->kernels.clear();
    call();
    return device_->kernels;
  }
  // Of a call that nothing is timed in any more: it has run the same kernels so many times.
  std::vector<Kernel> settled_kernels_of(const std::function<void()>& call) {
    constexpr int same_calls = 10, most_calls = 5000;
    std::vector<std::string> before;
    int same = 0;
    for (int i = 0; i < most_calls; ++i) {
      std::vector<Kernel> kernels = kernels_of(call);
      std::vector<std::string> now = names(kernels);
      same = now == before ? same + 1 : 0;
      if (same == same_calls) return kernels;
      before = std::move(now);
    }
    throw std::runtime_error("the kernels of a call never settled");
  }
  std::vector<Kernel> call(const nn::GatedMlp& mlp, const Tensor& x) {
    return kernels_of([&] { mlp.forward(x); });
  }
  std::vector<Kernel> settled_call(const nn::GatedMlp& mlp, const Tensor& x) {
    return settled_kernels_of([&] { mlp.forward(x); });
  }
  static std::vector<std::string> names(const std::vector<Kernel>& kernels) {
    std::vector<std::string> all;
    for (const Kernel& kernel : kernels) all.push_back(kernel.name);
    return all;
  }
  static nn::GatedMlp layer(int64_t dim, int64_t hidden) {
    return {dim, hidden, {.mode = nn::Mode::fused, .tensor = {DType::bf16, kCuda}}};
  }
  static Tensor rows(int64_t m, int64_t dim) { return empty({m, dim}, {DType::bf16, kCuda}); }

  std::string cache_;
  simulated_cuda::Device* device_;
};

}  // namespace epilogue
