// compile(): a function of our ops, captured as a graph, fused and planned in the background. The first call
// answers at once by running the graph op by op; later ones run the plan. What a plan's kernels keep in
// registers is not rounded to bf16 or f16 on the way, so that the last bits change when the plan is ready:
// wait_ready().
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "epilogue/tensor.h"

namespace epilogue {

struct CompileOptions {
  std::string name = "compiled";  // in traces and messages
  // Passes by their names (compile_passes()); EPILOGUE_DISABLE_PASSES adds to them.
  std::vector<std::string> disable = {};
  // Passes that a device leaves out by itself: gate_up_merge on the CPU.
  std::vector<std::string> enable = {};
  // Tensors the function reads besides its inputs, by the place where they are kept: one that is replaced by
  // another tensor or another view is seen, and let go of at the next call: see compile() below. The places
  // outlive the function.
  std::vector<const Tensor*> watch = {};
  bool replay = false;  // replay a call as one CUDA graph per combination of sizes; without effect on the CPU
};

// The passes in their order.
std::vector<std::string> compile_passes();

struct PassTime {
  std::string name;
  int64_t runs = 0;
  double total_us = 0;
};

struct CompileStats {
  int64_t calls = 0;
  int64_t eager_calls = 0;  // of them, those that ran op by op because their kernels were not ready
  int64_t shapes = 0;       // sizes that a plan was made for
  int64_t builds = 0;       // finished in the background
  int64_t failed_builds = 0;
  int64_t recompiles = 0;             // builds beyond the first: another dtype, rank, layout or path
  std::vector<std::string> reasons;   // of the last recompiles, e.g. "input 0: dtype f32 became bf16"
  std::vector<std::string> failures;  // of the last failed builds: the function stays right and eager
  int64_t peak_bytes = 0;             // of the last plan: intermediates and outputs together, at the most
  int64_t unplanned_bytes = 0;        // what they would take if none were reused
  std::vector<PassTime> passes;
  double last_build_us = 0;
};

struct ExplainOptions {
  bool passes = false;  // the graph after each pass, and why not more was done
  bool code = false;    // the kernels that are generated for a GPU
};

// A handle: copies share the compiled state. Any number of threads may call it at once, and then call the
// function at once, too.
class CompiledFunction {
 public:
  CompiledFunction() = default;  // empty: not to be called

  std::vector<Tensor> operator()(std::span<const Tensor> inputs) const;
  Tensor operator()(const Tensor& x) const;  // one input, one output

  // Returns when no build is under way: each has ended, or was dropped because the program ends. A child of
  // fork() does not wait for its parent's: it builds what was not built at its own calls.
  void wait_ready() const;
  CompileStats stats() const;
  // The story of the graph for inputs like these, with leading sizes as symbols where the function takes any.
  std::string explain(std::span<const Tensor> inputs, ExplainOptions options = {}) const;
  explicit operator bool() const { return state_ != nullptr; }

  struct State;
  explicit CompiledFunction(std::shared_ptr<State> state) : state_(std::move(state)) {}

 private:
  std::shared_ptr<State> state_;
};

// `function` must compute its outputs from its inputs (and tensors that it holds) by ops alone: it is called
// with stand-ins that have no values, once for each combination of input sizes. It may branch on sizes and
// dtypes, and on the number of inputs: it is handed as many as the caller passes, and one that takes a fixed
// number checks that.
//
// Whatever it reads besides its inputs is as it was at the capture. New contents of a tensor are seen
// (weight.copy_(...), load_parameters()); a number, a flag or a mode that it reads is not, and another tensor
// in the place of one (weight = ...) only where the place is watched:
//
//   nn::Linear layer(64, 64);
//   auto f = compile([&](const Tensor& x) { return layer.forward(x); },
//                    {.watch = {&layer.weight, &layer.bias}});
//
// Without, the function goes on with the old tensor. nn::Mlp and nn::GatedMlp watch their own parameters.
CompiledFunction compile(std::function<std::vector<Tensor>(std::span<const Tensor>)> function,
                         CompileOptions options = {});
CompiledFunction compile(std::function<Tensor(const Tensor&)> function, CompileOptions options = {});

}  // namespace epilogue
