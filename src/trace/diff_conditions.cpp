#include <algorithm>
#include <charconv>
#include <iterator>

#include <fmt/format.h>

#include "base/check.h"
#include "base/format.h"
#include "trace/diff.h"

namespace epilogue::trace {
namespace {

struct Condition {
  std::string name;
  double share = 0;  // by which B may exceed A
};

Condition parse_condition(const std::string& text) {
  const size_t colon = text.find(':');
  Condition condition{text.substr(0, colon)};
  const bool takes_share =
      condition.name == "step-time" || condition.name == "device-time" || condition.name == "memory";
  EP_CHECK(
      takes_share || condition.name == "kernels-per-step" || condition.name == "new-kernels" ||
          condition.name == "any-change",
      "--fail-on {}: expected kernels-per-step, new-kernels, any-change, step-time, device-time or memory",
      text);
  if (colon == std::string::npos) return condition;
  double percent = 0;
  const char* end = text.data() + text.size();
  const auto [after, error] = std::from_chars(text.data() + colon + 1, end, percent);
  const bool whole = error == std::errc() && (after == end || std::string_view(after, end) == "%");
  EP_CHECK(takes_share && whole && percent >= 0,
           "--fail-on {}: expected a percentage from 0 up, and only after step-time, "
           "device-time or memory, as in step-time:5%",
           text);
  condition.share = percent / 100;
  return condition;
}

// "" where the condition does not hold.
std::string exceeds(const Spread& a, const Spread& b, double share) {
  if (a.count == 0 || b.count == 0) return "cannot be decided, a trace marks no steps";
  if (within_noise(a, b) || relative_change(a, b) <= share) return {};
  return fmt::format("{} instead of {}, {:+.1f}%", format_us(static_cast<double>(b.median) / 1e3),
                     format_us(static_cast<double>(a.median) / 1e3), 100 * relative_change(a, b));
}

std::string more_kernels(const Diff& diff) {
  if (diff.a.steps == 0 || diff.b.steps == 0) return "cannot be decided, a trace marks no steps";
  if (diff.b.kernels.median > diff.a.kernels.median)
    return fmt::format("{} instead of {}", diff.b.kernels.median, diff.a.kernels.median);
  // A median does not see the one step that launches more.
  const auto mean = [](const DiffTotals& totals) {
    return static_cast<double>(totals.all_kernels) / static_cast<double>(totals.steps);
  };
  if (mean(diff.b) <= mean(diff.a)) return {};
  return fmt::format("{:.4g} instead of {:.4g} in the mean, some steps run more", mean(diff.b), mean(diff.a));
}

std::string more_memory(const Diff& diff, double share) {
  const auto &before = diff.a.memory_peaks, &after = diff.b.memory_peaks;
  if (before.empty() || after.empty()) return "cannot be decided, a trace holds no memory events";
  std::vector<std::string> risen;
  for (const auto& [device, b] : after) {
    const auto at = before.find(device);
    const int64_t a = at == before.end() ? 0 : at->second;
    if (static_cast<double>(b) > static_cast<double>(a) * (1 + share))
      risen.push_back(fmt::format("{} instead of {} on {}", format_bytes(b), format_bytes(a), device));
  }
  return fmt::format("{}", fmt::join(risen, ", "));
}

std::string new_kernels(const Diff& diff) {
  std::vector<std::string> names;
  std::ranges::set_difference(diff.b.kernel_names, diff.a.kernel_names, std::back_inserter(names));
  return fmt::format("{}", fmt::join(names, ", "));
}

std::string any_change(const Diff& diff) {
  size_t changed = diff.only_a.size() + diff.only_b.size();
  for (const DiffRow& row : diff.changed) changed += row.calls_changed() || row.launch_changed();
  return changed == 0 ? "" : fmt::format("{} ops, kernels or copies came, went or changed", changed);
}

// "" where the traces hold what a condition on kernels and their time needs.
std::string lacking_kernels(const Diff& diff) {
  if (diff.untied()) {
    const DiffTotals& totals = diff.a.untied > 0 ? diff.a : diff.b;
    return fmt::format("cannot be decided, {} {}", totals.file, totals.lacking_launches());
  }
  const DiffTotals* without = diff.b.ran_nothing() ? &diff.b : diff.side_without_kernels();
  return without ? fmt::format("cannot be decided, {} holds no kernels", without->file) : "";
}

std::string found(const Diff& diff, const Condition& condition) {
  if (diff.damaged())
    return fmt::format("cannot be decided, {} is damaged", (diff.a.damaged ? diff.a : diff.b).file);
  if (condition.name == "step-time") return exceeds(diff.a.wall_ns, diff.b.wall_ns, condition.share);
  if (condition.name == "memory") return more_memory(diff, condition.share);
  if (condition.name == "any-change" && !diff.untied()) return any_change(diff);
  if (std::string lacking = lacking_kernels(diff); !lacking.empty()) return lacking;
  if (condition.name == "kernels-per-step") return more_kernels(diff);
  if (condition.name == "new-kernels") return new_kernels(diff);
  return exceeds(diff.a.device_ns, diff.b.device_ns, condition.share);
}

}  // namespace

const char* fail_on_help() {
  return "Conditions of --fail-on (exit 1 when one holds, or cannot be decided):\n"
         "  kernels-per-step   B runs more kernels per step than A, in the median or the mean\n"
         "  new-kernels        B runs a kernel that A does not\n"
         "  any-change         an op, kernel or copy came, went, or changed in calls or launch; an op is the "
         "same in "
         "any namespace\n"
         "  step-time:5%       B's median step takes over 5% more wall time, beyond the spread between steps "
         "(docs/expect.md)\n"
         "  device-time:5%     the same of the time the device ran what the step launched\n"
         "  memory:5%          B's peak of allocated memory is over 5% higher, on any device";
}

std::vector<std::string> failed_conditions(const Diff& diff, const std::vector<std::string>& conditions) {
  std::vector<std::string> failed;
  for (const std::string& text : conditions)
    if (const std::string what = found(diff, parse_condition(text)); !what.empty())
      failed.push_back(fmt::format("{}: {}", text, what));
  return failed;
}

}  // namespace epilogue::trace
