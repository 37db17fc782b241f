// The trace model: what any Kineto trace holds, ours or PyTorch's, kept small (an Event is 48 bytes). Knows
// nothing of tensors.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <iosfwd>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "epilogue/error.h"

namespace epilogue::trace {

using StringId = uint32_t;

// Strings kept once each. Id 0 is "". Views stay valid for the table's life.
class StringTable {
 public:
  StringTable() { intern(""); }
  StringTable(const StringTable&) = delete;
  StringTable& operator=(const StringTable&) = delete;
  StringTable(StringTable&&) = default;
  StringTable& operator=(StringTable&&) = default;

  StringId intern(std::string_view text);
  std::string_view operator[](StringId id) const { return strings_[id]; }
  size_t size() const { return strings_.size(); }

 private:
  std::deque<std::string> strings_;
  std::unordered_map<std::string_view, StringId> ids_;
};

// The names are Kineto's categories; `cpu_kernel` is ours.
enum class EventKind : uint8_t {
  cpu_op,
  user_annotation,
  gpu_user_annotation,
  kernel,
  cpu_kernel,
  gpu_memcpy,
  gpu_memset,
  cuda_runtime,
  cuda_driver,
  cuda_sync,
  overhead,
  python_function,
  memory,  // instant: [memory]
  span,    // cat "Trace"
  other,
};
const char* event_kind_name(EventKind kind);  // Kineto's category

inline constexpr uint32_t kNoDetail = UINT32_MAX;

struct Event {
  int64_t start_ns = 0;  // from Trace::base_ns
  int64_t duration_ns = 0;
  uint64_t external_id = 0;  // joins op, runtime call and kernel; 0: none
  uint32_t correlation = 0;  // joins runtime call and kernel; 0: none
  StringId name = 0;
  uint32_t track = 0;           // into Trace::tracks
  uint32_t detail = kNoDetail;  // kernel: launches; cpu_op: op_inputs; memory: memories; memcpy, memset:
                                // copies; cpu_kernel: work; cuda_runtime, cuda_driver: CUPTI's number of the
                                // call
  EventKind kind = EventKind::other;
  int64_t end_ns() const { return start_ns + duration_ns; }
};

// A row of the timeline: a host thread, or a stream of a device.
struct Track {
  int64_t process = 0;  // pid; the device's index for a stream
  int64_t thread = 0;   // tid, or the stream
  bool device = false;
  StringId name = 0;  // thread_name metadata, if any
};

// A kernel's launch; equal ones are kept once.
struct Launch {
  std::array<int32_t, 3> grid{};
  std::array<int32_t, 3> block{};
  int32_t registers_per_thread = 0;
  int32_t shared_bytes = 0;
  uint64_t graph_node = 0;  // its node there
  uint32_t graph = 0;       // the CUDA graph whose replay ran it; 0: none
  float occupancy_percent = 0;
  float blocks_per_sm = 0;
  float warps_per_sm = 0;
  bool operator==(const Launch&) const = default;
};

// What an op was called with, as JSON texts ("[[64, 768], [3072, 768]]"); equal ones are kept once.
struct OpInputs {
  StringId dims = 0, types = 0, strides = 0, concrete = 0;
  bool operator==(const OpInputs&) const = default;
};

struct Memory {
  int64_t bytes = 0;  // negative: freed
  int64_t total_allocated = 0, total_reserved = 0;
  uint64_t address = 0;
  int32_t device_type = 0, device_index = 0;  // Kineto's numbers: 0 CPU, 1 CUDA
};

struct Copy {
  int64_t bytes = 0;
  float gb_per_s = 0;
};

// What a CPU kernel did; equal ones are kept once.
struct Work {
  int64_t flops = 0, bytes = 0;
  int32_t threads = 0;
  bool operator==(const Work&) const = default;
};

struct DeviceProperties {
  int32_t id = 0;
  std::string name;
  int64_t total_memory = 0;
  int32_t compute_major = 0, compute_minor = 0, multiprocessors = 0;
  int32_t max_threads_per_block = 0, max_threads_per_multiprocessor = 0, registers_per_block = 0,
          warp_size = 0;
  int64_t shared_per_block = 0, registers_per_multiprocessor = 0, shared_per_block_optin = 0,
          shared_per_multiprocessor = 0;
};

// Something found damaged or missing, e.g. {"file ends inside an event", 1}. Shown, never guessed around.
struct Problem {
  std::string what;
  int64_t count = 1;
};

struct Trace {
  std::string source;         // the file it came from, or what made it
  int64_t base_ns = 0;        // baseTimeNanoseconds
  std::vector<Event> events;  // ordered by start, longer first, so that a parent precedes its children
  std::vector<Track> tracks;
  std::vector<Launch> launches;
  std::vector<OpInputs> op_inputs;
  std::vector<Memory> memories;
  std::vector<Copy> copies;
  std::vector<Work> work;
  std::vector<DeviceProperties> devices;
  std::vector<std::pair<std::string, std::string>> metadata;  // the file's free keys, values as JSON texts
  std::vector<Problem> problems;
  bool damaged = false;  // something of the file is lost: counts and times are of what is left
  StringTable strings;

  std::string_view name(const Event& event) const { return strings[event.name]; }
};

// Reads Kineto's JSON, plain or gzip (told by its first bytes); "-" is standard input. Throws Error for a
// file that is no trace; what is merely damaged is counted in Trace::problems.
Trace read_trace(const std::string& path);

// Writes Kineto's JSON; gzip when the name ends in ".gz". The file has its name when it is whole.
void write_trace(const Trace& trace, const std::string& path);

}  // namespace epilogue::trace
