// Weights rewritten once into the layout that a product's kernel reads fastest, kept with the weight's
// storage.
#pragma once

#include <memory>

#include "backend/cpu/gemm_problem.h"
#include "backend/cpu/kernels/panel_product.h"
#include "tensor/storage.h"

namespace epilogue::cpu {

struct PackedWeight {
  explicit PackedWeight(size_t bytes, int32_t layout = -1);
  ~PackedWeight();
  PackedWeight(const PackedWeight&) = delete;
  PackedWeight& operator=(const PackedWeight&) = delete;

  int32_t layout;          // onednn.h's id; -1: in panels
  bool is_weights = true;  // otherwise empty: the panels' form cannot take it
  detail::StorageRef storage;

  const void* data() const { return storage.get()->data; }
};

// The packed form of problem.weight for computing in `compute` (f32 or bf16), made on first use and again
// after the weight was written. Null when oneDNN has no layout better than the plain one.
std::shared_ptr<const PackedWeight> packed_weight(const GemmProblem& problem, DType compute);

// A [k, n] factor of products, as it stands in memory.
struct WeightView {
  const Tensor* tensor = nullptr;
  int64_t n = 0, k = 0, n_stride = 0, k_stride = 0;
};

// The weight in the panels of kernels/panel_product.h; made and kept as above.
std::shared_ptr<const PackedWeight> weight_in_panels(const WeightView& weight, PanelForm form);

// Whether weights may be kept packed at all (EPILOGUE_PACK_WEIGHTS).
bool packs_weights();

// What packing has cost so far in this process.
struct PackingCost {
  int64_t weights = 0, bytes = 0;
  double seconds = 0;
};
PackingCost packing_cost();

}  // namespace epilogue::cpu
