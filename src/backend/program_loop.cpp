#include "backend/program_loop.h"

namespace epilogue {

ProgramLoop ProgramLoop::over(const PointwiseProgram& program, std::span<Tensor> outputs,
                              std::span<const Tensor> inputs) {
  ProgramLoop loop;
  loop.dims = outputs[0].dim();
  const auto add = [&loop](const Tensor& tensor, void* data) {
    LoopOperand& operand = loop.operand[static_cast<size_t>(loop.operands++)];
    operand.data = static_cast<char*>(data);
    operand.element_size = static_cast<int>(dtype_size(tensor.dtype()));
    for (int d = 0; d < tensor.dim(); ++d) {
      const int from = tensor.dim() - 1 - d;
      operand.strides[d] = tensor.sizes()[from] == 1 ? 0 : tensor.strides()[from] * operand.element_size;
    }
  };
  for (Tensor& output : outputs) add(output, output.mutable_data());
  loop.outputs = loop.operands;
  for (const ProgramInput& input : program.inputs) {
    const Tensor& tensor = inputs[static_cast<size_t>(input.operand)];
    add(tensor, const_cast<void*>(tensor.data()));
  }
  for (int d = 0; d < loop.dims; ++d) loop.sizes[d] = outputs[0].sizes()[loop.dims - 1 - d];
  loop.collapse();
  return loop;
}

void ProgramLoop::collapse() {
  dims = collapse_dims(dims, sizes, std::span(operand).first(static_cast<size_t>(operands)));
}

int64_t ProgramLoop::numel() const {
  int64_t count = 1;
  for (int d = 0; d < dims; ++d) count *= sizes[d];
  return count;
}

}  // namespace epilogue
