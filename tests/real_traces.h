// The traces of PyTorch's that tests read, below tests/data/traces.
#pragma once

#include <string>

#include "epilogue/trace.h"
#include "test_data.h"

namespace epilogue::trace {

inline Trace real(const std::string& name) { return read_trace(test_data("traces/" + name + ".json.gz")); }

}  // namespace epilogue::trace
