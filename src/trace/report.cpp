#include "trace/report.h"

#include "base/file.h"
#include "trace/report/page.h"
#include "trace/report_data.h"

namespace epilogue::trace {

// Names from a trace stand inside a script element, which "</script" would end; JSON holds '<' in strings
// alone.
std::string render_report(std::span<const Trace* const> traces, const ReportOptions& options) {
  EP_CHECK(!traces.empty(), "report: expected at least one trace");
  std::string page = kPageBeforeData;
  for (const char c : report_data(traces, options)) {
    if (c == '<')
      page += "\\u003c";
    else
      page += c;
  }
  return page += kPageAfterData;
}

void write_report(std::span<const Trace* const> traces, const std::string& path,
                  const ReportOptions& options) {
  replace_file(path, render_report(traces, options));
}

}  // namespace epilogue::trace
