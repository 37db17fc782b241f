// Numbers as traces write them: JSON tokens, with or without quotes around them.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace epilogue::trace {

// The difference of two times of this size, and the sum with a duration, fit int64_t. 127 years.
inline constexpr int64_t kLargestNs = 4'000'000'000'000'000'000;

// "3848286867168.377" (microseconds) as nanoseconds, exactly: a double would lose the last digits of an
// epoch time. Nothing beyond kLargestNs.
std::optional<int64_t> parse_ns(std::string_view token);
std::optional<double> parse_double(std::string_view token);

std::optional<int64_t> parse_any_int(std::string_view token);  // a fraction is cut
std::optional<uint64_t> parse_any_uint(std::string_view token);

// Whether the token is a few digits and nothing else, as nearly all are; then `number` is theirs.
inline bool parse_digits(std::string_view token, uint64_t& number) {
  number = 0;
  if (token.empty() || token.size() > 18) return false;
  for (const char c : token) {
    if (c < '0' || c > '9') return false;
    number = number * 10 + static_cast<uint64_t>(c - '0');
  }
  return true;
}
inline std::optional<int64_t> parse_int(std::string_view token) {
  uint64_t number = 0;
  return parse_digits(token, number) ? static_cast<int64_t>(number) : parse_any_int(token);
}
inline std::optional<uint64_t> parse_uint(std::string_view token) {
  uint64_t number = 0;
  return parse_digits(token, number) ? number : parse_any_uint(token);
}

// A file's numbers may add up to more than int64_t holds: the sum then stays at the largest.
inline void add_saturated(int64_t& sum, int64_t amount) {
  if (__builtin_add_overflow(sum, amount, &sum)) sum = amount < 0 ? INT64_MIN : INT64_MAX;
}

}  // namespace epilogue::trace
