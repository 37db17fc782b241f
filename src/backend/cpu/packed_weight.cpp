#include "backend/cpu/packed_weight.h"

#include <chrono>
#include <mutex>

#include "backend/cpu/allocator.h"
#include "backend/cpu/kernels/copy.h"
#include "backend/cpu/onednn.h"
#include "base/env.h"
#include "tensor/storage.h"

namespace epilogue::cpu {
namespace {

std::mutex cost_mutex;
PackingCost cost;

// One storage may hold several weights (gate and up stacked), so the view is part of the key.
DerivedKey derived_key(const WeightView& weight, int64_t form) {
  return {form, weight.tensor->offset(), weight.n, weight.k, weight.n_stride, weight.k_stride};
}

// What `make` gives for the weight's present contents, at the cost of its first use.
template <class Make>
std::shared_ptr<const PackedWeight> packed_once(const WeightView& weight, int64_t form, const Make& make) {
  Storage& storage = *weight.tensor->storage();
  const DerivedKey key = derived_key(weight, form);
  if (auto found = storage.find_derived(key)) return std::static_pointer_cast<const PackedWeight>(found);
  const auto start = std::chrono::steady_clock::now();
  const uint64_t version = storage.version.load(std::memory_order_acquire);
  const std::shared_ptr<const PackedWeight> packed = make();
  if (!packed) return nullptr;
  // A second thread that packed meanwhile finds its own copy dropped.
  storage.keep_derived({key, version, packed->storage.get()->bytes, packed});
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  const std::lock_guard lock(cost_mutex);
  ++cost.weights;
  cost.bytes += static_cast<int64_t>(packed->storage.get()->bytes);
  cost.seconds += took.count();
  return packed;
}

std::shared_ptr<const PackedWeight> make_packed(const GemmProblem& problem, DType compute) {
  const int32_t layout = packed_layout_for(problem.n, problem.k, compute);
  if (layout < 0) return nullptr;
  auto packed = std::make_shared<PackedWeight>(packed_bytes(layout), layout);
  if (problem.dtype == compute) {
    pack(layout, problem.b, problem.b_row, problem.b_column, packed->storage.get()->data);
    return packed;
  }
  // Transposed in memory as [n, k], the way layers keep weights; converted in that order, then packed.
  const Tensor rows = Tensor::over(problem.weight->storage_ref(), problem.dtype, {problem.n, problem.k},
                                   {problem.b_column, problem.b_row}, problem.weight->offset());
  Tensor converted =
      Tensor::over(Allocator::instance().allocate(static_cast<size_t>(rows.numel()) * dtype_size(compute)),
                   compute, rows.sizes(), contiguous_strides(rows.sizes()), 0);
  const Attrs none;
  run_copy({Op::to, none, std::span(&rows, 1), converted});
  pack(layout, converted.data(), 1, problem.k, packed->storage.get()->data);
  return packed;
}

}  // namespace

PackedWeight::PackedWeight(size_t bytes, int32_t layout_id)
    : layout(layout_id), storage(Allocator::instance().allocate(bytes)) {
  Allocator::instance().count_packed_weight(static_cast<int64_t>(bytes));
}

PackedWeight::~PackedWeight() {
  Allocator::instance().count_packed_weight(-static_cast<int64_t>(storage.get()->bytes));
}

std::shared_ptr<const PackedWeight> packed_weight(const GemmProblem& problem, DType compute) {
  const WeightView view{problem.weight, problem.n, problem.k, problem.b_column, problem.b_row};
  return packed_once(view, static_cast<int64_t>(compute), [&] { return make_packed(problem, compute); });
}

std::shared_ptr<const PackedWeight> weight_in_panels(const WeightView& weight, PanelForm form) {
  const DType dtype = weight.tensor->dtype();
  const int64_t key =
      panel_shape(form).columns << 16 | static_cast<int64_t>(form) << 8 | static_cast<int64_t>(dtype);
  return packed_once(weight, key, [&] {
    const int64_t bytes = panel_elements(form, weight.n, weight.k) * panel_element_bytes(form, dtype);
    auto packed = std::make_shared<PackedWeight>(static_cast<size_t>(bytes));
    const PlainWeight plain{.data = weight.tensor->data(),
                            .n = weight.n,
                            .k = weight.k,
                            .n_stride = weight.n_stride,
                            .k_stride = weight.k_stride,
                            .element_size = static_cast<int>(dtype_size(dtype))};
    if (pack_panels(form, plain, packed->storage.get()->data)) return packed;
    packed = std::make_shared<PackedWeight>(0);
    packed->is_weights = false;
    return packed;
  });
}

bool packs_weights() {
  static const bool packs = env_flag(EnvVar::pack_weights, true);
  return packs;
}

PackingCost packing_cost() {
  const std::lock_guard lock(cost_mutex);
  return cost;
}

}  // namespace epilogue::cpu
