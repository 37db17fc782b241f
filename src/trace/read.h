// Reading a trace from any source of bytes.
#pragma once

#include <string>

#include "epilogue/trace.h"
#include "trace/stream.h"

namespace epilogue::trace {

// As read_trace(path); `name` stands for the file in messages. The window starts at `window_bytes` and grows
// to hold the largest event: its size changes the speed, not the result.
Trace read_trace(ByteSource& source, const std::string& name, size_t window_bytes);

}  // namespace epilogue::trace
