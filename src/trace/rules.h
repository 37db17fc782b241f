// What is expected of a trace, read from TOML. docs/expect.md is the reference of the format.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace epilogue::trace {

// In TOML a number, which is to be met exactly, or {min = ..., max = ...} with at least one of the two.
struct Bound {
  std::optional<double> min, max;
  bool holds(double value) const { return (!min || value >= *min) && (!max || value <= *max); }
};

enum class RuleKind : uint8_t {
  kernels_per_step,   // of each step
  step_time_us,       // median wall time
  device_time_us,     // of what a step launched, median over the steps
  device_idle_share,  // median over the steps
  longest_gap_us,     // a stream without work, inside a step
  memory_peak_bytes,  // allocated
  has_kernel,         // inside the steps, its name or short_name matching the pattern
  no_kernel,
  kernels_per_call,  // of the op: launched by each of its calls, with what it calls
  no_recompile,
  no_copy,  // between host and device, inside a step
  no_problems,
};
const char* rule_key(RuleKind kind);  // its key in TOML

struct Rule {
  std::string name;  // the rule's text where it has no name
  RuleKind kind = RuleKind::kernels_per_step;
  Bound bound;
  std::string pattern;  // has_kernel, no_kernel: * and ? as in a shell; kernels_per_call: the op;
                        // memory_peak_bytes: the device, or "" for the one that held most
};
std::string expectation(const Rule& rule);  // "kernels_per_step = 5", "step_time_us <= 300"

// [[rule]] tables. Throws Error with file, line and what was expected.
std::vector<Rule> parse_rules(std::string_view text, const std::string& file);
std::vector<Rule> read_rules(const std::string& path);

// The whole name, with * for any text and ? for any one character.
bool matches_pattern(std::string_view name, std::string_view pattern);

}  // namespace epilogue::trace
