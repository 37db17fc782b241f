#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "base/check.h"
#include "base/format.h"
#include "cli/commands.h"
#include "cli/output.h"
#include "cli/problem.h"
#include "epilogue/safetensors.h"

namespace epilogue::cli {
namespace {

struct Verified {
  std::string file, mode;
  double max_error = 0, allowed = 0;
  bool passed() const { return max_error <= allowed; }  // false for NaN
};

double largest_difference(const Tensor& a, const Tensor& b) {
  const Tensor x = a.to(Device{}).to(DType::f64).contiguous(), y = b.to(DType::f64).contiguous();
  double worst = 0;
  for (int64_t i = 0; i < x.numel(); ++i) {
    const double difference = std::abs(x.data<double>()[i] - y.data<double>()[i]);
    if (!(difference <= worst)) worst = difference;
    if (std::isnan(worst)) return worst;
  }
  return worst;
}

const Tensor& tensor_of(const SafetensorsFile& file, const std::string& name, const std::string& path) {
  const auto found = file.tensors.find(name);
  EP_CHECK(found != file.tensors.end(),
           "{}: no tensor '{}'; a golden file has x, y_f64, y_torch and the layer's weights", path, name);
  return found->second;
}

// The activation stands in the file's name: gated_mlp_<act>_<dtype>.safetensors.
Act act_in_name(const std::string& path) {
  const std::string name = path.substr(path.find_last_of('/') + 1);
  for (const Act act : {Act::gelu_tanh, Act::gelu, Act::silu, Act::relu, Act::none})
    if (name.starts_with(fmt::format("gated_mlp_{}_", act_name(act)))) return act;
  fail("{}: the name does not tell the activation; expected gated_mlp_<act>_<dtype>.safetensors", path);
}

Tensor run_layer(const SafetensorsFile& file, const std::string& path, nn::Mode mode, Device device) {
  const Tensor x = tensor_of(file, "x", path).to(device);
  const TensorOptions options{x.dtype(), device};
  if (file.tensors.contains("gate_proj.weight")) {
    const Tensor& gate = tensor_of(file, "gate_proj.weight", path);
    EP_CHECK(gate.dim() == 2, "{}: expected a gate_proj.weight of [hidden, dim], got {}", path,
             gate.sizes().to_string());
    nn::GatedMlp layer(gate.size(1), gate.size(0),
                       {.act = act_in_name(path),
                        .bias = file.tensors.contains("gate_proj.bias"),
                        .mode = mode,
                        .tensor = options});
    nn::load_parameters(layer.named_parameters(), path);
    if (mode != nn::Mode::compiled) return layer.forward(x);
    layer.forward(x);
    layer.compiled().wait_ready();
    return layer.forward(x);
  }
  const Tensor& weight = tensor_of(file, "weight", path);
  EP_CHECK(weight.dim() == 2, "{}: expected a weight of [out, in], got {}", path, weight.sizes().to_string());
  nn::Linear layer(weight.size(1), weight.size(0),
                   {.bias = file.tensors.contains("bias"), .tensor = options});
  nn::load_parameters(layer.named_parameters(), path);
  if (mode != nn::Mode::compiled) return layer.forward(x);
  const CompiledFunction compiled = compile([&layer](const Tensor& in) { return layer.forward(in); });
  compiled(x);
  compiled.wait_ready();
  return compiled(x);
}

Verified verify(const std::string& path, nn::Mode mode, Device device) {
  const SafetensorsFile file = load_safetensors(path);
  const Tensor& reference = tensor_of(file, "y_f64", path);
  const Tensor& peer = tensor_of(file, "y_torch", path);
  EP_CHECK(peer.sizes() == reference.sizes(), "{}: y_torch is {}, y_f64 is {}", path,
           peer.sizes().to_string(), reference.sizes().to_string());
  const double peer_error = largest_difference(peer, reference);
  EP_CHECK(std::isfinite(peer_error), "{}: y_torch is off by {}, so nothing could be compared with it", path,
           peer_error);
  const Tensor y = run_layer(file, path, mode, device);
  EP_CHECK(y.sizes() == reference.sizes(), "{}: the layer gives {}, y_f64 is {}", path, y.sizes().to_string(),
           reference.sizes().to_string());
  // Allowed: twice what PyTorch's own result is off by in that dtype, plus 1e-6.
  return {path, nn::mode_name(mode), largest_difference(y, reference), 2 * peer_error + 1e-6};
}

std::string to_json(const std::vector<Verified>& all, Device device) {
  std::vector<std::string> rows;
  for (const Verified& v : all)
    rows.push_back(
        fmt::format(R"({{"file":{},"mode":"{}","device":"{}","max_error":{},"allowed":{},"passed":{}}})",
                    json_quote(v.file), v.mode, device_name(device),
                    std::isfinite(v.max_error) ? fmt::format("{:.6g}", v.max_error) : "null",
                    fmt::format("{:.6g}", v.allowed), v.passed()));
  return fmt::format("{{\"files\":[{}]}}\n", fmt::join(rows, ","));
}

std::string to_table(const std::vector<Verified>& all) {
  TextTable table({{"file", false}, {"mode", false}, {"largest error"}, {"allowed"}, {"result", false}});
  for (const Verified& v : all)
    table.add_row({v.file, v.mode, fmt::format("{:.3e}", v.max_error), fmt::format("{:.3e}", v.allowed),
                   v.passed() ? "passed" : "FAILED"});
  return table.to_string();
}

struct Options {
  std::vector<std::string> files;
  std::string device = "cpu", modes = "all", format = "table";
};

}  // namespace

void add_verify(CLI::App& app, int& exit_code) {
  CLI::App* command = app.add_subcommand("verify", "compare the layers with golden files");
  auto options = std::make_shared<Options>();
  command->add_option("FILE", options->files, "golden files (.safetensors)")->required();
  command->add_option("--device", options->device, "cpu or cuda[:N]")->capture_default_str();
  command->add_option("--mode", options->modes, "a mode, several with commas, or all")->capture_default_str();
  add_format_option(*command, options->format);
  command->footer(
      "A result passes when its largest error against y_f64 is at most twice that of y_torch, plus 1e-6.\n"
      "Example:\n  epilogue verify golden/*.safetensors");
  command->callback([options, &exit_code] {
    const Device device = device_from_name(options->device);
    std::vector<Verified> all;
    for (const nn::Mode mode : modes_from_list(options->modes))
      for (const std::string& file : options->files) all.push_back(verify(file, mode, device));
    fmt::print("{}", options->format == "json" ? to_json(all, device) : to_table(all));
    const auto failed = std::count_if(all.begin(), all.end(), [](const Verified& v) { return !v.passed(); });
    if (options->format != "json")
      fmt::print("{} passed, {} failed\n", all.size() - static_cast<size_t>(failed), failed);
    exit_code = failed ? 1 : 0;
  });
}

}  // namespace epilogue::cli
