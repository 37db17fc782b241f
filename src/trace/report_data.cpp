#include "trace/report_data.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <unordered_set>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/format.h"
#include "trace/diff.h"
#include "trace/kernel_name.h"
#include "trace/links.h"
#include "trace/names.h"
#include "trace/steps.h"
#include "trace/summary.h"

namespace epilogue::trace {
namespace {

constexpr auto kLastKind = EventKind::other;

// "traces/mlp_eager.json.gz": "mlp_eager".
std::string name_of_source(const std::string& source) {
  std::filesystem::path path = std::filesystem::path(source).filename();
  if (path.extension() == ".gz") path = path.stem();
  if (path.extension() == ".json") path = path.stem();
  return path.empty() ? "trace" : path.string();
}

std::string track_title(const Trace& trace, const Track& track) {
  std::string title = track_name(trace, track);
  while (title.ends_with(' ')) title.pop_back();  // PyTorch's "stream 7 "
  return track.device && trace.devices.size() > 1 ? gpu_name(track.process) + ' ' + title : title;
}

std::string device_title(const Trace& trace, const Summary& summary) {
  const auto runs_on = std::ranges::find(trace.tracks, true, &Track::device);
  if (runs_on == trace.tracks.end()) return "CPU";
  const std::string names = devices_text(summary.devices);
  return names.empty() ? gpu_name(runs_on->process) : names;
}

class DataWriter {
 public:
  void add(const Trace& trace, const std::string& name, const Summary& summary);
  void add_diff(std::string json) { diffs_.push_back(std::move(json)); }
  std::string finish();

 private:
  StringId intern(const Trace& trace, StringId id) { return strings_.intern(trace.strings[id]); }
  void explain(std::string_view name);
  std::string tracks(const Trace& trace);
  std::string columns(const Trace& trace);
  std::string details(const Trace& trace);
  std::string memory(const Trace& trace);

  StringTable strings_;
  std::unordered_set<StringId> explained_;
  std::vector<std::string> shorts_, classes_, traces_, diffs_;
};

void DataWriter::add(const Trace& trace, const std::string& name, const Summary& summary) {
  for (const Event& event : trace.events) {
    if (is_kernel(event.kind)) explain(trace.name(event));
  }
  traces_.push_back(
      fmt::format(R"({{"name":{},"device":{},"tracks":{},"events":{},{},"memory":{},"summary":{}}})",
                  json_quote(name), json_quote(device_title(trace, summary)), tracks(trace), columns(trace),
                  details(trace), memory(trace), summary_json({summary})));
}

void DataWriter::explain(std::string_view name) {
  const StringId id = strings_.intern(name);
  if (!explained_.insert(id).second) return;
  const KernelName kernel = explain_kernel(name);
  const std::string& op = kernel.value(NameField::op);
  const char* kernel_class = op.find("GEMM") != std::string::npos ? "gemm"
                             : op == "pointwise"                  ? "pointwise"
                                                                  : "other";
  classes_.push_back(fmt::format(R"([{},"{}"])", id, kernel_class));
  shorts_.push_back(fmt::format("[{},{}]", id, strings_.intern(short_name(kernel))));
}

std::string DataWriter::tracks(const Trace& trace) {
  std::vector<std::string> rows;
  for (const Track& track : trace.tracks) {
    rows.push_back(fmt::format("[{},{:d}]", strings_.intern(track_title(trace, track)), track.device));
  }
  return fmt::format("[{}]", fmt::join(rows, ","));
}

std::string DataWriter::columns(const Trace& trace) {
  const std::vector<uint32_t> calls = launching_calls(trace);
  std::vector<uint32_t> slice_of(trace.events.size(), kNoEvent);  // an event's place among the slices
  std::vector<const Event*> slices;
  for (const Event& event : trace.events) {
    if (!is_slice(event.kind)) continue;
    slice_of[static_cast<size_t>(&event - trace.events.data())] = static_cast<uint32_t>(slices.size());
    slices.push_back(&event);
  }
  std::string json = "{";
  auto column = [&](const char* key, auto value_of) {
    fmt::format_to(std::back_inserter(json), R"({}"{}":[)", json.size() > 1 ? "," : "", key);
    for (const Event* event : slices) {
      json += fmt::format_int(value_of(*event)).c_str();
      json += ',';
    }
    if (json.back() == ',') json.pop_back();
    json += ']';
  };
  int64_t previous = origin_of(trace).ns;
  column("start",
         [&](const Event& event) { return event.start_ns - std::exchange(previous, event.start_ns); });
  column("duration", [](const Event& event) { return event.duration_ns; });
  column("name", [&](const Event& event) { return intern(trace, event.name); });
  column("track", [](const Event& event) { return event.track; });
  column("kind", [](const Event& event) { return static_cast<int>(event.kind); });
  column("detail", [](const Event& event) { return static_cast<int32_t>(event.detail); });
  column("correlation", [](const Event& event) { return event.correlation; });
  column("link", [&](const Event& event) {
    const uint32_t call = calls[static_cast<size_t>(&event - trace.events.data())];
    return call == kNoEvent ? -1 : static_cast<int32_t>(slice_of[call]);
  });
  return json + "}";
}

std::string DataWriter::details(const Trace& trace) {
  std::vector<std::string> launches, inputs, copies, work;
  for (const Launch& l : trace.launches) {
    launches.push_back(fmt::format("[{},{},{},{},{:g},{:g},{:g}]", fmt::join(l.grid, ","),
                                   fmt::join(l.block, ","), l.registers_per_thread, l.shared_bytes,
                                   l.occupancy_percent, l.blocks_per_sm, l.warps_per_sm));
  }
  for (const OpInputs& i : trace.op_inputs) {
    inputs.push_back(fmt::format("[{},{},{},{}]", intern(trace, i.dims), intern(trace, i.types),
                                 intern(trace, i.strides), intern(trace, i.concrete)));
  }
  for (const Copy& c : trace.copies) copies.push_back(fmt::format("[{},{:g}]", c.bytes, c.gb_per_s));
  for (const Work& w : trace.work) work.push_back(fmt::format("[{},{},{}]", w.flops, w.bytes, w.threads));
  return fmt::format(R"("launches":[{}],"inputs":[{}],"copies":[{}],"work":[{}])", fmt::join(launches, ","),
                     fmt::join(inputs, ","), fmt::join(copies, ","), fmt::join(work, ","));
}

std::string DataWriter::memory(const Trace& trace) {
  struct Series {
    std::vector<int64_t> time, allocated, reserved;
  };
  std::map<std::string, Series> devices;
  const int64_t origin = origin_of(trace).ns;
  for (const Event& event : trace.events) {
    if (event.kind != EventKind::memory || event.detail == kNoDetail) continue;
    const Memory& memory = trace.memories[event.detail];
    Series& series = devices[memory_device_name(memory.device_type, memory.device_index)];
    series.time.push_back(event.start_ns - origin);
    series.allocated.push_back(memory.total_allocated);
    series.reserved.push_back(memory.total_reserved);
  }
  std::vector<std::string> rows;
  for (const auto& [title, series] : devices) {
    rows.push_back(fmt::format(R"({{"device":{},"time":[{}],"allocated":[{}],"reserved":[{}]}})",
                               json_quote(title), fmt::join(series.time, ","),
                               fmt::join(series.allocated, ","), fmt::join(series.reserved, ",")));
  }
  return fmt::format("[{}]", fmt::join(rows, ","));
}

std::string DataWriter::finish() {
  std::vector<std::string> kinds, strings, regimes;
  for (int kind = 0; kind <= static_cast<int>(kLastKind); ++kind)
    kinds.push_back(json_quote(event_kind_name(static_cast<EventKind>(kind))));
  for (size_t id = 0; id < strings_.size(); ++id)
    strings.push_back(json_quote(std::string(strings_[static_cast<StringId>(id)])));
  for (const Regime regime : kRegimes)
    regimes.push_back(fmt::format(R"(["{}","{}"])", regime_name(regime), regime_meaning(regime)));
  return fmt::format(
      R"({{"kinds":[{}],"regimes":[{}],"strings":[{}],"short":[{}],"classes":[{}],"traces":[{}],"diffs":[{}]}})",
      fmt::join(kinds, ","), fmt::join(regimes, ","), fmt::join(strings, ","), fmt::join(shorts_, ","),
      fmt::join(classes_, ","), fmt::join(traces_, ","), fmt::join(diffs_, ","));
}

}  // namespace

std::string report_data(std::span<const Trace* const> traces, const ReportOptions& options) {
  DataWriter writer;
  for (size_t i = 0; i < traces.size(); ++i) {
    writer.add(*traces[i], i < options.names.size() ? options.names[i] : name_of_source(traces[i]->source),
               summarise(*traces[i]));
    if (i > 0) writer.add_diff(diff_json(diff_traces(*traces.front(), *traces[i])));
  }
  return writer.finish();
}

}  // namespace epilogue::trace
