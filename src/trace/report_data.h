// What the report's page draws, as JSON. Internal to the report; report/data.js reads it.
#pragma once

#include <span>
#include <string>

#include "epilogue/trace.h"
#include "trace/report.h"

namespace epilogue::trace {

// {"kinds": [...], "strings": [...], "short": [[string, string]...], "classes": [[string, "gemm"]...],
//  "traces": [{"name", "device", "tracks", "events": columns, "launches", "inputs", "copies", "work",
//  "memory", "summary"}...], "diffs": one a trace after the first}. Strings are kept once for all traces, and
//  other places hold
// their index; a time is in nanoseconds from the trace's first step, in "start" from the event before it.
std::string report_data(std::span<const Trace* const> traces, const ReportOptions& options);

}  // namespace epilogue::trace
