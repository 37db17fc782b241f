#include "backend/cuda/kernels/tensor_map.h"

#include <array>

#include <cuda_runtime_api.h>

namespace epilogue::cuda {
namespace {

using Encode = decltype(&cuTensorMapEncodeTiled);

// Through the runtime, so that nothing links against the driver.
Encode find_encode() {
  void* function = nullptr;
  cudaDriverEntryPointQueryResult result;
  if (cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &function, 12000, cudaEnableDefault,
                                       &result) != cudaSuccess ||
      result != cudaDriverEntryPointSuccess)
    return nullptr;
  return reinterpret_cast<Encode>(function);
}

bool encode(const MatrixBox& m, CUtensorMap* map) {
  static const Encode function = find_encode();
  if (function == nullptr) return false;
  const cuuint64_t sizes[2] = {m.columns, m.rows}, strides[1] = {m.stride * 2};
  const cuuint32_t box[2] = {m.box_columns, m.box_rows}, steps[2] = {1, 1};
  const CUtensorMapSwizzle swizzle = m.swizzle == 128  ? CU_TENSOR_MAP_SWIZZLE_128B
                                     : m.swizzle == 64 ? CU_TENSOR_MAP_SWIZZLE_64B
                                     : m.swizzle == 32 ? CU_TENSOR_MAP_SWIZZLE_32B
                                                       : CU_TENSOR_MAP_SWIZZLE_NONE;
  return function(map, m.bf16 ? CU_TENSOR_MAP_DATA_TYPE_BFLOAT16 : CU_TENSOR_MAP_DATA_TYPE_FLOAT16, 2,
                  const_cast<void*>(m.data), sizes, strides, box, steps, CU_TENSOR_MAP_INTERLEAVE_NONE,
                  swizzle, CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
                  CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE) == CUDA_SUCCESS;
}

uint64_t hash(const MatrixBox& m) {
  uint64_t h = reinterpret_cast<uintptr_t>(m.data) >> 4;
  for (const uint64_t v : {m.rows, m.columns, m.stride, uint64_t{m.box_rows} << 16 | m.box_columns})
    h = (h ^ v) * 0x9E3779B97F4A7C15u, h ^= h >> 32;
  return h;
}

struct Entry {
  MatrixBox matrix;
  CUtensorMap map;
};

}  // namespace

bool tensor_map(const MatrixBox& matrix, CUtensorMap* map) {
  thread_local std::array<Entry, 512> entries;
  Entry& entry = entries[hash(matrix) % entries.size()];
  if (entry.matrix != matrix) {
    entry.matrix = {};  // stays empty when the driver refuses
    if (!encode(matrix, &entry.map)) return false;
    entry.matrix = matrix;
  }
  *map = entry.map;
  return true;
}

}  // namespace epilogue::cuda
