#include "trace/event_parser.h"

#include <array>
#include <cmath>
#include <cstring>
#include <initializer_list>
#include <limits>

#include "base/check.h"
#include "trace/numbers.h"
#include "trace/steps.h"

namespace epilogue::trace {
namespace {

constexpr int64_t kLongestSliceNs = int64_t{1} << 50;  // 13 days: thousands of them still sum up

using simdjson::error_code;
using simdjson::SUCCESS;
using simdjson::ondemand::value;

struct Category {
  std::string_view name;
  EventKind kind;
};
// The capitals are the older dialect.
constexpr std::array kCategories{
    Category{"\"cpu_op\"", EventKind::cpu_op},
    Category{"\"kernel\"", EventKind::kernel},
    Category{"\"cuda_runtime\"", EventKind::cuda_runtime},
    Category{"\"cuda_driver\"", EventKind::cuda_driver},
    Category{"\"gpu_memset\"", EventKind::gpu_memset},
    Category{"\"gpu_memcpy\"", EventKind::gpu_memcpy},
    Category{"\"user_annotation\"", EventKind::user_annotation},
    Category{"\"gpu_user_annotation\"", EventKind::gpu_user_annotation},
    Category{"\"cpu_kernel\"", EventKind::cpu_kernel},
    Category{"\"python_function\"", EventKind::python_function},
    Category{"\"overhead\"", EventKind::overhead},
    Category{"\"cuda_sync\"", EventKind::cuda_sync},
    Category{"\"Trace\"", EventKind::span},
    Category{"\"xpu_runtime\"", EventKind::cuda_runtime},  // Intel's, and other vendors'
    Category{"\"xpu_driver\"", EventKind::cuda_driver},
    Category{"\"privateuse1_runtime\"", EventKind::cuda_runtime},
    Category{"\"privateuse1_driver\"", EventKind::cuda_driver},
    Category{"\"Operator\"", EventKind::cpu_op},
    Category{"\"Kernel\"", EventKind::kernel},
    Category{"\"Runtime\"", EventKind::cuda_runtime},
    Category{"\"Memcpy\"", EventKind::gpu_memcpy},
    Category{"\"Memset\"", EventKind::gpu_memset},
};

EventKind kind_of(std::string_view category) {
  for (const Category& row : kCategories)
    if (row.name == category) return row.kind;
  return EventKind::other;
}

bool is_step_token(std::string_view token) {
  return token.size() > kStepPrefix.size() && token.substr(1).starts_with(kStepPrefix);
}

bool on_device(EventKind kind) {
  return kind == EventKind::kernel || kind == EventKind::gpu_memcpy || kind == EventKind::gpu_memset ||
         kind == EventKind::gpu_user_annotation || kind == EventKind::cuda_sync;
}

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && static_cast<unsigned char>(text.back()) <= ' ') text.remove_suffix(1);
  return text;
}

// Whether a key is this literal, which must end in the closing quote. simdjson's padding makes the read safe.
template <size_t N>
bool is(const char* key, const char (&literal)[N]) {
  return std::memcmp(key, literal, N - 1) == 0;
}

error_code take_array(value& from, std::string_view& token) {
  if (from.raw_json_token().front() != '[') return SUCCESS;  // of another type: as if it were not there
  simdjson::ondemand::array array;
  if (const error_code error = from.get_array().get(array)) return error;
  const error_code error = array.raw_json().get(token);
  token = trimmed(token);
  return error;
}

void take_token(value& from, std::string_view& token) { token = trimmed(from.raw_json_token()); }

template <class T>
T number(std::string_view token, T otherwise = 0) {
  if (token.empty()) return otherwise;
  if constexpr (std::is_floating_point_v<T>) {
    const std::optional<double> value = parse_double(token);
    return value && std::abs(*value) <= std::numeric_limits<T>::max() ? static_cast<T>(*value) : otherwise;
  } else if constexpr (std::is_unsigned_v<T>) {
    return static_cast<T>(parse_uint(token).value_or(otherwise));
  } else {
    return static_cast<T>(parse_int(token).value_or(otherwise));
  }
}

// "[2, 66, 1]"
std::array<int32_t, 3> triple(std::string_view token) {
  std::array<int32_t, 3> numbers{};
  if (token.size() < 2) return numbers;
  token = token.substr(1, token.size() - 2);
  for (int32_t& n : numbers) {
    const size_t comma = token.find(',');
    std::string_view part = trimmed(token.substr(0, comma));
    part.remove_prefix(std::min(part.find_first_not_of(" \n\r\t"), part.size()));
    n = number<int32_t>(part);
    if (comma == std::string_view::npos) break;
    token.remove_prefix(comma + 1);
  }
  return numbers;
}

size_t hash_bytes(const void* data, size_t size) {
  return std::hash<std::string_view>{}({static_cast<const char*>(data), size});
}

// The index of an equal entry, or of the one added.
template <class T, class Map>
uint32_t index_of(const T& entry, std::vector<T>& entries, Map& indices) {
  const auto [at, added] = indices.try_emplace(entry, static_cast<uint32_t>(entries.size()));
  if (added) entries.push_back(entry);
  return at->second;
}

}  // namespace

struct EventParser::Fields {
  std::string_view phase, category, name, pid, tid, ts, dur;
  // args
  std::string_view external_id, correlation, callback_id, stream;
  std::string_view dims, types, strides, concrete;
  std::string_view grid, block, registers, shared, occupancy, blocks_per_sm, warps_per_sm, graph, graph_node;
  std::string_view bytes, bandwidth, flops, threads;
  std::string_view address, device_type, device_id, total_allocated, total_reserved;
  std::string_view label;  // a metadata event's "name"
};

size_t EventParser::hash_op_inputs(const OpInputs& inputs) { return hash_bytes(&inputs, sizeof inputs); }
size_t EventParser::hash_work(const Work& work) { return hash_bytes(&work, offsetof(Work, threads)); }

error_code EventParser::read_args(simdjson::ondemand::object args, Fields& fields) {
  for (auto field : args) {
    value v;
    if (const error_code error = field.value().get(v)) return error;
    const char* key = field.key().value_unsafe().raw();
    std::string_view* token = nullptr;
    std::string_view* array = nullptr;
    switch (key[0]) {
      case 'E':
        if (is(key, "External id\"")) token = &fields.external_id;
        break;
      case 'I':
        if (is(key, "Input Dims\"") || is(key, "Input dims\"")) array = &fields.dims;
        if (is(key, "Input type\"")) array = &fields.types;
        if (is(key, "Input Strides\"")) array = &fields.strides;
        break;
      case 'C':
        if (is(key, "Concrete Inputs\"")) array = &fields.concrete;
        break;
      case 'c':
        if (is(key, "correlation\"")) token = &fields.correlation;
        if (is(key, "cbid\"")) token = &fields.callback_id;
        break;
      case 'e':
        if (is(key, "external id\"")) token = &fields.external_id;
        if (is(key, "est. achieved occupancy %\"")) token = &fields.occupancy;
        break;
      case 'g':
        if (is(key, "grid\"")) array = &fields.grid;
        if (is(key, "graph id\"")) token = &fields.graph;
        if (is(key, "graph node id\"")) token = &fields.graph_node;
        break;
      case 'b':
        if (is(key, "block\"")) array = &fields.block;
        if (is(key, "blocks per SM\"")) token = &fields.blocks_per_sm;
        if (is(key, "bytes\"")) token = &fields.bytes;
        break;
      case 'B':
        if (is(key, "Bytes\"")) token = &fields.bytes;
        break;
      case 'r':
        if (is(key, "registers per thread\"")) token = &fields.registers;
        break;
      case 's':
        if (is(key, "shared memory\"")) token = &fields.shared;
        if (is(key, "stream\"")) token = &fields.stream;
        break;
      case 'w':
        if (is(key, "warps per SM\"")) token = &fields.warps_per_sm;
        break;
      case 'm':
        if (is(key, "memory bandwidth (GB/s)\"")) token = &fields.bandwidth;
        break;
      case 'f':
        if (is(key, "flops\"")) token = &fields.flops;
        break;
      case 't':
        if (is(key, "threads\"")) token = &fields.threads;
        break;
      case 'n':
        if (is(key, "name\"")) token = &fields.label;
        break;
      case 'A':
        if (is(key, "Addr\"")) token = &fields.address;
        break;
      case 'D':
        if (is(key, "Device Type\"")) token = &fields.device_type;
        if (is(key, "Device Id\"")) token = &fields.device_id;
        break;
      case 'T':
        if (is(key, "Total Allocated\"")) token = &fields.total_allocated;
        if (is(key, "Total Reserved\"")) token = &fields.total_reserved;
        break;
      default:
        break;
    }
    if (token) take_token(v, *token);
    if (array)
      if (const error_code error = take_array(v, *array)) return error;
  }
  return SUCCESS;
}

error_code EventParser::read_fields(simdjson::ondemand::object event, Fields& fields) {
  for (auto field : event) {
    value v;
    if (const error_code error = field.value().get(v)) return error;
    const char* key = field.key().value_unsafe().raw();
    if (is(key, "ph\"")) {
      take_token(v, fields.phase);
    } else if (is(key, "cat\"")) {
      take_token(v, fields.category);
    } else if (is(key, "name\"")) {
      take_token(v, fields.name);
    } else if (is(key, "pid\"")) {
      take_token(v, fields.pid);
    } else if (is(key, "tid\"")) {
      take_token(v, fields.tid);
    } else if (is(key, "ts\"")) {
      take_token(v, fields.ts);
    } else if (is(key, "dur\"")) {
      take_token(v, fields.dur);
    } else if (is(key, "args\"") && v.raw_json_token().front() == '{') {
      simdjson::ondemand::object args;
      error_code error = v.get_object().get(args);
      if (!error) error = read_args(args, fields);
      if (error) return error;
    }
  }
  return SUCCESS;
}

error_code EventParser::add(simdjson::ondemand::object event) {
  Fields fields;
  if (const error_code error = read_fields(event, fields)) return error;
  const char phase = fields.phase.size() == 3 ? fields.phase[1] : '\0';
  switch (phase) {
    case 'X':
      add_slice(fields);
      break;
    case 'i':
    case 'I':
      if (fields.name == "\"[memory]\"") add_memory(fields);
      break;
    case 'M':
      add_metadata(fields);
      break;
    case 's':
    case 't':
    case 'f':
      break;  // flows repeat what correlations tell
    case '\0':
      count_loss("events without a phase (left out)");
      break;
    default:
      count_problem(fmt::format("events of phase '{}' (left out)", phase));
  }
  return SUCCESS;
}

int64_t EventParser::amount(std::string_view token) {
  constexpr int64_t kLargest = int64_t{1} << 53;
  const auto value = number<int64_t>(token);
  if (value >= -kLargest && value <= kLargest) return value;
  count_problem("sizes too large to be true (read as 0)");
  return 0;
}

bool EventParser::set_common(const Fields& fields, Event& event) {
  const auto start = parse_ns(fields.ts);
  if (!start) {
    count_loss("events without a time (left out)");
    return false;
  }
  event.start_ns = *start;
  if (fields.name.size() < 2 || fields.name.front() != '"') {
    count_loss("events without a name (left out)");
    return false;
  }
  event.name = intern(fields.name);
  event.track = track_of(fields, on_device(event.kind));
  event.external_id = number<uint64_t>(fields.external_id);
  event.correlation = number<uint32_t>(fields.correlation);
  return true;
}

void EventParser::add_slice(const Fields& fields) {
  Event event;
  event.kind = kind_of(fields.category);
  if (event.kind == EventKind::cpu_op && is_step_token(fields.name))
    event.kind = EventKind::user_annotation;  // the older dialect's steps are operators
  const auto duration = parse_ns(fields.dur);
  if (!duration || *duration < 0 || *duration > kLongestSliceNs) {
    count_loss(fields.dur.empty() ? "slices without a duration (left out)"
                                  : "slices with a wrong duration (left out)");
    return;
  }
  event.duration_ns = *duration;
  if (!set_common(fields, event)) return;
  if (event.kind == EventKind::gpu_user_annotation && event.duration_ns >= 2) {
    event.start_ns += 1;  // Kineto widens a range by a nanosecond on both sides, for viewers
    event.duration_ns -= 2;
  }
  set_detail(fields, event);
  trace_.events.push_back(event);
}

void EventParser::set_detail(const Fields& fields, Event& event) {
  switch (event.kind) {
    case EventKind::kernel:
      if (!fields.grid.empty()) event.detail = launches_.index_of(launch_of(fields), trace_.launches);
      break;
    case EventKind::cpu_op:
      event.detail = inputs_of(fields, event.name);
      break;
    case EventKind::gpu_memcpy:
    case EventKind::gpu_memset:
      if (!fields.bytes.empty()) {
        event.detail = static_cast<uint32_t>(trace_.copies.size());
        trace_.copies.push_back({amount(fields.bytes), number<float>(fields.bandwidth)});
      }
      break;
    case EventKind::cpu_kernel:
      event.detail =
          index_of(Work{amount(fields.flops), amount(fields.bytes), number<int32_t>(fields.threads)},
                   trace_.work, work_);
      break;
    case EventKind::cuda_runtime:
    case EventKind::cuda_driver:
      event.detail = number<uint32_t>(fields.callback_id, kNoDetail);
      break;
    default:
      break;
  }
}

// An op is mostly called with what it was called with before, and comparing costs less than hashing.
uint32_t EventParser::inputs_of(const Fields& fields, StringId op) {
  const StringTable& strings = trace_.strings;
  if (last_inputs_.size() <= op) last_inputs_.resize(op + 1, kNoDetail);
  if (last_inputs_[op] != kNoDetail) {
    const OpInputs& last = trace_.op_inputs[last_inputs_[op]];
    if (strings[last.dims] == fields.dims && strings[last.strides] == fields.strides &&
        strings[last.types] == fields.types && strings[last.concrete] == fields.concrete)
      return last_inputs_[op];
  }
  const auto text = [&](std::string_view token) { return token.empty() ? 0 : trace_.strings.intern(token); };
  const OpInputs inputs{text(fields.dims), text(fields.types), text(fields.strides), text(fields.concrete)};
  if (inputs == OpInputs{}) return kNoDetail;
  return last_inputs_[op] = index_of(inputs, trace_.op_inputs, op_inputs_);
}

Launch EventParser::launch_of(const Fields& fields) const {
  return {.grid = triple(fields.grid),
          .block = triple(fields.block),
          .registers_per_thread = number<int32_t>(fields.registers),
          .shared_bytes = number<int32_t>(fields.shared),
          .graph_node = number<uint64_t>(fields.graph_node),
          .graph = number<uint32_t>(fields.graph),
          .occupancy_percent = number<float>(fields.occupancy),
          .blocks_per_sm = number<float>(fields.blocks_per_sm),
          .warps_per_sm = number<float>(fields.warps_per_sm)};
}

void EventParser::add_memory(const Fields& fields) {
  Event event;
  event.kind = EventKind::memory;
  if (!parse_int(fields.bytes)) {
    count_loss("memory events without a size (left out)");
    return;
  }
  if (!set_common(fields, event)) return;
  event.detail = static_cast<uint32_t>(trace_.memories.size());
  trace_.memories.push_back({.bytes = amount(fields.bytes),
                             .total_allocated = amount(fields.total_allocated),
                             .total_reserved = amount(fields.total_reserved),
                             .address = number<uint64_t>(fields.address),
                             .device_type = number<int32_t>(fields.device_type),
                             .device_index = number<int32_t>(fields.device_id)});
  trace_.events.push_back(event);
}

void EventParser::add_metadata(const Fields& fields) {
  if (fields.name != "\"thread_name\"" || fields.label.size() < 2) return;
  const TrackKey key = track_key(fields, false);
  thread_names_[{key.process, key.thread}] = intern(fields.label);
}

EventParser::TrackKey EventParser::track_key(const Fields& fields, bool device) {
  TrackKey key{.process = number<int64_t>(fields.pid), .device = device};
  if (const auto stream = parse_int(fields.stream);
      device && stream && *stream >= 0 && *stream < UINT32_MAX) {  // the largest stands for no stream
    key.thread = *stream;  // its tid may be another, where it overlaps work of its stream
  } else if (const auto thread = parse_int(fields.tid)) {
    key.thread = *thread;
  } else if (const size_t digit = fields.tid.find_first_of("0123456789");
             device && digit != std::string_view::npos) {  // the older dialect's "stream 7"
    key.thread = number<int64_t>(fields.tid.substr(digit, fields.tid.find_last_of("0123456789") + 1 - digit));
  } else if (fields.tid.size() > 2) {
    key.label = intern(fields.tid);
  }
  return key;
}

uint32_t EventParser::track_of(const Fields& fields, bool device) {
  const TrackKey key = track_key(fields, device);
  if (last_track_[device] != UINT32_MAX && last_track_key_[device] == key) return last_track_[device];
  last_track_key_[device] = key;
  return last_track_[device] = index_of_track(key);
}

uint32_t EventParser::index_of_track(const TrackKey& key) {
  const auto [at, added] = tracks_.try_emplace(key, static_cast<uint32_t>(trace_.tracks.size()));
  if (added)
    trace_.tracks.push_back(
        {.process = key.process, .thread = key.thread, .device = key.device, .name = key.label});
  return at->second;
}

void EventParser::absorb(const EventParser& part) {
  const Trace& from = part.trace_;
  std::vector<StringId> strings;
  for (StringId id = 0; id < from.strings.size(); ++id)
    strings.push_back(trace_.strings.intern(from.strings[id]));
  std::vector<uint32_t> tracks, launches, inputs, work;  // indices there to indices here
  for (const Track& track : from.tracks)
    tracks.push_back(index_of_track({track.process, track.thread, strings[track.name], track.device}));
  for (const Launch& launch : from.launches) launches.push_back(launches_.index_of(launch, trace_.launches));
  for (const OpInputs& in : from.op_inputs)
    inputs.push_back(
        index_of(OpInputs{strings[in.dims], strings[in.types], strings[in.strides], strings[in.concrete]},
                 trace_.op_inputs, op_inputs_));
  for (const Work& done : from.work) work.push_back(index_of(done, trace_.work, work_));
  const auto memories = static_cast<uint32_t>(trace_.memories.size());
  const auto copies = static_cast<uint32_t>(trace_.copies.size());
  trace_.memories.insert(trace_.memories.end(), from.memories.begin(), from.memories.end());
  trace_.copies.insert(trace_.copies.end(), from.copies.begin(), from.copies.end());
  for (Event event : from.events) {
    event.name = strings[event.name];
    event.track = tracks[event.track];
    if (event.detail != kNoDetail) {
      if (event.kind == EventKind::kernel) event.detail = launches[event.detail];
      if (event.kind == EventKind::cpu_op) event.detail = inputs[event.detail];
      if (event.kind == EventKind::cpu_kernel) event.detail = work[event.detail];
      if (event.kind == EventKind::memory) event.detail += memories;
      if (event.kind == EventKind::gpu_memcpy || event.kind == EventKind::gpu_memset) event.detail += copies;
    }
    trace_.events.push_back(event);
  }
  for (const auto& [thread, name] : part.thread_names_) thread_names_[thread] = strings[name];
  for (const auto& [what, count] : part.problems_) problems_[what] += count;
  trace_.damaged |= part.trace_.damaged;
}

StringId EventParser::intern(std::string_view string_token) {
  const std::string_view inside = string_token.substr(1, string_token.size() - 2);
  if (inside.find('\\') == std::string_view::npos) return trace_.strings.intern(inside);
  simdjson::dom::parser parser;  // rare: the escapes of a name
  std::string_view plain;
  const simdjson::padded_string document(string_token);
  if (parser.parse(document).get_string().get(plain) != SUCCESS) return trace_.strings.intern(inside);
  return trace_.strings.intern(plain);
}

void EventParser::finish() {
  for (Track& track : trace_.tracks) {
    const auto found = thread_names_.find({track.process, track.thread});
    if (found != thread_names_.end() && track.name == 0) track.name = found->second;
  }
  for (const auto& [what, count] : problems_) trace_.problems.push_back({what, count});
}

}  // namespace epilogue::trace
