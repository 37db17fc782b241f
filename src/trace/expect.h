// Holds traces against declared rules: `epilogue trace expect`.
#pragma once

#include <string>
#include <vector>

#include "epilogue/trace.h"
#include "trace/rules.h"

namespace epilogue::trace {

struct RuleResult {
  std::string rule, file;
  bool passed = false;
  std::string expected, found;
};

// What the reader found damaged.
struct FileProblem {
  std::string file;
  Problem problem;
};

// One result per rule. A rule that the trace cannot decide (no steps, no device, damaged) fails and says so.
std::vector<RuleResult> check_rules(const std::vector<Rule>& rules, const Trace& trace);

// A commented rules file, in TOML, that the trace passes: counts as they are, times with room above. Throws
// Error where it can pass none, as a damaged one.
std::string propose_rules(const Trace& trace);

std::string expect_text(const std::vector<RuleResult>& results);
// What could not be read, rules or a trace, so that nothing was held against it.
struct UnreadInput {
  std::string file, why;
};
// {"rules":[{...}],"problems":[{"file","what","count"}],"unread":[{"file","why"}]}
std::string expect_json(const std::vector<RuleResult>& results, const std::vector<FileProblem>& problems = {},
                        const std::vector<UnreadInput>& unread = {});
std::string expect_junit(const std::vector<RuleResult>& results, const std::vector<UnreadInput>& unread = {});

}  // namespace epilogue::trace
