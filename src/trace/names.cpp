#include "trace/names.h"

#include <algorithm>

#include <fmt/format.h>

namespace epilogue::trace {
namespace {

std::string numbered(const Track& track) {
  return fmt::format("{} {}", track.device ? "stream" : "thread", track.thread);
}

bool says_one_of(std::string_view name, std::initializer_list<std::string_view> words) {
  return std::ranges::any_of(words, [&](std::string_view word) { return name.find(word) != name.npos; });
}

}  // namespace

std::string gpu_name(int64_t device) { return fmt::format("GPU {}", device); }

std::string track_name(const Trace& trace, const Track& track) {
  return track.name == 0 ? numbered(track) : std::string(trace.strings[track.name]);
}

std::string full_track_name(const Track& track) {
  return track.device ? gpu_name(track.process) + ' ' + numbered(track) : numbered(track);
}

bool is_copy_to_host(std::string_view name) { return says_one_of(name, {"DtoH", "AtoH", "DeviceToHost"}); }
bool is_copy_from_host(std::string_view name) { return says_one_of(name, {"HtoD", "HtoA", "HostToDevice"}); }

std::string memory_device_name(int32_t type, int32_t index) {
  if (type == 0) return "CPU";
  if (type == 1) return fmt::format("CUDA {}", index);
  return fmt::format("device {}.{}", type, index);
}

}  // namespace epilogue::trace
