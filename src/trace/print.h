// How the trace tools print times, JSON arrays and tables that are cut short.
#pragma once

#include <cstdint>
#include <string>

#include <fmt/format.h>

#include "base/format.h"
#include "epilogue/trace.h"

namespace epilogue::trace {

inline std::string time_text(int64_t ns) { return format_us(static_cast<double>(ns) / 1e3); }
inline std::string us_json(int64_t ns) { return fmt::format("{:.3f}", static_cast<double>(ns) / 1e3); }

// "1 kernel", "5 kernels"
inline std::string counted(int64_t n, const char* what) {
  return fmt::format("{} {}{}", n, what, n == 1 ? "" : "s");
}

// [print(row), ...], a row a line.
template <class Rows, class Print>
std::string json_array(const Rows& rows, const Print& print) {
  std::string text = "[";
  for (const auto& row : rows) text += (text.size() > 1 ? ",\n  " : "\n  ") + print(row);
  return text + "]";
}

inline std::string problems_json(const std::vector<Problem>& problems) {
  return json_array(problems, [](const Problem& problem) {
    return fmt::format(R"({{"what":{},"count":{}}})", json_quote(problem.what), problem.count);
  });
}

// The line below a table of which at most `limit` rows are shown (negative: all); "" when none is left out.
inline std::string rows_left_out(size_t rows, int limit) {
  if (limit < 0 || rows <= static_cast<size_t>(limit)) return "";
  const size_t left_out = rows - static_cast<size_t>(limit);
  return fmt::format("... and {} more row{} (--rows)\n", left_out, left_out == 1 ? "" : "s");
}

// A titled table of at most `limit` rows (negative: all), and how many were left out; nothing without rows.
template <class Rows, class Cells>
std::string limited_table(const std::string& title, TextTable table, const Rows& rows, int limit,
                          const Cells& cells) {
  if (rows.empty()) return {};
  size_t shown = 0;
  for (const auto& row : rows) {
    if (limit >= 0 && shown == static_cast<size_t>(limit)) break;
    table.add_row(cells(row));
    ++shown;
  }
  return fmt::format("\n{}\n{}{}", title, table.to_string(), rows_left_out(rows.size(), limit));
}

}  // namespace epilogue::trace
