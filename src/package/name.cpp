#include "package/name.h"

#include <algorithm>
#include <charconv>

#include "base/check.h"

namespace epilogue::package {
namespace {

constexpr size_t kMaxPart = 64, kMaxPath = 200;

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_lower(char c) { return c >= 'a' && c <= 'z'; }
bool is_upper(char c) { return c >= 'A' && c <= 'Z'; }

bool is_part(std::string_view part, bool upper_case) {
  const auto letter = [&](char c) { return is_digit(c) || is_lower(c) || (upper_case && is_upper(c)); };
  return !part.empty() && part.size() <= kMaxPart && letter(part.front()) &&
         std::ranges::all_of(part, [&](char c) { return letter(c) || c == '-' || c == '_' || c == '.'; });
}

}  // namespace

bool is_package_name(std::string_view name) {
  const size_t slash = name.find('/');
  return slash != name.npos && is_part(name.substr(0, slash), false) &&
         is_part(name.substr(slash + 1), false);
}

bool is_plain_word(std::string_view word) { return is_part(word, true); }

Reference parse_reference(std::string_view text) {
  constexpr const char* kForm =
      "expected OWNER/NAME@VERSION with a whole number, for example epilogue/geglu@1";
  const size_t at = text.find('@');
  EP_CHECK(at != text.npos, "'{}' names no version of a kernel package; {}", text, kForm);
  Reference reference{std::string(text.substr(0, at)), 0};
  const std::string_view digits = text.substr(at + 1);
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), reference.version);
  EP_CHECK(is_package_name(reference.name) && error == std::errc{} && end == digits.data() + digits.size(),
           "'{}' names no kernel package; {}", text, kForm);
  return reference;
}

std::string path_problem(std::string_view path) {
  if (path.empty()) return "it is empty";
  if (path.size() > kMaxPath) return fmt::format("it is longer than {} characters", kMaxPath);
  if (!std::ranges::all_of(path, [](char c) { return c > ' ' && c < 127 && c != '\\' && c != ':'; }))
    return "it has characters other than printable ASCII, or a backslash or a colon";
  if (path.front() == '/') return "it is absolute";
  for (size_t begin = 0; begin <= path.size();) {
    const size_t end = std::min(path.find('/', begin), path.size());
    const std::string_view part = path.substr(begin, end - begin);
    if (part == "..") return "it leads out of the package's folder";
    if (part.empty() || part == ".") return "it has an empty part";
    begin = end + 1;
  }
  return "";
}

}  // namespace epilogue::package
