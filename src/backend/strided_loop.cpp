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

void StridedLoop::collapse() {
  const auto move = [&](int from, int to) {
    sizes[to] = sizes[from];
    for (int o = 0; o < operands; ++o) operand[o].strides[to] = operand[o].strides[from];
  };
  const auto mergeable = [&](int inner, int outer) {
    for (int o = 0; o < operands; ++o)
      if (operand[o].strides[outer] != operand[o].strides[inner] * sizes[inner]) return false;
    return true;
  };
  int kept = 0;
  for (int d = 0; d < dims; ++d)
    if (sizes[d] != 1) move(d, kept++);
  for (int d = 1; d < kept; ++d)
    for (int e = d; e > 0 && operand[0].strides[e] < operand[0].strides[e - 1]; --e) {
      std::swap(sizes[e], sizes[e - 1]);
      for (int o = 0; o < operands; ++o) std::swap(operand[o].strides[e], operand[o].strides[e - 1]);
    }
  dims = 0;
  for (int d = 0; d < kept; ++d) {
    if (dims > 0 && mergeable(dims - 1, d))
      sizes[dims - 1] *= sizes[d];
    else
      move(d, dims++);
  }
  if (dims == 0) {  // one element, side by side with nothing
    dims = 1;
    sizes[0] = 1;
    for (int o = 0; o < operands; ++o) operand[o].strides[0] = operand[o].element_size;
  }
}

int64_t StridedLoop::numel() const {
  int64_t count = 1;
  for (int d = 0; d < dims; ++d) count *= sizes[d];
  return count;
}

}  // namespace epilogue
