// Characters as JSON and mangled names know them, whatever the locale.
#pragma once

namespace epilogue::trace {

constexpr bool is_digit(char c) { return c >= '0' && c <= '9'; }
constexpr bool is_space(char c) { return c == ' ' || c == '\n' || c == '\r' || c == '\t'; }

}  // namespace epilogue::trace
