#include "backend/cpu/packed_weight.h"

#include <chrono>
#include <mutex>

#include "backend/cpu/allocator.h"
#include "backend/cpu/kernels/copy.h"
#include "backend/cpu/onednn.h"
#include "tensor/storage.h"

namespace epilogue::cpu {
namespace {

std::mutex cost_mutex;
PackingCost cost;

// One storage may hold several weights (gate and up stacked), so the view is part of the key.
DerivedKey derived_key(const Tensor& weight, DType compute) {
  return {static_cast<int64_t>(compute),
          weight.offset(),
          weight.size(0),
          weight.size(1),
          weight.stride(0),
          weight.stride(1)};
}

std::shared_ptr<const PackedWeight> make_packed(const GemmProblem& problem, DType compute, int32_t layout) {
  auto packed = std::make_shared<PackedWeight>(layout, packed_bytes(layout));
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

PackedWeight::PackedWeight(int32_t layout_id, size_t bytes)
    : layout(layout_id), storage(Allocator::instance().allocate(bytes)) {
  Allocator::instance().count_packed_weight(static_cast<int64_t>(bytes));
}

PackedWeight::~PackedWeight() {
  Allocator::instance().count_packed_weight(-static_cast<int64_t>(storage.get()->bytes));
}

std::shared_ptr<const PackedWeight> packed_weight(const GemmProblem& problem, DType compute) {
  Storage& storage = *problem.weight->storage();
  const DerivedKey key = derived_key(*problem.weight, compute);
  if (auto found = storage.find_derived(key)) return std::static_pointer_cast<const PackedWeight>(found);
  const int32_t layout = packed_layout_for(problem.n, problem.k, compute);
  if (layout < 0) return nullptr;
  const auto start = std::chrono::steady_clock::now();
  const uint64_t version = storage.version.load(std::memory_order_acquire);
  auto packed = make_packed(problem, compute, layout);
  storage.keep_derived(key, version,
                       packed);  // a second thread that packed meanwhile finds its own copy dropped
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  const std::lock_guard lock(cost_mutex);
  ++cost.weights;
  cost.bytes += static_cast<int64_t>(packed->storage.get()->bytes);
  cost.seconds += took.count();
  return packed;
}

PackingCost packing_cost() {
  const std::lock_guard lock(cost_mutex);
  return cost;
}

}  // namespace epilogue::cpu
