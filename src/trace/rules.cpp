#include "trace/rules.h"

#include <cmath>

#include <toml++/toml.h>

#include "base/check.h"
#include "base/file.h"

namespace epilogue::trace {
namespace {

enum class Takes : uint8_t { bound, pattern, truth };

struct RuleForm {
  const char* key;
  RuleKind kind;
  Takes takes;
};
constexpr RuleForm kForms[] = {
    {"kernels_per_step", RuleKind::kernels_per_step, Takes::bound},
    {"step_time_us", RuleKind::step_time_us, Takes::bound},
    {"device_time_us", RuleKind::device_time_us, Takes::bound},
    {"device_idle_share", RuleKind::device_idle_share, Takes::bound},
    {"longest_gap_us", RuleKind::longest_gap_us, Takes::bound},
    {"memory_peak_bytes", RuleKind::memory_peak_bytes, Takes::bound},
    {"has_kernel", RuleKind::has_kernel, Takes::pattern},
    {"no_kernel", RuleKind::no_kernel, Takes::pattern},
    {"kernels_per_call", RuleKind::kernels_per_call, Takes::bound},
    {"no_recompile", RuleKind::no_recompile, Takes::truth},
    {"no_copy", RuleKind::no_copy, Takes::truth},
    {"no_problems", RuleKind::no_problems, Takes::truth},
};

const RuleForm* form_of(std::string_view key) {
  for (const RuleForm& form : kForms)
    if (form.key == key) return &form;
  return nullptr;
}

std::string expectations() {
  std::string keys;
  for (const RuleForm& form : kForms) keys += fmt::format("{}{}", keys.empty() ? "" : ", ", form.key);
  return keys;
}
// What a bound of this key counts: "a number of bytes".
std::string number_of(std::string_view key) {
  if (key.ends_with("_bytes")) return "a number of bytes";
  return key.ends_with("_us") ? "a number of microseconds" : "a number";
}

std::string known_keys() { return "name, op, device, " + expectations(); }

class Parser {
 public:
  explicit Parser(const std::string& file) : file_(file) {}

  std::vector<Rule> parse(std::string_view text) const {
    toml::table root;
    try {
      root = toml::parse(text, file_);
    } catch (const toml::parse_error& error) {
      fail("{}:{}: {}", file_, error.source().begin.line, error.description());
    }
    for (const auto& [key, node] : root)
      if (key.str() != "rule")
        refuse(node, fmt::format("'{}' is not known here, expected [[rule]] tables", key.str()));
    const toml::node* rule_node = root.get("rule");
    if (rule_node && rule_node->is_table())
      refuse(*rule_node, "[rule] has single brackets, expected [[rule]] before each rule");
    const toml::array* tables = rule_node ? rule_node->as_array() : nullptr;
    EP_CHECK(tables && !tables->empty(), "{}: holds no rules, expected [[rule]] tables", file_);
    std::vector<Rule> rules;
    for (const toml::node& table : *tables) {
      if (!table.is_table()) refuse(table, "expected a [[rule]] table");
      rules.push_back(rule(*table.as_table()));
    }
    return rules;
  }

 private:
  [[noreturn]] void refuse(const toml::node& at, const std::string& what) const {
    fail("{}:{}: {}", file_, at.source().begin.line, what);
  }

  Rule rule(const toml::table& table) const {
    Rule rule;
    const RuleForm* form = nullptr;
    const toml::node *op = nullptr, *device = nullptr;
    for (const auto& [key, node] : table) {
      if (key.str() == "name") {
        rule.name = text(node, "name");
      } else if (key.str() == "op") {
        op = &node;
      } else if (key.str() == "device") {
        device = &node;
      } else if (const RuleForm* found = form_of(key.str())) {
        if (form)
          refuse(node,
                 fmt::format("a rule has one expectation, this one has {} and {}", form->key, key.str()));
        form = found;
        read(rule, *form, node);
      } else {
        refuse(node, fmt::format("'{}' is not known, expected one of {}", key.str(), known_keys()));
      }
    }
    if (!form) refuse(table, fmt::format("the rule expects nothing, give it one of {}", expectations()));
    if ((rule.kind == RuleKind::kernels_per_call) != (op != nullptr))
      refuse(table, "op and kernels_per_call need each other: op = \"linear\", kernels_per_call = 1");
    if (op) rule.pattern = text(*op, "op");
    if (device && rule.kind != RuleKind::memory_peak_bytes)
      refuse(*device, "device goes with memory_peak_bytes alone: device = \"CUDA 0\"");
    if (device) rule.pattern = text(*device, "device");
    if (rule.name.empty()) rule.name = expectation(rule);
    return rule;
  }

  void read(Rule& rule, const RuleForm& form, const toml::node& node) const {
    rule.kind = form.kind;
    switch (form.takes) {
      case Takes::bound:
        rule.bound = bound(node, form.key);
        refuse_impossible(rule, node);
        break;
      case Takes::pattern:
        rule.pattern = text(node, form.key);
        break;
      case Takes::truth:
        if (node.value_exact<bool>() != true)
          refuse(node, fmt::format("{}: expected true; leave the rule out where it need not hold", form.key));
        break;
    }
  }

  std::string text(const toml::node& node, std::string_view key) const {
    const auto* value = node.as_string();
    if (!value || value->get().empty())
      refuse(node, fmt::format("{}: expected a text that is not empty", key));
    return value->get();
  }

  double number(const toml::node& node, std::string_view key) const {
    if (node.is_string()) refuse(node, fmt::format("{}: expected {}, not text", key, number_of(key)));
    const std::optional<double> value = node.is_number() ? node.value<double>() : std::nullopt;
    if (!value || !std::isfinite(*value) || *value < 0)
      refuse(node, fmt::format("{}: expected a number that is not negative", key));
    return *value;
  }

  Bound bound(const toml::node& node, std::string_view key) const {
    const toml::table* table = node.as_table();
    if (!table) {
      if (!node.is_number())
        refuse(node, fmt::format("{}: expected {} or {{min = ..., max = ...}}{}", key, number_of(key),
                                 node.is_string() ? ", not text" : ""));
      const double exact = number(node, key);
      return {exact, exact};
    }
    Bound bound;
    for (const auto& [side, value] : *table) {
      if (side.str() != "min" && side.str() != "max")
        refuse(value, fmt::format("{}: '{}' is not known, expected min or max", key, side.str()));
      (side.str() == "min" ? bound.min : bound.max) = number(value, key);
    }
    if (!bound.min && !bound.max) refuse(node, fmt::format("{}: expected min, max or both", key));
    if (bound.min && bound.max && *bound.min > *bound.max)
      refuse(node, fmt::format("{}: min {} is above max {}", key, *bound.min, *bound.max));
    return bound;
  }

  void refuse_impossible(const Rule& rule, const toml::node& node) const {
    const char* key = rule_key(rule.kind);
    const double min = rule.bound.min.value_or(0), max = rule.bound.max.value_or(HUGE_VAL);
    if (rule.kind == RuleKind::device_idle_share && (min > 1 || rule.bound.max.value_or(0) > 1))
      refuse(node, fmt::format("{}: is a share, expected 0 to 1", key));
    const bool counts = rule.kind == RuleKind::kernels_per_step || rule.kind == RuleKind::kernels_per_call ||
                        rule.kind == RuleKind::memory_peak_bytes;
    if (counts && std::ceil(min) > std::floor(max))
      refuse(node, fmt::format("{}: no whole number can meet this", key));
  }

  const std::string& file_;
};

// A trace is gzip, a JSON object or an array of them, and no TOML begins like these.
bool begins_as_trace(std::string_view text) {
  constexpr const char* kSpace = " \n\r\t";
  if (text.starts_with("\x1f\x8b")) return true;
  size_t at = text.find_first_not_of(kSpace);
  if (at != text.npos && text[at] == '{') return true;
  if (at == text.npos || text[at] != '[') return false;
  at = text.find_first_not_of(kSpace, at + 1);
  return at != text.npos && (text[at] == '{' || text[at] == ']');
}

}  // namespace

const char* rule_key(RuleKind kind) {
  for (const RuleForm& form : kForms)
    if (form.kind == kind) return form.key;
  return "";
}

std::string expectation(const Rule& rule) {
  const char* key = rule_key(rule.kind);
  const auto& [min, max] = rule.bound;
  if (!min && !max) return rule.pattern.empty() ? key : fmt::format("{} {}", key, rule.pattern);
  const std::string what = rule.pattern.empty() ? key : fmt::format("{} of {}", key, rule.pattern);
  if (min && max)
    return *min == *max ? fmt::format("{} = {}", what, *min)
                        : fmt::format("{} <= {} <= {}", *min, what, *max);
  return max ? fmt::format("{} <= {}", what, *max) : fmt::format("{} >= {}", what, *min);
}

std::vector<Rule> parse_rules(std::string_view text, const std::string& file) {
  return Parser(file).parse(text);
}

std::vector<Rule> read_rules(const std::string& path) {
  const std::string text = read_file(path, "a rules file");
  EP_CHECK(!begins_as_trace(text), "{}: is a trace, expected a rules file, which comes before the traces",
           path);
  return parse_rules(text, path);
}

bool matches_pattern(std::string_view name, std::string_view pattern) {
  size_t n = 0, p = 0, star = std::string_view::npos, resume = 0;
  while (n < name.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      resume = n;
    } else if (p < pattern.size() && (pattern[p] == '?' || pattern[p] == name[n])) {
      ++p;
      ++n;
    } else if (star != std::string_view::npos) {
      p = star + 1;
      n = ++resume;
    } else {
      return false;
    }
  }
  return pattern.find_first_not_of('*', p) == std::string_view::npos;
}

}  // namespace epilogue::trace
