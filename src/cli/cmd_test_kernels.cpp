// kernels test: a package's layer against the reference, and its speed against eager, before anyone trusts
// it.
#include <algorithm>
#include <cmath>
#include <functional>

#include <fmt/format.h>

#include "base/check.h"
#include "base/format.h"
#include "cli/commands.h"
#include "cli/golden.h"
#include "cli/measure.h"
#include "cli/output.h"
#include "epilogue/device.h"
#include "package/kernel.h"
#include "package/load.h"
#include "package/lock_file.h"

namespace epilogue::cli {
namespace {

struct Options {
  std::string name, device = "cpu", format = "table";
  std::vector<std::string> golden;
  int64_t rows = 512, dim = 768, hidden = 3072;
  double min_time = 0.2;
};

// One row of the result: a problem, its error and what is allowed.
struct Checked {
  std::string problem;
  double max_error = 0, allowed = 0;
  bool passed() const { return max_error <= allowed; }  // false for NaN
};

struct Timed {
  std::string problem;
  double eager_us = 0, package_us = 0;
};

struct Case {
  Act act;
  DType dtype;
  std::string to_string() const { return fmt::format("{} {}", act_name(act), dtype_name(dtype)); }
};

std::vector<Case> cases_of(const Options& options) {
  const auto installed = package::find_package(package::Cache::of_user(),
                                               package::parse_reference(options.name), package::kLockFile);
  const package::Manifest manifest =
      package::read_manifest(installed.folder, installed.digest, nullptr).manifest;
  const package::ProvidedLayer* layer = manifest.layer("GatedMlp");
  EP_CHECK(layer, "kernel package {} does not provide the layer GatedMlp", options.name);
  std::vector<Case> cases;
  for (const Act act : {Act::gelu_tanh, Act::gelu, Act::silu})
    for (const package::ProvidedOp& op : manifest.ops)
      if (op.name == package::abi_op_name(act) && std::ranges::find(layer->ops, op.name) != layer->ops.end())
        for (const DType dtype : op.dtypes) cases.push_back({act, dtype});
  return cases;
}

// The golden files' problem, M=17, dim=48, hidden=80, with weights of our own: the reference is eager in f64
// from the rounded inputs, and what eager in the dtype is off by tells what is allowed.
Checked check_case(const Case& c, const Options& options, Device device) {
  const nn::MlpOptions mlp{.act = c.act, .tensor = {c.dtype, device}, .seed = 7};
  nn::GatedMlp layer(48, 80, mlp), exact(48, 80, {.act = c.act, .tensor = {DType::f64, {}}, .seed = 7});
  const auto from = layer.named_parameters(), to = exact.named_parameters();
  for (size_t i = 0; i < from.size(); ++i) to[i].second->copy_(from[i].second->to(Device{}).to(DType::f64));
  const Tensor x = randn({17, 48}, 3, {c.dtype, device});
  const Tensor reference = exact.forward(x.to(Device{}).to(DType::f64));
  const double eager_error = largest_difference(layer.forward(x), reference);
  use_kernels(layer, {{"GatedMlp", options.name}});
  return {c.to_string(), largest_difference(layer.forward(x), reference), 2 * eager_error + 1e-6};
}

Timed time_case(const Case& c, const Options& options, Device device) {
  const nn::MlpOptions mlp{.act = c.act, .tensor = {c.dtype, device}, .seed = 1};
  const nn::GatedMlp eager(options.dim, options.hidden, mlp);
  nn::GatedMlp package(options.dim, options.hidden, mlp);
  use_kernels(package, {{"GatedMlp", options.name}});
  const Tensor x = randn({options.rows, options.dim}, 2, {c.dtype, device});
  const auto call = [&](const nn::GatedMlp& layer) {
    return [&] {
      layer.forward(x);
      synchronize(device);
    };
  };
  const std::function<void()> ways[] = {call(eager), call(package)};
  const std::vector<Timing> timings = measure_in_turns(ways, options.min_time);
  return {.problem = fmt::format("{}x{}/{}, {}", options.rows, options.dim, options.hidden, c.to_string()),
          .eager_us = timings[0].median_us,
          .package_us = timings[1].median_us};
}

std::string to_json(const Options& options, const std::vector<Checked>& checked,
                    const std::vector<Timed>& timed) {
  std::vector<std::string> checks, times;
  for (const Checked& c : checked)
    checks.push_back(fmt::format(
        R"({{"problem":{},"max_error":{},"allowed":{:.6g},"passed":{}}})", json_quote(c.problem),
        std::isfinite(c.max_error) ? fmt::format("{:.6g}", c.max_error) : "null", c.allowed, c.passed()));
  for (const Timed& t : timed)
    times.push_back(fmt::format(R"({{"problem":{},"eager_us":{:.3f},"package_us":{:.3f},"speedup":{:.3f}}})",
                                json_quote(t.problem), t.eager_us, t.package_us, t.eager_us / t.package_us));
  return fmt::format("{{\"package\":{},\"device\":{},\"checks\":[{}],\"times\":[{}]}}\n",
                     json_quote(options.name), json_quote(options.device), fmt::join(checks, ","),
                     fmt::join(times, ","));
}

std::string to_text(const std::vector<Checked>& checked, const std::vector<Timed>& timed) {
  TextTable errors({{"problem", false}, {"largest error"}, {"allowed"}, {"result", false}});
  for (const Checked& c : checked)
    errors.add_row({c.problem, fmt::format("{:.3e}", c.max_error), fmt::format("{:.3e}", c.allowed),
                    c.passed() ? "passed" : "FAILED"});
  TextTable times({{"GatedMlp", false}, {"eager"}, {"package"}, {"speed"}});
  for (const Timed& t : timed)
    times.add_row({t.problem, format_us(t.eager_us), format_us(t.package_us),
                   fmt::format("{:.2f}x", t.eager_us / t.package_us)});
  return errors.to_string() + "\n" + times.to_string();
}

// The exit code: 1 when an error is larger than allowed.
int run(const Options& options) {
  const Device device = device_from_name(options.device);
  const std::vector<Case> cases = cases_of(options);
  std::vector<Checked> checked;
  std::vector<Timed> timed;
  for (const std::string& file : options.golden) {
    const Verified v = verify_golden(file, {.device = device, .kernels = {{"GatedMlp", options.name}}});
    checked.push_back({v.file, v.max_error, v.allowed});
  }
  for (const Case& c : cases) checked.push_back(check_case(c, options, device));
  for (const Case& c : cases) {
    progress(fmt::format("timing {}", c.to_string()));
    timed.push_back(time_case(c, options, device));
  }
  progress("");
  fmt::print("{}", options.format == "json" ? to_json(options, checked, timed) : to_text(checked, timed));
  return std::ranges::all_of(checked, &Checked::passed) ? 0 : 1;
}

}  // namespace

void add_kernels_test(Command kernels, int& exit_code) {
  const Command command =
      kernels.add_subcommand("test", "a package's layer against the reference, timed against eager");
  auto options = std::make_shared<Options>();
  command.add_option("NAME", options->name, "NAME@VERSION").required();
  command.add_option("--golden", options->golden, "golden files (.safetensors) to compare with as well");
  command.add_option("--device", options->device, "cpu or cuda[:N]").show_default();
  command.add_option("--rows", options->rows, "rows of x when timed").at_least(1).show_default();
  command.add_option("--dim", options->dim, "width of the model when timed").at_least(1).show_default();
  command.add_option("--hidden", options->hidden, "width of the hidden layer when timed")
      .at_least(1)
      .show_default();
  command.add_option("--min-time", options->min_time, "seconds to measure each for")
      .at_least(0)
      .show_default();
  add_format_option(command, options->format);
  command.footer(
      "A result passes when it is off by at most twice what eager is off by in that dtype, plus 1e-6.");
  command.callback([options, &exit_code] { exit_code = run(*options); });
}

}  // namespace epilogue::cli
