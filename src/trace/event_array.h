// A stretch of events between brackets, walked by simdjson in place; several of them at a time.
#pragma once

#include <deque>
#include <future>
#include <memory>
#include <string>
#include <vector>

#include <simdjson.h>

#include "trace/event_parser.h"
#include "trace/window.h"

namespace epilogue::trace {

// The comma of the last `} , {` in the text, or npos: where a window is cut. A string or an argument may hold
// such a thing too; the array before it is then found broken.
size_t last_cut(std::string_view text);

inline constexpr const char* kMissingComma = "commas missing between events";

struct EventArray {
  size_t taken = 0;     // bytes up to what is broken, to the end of the array, or all
  bool broken = false;  // the JSON is
  bool ended = false;   // a closing bracket came before the end of the text
};

// Adds the comma-separated events of [begin, begin + size). The bytes before and behind are overwritten, and
// simdjson's padding must follow.
EventArray read_event_array(char* begin, size_t size, simdjson::ondemand::parser& parser,
                            EventParser& events);

// Reads the window's events on as many threads as there are, up to the last window of the stream or to the
// first that is not plainly an array of events; from there the window goes on. The result does not depend on
// the threads.
void read_event_arrays(Window& window, EventParser& events);

}  // namespace epilogue::trace
