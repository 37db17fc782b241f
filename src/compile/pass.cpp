#include "compile/pass.h"

#include <algorithm>
#include <array>
#include <chrono>

#include "base/check.h"
#include "base/env.h"

namespace epilogue::compiler {
namespace {

constexpr std::array kPasses{
    Pass{"dead_code", dead_code},
    Pass{"common_subexpressions", common_subexpressions},
    Pass{"view_folding", view_folding},
    Pass{"gemm_bias", gemm_bias},
    Pass{"gated_fusion", gated_fusion},
    Pass{"gate_up_merge", gate_up_merge},
    Pass{"pointwise_fusion", pointwise_fusion},
    Pass{"gemm_epilogue", gemm_epilogue},
    Pass{"buffer_planning", buffer_planning},
};

bool has(const std::vector<std::string>& names, std::string_view name) {
  return std::ranges::find(names, name) != names.end();
}

void check_names(const std::vector<std::string>& names) {
  for (const std::string& name : names)
    EP_CHECK(std::ranges::any_of(kPasses, [&](const Pass& pass) { return name == pass.name; }),
             "compile: '{}' is no pass: expected {}", name, fmt::join(compile_passes(), ", "));
}

const std::vector<std::string>& disabled_by_environment() {
  static const std::vector<std::string> names = listed_words(env_text(EnvVar::disable_passes));
  return names;
}

}  // namespace

std::span<const Pass> all_passes() { return kPasses; }

bool PassContext::enabled(const char* pass) const { return has(options.enable, pass); }

void check_pass_names(const CompileOptions& options) {
  check_names(disabled_by_environment());
  check_names(options.disable);
  check_names(options.enable);
}

PassesResult run_passes(graph::Graph& graph, const CompileOptions& options, bool keep_text) {
  using Clock = std::chrono::steady_clock;
  check_pass_names(options);
  const std::vector<std::string>& disabled = disabled_by_environment();
  PassContext context{.options = options, .notes = {}, .buffers = {}};
  PassesResult result;
  verify(graph, "capture");
  for (const Pass& pass : kPasses) {
    PassReport report{.name = pass.name, .off = has(disabled, pass.name) || has(options.disable, pass.name)};
    const auto start = Clock::now();
    if (!report.off) pass.run(graph, context);
    report.us = std::chrono::duration<double, std::micro>(Clock::now() - start).count();
    if (!report.off) verify(graph, pass.name);
    report.notes = std::exchange(context.notes, {});
    if (keep_text) report.text = to_text(graph);
    result.reports.push_back(std::move(report));
  }
  result.buffers = std::move(context.buffers);
  return result;
}

}  // namespace epilogue::compiler

namespace epilogue {

std::vector<std::string> compile_passes() {
  std::vector<std::string> names;
  for (const compiler::Pass& pass : compiler::all_passes()) names.emplace_back(pass.name);
  return names;
}

}  // namespace epilogue
