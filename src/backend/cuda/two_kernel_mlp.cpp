#include "backend/cuda/two_kernel_mlp.h"

#include <algorithm>
#include <array>

#include "backend/cuda/device.h"
#include "backend/cuda/gated.h"
#include "backend/cuda/gemm.h"
#include "backend/cuda/own_gemm.h"
#include "tensor/view.h"

namespace epilogue::cuda {
namespace {

// Inputs: x, gate, up, down, then their three biases or none.
bool has_biases(const KernelCall& call) { return call.inputs.size() == 7; }

// What `body` gives for the call of the gated kernel alone, which writes `hidden`.
template <class Body>
auto as_gated_linear(const KernelCall& call, Tensor& hidden, Body&& body) {
  const auto in = call.inputs;
  if (!has_biases(call)) return body({Op::gated_linear, call.attrs, in.first(3), hidden});
  const std::array inputs{in[0], in[1], in[2], in[4], in[5]};
  return body({Op::gated_linear, call.attrs, inputs, hidden});
}

// Likewise of the product that reads it.
template <class Body>
auto as_down(const KernelCall& call, const Tensor& hidden, Body&& body) {
  static const Attrs kNoAttrs;
  const auto in = call.inputs;
  Tensor out = call.output.view({hidden.size(0), in[3].size(0)});
  if (!has_biases(call)) {
    const std::array inputs{hidden, in[3].t()};
    return body({Op::mm, kNoAttrs, inputs, out});
  }
  const std::array inputs{in[6], hidden, in[3].t()};
  return body({Op::addmm, kNoAttrs, inputs, out});
}

}  // namespace

Dims hidden_sizes(const KernelCall& call) {
  const Tensor &x = call.inputs[0], &gate = call.inputs[1];
  return {x.numel() / gate.size(1), gate.size(0)};
}

size_t hidden_bytes(const KernelCall& call) {
  const Dims sizes = hidden_sizes(call);
  return static_cast<size_t>(sizes[0] * sizes[1]) * dtype_size(call.output.dtype());
}

const char* refuse_gated_part(const KernelCall& call, Tensor& hidden) {
  const Tensor& down = call.inputs[3];
  if (!down.is_contiguous() || (has_biases(call) && !call.inputs[6].is_contiguous()))
    return "the last weight or bias has gaps";
  return as_gated_linear(call, hidden, refuse_gated_linear);
}

MlpGemmProblem mlp_problem_of(const KernelCall& call, Tensor& hidden) {
  MlpGemmProblem problem;
  problem.gated = as_gated_linear(call, hidden, gated_problem_of);
  const Tensor& down = call.inputs[3];
  problem.dim = down.size(0);
  problem.down = down.data();
  problem.down_stride = down.size(1);
  if (has_biases(call)) problem.down_bias = call.inputs[6].data();
  problem.out = const_cast<void*>(call.output.data());
  problem.out_stride = problem.dim;
  return problem;
}

GemmKey mlp_key_of(const MlpGemmProblem& problem) {
  GemmKey key = gated_key_of(problem.gated);
  key.place = GemmPlace::whole_mlp;
  key.last_n = problem.dim;
  // Of what down has beside the gated kernel, which asks for its own.
  key.alignment = std::min({alignment_of(problem.down, problem.down_stride, key.dtype),
                            alignment_of(problem.out, problem.out_stride, key.dtype),
                            alignment_of(problem.down_bias, 0, key.dtype)});
  return key;
}

KernelRan run_two_kernels(const KernelCall& call, Tensor& hidden) {
  const KernelRan gated = as_gated_linear(
      call, hidden, [&](const KernelCall& first) { return run_gated_linear_before(first, call.inputs[3]); });
  device_of(call.output).launch_is_over();
  const KernelRan down = as_down(call, hidden, run_gemm_after_gated);
  return {.name = "gated_mlp", .repeatable = gated.repeatable && down.repeatable};
}

std::vector<KernelPair> pair_candidates(const KernelCall& call, Tensor& hidden) {
  // 300 us and more on an H200, of which what lies between two kernels is a percent.
  constexpr double long_flops = 2.5e11;
  const Dims sizes = hidden_sizes(call);
  const Tensor &gate = call.inputs[1], &down = call.inputs[3];
  if (2.0 * double(sizes[0]) * double(2 * gate.numel() + down.numel()) > long_flops) return {};
  const GemmFinalists firsts = as_gated_linear(call, hidden, finalists_gated),
                      seconds = as_down(call, hidden, finalists_after_gated);
  std::vector<KernelPair> pairs;
  for (const GemmChoice& first : firsts)
    for (const GemmChoice& second : seconds) pairs.push_back({first, second});
  if (!pairs.empty()) pairs.erase(pairs.begin());  // the two kernels as they are chosen
  return pairs;
}

bool fits(const KernelPair& pair, const MlpGemmProblem& problem) {
  const auto fits_one = [](const GemmChoice& choice, const GatedGemmProblem& one) {
    const auto config = choice[0] == GemmWays::own ? config_of(choice) : std::nullopt;
    return choice[0] == GemmWays::cublaslt || (config && takes(*config, one));
  };
  return fits_one(pair.gated, problem.gated) && fits_one(pair.down, down_product_of(problem));
}

bool run_pair(const KernelPair& pair, const KernelCall& call, Tensor& hidden) {
  const auto run_first = [&](const KernelCall& first) {
    return run_gated_linear_by(pair.gated, first, call.inputs[3]);
  };
  if (!as_gated_linear(call, hidden, run_first)) return false;
  device_of(call.output).launch_is_over();
  return as_down(call, hidden,
                 [&](const KernelCall& down) { return run_gemm_after_gated_by(pair.down, down); });
}

// The gated kernel's two words in one, so that an algorithm of cuBLASLt has room behind them.
GemmChoice choice_of(const KernelPair& pair) {
  GemmChoice choice{pair.down[0] == GemmWays::own ? GemmWays::pair_with_own : GemmWays::pair_with_cublaslt,
                    pair.gated[1] << 32 | pair.gated[2]};
  std::copy_n(pair.down.begin() + 1, kAlgorithmWords, choice.begin() + 2);
  return choice;
}

std::optional<KernelPair> pair_of(const GemmChoice& choice) {
  if (choice[0] != GemmWays::pair_with_own && choice[0] != GemmWays::pair_with_cublaslt) return {};
  KernelPair pair{{GemmWays::own, choice[1] >> 32, choice[1] & 0xffffffff},
                  {choice[0] == GemmWays::pair_with_own ? GemmWays::own : GemmWays::cublaslt}};
  std::copy_n(choice.begin() + 2, kAlgorithmWords, pair.down.begin() + 1);
  return pair;
}

}  // namespace epilogue::cuda
