// The problems that profile, bench and graph run: read from options or from a shapes file, built as a layer
// and its input; and what a layer runs in each mode.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "cli/command_line.h"
#include "epilogue/kernels.h"
#include "epilogue/nn.h"

namespace epilogue::cli {

enum class ProblemKind : uint8_t { matmul_add, linear, mlp };
const char* kind_name(ProblemKind kind);  // "matmul-add", "linear", "mlp"

// CLI.md's defaults.
struct Problem {
  ProblemKind kind = ProblemKind::mlp;
  int64_t batch = 64, seq = 128;  // x is [batch, seq, dim] for an MLP, [batch, dim] for a linear layer
  int64_t dim = 768, hidden = 3072;
  Act act = Act::gelu_tanh;
  bool gated = true;
  bool bias = false;
  DType dtype = DType::f32;
  Device device{};

  int64_t rows() const { return kind == ProblemKind::mlp ? batch * seq : batch; }
  double weights() const;  // their elements, of all products together
  double flops() const;
  double bytes() const;           // that must be moved: weights and biases once, x and the result
  std::string to_string() const;  // "gated MLP 64x128, 768/3072, gelu_tanh, f32, cpu"
  std::string to_json() const;    // {"batch":64,...}
};

// What the options of a subcommand write into; call finish() once the line was read.
class ProblemOptions {
 public:
  ProblemOptions(Command command, ProblemKind kind);
  Problem finish() const;  // throws Error on a bad name
  // The first option on the line that says what a shapes file says, "--batch"; nullptr where none was given.
  const char* shape_given() const;

 private:
  std::vector<std::pair<const char*, Option>> shape_;
  Problem problem_;
  std::string act_ = "gelu_tanh", dtype_ = "f32", device_ = "cpu";
  bool no_gate_ = false, no_bias_ = false, bias_ = false;
};

// CLI.md's default problem of a kind.
Problem default_problem(ProblemKind kind);

// One problem a line: "mlp m=8192 dim=768 hidden=3072 act=gelu_tanh dtype=bf16", '#' starts a comment; what a
// line leaves out is the kind's default, dtype and device those of `otherwise`, beside whose problem the
// others must fit in a table. Throws Error naming the file and line.
std::vector<Problem> read_shapes(const std::string& path, const Problem& otherwise);

// A layer built for a problem and the input it is called with.
struct Workload {
  std::function<Tensor(const Tensor&)> forward;
  Tensor x;
  std::function<CompiledFunction()> compiled;  // what mode `compiled` runs, once it was called
  // Of a gated MLP: why no kernel of mode `fused` takes it; "" where one does.
  std::function<std::string()> why_not_fused;
  std::string why_not_tuned = {};  // of a gated MLP, likewise
  std::string only_eager = {};  // why `tuned` and `fused` are nothing else than eager; "" where they are more
};
// `kernels` are for the layers of an MLP with a gate.
Workload make_workload(const Problem& problem, nn::Mode mode, const KernelMap& kernels = {});

// The same of a layer that is there: a gated MLP, whose mode is its own, or any function of the ops.
Workload gated_workload(std::shared_ptr<nn::GatedMlp> layer, const Tensor& x);
Workload function_workload(std::function<Tensor(const Tensor&)> forward, const Tensor& x, nn::Mode mode);

// What is measured in mode `compiled` is the compiled function, not the calls before it was built.
void wait_until_compiled(const Workload& workload, nn::Mode mode);

// The mode whose kernels run in `mode`: mostly itself.
nn::Mode mode_run(const Workload& workload, nn::Mode mode);

// What a mode does where its own kernels do not run, and why: "fused runs as tuned: ...". "" where they run.
// To be asked after wait_until_compiled.
std::string mode_note(const Workload& workload, nn::Mode mode);

// "eager,tuned" in that order, none twice, or "all".
std::vector<nn::Mode> modes_from_list(const std::string& list);

}  // namespace epilogue::cli
