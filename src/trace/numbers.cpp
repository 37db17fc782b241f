#include "trace/numbers.h"

#include <charconv>
#include <cmath>

#include "trace/chars.h"

namespace epilogue::trace {
namespace {

std::string_view without_quotes(std::string_view token) {
  if (token.size() >= 2 && token.front() == '"' && token.back() == '"')
    return token.substr(1, token.size() - 2);
  return token;
}

// Truncated to the type; nothing when it does not fit.
template <class T>
std::optional<T> parse_whole(std::string_view token) {
  token = without_quotes(token);
  T value = 0;
  const char* end = token.data() + token.size();
  const auto [stop, error] = std::from_chars(token.data(), end, value);
  if (error == std::errc{} && stop == end) return value;
  const auto real = parse_double(token);
  if (!real || *real < -9.2e18 || *real > 9.2e18 || (*real < 0 && T(-1) > T(0))) return {};
  return static_cast<T>(*real);
}

}  // namespace

std::optional<double> parse_double(std::string_view token) {
  token = without_quotes(token);
  double value = 0;
  const char* end = token.data() + token.size();
  const auto [stop, error] = std::from_chars(token.data(), end, value);
  if (error != std::errc{} || stop != end || !std::isfinite(value)) return {};
  return value;
}

std::optional<int64_t> parse_any_int(std::string_view token) { return parse_whole<int64_t>(token); }
std::optional<uint64_t> parse_any_uint(std::string_view token) { return parse_whole<uint64_t>(token); }

std::optional<int64_t> parse_ns(std::string_view token) {
  token = without_quotes(token);
  const char *at = token.data(), *end = at + token.size();
  const bool negative = at != end && *at == '-';
  if (negative) ++at;
  const char* first = at;
  int64_t us = 0;
  while (at != end && is_digit(*at) && at - first < 16) us = us * 10 + (*at++ - '0');
  if (at == first || us > kLargestNs / 1000 - 1) return {};
  int64_t ns = us * 1000;
  if (at != end && *at == '.') {
    ++at;
    for (int64_t unit = 100; at != end && is_digit(*at); ++at, unit /= 10) ns += (*at - '0') * unit;
  }
  if (at == end) return negative ? -ns : ns;
  const auto us_real = parse_double(token);  // an exponent, or no number
  if (!us_real || std::abs(*us_real) > static_cast<double>(kLargestNs / 1000)) return {};
  return std::llround(*us_real * 1000);
}

}  // namespace epilogue::trace
