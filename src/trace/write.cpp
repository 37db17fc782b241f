#include <algorithm>
#include <set>
#include <utility>

#include <unistd.h>
#include <zlib.h>

#include <fmt/format.h>

#include "base/check.h"
#include "base/file.h"
#include "base/format.h"
#include "epilogue/trace.h"
#include "trace/lanes.h"
#include "trace/links.h"
#include "trace/names.h"

namespace epilogue::trace {
namespace {

// Text to a file that appears only once it is complete; gzip when the name ends in ".gz".
class OutFile {
 public:
  explicit OutFile(const std::string& path)
      : file_(path), stream_(gzdopen(::dup(file_.descriptor()), path.ends_with(".gz") ? "wb6" : "wbT")) {
    EP_CHECK(stream_, "cannot write: {}", system_error());
    gzbuffer(stream_, 1 << 18);
  }
  ~OutFile() {
    if (stream_) gzclose(stream_);
  }
  OutFile(const OutFile&) = delete;
  OutFile& operator=(const OutFile&) = delete;

  template <class... Args>
  void print(fmt::format_string<Args...> format, Args&&... args) {
    fmt::format_to(std::back_inserter(text_), format, std::forward<Args>(args)...);
    if (text_.size() > size_t{1} << 20) flush();
  }

  void publish() {
    flush();
    EP_CHECK(gzclose(std::exchange(stream_, nullptr)) == Z_OK, "cannot write: {}", system_error());
    file_.commit();
  }

 private:
  void flush() {
    const auto size = static_cast<unsigned>(text_.size());
    EP_CHECK(size == 0 || gzwrite(stream_, text_.data(), size) == static_cast<int>(size), "cannot write: {}",
             system_error());
    text_.clear();
  }

  ReplacementFile file_;
  gzFile stream_;
  std::string text_;
};

std::string us_text(int64_t ns) {
  const uint64_t magnitude = ns < 0 ? uint64_t{0} - static_cast<uint64_t>(ns) : static_cast<uint64_t>(ns);
  return fmt::format("{}{}.{:03}", ns < 0 ? "-" : "", magnitude / 1000, magnitude % 1000);
}

class Writer {
 public:
  Writer(const Trace& trace, const std::string& path)
      : trace_(trace), path_(path), out_(path), lane_of_(overlap_lanes(trace)) {}

  void write() {
    write_header();
    const std::vector<uint32_t> launches = launching_calls(trace_);
    std::vector<uint8_t> launched(trace_.events.size());
    for (const uint32_t call : launches)
      if (call != kNoEvent) launched[call] = 1;
    for (size_t i = 0; i < trace_.events.size(); ++i) {
      write_event(i);
      if (launched[i]) write_flow(i, 's');
      if (launches[i] != kNoEvent) write_flow(i, 'f');
    }
    write_track_names();
    next_event();
    out_.print(R"(    "name": "Record Window End", "ph": "i", "s": "g",
    "pid": "", "tid": "", "ts": {}
  }})",
               us_text(end_ns_));
    write_footer();
    out_.publish();
  }

 private:
  void write_header() {
    out_.print("\n{{\n  \"schemaVersion\": 1,\n  \"deviceProperties\": [");
    for (size_t i = 0; i < trace_.devices.size(); ++i) write_device(trace_.devices[i], i == 0);
    out_.print("\n  ],\n");
    for (const auto& [key, value] : trace_.metadata)
      if (key != "distributedInfo") out_.print("  {}: {},\n", json_quote(key), value);
    out_.print("  \"displayTimeUnit\": \"ms\",\n  \"baseTimeNanoseconds\": {},\n  \"traceEvents\": [",
               trace_.base_ns);
  }

  void write_device(const DeviceProperties& device, bool first) {
    out_.print(R"({}
    {{
      "id": {}, "name": {}, "totalGlobalMem": {},
      "computeMajor": {}, "computeMinor": {},
      "maxThreadsPerBlock": {}, "maxThreadsPerMultiprocessor": {},
      "regsPerBlock": {}, "warpSize": {},
      "sharedMemPerBlock": {}, "numSms": {},
      "regsPerMultiprocessor": {}, "sharedMemPerBlockOptin": {}, "sharedMemPerMultiprocessor": {}
    }})",
               first ? "" : ",", device.id, json_quote(device.name), device.total_memory,
               device.compute_major, device.compute_minor, device.max_threads_per_block,
               device.max_threads_per_multiprocessor, device.registers_per_block, device.warp_size,
               device.shared_per_block, device.multiprocessors, device.registers_per_multiprocessor,
               device.shared_per_block_optin, device.shared_per_multiprocessor);
  }

  // HolisticTraceAnalysis looks for the rank, with the space after the colon.
  void write_footer() {
    std::string distributed = R"({"backend": "none", "rank": 0, "world_size": 1})";
    for (const auto& [key, value] : trace_.metadata)
      if (key == "distributedInfo") distributed = value;
    out_.print("\n  ],\n  \"distributedInfo\": {},\n  \"traceName\": {}\n}}\n", distributed,
               json_quote(path_));
  }

  void next_event() {
    out_.print("{}\n  {{\n", any_event_ ? "," : "");
    any_event_ = true;
  }

  // A stream's further rows have numbers that no stream has.
  int64_t tid(size_t i) const {
    const int64_t thread = trace_.tracks[trace_.events[i].track].thread;
    return lane_of_[i] == 0 ? thread : thread + kLaneTids * lane_of_[i];
  }

  void write_event(size_t i) {
    next_event();
    const Event& event = trace_.events[i];
    const Track& track = trace_.tracks[event.track];
    const std::string name = json_quote(std::string(trace_.name(event)));
    int64_t start = event.start_ns, duration = event.duration_ns;
    end_ns_ = any_end_ ? std::max(end_ns_, event.end_ns()) : event.end_ns();
    any_end_ = true;
    if (event.kind == EventKind::memory) {
      out_.print(R"(    "ph": "i", "cat": "cpu_instant_event", "s": "t", "name": {},
    "pid": {}, "tid": {},
    "ts": {},
)",
                 name, track.process, track.thread, us_text(start));
    } else if (event.kind == EventKind::span) {
      out_.print(R"(    "ph": "X", "cat": "Trace", "ts": {}, "dur": {},
    "pid": "Spans", "tid": {}, "name": {},
)",
                 us_text(start), us_text(duration), json_quote(std::string(trace_.strings[track.name])),
                 name);
    } else {
      if (event.kind ==
          EventKind::gpu_user_annotation) {  // as Kineto: so that a range holds its first kernel
        start -= 1;
        duration += 2;
      }
      out_.print(R"(    "ph": "X", "cat": "{}", "name": {}, "pid": {}, "tid": {},
    "ts": {}, "dur": {},
)",
                 event_kind_name(event.kind), name, track.process, tid(i), us_text(start), us_text(duration));
    }
    out_.print("    \"args\": {{\n      ");
    write_args(event, track);
    out_.print("\n    }}\n  }}");
  }

  void write_args(const Event& event, const Track& track) {
    if (event.external_id != 0)
      out_.print(
          "\"External id\": {}{}", event.external_id,
          event.kind == EventKind::gpu_user_annotation || event.kind == EventKind::overhead ? "" : ", ");
    switch (event.kind) {
      case EventKind::cpu_op:
        out_.print("\"Record function id\": 0, ");
        if (event.detail != kNoDetail) write_inputs(trace_.op_inputs[event.detail]);
        out_.print("\"Ev Idx\": {}", event_index_++);
        break;
      case EventKind::user_annotation:
        out_.print("\"Record function id\": 0, \"Ev Idx\": {}", event_index_++);
        break;
      case EventKind::kernel:
        write_kernel(event, track);
        break;
      case EventKind::gpu_memcpy:
      case EventKind::gpu_memset: {
        const Copy copy = event.detail != kNoDetail ? trace_.copies[event.detail] : Copy{};
        out_.print(R"("device": {}, "context": 1, "stream": {}, "correlation": {})", track.process,
                   track.thread, event.correlation);
        out_.print(", \"bytes\": {}, \"memory bandwidth (GB/s)\": {}", copy.bytes, copy.gb_per_s);
        break;
      }
      case EventKind::memory:
        write_memory(trace_.memories[event.detail]);
        break;
      case EventKind::cpu_kernel: {
        const Work work = event.detail != kNoDetail ? trace_.work[event.detail] : Work{};
        out_.print(R"("flops": {}, "bytes": {}, "threads": {})", work.flops, work.bytes, work.threads);
        break;
      }
      case EventKind::cuda_sync:
        out_.print(R"("cuda_sync_kind": {}, "stream": {}, "correlation": {}, "device": {}, "context": 1)",
                   json_quote(std::string(trace_.name(event))), track.thread, event.correlation,
                   track.process);
        break;
      case EventKind::cuda_runtime:
      case EventKind::cuda_driver:
        if (event.detail != kNoDetail) out_.print("\"cbid\": {}, ", event.detail);
        out_.print("\"correlation\": {}", event.correlation);
        break;
      case EventKind::gpu_user_annotation:
      case EventKind::overhead:
        break;
      case EventKind::span:
        out_.print("\"Op count\": 0");
        break;
      default:
        out_.print("\"correlation\": {}", event.correlation);
    }
  }

  void write_inputs(const OpInputs& inputs) {
    const auto put = [&](const char* key, StringId text) {
      if (text != 0) out_.print("\"{}\": {}, ", key, trace_.strings[text]);
    };
    put("Concrete Inputs", inputs.concrete);
    put("Input type", inputs.types);
    put("Input Strides", inputs.strides);
    put("Input Dims", inputs.dims);
  }

  void write_kernel(const Event& event, const Track& track) {
    out_.print(R"("queued": 0, "device": {}, "context": 1, "stream": {}, "correlation": {})", track.process,
               track.thread, event.correlation);
    if (event.detail == kNoDetail) return;
    const Launch& launch = trace_.launches[event.detail];
    out_.print(
        R"(, "registers per thread": {}, "shared memory": {}, "blocks per SM": {:f}, "warps per SM": {:f})",
        launch.registers_per_thread, launch.shared_bytes, launch.blocks_per_sm, launch.warps_per_sm);
    out_.print(R"(, "grid": [{}], "block": [{}], "est. achieved occupancy %": {})",
               fmt::join(launch.grid, ", "), fmt::join(launch.block, ", "), launch.occupancy_percent);
    if (launch.graph != 0)
      out_.print(R"(, "graph id": {}, "graph node id": {})", launch.graph, launch.graph_node);
  }

  void write_memory(const Memory& memory) {
    out_.print(R"("Total Reserved": {}, "Total Allocated": {}, "Bytes": {}, "Device Id": {}, )",
               memory.total_reserved, memory.total_allocated, memory.bytes, memory.device_index);
    out_.print(R"("Device Type": {}, "Addr": {}, "Ev Idx": {})", memory.device_type, memory.address,
               event_index_++);
  }

  void write_flow(size_t i, char phase) {
    next_event();
    const Event& event = trace_.events[i];
    out_.print(R"(    "ph": "{}", "id": {}, "pid": {}, "tid": {}, "ts": {},
    "cat": "ac2g", "name": "ac2g"{}
  }})",
               phase, event.correlation, trace_.tracks[event.track].process, tid(i), us_text(event.start_ns),
               phase == 'f' ? ", \"bp\": \"e\"" : "");
  }

  void write_track_names() {
    std::set<std::pair<int64_t, bool>> processes;
    for (const Track& track : trace_.tracks)
      if (track.process >= 0 && !is_span(track)) processes.emplace(track.process, track.device);
    for (const auto& [process, device] : processes) {
      // Perfetto shows names and ignores labels.
      const std::string name = device ? gpu_name(process) : "CPU";
      write_metadata("process_name", process, 0, "name", json_quote(name));
      write_metadata("process_labels", process, 0, "labels", json_quote(name));
      write_metadata("process_sort_index", process, 0, "sort_index",
                     fmt::format("{}", device ? 5000000 + process : process));
    }
    std::vector<uint32_t> rows(trace_.tracks.size());  // beyond the first
    for (size_t i = 0; i < trace_.events.size(); ++i)
      rows[trace_.events[i].track] = std::max(rows[trace_.events[i].track], lane_of_[i]);
    for (size_t t = 0; t < trace_.tracks.size(); ++t)
      if (!is_span(trace_.tracks[t])) write_thread_names(trace_.tracks[t], rows[t]);
  }

  void write_thread_names(const Track& track, uint32_t further_rows) {
    const std::string name = track_name(trace_, track);
    for (uint32_t row = 0; row <= further_rows; ++row) {
      const int64_t thread = track.thread + kLaneTids * row;
      const std::string title = row == 0 ? name : fmt::format("{} overlapping {}", name, row);
      write_metadata("thread_name", track.process, thread, "name", json_quote(title));
      write_metadata("thread_sort_index", track.process, thread, "sort_index",
                     fmt::format("{}", track.thread));
    }
  }

  // A track of the file's own spans has a name and no numbers.
  static bool is_span(const Track& track) {
    return track.process == 0 && track.thread == 0 && !track.device && track.name != 0;
  }

  void write_metadata(const char* what, int64_t process, int64_t thread, const char* key,
                      const std::string& value) {
    next_event();
    out_.print(R"(    "name": "{}", "ph": "M", "ts": {}, "pid": {}, "tid": {},
    "args": {{
      "{}": {}
    }}
  }})",
               what, us_text(trace_.events.empty() ? 0 : trace_.events.front().start_ns), process, thread,
               key, value);
  }

  static constexpr int64_t kLaneTids = 1'000'000;

  const Trace& trace_;
  std::string path_;
  OutFile out_;
  const std::vector<uint32_t> lane_of_;
  bool any_event_ = false, any_end_ = false;
  int64_t end_ns_ = 0;
  int64_t event_index_ = 0;
};

}  // namespace

void write_trace(const Trace& trace, const std::string& path) try {
  Writer(trace, path).write();
} catch (const Error& error) {
  fail("{}: {}", path, error.what());
}

}  // namespace epilogue::trace
