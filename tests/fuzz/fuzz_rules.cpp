// parse_rules: any bytes give an Error or rules that keep their promises.
#include <cstdlib>

#include "epilogue/error.h"
#include "trace/rules.h"

using namespace epilogue;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  try {
    const std::vector<trace::Rule> rules = trace::parse_rules(text, "fuzz.toml");
    if (rules.empty()) std::abort();
    for (const trace::Rule& rule : rules) {
      const auto& [min, max] = rule.bound;
      if (rule.name.empty() || trace::expectation(rule).empty()) std::abort();
      if (min && max && !(*min <= *max)) std::abort();
      if ((min || max) && !rule.bound.holds(max ? *max : *min)) std::abort();
      trace::matches_pattern("void at::native::vectorized_elementwise_kernel<4>", rule.pattern);
    }
  } catch (const Error&) {
  }
  return 0;
}
