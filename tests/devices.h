// Tests that run on every device: the same cases, skipped with the reason where a device is not there.
#pragma once

#include <ostream>
#include <string>

#include <gtest/gtest.h>

#include "epilogue/device.h"

namespace epilogue {

inline void PrintTo(const Device& device, std::ostream* os) { *os << device_name(device); }

inline const Device kCpu{}, kCuda{DeviceType::cuda, 0};

inline auto every_device() { return testing::Values(kCpu, kCuda); }

// "cpu", "cuda_0": what a test's name may have.
inline std::string device_test_name(Device device) {
  return device.type == DeviceType::cpu ? "cpu" : "cuda_" + std::to_string(device.index);
}

inline std::string why_not_here(Device device) {
  return device_count(device.type) > 0 ? "" : why_no_devices(device.type);
}

class OnDevice : public testing::TestWithParam<Device> {
 protected:
  void SetUp() override {
    if (const std::string why = why_not_here(GetParam()); !why.empty()) GTEST_SKIP() << why;
  }
};

#define INSTANTIATE_ON_EVERY_DEVICE(Suite)                          \
  INSTANTIATE_TEST_SUITE_P(Each, Suite, ::epilogue::every_device(), \
                           [](const auto& device) { return ::epilogue::device_test_name(device.param); })

class OnCuda : public testing::Test {
 protected:
  void SetUp() override {
    if (const std::string why = why_not_here(kCuda); !why.empty()) GTEST_SKIP() << why;
  }
};

}  // namespace epilogue
