#include "profile/cupti_devices.h"

#include <gtest/gtest.h>

namespace epilogue::profile {
namespace {

// An H200, as PyTorch's traces tell it.
const CudaDevice kH200{.properties = {.name = "NVIDIA H200",
                                      .compute_major = 9,
                                      .compute_minor = 0,
                                      .multiprocessors = 132,
                                      .max_threads_per_block = 1024,
                                      .max_threads_per_multiprocessor = 2048,
                                      .registers_per_block = 65536,
                                      .warp_size = 32,
                                      .shared_per_block = 49152,
                                      .registers_per_multiprocessor = 65536,
                                      .shared_per_block_optin = 232448,
                                      .shared_per_multiprocessor = 233472},
                       .reserved_shared_per_block = 1024};

struct Told {
  trace::Launch launch;
  float warps_per_sm;
  float occupancy_percent;
};

// Kernels of traces/mlp_eager, mlp_liger and mlp_fp32_gelu, with what Kineto tells of them.
const Told kTold[] = {
    {{.grid = {24576, 1, 1}, .block = {128, 1, 1}, .registers_per_thread = 40}, 744.727295f, 75},
    {{.grid = {24576, 1, 1}, .block = {128, 1, 1}, .registers_per_thread = 32}, 744.727295f, 100},
    {{.grid = {8192, 1, 1}, .block = {256, 1, 1}, .registers_per_thread = 48}, 496.484863f, 63},
    {{.grid = {2, 128, 1}, .block = {64, 1, 1}, .registers_per_thread = 80, .shared_bytes = 6912},
     3.878788f,
     6},
    {{.grid = {32, 2, 4}, .block = {16, 16, 1}, .registers_per_thread = 32, .shared_bytes = 4356},
     15.515152f,
     24},
    {{.grid = {16, 2, 1}, .block = {256, 1, 1}, .registers_per_thread = 18}, 1.939394f, 3},
};

TEST(Occupancy, IsWhatKinetoTells) {
  for (const Told& told : kTold) {
    trace::Launch launch = told.launch;
    estimate_occupancy(kH200, static_cast<size_t>(launch.shared_bytes), 0, launch);
    SCOPED_TRACE(launch.grid[0]);
    EXPECT_NEAR(launch.warps_per_sm, told.warps_per_sm, 1e-4);
    EXPECT_EQ(launch.occupancy_percent, told.occupancy_percent);
  }
}

// Kineto tells 0 of such kernels: it does not let them opt in to their shared memory.
TEST(Occupancy, OfAKernelWithMuchSharedMemoryIsItsOneBlock) {
  trace::Launch launch{
      .grid = {2, 66, 1}, .block = {384, 1, 1}, .registers_per_thread = 168, .shared_bytes = 213188};
  estimate_occupancy(kH200, 0, 213188, launch);
  EXPECT_FLOAT_EQ(launch.blocks_per_sm, 1);
  EXPECT_FLOAT_EQ(launch.warps_per_sm, 12);
  EXPECT_EQ(launch.occupancy_percent, 19);
}

}  // namespace
}  // namespace epilogue::profile
