// The whole MLP as two kernels, a way to run it beside one: the gated product of ours, then down.
#pragma once

#include <optional>
#include <vector>

#include "backend/backend.h"
#include "backend/cuda/gemm_choices.h"
#include "backend/cuda/gemm_problem.h"
#include "backend/cuda/kernels/mlp_gemm.h"

namespace epilogue::cuda {

// Of a call of Op::gated_mlp.
Dims hidden_sizes(const KernelCall& call);
size_t hidden_bytes(const KernelCall& call);
const char* refuse_gated_part(const KernelCall& call, Tensor& hidden);
// `hidden` is where the gated product is written.
MlpGemmProblem mlp_problem_of(const KernelCall& call, Tensor& hidden);
GemmKey mlp_key_of(const MlpGemmProblem& problem);

// Each by what was the quickest for it alone.
KernelRan run_two_kernels(const KernelCall& call, Tensor& hidden);

// Two kernels that are chosen together. What is quickest alone need not be in a pair: down begins under the
// gated kernel, and what the one leaves in the cache and of the other's registers differs by kernel (300 x
// 768 x 3072 on an H200: the lab's best pair took 14.4 us, each kernel's own best one after the other 16.2).
struct KernelPair {
  GemmChoice gated{}, down{};
};

// Pairs worth timing beside the two kernels, once these are settled; none where the products are so long that
// no pair differs.
std::vector<KernelPair> pair_candidates(const KernelCall& call, Tensor& hidden);
bool fits(const KernelPair& pair, const MlpGemmProblem& problem);  // of a file of another version it may not
bool run_pair(const KernelPair& pair, const KernelCall& call, Tensor& hidden);  // false: it cannot

GemmChoice choice_of(const KernelPair& pair);
std::optional<KernelPair> pair_of(const GemmChoice& choice);

}  // namespace epilogue::cuda
