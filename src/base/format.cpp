#include "base/format.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

namespace epilogue {
namespace {

// Columns a terminal gives UTF-8 text: one per code point is right for what we print (µ, ×, –).
size_t display_width(const std::string& text) {
  return static_cast<size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xC0) != 0x80; }));
}

std::string pad(const std::string& text, size_t width, bool right) {
  const std::string space(width > display_width(text) ? width - display_width(text) : 0, ' ');
  return right ? space + text : text + space;
}

}  // namespace

std::string format_us(double us) {
  if (std::abs(us) >= 1e6) return fmt::format("{:.3f}s", us / 1e6);
  if (std::abs(us) >= 1e3) return fmt::format("{:.3f}ms", us / 1e3);
  return fmt::format("{:.3f}us", us);
}

std::string format_bytes(int64_t bytes) {
  const double size = static_cast<double>(bytes), magnitude = std::abs(size);
  if (magnitude >= 1 << 30) return fmt::format("{:.2f} GB", size / (1 << 30));
  if (magnitude >= 1 << 20) return fmt::format("{:.2f} MB", size / (1 << 20));
  if (magnitude >= 1 << 10) return fmt::format("{:.2f} KB", size / (1 << 10));
  return fmt::format("{} B", bytes);
}

std::string json_quote(const std::string& text) {
  std::string quoted = "\"";
  for (const char c : text) {
    switch (c) {
      case '"':
        quoted += "\\\"";
        break;
      case '\\':
        quoted += "\\\\";
        break;
      case '\n':
        quoted += "\\n";
        break;
      case '\t':
        quoted += "\\t";
        break;
      default:
        if (static_cast<unsigned char>(c) < 0x20)
          quoted += fmt::format("\\u{:04x}", static_cast<int>(c));
        else
          quoted += c;
    }
  }
  return quoted + '"';
}

void TextTable::add_row(std::vector<std::string> cells) {
  cells.resize(columns_.size());
  rows_.push_back(std::move(cells));
}

std::string TextTable::to_string() const {
  std::vector<size_t> widths;
  for (size_t c = 0; c < columns_.size(); ++c) {
    size_t width = display_width(columns_[c].title);
    for (const auto& row : rows_) width = std::max(width, display_width(row[c]));
    widths.push_back(width);
  }
  std::string text;
  const auto add_line = [&](const auto& cell) {
    std::string line;
    for (size_t c = 0; c < columns_.size(); ++c)
      line += (c ? "  " : "") + pad(cell(c), widths[c], columns_[c].right);
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + '\n';
  };
  add_line([&](size_t c) { return columns_[c].title; });
  add_line([&](size_t c) { return std::string(widths[c], '-'); });
  for (const auto& row : rows_) add_line([&](size_t c) { return row[c]; });
  return text;
}

}  // namespace epilogue
