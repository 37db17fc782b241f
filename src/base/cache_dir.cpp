#include "base/cache_dir.h"

#include <cstdlib>

#include <fmt/format.h>

#include "base/env.h"

namespace epilogue {

std::string cache_dir() {
  if (std::string set = env_text(EnvVar::cache_dir); !set.empty()) return set;
  if (const char* xdg = std::getenv("XDG_CACHE_HOME"); xdg && *xdg) return std::string(xdg) + "/epilogue";
  if (const char* home = std::getenv("HOME"); home && *home) return std::string(home) + "/.cache/epilogue";
  return "";
}

namespace {

constexpr std::string_view kChoices = "gemm_", kChoicesEnd = ".tsv";
constexpr size_t kHexDigits = 16;

}  // namespace

std::string choices_file_name(uint64_t origin) {
  return fmt::format("{}{:0{}x}{}", kChoices, origin, kHexDigits, kChoicesEnd);
}

bool is_choices_file(std::string_view name) {
  if (!name.starts_with(kChoices) || name.size() < kChoices.size() + kHexDigits) return false;
  const std::string_view digits = name.substr(kChoices.size(), kHexDigits);
  const std::string_view end = name.substr(kChoices.size() + kHexDigits);
  return digits.find_first_not_of("0123456789abcdef") == std::string_view::npos &&
         end.starts_with(kChoicesEnd) && (end.size() == kChoicesEnd.size() || end[kChoicesEnd.size()] == '.');
}

}  // namespace epilogue
