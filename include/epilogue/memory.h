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
  // Of a device with queues. Active is what is allocated or freed but still in use by a stream; an inactive
  // split is free but part of a larger piece that is not: the memory that fragmentation costs.
  int64_t active = 0, inactive_split = 0;
  int64_t retries = 0;        // allocations that had to empty the cache first
  int64_t out_of_memory = 0;  // those that failed even so
};

MemoryStats memory_stats(Device device = {});
void reset_peak_memory(Device device = {});  // the peaks become the present values
void empty_cache(Device device = {});        // gives back to the system what is not allocated

// The same as a table, as torch.cuda.memory_summary() prints one.
std::string memory_summary(Device device = {});

}  // namespace epilogue
