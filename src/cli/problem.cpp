#include "cli/problem.h"

#include <algorithm>
#include <charconv>
#include <memory>
#include <optional>
#include <sstream>

#include "base/check.h"
#include "base/file.h"
#include "base/format.h"
#include "op/gated.h"

namespace epilogue::cli {
namespace {

constexpr int64_t kMostSize = int64_t{1} << 31;

int64_t number(const std::string& key, const std::string& text, int64_t least, int64_t most) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  EP_CHECK(error == std::errc{} && end == text.data() + text.size() && value >= least && value <= most,
           "{}: expected {} to {}, got {}", key, least, most, text);
  return value;
}

// Of those whose results share a table with `like`: an MLP's has other columns.
ProblemKind kind_from_name(const std::string& name, ProblemKind like) {
  using Kinds = std::vector<ProblemKind>;
  const Kinds kinds = like == ProblemKind::mlp ? Kinds{ProblemKind::mlp}
                                               : Kinds{ProblemKind::linear, ProblemKind::matmul_add};
  std::vector<std::string> names;
  for (const ProblemKind kind : kinds) {
    if (name == kind_name(kind)) return kind;
    names.emplace_back(kind_name(kind));
  }
  fail("expected {}, got '{}'", fmt::join(names, " or "), name);
}

void set_field(Problem& problem, const std::string& key, const std::string& value) {
  const auto size = [&] { return number(key, value, 1, kMostSize); };
  const auto flag = [&] { return number(key, value, 0, 1) != 0; };
  EP_CHECK(problem.kind == ProblemKind::mlp || (key != "act" && key != "gate"),
           "{} is a part of mlp, not of {}", key, kind_name(problem.kind));
  if (key == "m") {
    problem.batch = size();
    problem.seq = 1;
  } else if (key == "batch")
    problem.batch = size();
  else if (key == "seq")
    problem.seq = size();
  else if (key == "dim" || key == "in")
    problem.dim = size();
  else if (key == "hidden" || key == "out")
    problem.hidden = size();
  else if (key == "act")
    problem.act = act_from_name(value);
  else if (key == "dtype")
    problem.dtype = floating_dtype_from_name(value);
  else if (key == "gate")
    problem.gated = flag();
  else if (key == "bias")
    problem.bias = flag();
  else
    fail("'{}' is not known: expected m, batch, seq, dim (in), hidden (out), act, dtype, gate or bias", key);
}

// Nothing for an empty line.
std::optional<Problem> read_shape(const std::string& line, const Problem& otherwise) {
  std::istringstream words(line);
  std::string word;
  if (!(words >> word)) return {};
  Problem problem = default_problem(kind_from_name(word, otherwise.kind));
  problem.dtype = otherwise.dtype;
  problem.device = otherwise.device;
  while (words >> word) {
    const size_t equals = word.find('=');
    EP_CHECK(equals != std::string::npos, "expected name=value, got '{}'", word);
    set_field(problem, word.substr(0, equals), word.substr(equals + 1));
  }
  return problem;
}

template <class Layer>
Workload workload_of(std::shared_ptr<Layer> layer, const Tensor& x) {
  return {[layer](const Tensor& in) { return layer->forward(in); }, x, [layer] { return layer->compiled(); }};
}

}  // namespace

double Problem::weights() const {
  const double products = kind == ProblemKind::mlp ? (gated ? 3 : 2) : 1;
  return products * static_cast<double>(dim) * static_cast<double>(hidden);
}

double Problem::flops() const { return 2.0 * static_cast<double>(rows()) * weights(); }

double Problem::bytes() const {
  const int64_t result = kind == ProblemKind::mlp ? dim : hidden;
  const int64_t biases = !bias ? 0 : kind == ProblemKind::mlp ? (gated ? 2 : 1) * hidden + dim : hidden;
  return static_cast<double>(dtype_size(dtype)) *
         (weights() + static_cast<double>(biases) + static_cast<double>(rows() * (dim + result)));
}

std::string Problem::to_string() const {
  const std::string where = fmt::format("{}, {}", dtype_name(dtype), device_name(device));
  if (kind != ProblemKind::mlp)
    return fmt::format("{} {}x{} to {}{}, {}", kind == ProblemKind::linear ? "linear" : "matmul and add",
                       batch, dim, hidden, bias ? "" : " without bias", where);
  return fmt::format("{} {}x{}, {}/{}, {}{}, {}", gated ? "gated MLP" : "MLP", batch, seq, dim, hidden,
                     act_name(act), bias ? " with biases" : "", where);
}

std::string Problem::to_json() const {
  if (kind != ProblemKind::mlp)
    return fmt::format(R"({{"kind":"{}","batch":{},"in_dim":{},"out_dim":{},"bias":{}}})", kind_name(kind),
                       batch, dim, hidden, bias);
  return fmt::format(
      R"({{"kind":"mlp","batch":{},"seq":{},"dim":{},"hidden":{},"act":"{}","gate":{},"bias":{}}})", batch,
      seq, dim, hidden, act_name(act), gated, bias);
}

const char* kind_name(ProblemKind kind) {
  return kind == ProblemKind::mlp ? "mlp" : kind == ProblemKind::linear ? "linear" : "matmul-add";
}

Problem default_problem(ProblemKind kind) {
  if (kind == ProblemKind::mlp) return {};
  return {.kind = kind, .batch = 1024, .seq = 1, .dim = 32, .hidden = 64, .bias = true};
}

ProblemOptions::ProblemOptions(Command command, ProblemKind kind) : problem_(default_problem(kind)) {
  const auto of_shape = [&](const char* name, const Option& option) { shape_.emplace_back(name, option); };
  const auto add_size = [&](const char* name, int64_t& size, const char* what) {
    of_shape(name, command.add_option(name, size, what).within(1, kMostSize).show_default());
  };
  const auto add_flag = [&](const char* name, bool& flag, const char* what) {
    of_shape(name, command.add_flag(name, flag, what));
  };
  if (kind == ProblemKind::mlp) {
    add_size("--batch", problem_.batch, "sequences");
    add_size("--seq", problem_.seq, "tokens in a sequence");
    add_size("--dim", problem_.dim, "width of the model");
    add_size("--hidden", problem_.hidden, "width of the hidden layer");
    of_shape("--act",
             command.add_option("--act", act_, "gelu_tanh, gelu, silu, relu or none").show_default());
    add_flag("--no-gate", no_gate_, "fc2(act(fc1(x))) instead of down(act(gate(x)) * up(x))");
    add_flag("--bias", bias_, "with biases");
  } else {
    add_size("--batch", problem_.batch, "rows of x");
    add_size("--in-dim", problem_.dim, "columns of x");
    add_size("--out-dim", problem_.hidden, "columns of the result");
    add_flag("--no-bias", no_bias_, "without bias");
  }
  const std::string dtypes = floating_dtype_names() + "; f64 is a plain loop on the CPU, for reference";
  command.add_option("--dtype", dtype_, dtypes.c_str()).show_default();
  command.add_option("--device", device_, "cpu or cuda[:N]").show_default();
}

Problem ProblemOptions::finish() const {
  Problem problem = problem_;
  problem.act = act_from_name(act_);
  problem.dtype = floating_dtype_from_name(dtype_);
  problem.device = device_from_name(device_);
  problem.gated = !no_gate_;
  problem.bias = problem.kind == ProblemKind::mlp ? bias_ : !no_bias_;
  return problem;
}

const char* ProblemOptions::shape_given() const {
  for (const auto& [name, option] : shape_)
    if (option.given()) return name;
  return nullptr;
}

std::vector<Problem> read_shapes(const std::string& path, const Problem& otherwise) {
  std::istringstream file(read_file(path, "a file of shapes"));
  std::vector<Problem> problems;
  std::string line;
  for (int at = 1; std::getline(file, line); ++at) {
    try {
      if (auto problem = read_shape(line.substr(0, line.find('#')), otherwise)) problems.push_back(*problem);
    } catch (const Error& error) {
      fail("{}:{}: {}", path, at, error.what());
    }
  }
  EP_CHECK(
      !problems.empty(), "{}: no problem in it; expected lines like '{}'", path,
      otherwise.kind == ProblemKind::mlp ? "mlp m=8192 dim=768 hidden=3072" : "linear m=1024 in=32 out=64");
  return problems;
}

Workload gated_workload(std::shared_ptr<nn::GatedMlp> layer, const Tensor& x) {
  Workload workload = workload_of(layer, x);
  workload.why_not_fused = [layer, x] { return why_not_joined(x, layer->weights(), layer->act); };
  if (layer->act == Act::none)
    workload.why_not_tuned = "there is no activation";
  else if (!has_act_mul(layer->act))
    workload.why_not_tuned =
        fmt::format("no kernel joins {} and mul, ours or a package's", act_name(layer->act));
  return workload;
}

Workload function_workload(std::function<Tensor(const Tensor&)> forward, const Tensor& x, nn::Mode mode) {
  const CompiledFunction compiled = compile(forward, {.name = "ep::compiled"});
  if (mode == nn::Mode::compiled) forward = [compiled](const Tensor& in) { return compiled(in); };
  return {std::move(forward), x, [compiled] { return compiled; }, nullptr, "", "it is a mode of the MLP"};
}

Workload make_workload(const Problem& problem, nn::Mode mode, const KernelMap& kernels) {
  EP_CHECK(kernels.empty() || (problem.kind == ProblemKind::mlp && problem.gated),
           "kernel packages are for the gated MLP, not for: {}", problem.to_string());
  const TensorOptions options{problem.dtype, problem.device};
  if (problem.kind == ProblemKind::mlp) {
    const Tensor x = randn({problem.batch, problem.seq, problem.dim}, 42, options);
    const nn::MlpOptions mlp{
        .act = problem.act, .bias = problem.bias, .mode = mode, .tensor = options, .seed = 1};
    if (!problem.gated) {
      Workload workload = workload_of(std::make_shared<nn::Mlp>(problem.dim, problem.hidden, mlp), x);
      workload.only_eager = "there is no gate";
      return workload;
    }
    auto layer = std::make_shared<nn::GatedMlp>(problem.dim, problem.hidden, mlp);
    use_kernels(*layer, kernels);
    return gated_workload(layer, x);
  }
  const Tensor x = randn({problem.batch, problem.dim}, 42, options);
  const nn::Linear layer(problem.dim, problem.hidden, {.bias = problem.bias, .tensor = options, .seed = 1});
  std::function<Tensor(const Tensor&)> forward = [layer](const Tensor& in) { return layer.forward(in); };
  if (problem.kind == ProblemKind::matmul_add)
    forward = [layer](const Tensor& in) {
      const Tensor product = matmul(in, layer.weight.t());
      return layer.bias.defined() ? add(product, layer.bias) : product;
    };
  return function_workload(forward, x, mode);
}

void wait_until_compiled(const Workload& workload, nn::Mode mode) {
  if (mode != nn::Mode::compiled) return;
  workload.forward(workload.x);
  workload.compiled().wait_ready();
}

nn::Mode mode_run(const Workload& workload, nn::Mode mode) {
  const bool of_the_gated = mode == nn::Mode::tuned || mode == nn::Mode::fused;
  if (of_the_gated && !workload.only_eager.empty()) return nn::Mode::eager;
  if (mode == nn::Mode::compiled && !workload.compiled().stats().failures.empty()) return nn::Mode::eager;
  // Its products one by one and the activation with the gate: what tuned does.
  if (mode == nn::Mode::fused && !workload.why_not_fused().empty()) mode = nn::Mode::tuned;
  return mode == nn::Mode::tuned && !workload.why_not_tuned.empty() ? nn::Mode::eager : mode;
}

std::string mode_note(const Workload& workload, nn::Mode mode) {
  if (mode == nn::Mode::compiled) {
    const std::vector<std::string> failures = workload.compiled().stats().failures;
    return failures.empty() ? ""
                            : fmt::format("compiled runs op by op, its build failed: {}", failures.back());
  }
  const nn::Mode run = mode_run(workload, mode);
  if (run == mode) return "";
  std::vector<std::string> why;
  if (!workload.only_eager.empty()) {
    why = {workload.only_eager};
  } else {
    if (mode == nn::Mode::fused) why.push_back(workload.why_not_fused());
    if (run == nn::Mode::eager) why.push_back(workload.why_not_tuned);
  }
  return fmt::format("{} runs as {}: {}", nn::mode_name(mode), nn::mode_name(run), fmt::join(why, "; "));
}

std::vector<nn::Mode> modes_from_list(const std::string& list) {
  if (list == "all") return {nn::available_modes().begin(), nn::available_modes().end()};
  std::vector<nn::Mode> modes;
  std::istringstream names(list);
  for (std::string name; std::getline(names, name, ',');) {
    const nn::Mode mode = nn::mode_from_name(name);
    EP_CHECK(std::ranges::find(modes, mode) == modes.end(), "mode {} is named twice", name);
    modes.push_back(mode);
  }
  EP_CHECK(!modes.empty(), "no mode was named");
  return modes;
}

}  // namespace epilogue::cli
