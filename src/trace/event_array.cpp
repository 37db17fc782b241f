#include "trace/event_array.h"

#include <cstring>

#include "base/threads.h"
#include "trace/chars.h"

namespace epilogue::trace {
namespace {

using simdjson::error_code;
using simdjson::SUCCESS;

// One window's events in a trace of their own. Kept for the next window: its buffers are the costly part.
struct Job {
  std::vector<char> text;  // a byte before the events, and the padding after them
  size_t size = 0;
  simdjson::ondemand::parser parser;
  std::unique_ptr<Trace> trace;
  std::unique_ptr<EventParser> events;
  EventArray result;

  void take(std::string_view events_text) {
    size = events_text.size();
    text.resize(std::max(text.size(), size + 2 + simdjson::SIMDJSON_PADDING));
    std::memcpy(text.data() + 1, events_text.data(), size);
  }
  void read() {
    trace = std::make_unique<Trace>();
    events = std::make_unique<EventParser>(*trace);
    result = read_event_array(text.data() + 1, size, parser, *events);
  }
  bool plain() const { return !result.broken && !result.ended; }
};
using JobPointer = std::unique_ptr<Job>;

class Jobs {
 public:
  Jobs(Window& window, EventParser& events) : window_(window), events_(events) {}

  void run() {
    while (start_more() || !running_.empty()) {
      JobPointer job = next();
      if (!job->plain()) return give_back(std::move(job));
      events_.absorb(*job->events);
      idle_.push_back(std::move(job));
    }
  }

 private:
  // False once the stream's last window is reached.
  bool start_more() {
    while (running_.size() < static_cast<size_t>(thread_count())) {
      if (window_.at_end()) return false;
      const size_t cut = last_cut(window_.text());
      if (cut == std::string_view::npos || cut == 0) return false;  // an event larger than the window
      JobPointer job = idle_.empty() ? std::make_unique<Job>() : std::move(idle_.back());
      if (!idle_.empty()) idle_.pop_back();
      job->take(window_.text().substr(0, cut));
      window_.consume(cut + 1);
      running_.push_back(std::async(std::launch::async, [job = std::move(job)]() mutable {
        job->read();
        return std::move(job);
      }));
      window_.fill();
    }
    return true;
  }

  JobPointer next() {
    JobPointer job = running_.front().get();
    running_.pop_front();
    return job;
  }

  // Its text and that of all after it back into the window.
  void give_back(JobPointer job) {
    std::string text;
    for (;;) {
      text.append(job->text.data() + 1, job->size).push_back(',');
      if (running_.empty()) break;
      job = next();
    }
    window_.unread(text);
  }

  Window& window_;
  EventParser& events_;
  std::deque<std::future<JobPointer>> running_;
  std::vector<JobPointer> idle_;
};

}  // namespace

size_t last_cut(std::string_view text) {
  constexpr size_t kNone = std::string_view::npos;
  for (size_t at = text.rfind('{'); at != kNone && at > 0; at = text.rfind('{', at - 1)) {
    size_t comma = at - 1;
    while (comma > 0 && is_space(text[comma])) --comma;
    if (text[comma] != ',') continue;
    size_t brace = comma;
    do {
      if (brace == 0) return kNone;
      --brace;
    } while (is_space(text[brace]));
    if (text[brace] == '}') return comma;
  }
  return kNone;
}

EventArray read_event_array(char* begin, size_t size, simdjson::ondemand::parser& parser,
                            EventParser& events) {
  begin[-1] = '[';
  begin[size] = ']';
  simdjson::ondemand::document document;
  simdjson::ondemand::array array;
  error_code error = parser.iterate(begin - 1, size + 2, size + 2 + simdjson::SIMDJSON_PADDING).get(document);
  if (!error) error = document.get_array().get(array);
  const char* reached = begin;
  if (!error) {
    for (auto element : array) {
      const char* here = nullptr;
      simdjson::ondemand::object event;
      error = element.current_location().get(here);
      if (error && reached != begin && *reached == '{') events.count_problem(kMissingComma);
      if (!error) reached = here;
      if (!error) error = element.get_object().get(event);
      if (!error) error = events.add(event);
      if (!error) error = document.current_location().get(reached);
      if (error) break;
    }
  }
  if (error) return {.taken = static_cast<size_t>(reached - begin), .broken = true};
  const char* behind = nullptr;
  if (document.current_location().get(behind) == SUCCESS)
    return {.taken = static_cast<size_t>(behind - begin), .ended = true};
  return {.taken = size};
}

void read_event_arrays(Window& window, EventParser& events) { Jobs(window, events).run(); }

}  // namespace epilogue::trace
