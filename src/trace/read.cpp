// The stream is read in windows. A window is cut before its last event, which may be incomplete, and then is,
// between brackets, a JSON array (event_array.h). Where that is broken, events are taken one by one.
#include "trace/read.h"

#include <algorithm>
#include <cctype>

#include <simdjson.h>

#include "base/check.h"
#include "epilogue/trace.h"
#include "trace/chars.h"
#include "trace/event_array.h"
#include "trace/event_parser.h"
#include "trace/links.h"
#include "trace/numbers.h"
#include "trace/stream.h"
#include "trace/window.h"

namespace epilogue::trace {
namespace {

using simdjson::error_code;
using simdjson::SUCCESS;

constexpr size_t kNone = std::string_view::npos;
constexpr size_t kLargestEvent = size_t{64} << 20;

size_t skip_space(std::string_view text, size_t at) {
  while (at < text.size() && is_space(text[at])) ++at;
  return at;
}

// Where the value at `at` ends; kNone when the text ends first.
size_t skip_value(std::string_view text, size_t at) {
  int depth = 0;
  for (; at < text.size(); ++at) {
    const char c = text[at];
    if (c == '"') {
      for (++at; at < text.size() && text[at] != '"'; ++at)
        if (text[at] == '\\') ++at;
      if (at >= text.size()) return kNone;
    } else if (c == '{' || c == '[') {
      ++depth;
    } else if ((c == '}' || c == ']') && --depth <= 0) {
      return depth < 0 ? at : at + 1;
    } else if (c == ',' && depth == 0) {
      return at;
    }
    if (depth == 0 && c == '"') return at + 1;
  }
  return kNone;
}

// Just after the next `}` that is followed by `, {` or `]`; kNone when there is none.
size_t next_event_end(std::string_view text, size_t from) {
  for (size_t at = text.find('}', from); at != kNone; at = text.find('}', at + 1)) {
    size_t next = skip_space(text, at + 1);
    if (next >= text.size()) return kNone;
    if (text[next] == ']') return at + 1;
    if (text[next] != ',') continue;
    next = skip_space(text, next + 1);
    if (next < text.size() && text[next] == '{') return at + 1;
  }
  return kNone;
}

// What else a trace may be packed in, by its first bytes.
struct Packing {
  std::string_view begin, name;
};
constexpr Packing kPackings[] = {
    {"PK\x03\x04", "ZIP"}, {"\x28\xB5\x2F\xFD", "zstd"}, {"\xFD\x37zXZ", "xz"}, {"BZh", "bzip2"}};

class Reader {
 public:
  Reader(ByteSource& source, const std::string& name, size_t window_bytes)
      : path_(name), source_(source), window_(source, window_bytes), events_(trace_) {
    trace_.source = name;
  }

  Trace read() {
    if (window_.text().empty())
      fail("{}: {}, expected a Kineto trace", path_,
           source_.damage().empty() ? "is empty" : source_.damage());
    find_events();
    read_event_arrays(window_, events_);
    while (!ended_ && read_window()) {
    }
    if (ended_) {
      read_tail();
    } else if (found_events_ && !cut_) {  // a bare array need not be closed
      events_.count_loss("file ends inside its events");
    }
    if (!source_.damage().empty()) events_.count_loss(source_.damage());
    events_.finish();
    order_events(trace_);
    count_broken_links(trace_);
    return std::move(trace_);
  }

 private:
  // Consumes up to the first event, and takes the metadata before it.
  void find_events() {
    size_t at = skip_space(window_.text(), 0);
    if (window_.text().substr(at, 3) == "\xEF\xBB\xBF") at = skip_space(window_.text(), at + 3);
    for (const Packing& packing : kPackings)
      EP_CHECK(!window_.text().starts_with(packing.begin),
               "{}: is packed as {}, expected JSON as it is or in gzip: unpack it first", path_,
               packing.name);
    const char first = at < window_.text().size() ? window_.text()[at] : '\0';
    EP_CHECK(first == '{' || first == '[', "{}: is no JSON object or array, expected a Kineto trace", path_);
    if (first == '[') return window_.consume(at + 1);
    window_.consume(at);
    at = 1;
    for (;;) {
      const size_t key = skip_space(window_.text(), at);
      const size_t next = skip_member(key);
      if (next == kNone) {
        EP_CHECK(!window_.at_end(), "{}: ends before its traceEvents, expected a Kineto trace", path_);
        window_.fill();
        continue;
      }
      if (found_events_) {
        std::string header(window_.text().substr(0, key));
        header.erase(std::min(header.find_last_not_of(" \n\r\t,") + 1, header.size()));
        read_metadata(header += '}');
        return window_.consume(next);
      }
      at = next;
    }
  }

  // The member of the top-level object at `key`: where the next one starts, or, for traceEvents, its first
  // event. kNone when the text ends first.
  size_t skip_member(size_t key) {
    const std::string_view text = window_.text();
    if (key >= text.size()) return kNone;
    EP_CHECK(text[key] == '"', "{}: has no traceEvents, expected a Kineto trace", path_);
    const size_t key_end = skip_value(text, key);
    if (key_end == kNone) return kNone;
    size_t at = skip_space(text, key_end);
    if (at >= text.size()) return kNone;
    EP_CHECK(text[at] == ':', "{}: is no JSON, expected a Kineto trace", path_);
    at = skip_space(text, at + 1);
    if (text.substr(key, key_end - key) == "\"traceEvents\"") {
      if (at >= text.size()) return kNone;
      EP_CHECK(text[at] == '[', "{}: its traceEvents are no array, expected a Kineto trace", path_);
      found_events_ = true;
      return at + 1;
    }
    at = skip_value(text, at);
    if (at != kNone) at = skip_space(text, at);
    if (at == kNone || at >= text.size()) return kNone;
    EP_CHECK(text[at] == ',', "{}: has no traceEvents, expected a Kineto trace", path_);
    return at + 1;
  }

  // Reads the window's events and moves it on. False when the stream has ended.
  bool read_window() {
    const size_t cut = last_cut(window_.text());
    if (cut == kNone || cut == 0) return read_rest();
    const size_t behind_cut = window_.text().size() - cut;
    if (!read_array(cut))
      while (!ended_ && window_.text().size() > behind_cut) read_one();
    if (!ended_ && !window_.at_end()) window_.fill();
    return true;
  }

  // No cut in sight: a large event, or the last one.
  bool read_rest() {
    if (!window_.at_end()) {
      if (window_.text().size() < kLargestEvent) {
        window_.fill();
        return true;
      }
      events_.count_loss("bytes in which no event could be told",
                         static_cast<int64_t>(window_.text().size()));
      window_.consume(window_.text().size());
      window_.fill();
      return true;
    }
    read_one();
    return !window_.text().empty();
  }

  // The events before the cut, all at once. False when the JSON is broken: the window then starts at the
  // event that is.
  bool read_array(size_t cut) {
    const EventArray array = read_event_array(window_.begin(), cut, parser_, events_);
    window_.begin()[cut] = ',';
    window_.consume(array.taken + (array.broken || array.ended ? 0 : 1));
    ended_ = array.ended;
    return !array.broken;
  }

  // The next event alone; what cannot be read is counted and passed over.
  void read_one() {
    std::string_view text = window_.text();
    const size_t start = skip_space(text, 0);
    if (start < text.size() && text[start] == ',') return window_.consume(start + 1);
    if (start < text.size() && text[start] == ']') {
      ended_ = true;
      return window_.consume(start + 1);
    }
    if (start == text.size()) return window_.consume(text.size());
    if (text[start] != '{') {
      events_.count_loss("unreadable stretches between events");
      return window_.consume(std::min({text.find('{', start), text.find(']', start), text.size()}));
    }
    window_.consume(start);
    read_object();
  }

  // The window starts at an event's brace. A string or an argument may hold what looks like the event's end,
  // hence the further tries.
  void read_object() {
    constexpr int kTries = 16;
    const std::string_view text = window_.text();
    const size_t first_end = next_event_end(text, 0);
    size_t end = first_end;
    for (int i = 0; i < kTries && end != kNone; ++i, end = next_event_end(text, end))
      if (take_event(end)) return;
    if (end == kNone && !window_.at_end() && text.size() < kLargestEvent) return window_.fill();
    if (const size_t brace = text.rfind('}'); first_end == kNone && brace != kNone && take_event(brace + 1))
      return;  // whole, and the last of a file that does not close its events
    cut_ = first_end == kNone;
    events_.count_loss(cut_ ? "file ends inside an event" : "events that are no JSON (left out)");
    window_.consume(first_end == kNone ? text.size() : first_end);
  }

  // Consumes the window up to `end`, or the first object of it, if that is an event.
  bool take_event(size_t end) {
    simdjson::ondemand::document document;
    simdjson::ondemand::object event;
    error_code error = parser_.iterate(window_.begin(), end, end + simdjson::SIMDJSON_PADDING).get(document);
    if (!error) error = document.get_object().get(event);
    if (!error) error = events_.add(event);
    if (error) return false;
    const char* behind = nullptr;  // of the object, when more than it was handed to simdjson
    if (document.current_location().get(behind) == SUCCESS) {
      if (*behind == '{') events_.count_problem(kMissingComma);
      end = static_cast<size_t>(behind - window_.begin());
    }
    window_.consume(end);
    return true;
  }

  // What follows the events.
  void read_tail() {
    while (!window_.at_end() && window_.text().size() < kLargestEvent) window_.fill();
    std::string_view text = window_.text();
    size_t at = skip_space(text, 0);
    if (!found_events_) return expect_end(at);  // a bare array
    if (at < text.size() && text[at] == ',') at = skip_space(text, at + 1);
    if (at == text.size()) return events_.count_problem("file ends before its closing brace");
    const std::string object = fmt::format("{{{}", text.substr(at));
    const size_t end = skip_value(object, 0);
    if (text[at] != '}') read_metadata(object.substr(0, end));
    if (end != kNone) expect_end(at + end - 1);
  }

  // A second trace there would be as good as the first, and is not read.
  void expect_end(size_t at) {
    if (skip_space(window_.text(), at) < window_.text().size())
      events_.count_loss("text after the trace's end, which was not read");
  }

  void read_metadata(const std::string& object) {
    simdjson::padded_string padded(object);
    simdjson::ondemand::document document;
    simdjson::ondemand::object members;
    error_code error = parser_.iterate(padded).get(document);
    if (!error) error = document.get_object().get(members);
    if (!error) error = read_members(members);
    if (error) events_.count_problem("metadata that is no JSON");
  }

  error_code read_members(simdjson::ondemand::object members) {
    for (auto member : members) {
      std::string_view key, token;
      simdjson::ondemand::value value;
      error_code error = member.unescaped_key().get(key);
      if (!error) error = member.value().get(value);
      if (!error && key == "deviceProperties") {
        error = read_devices(value);
        if (error) return error;
        continue;
      }
      if (!error) error = raw_json(value, token);
      if (error) return error;
      if (key == "baseTimeNanoseconds")
        trace_.base_ns = parse_int(token).value_or(0);
      else if (key != "schemaVersion" && key != "displayTimeUnit" && key != "traceName")
        trace_.metadata.emplace_back(key, token);
    }
    return SUCCESS;
  }

  static error_code raw_json(simdjson::ondemand::value& value, std::string_view& text) {
    const char first = value.raw_json_token().front();
    error_code error = SUCCESS;
    if (first == '{') {
      simdjson::ondemand::object object;
      error = value.get_object().get(object);
      if (!error) error = object.raw_json().get(text);
    } else if (first == '[') {
      simdjson::ondemand::array array;
      error = value.get_array().get(array);
      if (!error) error = array.raw_json().get(text);
    } else {
      text = value.raw_json_token();
    }
    text = text.substr(0, text.find_last_not_of(" \n\r\t") + 1);
    return error;
  }

  error_code read_devices(simdjson::ondemand::value& value) {
    simdjson::ondemand::array devices;
    if (const error_code error = value.get_array().get(devices)) return error;
    for (auto element : devices) {
      simdjson::ondemand::object members;
      if (const error_code error = element.get_object().get(members)) return error;
      if (const error_code error = read_device(members, trace_.devices.emplace_back())) return error;
    }
    return SUCCESS;
  }

  static error_code read_device(simdjson::ondemand::object members, DeviceProperties& device) {
    for (auto member : members) {
      std::string_view key, text;
      simdjson::ondemand::value value;
      error_code error = member.unescaped_key().get(key);
      if (!error) error = member.value().get(value);
      if (error) return error;
      if (key == "name") {
        if (value.get_string().get(text) == SUCCESS) device.name = text;
        continue;
      }
      const int64_t number = parse_int(trim_right(value.raw_json_token())).value_or(0);
      const auto small = static_cast<int32_t>(number);
      if (key == "id") device.id = small;
      if (key == "totalGlobalMem") device.total_memory = number;
      if (key == "computeMajor") device.compute_major = small;
      if (key == "computeMinor") device.compute_minor = small;
      if (key == "maxThreadsPerBlock") device.max_threads_per_block = small;
      if (key == "maxThreadsPerMultiprocessor") device.max_threads_per_multiprocessor = small;
      if (key == "regsPerBlock") device.registers_per_block = small;
      if (key == "warpSize") device.warp_size = small;
      if (key == "sharedMemPerBlock") device.shared_per_block = number;
      if (key == "numSms") device.multiprocessors = small;
      if (key == "regsPerMultiprocessor") device.registers_per_multiprocessor = number;
      if (key == "sharedMemPerBlockOptin") device.shared_per_block_optin = number;
      if (key == "sharedMemPerMultiprocessor") device.shared_per_multiprocessor = number;
    }
    return SUCCESS;
  }

  static std::string_view trim_right(std::string_view text) {
    return text.substr(0, text.find_last_not_of(" \n\r\t") + 1);
  }

  std::string path_;
  Trace trace_;
  ByteSource& source_;
  Window window_;
  EventParser events_;
  simdjson::ondemand::parser parser_;
  bool found_events_ = false;  // as a member, not as a bare array
  bool ended_ = false;         // the array of events was closed
  bool cut_ = false;           // the file ends inside an event
};

}  // namespace

Trace read_trace(const std::string& path) { return read_trace(*open_source(path), path, size_t{1} << 20); }

Trace read_trace(ByteSource& source, const std::string& name, size_t window_bytes) {
  return Reader(source, name, window_bytes).read();
}

}  // namespace epilogue::trace
