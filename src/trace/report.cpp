#include "trace/report.h"

#include <cstdio>
#include <filesystem>
#include <fstream>

#include <unistd.h>

#include "base/check.h"
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
  const std::string page = render_report(traces, options);
  const std::string temporary = fmt::format("{}.{}.tmp", path, ::getpid());
  std::ofstream file(temporary, std::ios::binary);
  file.write(page.data(), static_cast<std::streamsize>(page.size()));
  file.close();
  if (file && std::rename(temporary.c_str(), path.c_str()) == 0) return;
  std::error_code ignored;
  std::filesystem::remove(temporary, ignored);
  fail("report: {} cannot be written", path);
}

}  // namespace epilogue::trace
