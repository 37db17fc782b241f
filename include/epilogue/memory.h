// The memory a device's tensors take.
#pragma once

#include <cstdint>
#include <string>

#include "epilogue/tensor.h"

namespace epilogue {

// In bytes. Reserved is what the allocator holds from the system: what is allocated and what it keeps for the
// next one.
struct MemoryStats {
  int64_t allocated = 0, peak_allocated = 0;
  int64_t reserved = 0, peak_reserved = 0;
  int64_t allocations = 0, frees = 0;
  int64_t packed_weights = 0;  // packed copies of parameters, part of allocated
};

MemoryStats memory_stats(Device device = {});
void reset_peak_memory(Device device = {});  // the peaks become the present values
void empty_cache(Device device = {});        // gives back to the system what is not allocated

// The same as a table, as torch.cuda.memory_summary() prints one.
std::string memory_summary(Device device = {});

}  // namespace epilogue
