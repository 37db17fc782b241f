// Numbers and tables for people.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace epilogue {

std::string format_us(double us);         // PyTorch's units: "12.340us", "1.234ms", "1.234s"
std::string format_bytes(int64_t bytes);  // "0 B", "1.50 KiB", "-6.75 MiB"
// The same as PyTorch's op table writes it: "1.50 KB", "-6.75 MB", of 1024 as well.
std::string format_bytes_as_pytorch(int64_t bytes);
// With the quotes; control characters escaped, what is no UTF-8 replaced by U+FFFD.
std::string json_quote(const std::string& text);
std::string valid_utf8(std::string_view text);  // what is none replaced by U+FFFD
// ["a","b"]
template <class Texts>
std::string json_quoted_list(const Texts& texts) {
  std::string list;
  for (const std::string& text : texts) list += (list.empty() ? "" : ",") + json_quote(text);
  return "[" + list + "]";
}
// With '?' for every control character but the newline: a terminal obeys what a file's names hold.
std::string printable(std::string_view text);
std::string one_line(std::string text);  // printable, and without newlines
// At most `size` bytes, none of a code point that would be cut.
std::string_view utf8_prefix(std::string_view text, size_t size);

// A table with aligned columns: text to the left, numbers to the right.
class TextTable {
 public:
  struct Column {
    std::string title;
    bool right = true;
  };
  explicit TextTable(std::vector<Column> columns) : columns_(std::move(columns)) {}
  void add_row(std::vector<std::string> cells);
  std::string to_string() const;  // header, a rule, the rows; each line ends in '\n'

 private:
  std::vector<Column> columns_;
  std::vector<std::vector<std::string>> rows_;
};

}  // namespace epilogue
