// One self-contained HTML page about one or several traces: lanes, tables, what changed. The page itself is
// in report/; it asks nothing of the network.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "epilogue/trace.h"

namespace epilogue::trace {

struct ReportOptions {
  std::vector<std::string> names;  // of the traces, in their order; by default their file's name
};

// Traces stand under each other, aligned at their first step; the later ones are compared with the first.
std::string render_report(std::span<const Trace* const> traces, const ReportOptions& options = {});

// The file has its name when it is whole. Throws Error when it cannot be written.
void write_report(std::span<const Trace* const> traces, const std::string& path,
                  const ReportOptions& options = {});

}  // namespace epilogue::trace
