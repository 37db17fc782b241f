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

// The bytes of the UTF-8 sequence that the text starts with; 0 when it starts with none.
size_t sequence_length(std::string_view text) {
  const auto byte = [&](size_t i) { return i < text.size() ? static_cast<unsigned char>(text[i]) : 0; };
  const int lead = byte(0);
  if (lead < 0x80) return 1;
  if (lead < 0xC2 || lead > 0xF4) return 0;
  // The second byte tells overlong forms, surrogates and what is beyond U+10FFFF.
  const int least = lead == 0xE0 ? 0xA0 : lead == 0xF0 ? 0x90 : 0x80;
  const int most = lead == 0xED ? 0x9F : lead == 0xF4 ? 0x8F : 0xBF;
  if (byte(1) < least || byte(1) > most) return 0;
  const size_t length = lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
  for (size_t i = 2; i < length; ++i)
    if ((byte(i) & 0xC0) != 0x80) return 0;
  return length;
}

std::string pad(const std::string& text, size_t width, bool right) {
  const std::string space(width > display_width(text) ? width - display_width(text) : 0, ' ');
  return right ? space + text : text + space;
}

std::string scaled_bytes(int64_t bytes, const char* unit) {
  const double size = static_cast<double>(bytes), magnitude = std::abs(size);
  if (magnitude >= 1 << 30) return fmt::format("{:.2f} G{}", size / (1 << 30), unit);
  if (magnitude >= 1 << 20) return fmt::format("{:.2f} M{}", size / (1 << 20), unit);
  if (magnitude >= 1 << 10) return fmt::format("{:.2f} K{}", size / (1 << 10), unit);
  return fmt::format("{} B", bytes);
}

}  // namespace

std::string format_us(double us) {
  if (std::abs(us) >= 1e6) return fmt::format("{:.3f}s", us / 1e6);
  if (std::abs(us) >= 1e3) return fmt::format("{:.3f}ms", us / 1e3);
  return fmt::format("{:.3f}us", us);
}

std::string format_bytes(int64_t bytes) { return scaled_bytes(bytes, "iB"); }

std::string format_bytes_as_pytorch(int64_t bytes) { return scaled_bytes(bytes, "B"); }

std::string valid_utf8(std::string_view text) {
  constexpr std::string_view replacement = "\xEF\xBF\xBD";
  std::string valid;
  while (!text.empty()) {
    const size_t length = sequence_length(text);
    valid += length == 0 ? replacement : text.substr(0, length);
    text.remove_prefix(std::max<size_t>(1, length));
  }
  return valid;
}

std::string json_quote(const std::string& text) {
  std::string quoted = "\"";
  for (const char c : valid_utf8(text)) {
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

std::string printable(std::string_view text) {
  std::string shown;
  for (size_t i = 0; i < text.size(); ++i) {
    const auto c = static_cast<unsigned char>(text[i]);
    const auto next = static_cast<unsigned char>(i + 1 < text.size() ? text[i + 1] : 0);
    const bool c1 = c == 0xC2 && next >= 0x80 && next < 0xA0;  // U+0080 to U+009F
    i += c1;
    shown += c1 || c == 0x7F || (c < 0x20 && c != '\n') ? '?' : text[i];
  }
  return shown;
}

std::string one_line(std::string text) {
  const auto is_plain = [](char c) { return c >= 0x20 && c < 0x7F; };
  if (std::ranges::all_of(text, is_plain)) return text;
  text = printable(text);
  std::ranges::replace(text, '\n', '?');
  return text;
}

std::string_view utf8_prefix(std::string_view text, size_t size) {
  if (size >= text.size()) return text;
  for (int i = 0; i < 3 && size > 0 && (text[size] & 0xC0) == 0x80; ++i) --size;
  return text.substr(0, size);
}

void TextTable::add_row(std::vector<std::string> cells) {
  cells.resize(columns_.size());
  for (std::string& cell : cells) cell = one_line(std::move(cell));
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
