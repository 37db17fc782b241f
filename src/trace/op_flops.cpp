#include <algorithm>
#include <charconv>
#include <vector>

#include "trace/op_table.h"

namespace epilogue::trace {
namespace {

// "[[8192, 768], [768, 3072]]"; lists of tensors end the parse.
std::vector<std::vector<int64_t>> parse_dims(std::string_view text) {
  std::vector<std::vector<int64_t>> shapes;
  int depth = 0;
  for (size_t at = 0; at < text.size(); ++at) {
    const char c = text[at];
    if (c == '[') {
      if (++depth == 2) shapes.emplace_back();
      if (depth > 2) break;
    } else if (c == ']') {
      --depth;
    } else if (c >= '0' && c <= '9' && depth == 2) {
      int64_t size = 0;
      const auto [end, error] = std::from_chars(text.data() + at, text.data() + text.size(), size);
      if (error != std::errc{}) break;
      shapes.back().push_back(size);
      at = static_cast<size_t>(end - text.data()) - 1;
    }
  }
  return shapes;
}

}  // namespace

int64_t op_flops(std::string_view name, std::string_view dims) {
  const size_t colons = name.rfind("::");
  const std::string_view op = colons == std::string_view::npos ? name : name.substr(colons + 2);
  const bool adds = op == "addmm" || op == "baddbmm";
  if (!adds && op != "mm" && op != "bmm" && op != "_scaled_mm") return 0;
  const auto shapes = parse_dims(dims);
  const size_t first = adds ? 1 : 0;
  if (shapes.size() < first + 2) return 0;
  const auto &a = shapes[first], &b = shapes[first + 1];
  if (a.size() != b.size() || a.size() < 2 || a.size() > 3 || a.back() != b[b.size() - 2]) return 0;
  int64_t flops = 2;
  for (const int64_t size : {a.size() == 3 ? a[0] : 1, a[a.size() - 2], a.back(), b.back()})
    if (__builtin_mul_overflow(flops, size, &flops)) return 0;
  return flops;
}

}  // namespace epilogue::trace
