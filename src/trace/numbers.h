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
std::optional<int64_t> parse_int(std::string_view token);  // a fraction is cut
std::optional<uint64_t> parse_uint(std::string_view token);
std::optional<double> parse_double(std::string_view token);

}  // namespace epilogue::trace
