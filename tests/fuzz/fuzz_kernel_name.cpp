// Any bytes as a kernel's name: explaining it must not crash, throw, or take more than linear time.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "trace/kernel_name.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view name(reinterpret_cast<const char*>(data), size);
  const epilogue::trace::KernelName kernel = epilogue::trace::explain_kernel(name);
  epilogue::trace::short_name(kernel);
  epilogue::trace::compare_kernels(kernel,
                                   epilogue::trace::explain_kernel("nvjet_sm90_tst_64x8_64x16_1x2_h_bz_TNT"),
                                   {.m = 64, .n = 64, .k = 64, .multiprocessors = 132});
  return 0;
}
