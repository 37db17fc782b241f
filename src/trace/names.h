// What rows of the timeline and devices are called.
#pragma once

#include <cstdint>
#include <string>

#include "epilogue/trace.h"

namespace epilogue::trace {

std::string gpu_name(int64_t device);  // "GPU 0"

// As the file names it, otherwise "stream 7" or "thread 12".
std::string track_name(const Trace& trace, const Track& track);
// Told apart from those of other devices: "GPU 0 stream 7", "thread 12".
std::string full_track_name(const Track& track);

// Kineto's numbers: "CPU", "CUDA 0".
std::string memory_device_name(int32_t type, int32_t index);

// Which way a gpu_memcpy's name says it goes, in CUDA's words or HIP's.
bool is_copy_to_host(std::string_view name);
bool is_copy_from_host(std::string_view name);

}  // namespace epilogue::trace
