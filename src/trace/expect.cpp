#include "trace/expect.h"

#include <algorithm>
#include <map>
#include <optional>

#include <fmt/format.h>

#include "trace/observe.h"
#include "trace/print.h"

namespace epilogue::trace {
namespace {

struct Verdict {
  bool passed = false;
  std::string found;
};

constexpr std::string_view kUndecided = "cannot be decided: ";

Verdict undecided(const std::string& why) { return {false, fmt::format("{}{}", kUndecided, why)}; }

std::string expected_and_found(const RuleResult& result) {
  return fmt::format("expected {}; {}{}", result.expected,
                     result.found.starts_with(kUndecided) ? "" : "found ", result.found);
}

class Judge {
 public:
  explicit Judge(const Trace& trace) : trace_(trace), seen_(observe(trace)) {}

  Verdict check(const Rule& rule) const {
    if (rule.kind == RuleKind::no_problems) return problems();
    if (trace_.damaged) return of_damaged(rule);
    if (rule.kind == RuleKind::memory_peak_bytes) return memory_peak(rule);
    if (seen_.steps.empty()) return of_whole_trace(rule);
    if (rule.kind == RuleKind::no_recompile) return none_of(seen_.compiles, "compile event");
    if (rule.kind == RuleKind::step_time_us) return median(rule, &Step::wall_ns);  // needs no launches
    if (seen_.untied > 0) return lacks_launches();
    switch (rule.kind) {
      case RuleKind::kernels_per_step:
        return kernels_per_step(rule);
      case RuleKind::kernels_per_call:
        return kernels_per_call(rule);
      case RuleKind::has_kernel:
      case RuleKind::no_kernel:
        return kernel(rule);
      case RuleKind::device_time_us:
        return needs_device(median(rule, &Step::device_busy_ns));
      case RuleKind::device_idle_share:
        return needs_device(idle_share(rule));
      case RuleKind::longest_gap_us:
        return needs_device(longest_gap(rule));
      case RuleKind::no_copy:
        return needs_device(none_of(seen_.copies, "copy"));
      default:
        return undecided("no such rule");
    }
  }

 private:
  // Where no steps are marked the whole trace counts as one, as for `trace diff`. How long a step takes and
  // what it launches it cannot tell.
  Verdict of_whole_trace(const Rule& rule) const {
    if (trace_.events.empty()) return undecided("the trace holds no event");
    switch (rule.kind) {
      case RuleKind::has_kernel:
      case RuleKind::no_kernel:
        return kernel(rule);
      case RuleKind::no_recompile:
        return none_of(seen_.compiles, "compile event");
      case RuleKind::no_copy:
        return needs_device(none_of(seen_.copies, "copy"));
      case RuleKind::kernels_per_call:
        return seen_.untied > 0 ? lacks_launches() : kernels_per_call(rule);
      default:
        return undecided("the trace marks no steps (ProfilerStep#N): call prof.step() after each");
    }
  }

  bool of_steps() const { return !seen_.steps.empty(); }
  Verdict lacks_launches() const {
    return undecided(fmt::format("{} kernels or copies of the {} lack the call that launched them",
                                 seen_.untied, of_steps() ? "steps" : "trace"));
  }
  Verdict hold_no(const std::string& what) const {
    return undecided(fmt::format("the {} no {}", of_steps() ? "steps hold" : "trace holds", what));
  }

  // What was lost can satisfy a bound or an absence and can break them; a kernel that is there stays there.
  Verdict of_damaged(const Rule& rule) const {
    if (rule.kind == RuleKind::has_kernel)
      if (Verdict verdict = kernel(rule); verdict.passed) return verdict;
    return undecided("the trace is damaged, and what it lost could change this");
  }

  Verdict needs_device(Verdict verdict) const {
    return seen_.has_device ? std::move(verdict) : undecided("the trace holds no device work");
  }

  Verdict problems() const {
    std::vector<std::string> texts;
    for (const Problem& problem : trace_.problems)
      texts.push_back(fmt::format("{} ({})", problem.what, problem.count));
    return {texts.empty(), texts.empty() ? "none" : fmt::format("{}", fmt::join(texts, ", "))};
  }

  Verdict memory_peak(const Rule& rule) const {
    std::optional<int64_t> peak;
    for (const auto& [device, bytes] : seen_.memory_peaks)
      if (rule.pattern.empty() || rule.pattern == device) peak = std::max(peak.value_or(0), bytes);
    if (!peak)
      return undecided(fmt::format("the trace holds no memory events{}{}", rule.pattern.empty() ? "" : " of ",
                                   rule.pattern));
    return {rule.bound.holds(static_cast<double>(*peak)), std::to_string(*peak)};
  }

  Verdict kernels_per_step(const Rule& rule) const {
    if (!seen_.tells_of_kernels()) return hold_no("kernels");
    Verdict verdict{true, {}};
    std::vector<int64_t> counts;
    for (const Step& step : seen_.steps) {
      verdict.passed &= rule.bound.holds(static_cast<double>(step.kernels));
      if (std::find(counts.begin(), counts.end(), step.kernels) == counts.end())
        counts.push_back(step.kernels);
    }
    verdict.found = fmt::format("{}", fmt::join(counts, ", "));
    return verdict;
  }

  Verdict median(const Rule& rule, int64_t Step::*member) const {
    const int64_t ns = median_of(seen_.steps, member);
    return {rule.bound.holds(static_cast<double>(ns) / 1e3), us_json(ns)};
  }

  Verdict idle_share(const Rule& rule) const {
    const double share = seen_.idle_share();
    return {rule.bound.holds(share), fmt::format("{:.4f}", share)};
  }

  Verdict longest_gap(const Rule& rule) const {
    return {rule.bound.holds(static_cast<double>(seen_.longest_gap_ns) / 1e3), us_json(seen_.longest_gap_ns)};
  }

  Verdict kernel(const Rule& rule) const {
    if (seen_.kernels.empty()) return hold_no("kernels");
    std::vector<std::string_view> matching;
    for (const auto& [name, brief] : seen_.kernels)
      if (matches_pattern(name, rule.pattern) || matches_pattern(brief, rule.pattern))
        matching.push_back(name);
    return {matching.empty() == (rule.kind == RuleKind::no_kernel),
            matching.empty() ? "none" : fmt::format("{}", fmt::join(matching, ", "))};
  }

  Verdict kernels_per_call(const Rule& rule) const {
    const bool bare = bare_op_name(rule.pattern) == rule.pattern;
    Verdict verdict{true, {}};
    std::map<int64_t, int64_t> calls_by_kernels;
    for (const auto& [op, counts] : seen_.calls_by_kernels) {
      if ((bare ? bare_op_name(op) : op) != rule.pattern) continue;
      for (const auto& [kernels, calls] : counts) calls_by_kernels[kernels] += calls;
    }
    if (calls_by_kernels.empty()) return hold_no(fmt::format("op {}", rule.pattern));
    if (seen_.kernels.empty()) return hold_no("kernels");
    for (const auto& [kernels, calls] : calls_by_kernels) {
      verdict.passed &= rule.bound.holds(static_cast<double>(kernels));
      verdict.found +=
          fmt::format("{}{} in {}", verdict.found.empty() ? "" : ", ", kernels, counted(calls, "call"));
    }
    return verdict;
  }

  static Verdict none_of(const std::map<std::string_view, int64_t>& events, const char* what) {
    if (events.empty()) return {true, fmt::format("no {}", what)};
    std::vector<std::string> texts;
    for (const auto& [name, count] : events) texts.push_back(fmt::format("{} ({})", name, count));
    return {false, fmt::format("{}", fmt::join(texts, ", "))};
  }

  const Trace& trace_;
  const Observed seen_;
};

// What XML 1.0 has no way to write becomes '?': control characters, U+FFFE and U+FFFF.
std::string xml_escaped(const std::string& text) {
  std::string escaped, given = valid_utf8(text);
  for (const char* none : {"\xEF\xBF\xBE", "\xEF\xBF\xBF"})
    for (size_t at; (at = given.find(none)) != std::string::npos;) given.replace(at, 3, "?");
  for (const char c : given) {
    if (c == '&')
      escaped += "&amp;";
    else if (c == '<')
      escaped += "&lt;";
    else if (c == '>')
      escaped += "&gt;";
    else if (c == '"')
      escaped += "&quot;";
    else
      escaped += static_cast<unsigned char>(c) < 0x20 ? '?' : c;
  }
  return escaped;
}

int64_t failures(const std::vector<RuleResult>& results) {
  return std::count_if(results.begin(), results.end(),
                       [](const RuleResult& result) { return !result.passed; });
}

}  // namespace

std::vector<RuleResult> check_rules(const std::vector<Rule>& rules, const Trace& trace) {
  const Judge judge(trace);
  std::vector<RuleResult> results;
  for (const Rule& rule : rules) {
    Verdict verdict = judge.check(rule);
    results.push_back({rule.name, trace.source, verdict.passed, expectation(rule), std::move(verdict.found)});
  }
  return results;
}

std::string expect_text(const std::vector<RuleResult>& results) {
  std::string text;
  std::string_view file;
  for (const RuleResult& result : results) {
    if (result.file != file) text += fmt::format("{}{}\n", text.empty() ? "" : "\n", file = result.file);
    text += fmt::format("  {}  {}\n", result.passed ? "pass" : "FAIL", result.rule);
    text += fmt::format("        {}\n", expected_and_found(result));
  }
  return text + fmt::format("\n{} of {} passed\n", static_cast<int64_t>(results.size()) - failures(results),
                            results.size());
}

std::string expect_json(const std::vector<RuleResult>& results, const std::vector<FileProblem>& problems,
                        const std::vector<UnreadInput>& unread) {
  const auto rule_json = [](const RuleResult& result) {
    return fmt::format(R"({{"rule":{},"file":{},"passed":{},"expected":{},"found":{}}})",
                       json_quote(result.rule), json_quote(result.file), result.passed,
                       json_quote(result.expected), json_quote(result.found));
  };
  const auto problem_json = [](const FileProblem& damaged) {
    return fmt::format(R"({{"file":{},"what":{},"count":{}}})", json_quote(damaged.file),
                       json_quote(damaged.problem.what), damaged.problem.count);
  };
  const auto unread_json = [](const UnreadInput& input) {
    return fmt::format(R"({{"file":{},"why":{}}})", json_quote(input.file), json_quote(input.why));
  };
  return fmt::format("{{\"rules\":{},\n\"problems\":{},\n\"unread\":{}}}\n", json_array(results, rule_json),
                     json_array(problems, problem_json), json_array(unread, unread_json));
}

std::string expect_junit(const std::vector<RuleResult>& results, const std::vector<UnreadInput>& unread) {
  const std::string counts = fmt::format(R"(tests="{}" failures="{}" errors="{}")",
                                         results.size() + unread.size(), failures(results), unread.size());
  std::string text = fmt::format(
      "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
      "<testsuites {0}>\n"
      "<testsuite name=\"epilogue trace expect\" {0}>\n",
      counts);
  for (const RuleResult& result : results) {
    text += fmt::format("  <testcase classname=\"{}\" name=\"{}\"", xml_escaped(result.file),
                        xml_escaped(result.rule));
    text += result.passed ? "/>\n"
                          : fmt::format("><failure message=\"{}\"/></testcase>\n",
                                        xml_escaped(expected_and_found(result)));
  }
  for (const UnreadInput& input : unread)
    text +=
        fmt::format("  <testcase classname=\"{}\" name=\"can be read\"><error message=\"{}\"/></testcase>\n",
                    xml_escaped(input.file), xml_escaped(input.why));
  return text + "</testsuite>\n</testsuites>\n";
}

}  // namespace epilogue::trace
