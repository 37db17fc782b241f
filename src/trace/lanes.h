// Rows for device work that overlaps other work of its stream (programmatic dependent launch): viewers show
// the slices of one row only when they nest.
#pragma once

#include <cstdint>
#include <vector>

#include "epilogue/trace.h"

namespace epilogue::trace {

// For each event the row of its track that it is shown in; 0 for all but what overlaps. Kernels and copies
// lie in ranges, never in one another. Needs ordered events.
std::vector<uint32_t> overlap_lanes(const Trace& trace);

}  // namespace epilogue::trace
