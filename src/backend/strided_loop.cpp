#include "backend/strided_loop.h"

#include <algorithm>
#include <utility>

namespace epilogue {

StridedLoop StridedLoop::over(Tensor& output, std::span<const Tensor> inputs) {
  StridedLoop loop;
  loop.dims = output.dim();
  loop.operands = 1 + static_cast<int>(inputs.size());
  for (int o = 0; o < loop.operands; ++o) {
    const Tensor& tensor = o == 0 ? output : inputs[static_cast<size_t>(o - 1)];
    LoopOperand& operand = loop.operand[o];
    operand.element_size = static_cast<int>(dtype_size(tensor.dtype()));
    operand.data = static_cast<char*>(o == 0 ? output.mutable_data() : const_cast<void*>(tensor.data()));
    const int dims = tensor.dim();
    for (int d = 0; d < dims; ++d) {
      if (o == 0) loop.sizes[d] = tensor.sizes()[dims - 1 - d];
      const bool broadcast = tensor.sizes()[dims - 1 - d] == 1;
      operand.strides[d] = broadcast ? 0 : tensor.strides()[dims - 1 - d] * operand.element_size;
    }
  }
  loop.collapse();
  return loop;
}

int collapse_dims(int dims, std::array<int64_t, kMaxDims>& sizes, std::span<LoopOperand> operands) {
  const auto move = [&](int from, int to) {
    sizes[to] = sizes[from];
    for (LoopOperand& operand : operands) operand.strides[to] = operand.strides[from];
  };
  const auto mergeable = [&](int inner, int outer) {
    for (const LoopOperand& operand : operands)
      if (operand.strides[outer] != operand.strides[inner] * sizes[inner]) return false;
    return true;
  };
  int kept = 0;
  for (int d = 0; d < dims; ++d)
    if (sizes[d] != 1) move(d, kept++);
  for (int d = 1; d < kept; ++d)
    for (int e = d; e > 0 && operands[0].strides[e] < operands[0].strides[e - 1]; --e) {
      std::swap(sizes[e], sizes[e - 1]);
      for (LoopOperand& operand : operands) std::swap(operand.strides[e], operand.strides[e - 1]);
    }
  dims = 0;
  for (int d = 0; d < kept; ++d) {
    if (dims > 0 && mergeable(dims - 1, d))
      sizes[dims - 1] *= sizes[d];
    else
      move(d, dims++);
  }
  if (dims > 0) return dims;
  sizes[0] = 1;  // one element, side by side with nothing
  for (LoopOperand& operand : operands) operand.strides[0] = operand.element_size;
  return 1;
}

void StridedLoop::collapse() {
  dims = collapse_dims(dims, sizes, std::span(operand).first(static_cast<size_t>(operands)));
}

}  // namespace epilogue
