// Weights rewritten once into the layout the GEMM kernel reads fastest, kept with the weight's storage.
#pragma once

#include <memory>

#include "backend/cpu/gemm_problem.h"

namespace epilogue::cpu {

struct PackedWeight {
  PackedWeight(int32_t layout, size_t bytes);
  ~PackedWeight();
  PackedWeight(const PackedWeight&) = delete;
  PackedWeight& operator=(const PackedWeight&) = delete;

  int32_t layout;  // onednn.h's id
  detail::StorageRef storage;
};

// The packed form of problem.weight for computing in `compute` (f32 or bf16), made on first use and again
// after the weight was written. Null when oneDNN has no layout better than the plain one.
std::shared_ptr<const PackedWeight> packed_weight(const GemmProblem& problem, DType compute);

// What packing has cost so far in this process.
struct PackingCost {
  int64_t weights = 0, bytes = 0;
  double seconds = 0;
};
PackingCost packing_cost();

}  // namespace epilogue::cpu
