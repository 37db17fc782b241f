// The iteration of a pointwise program: its outputs and inputs over the fewest dimensions.
#pragma once

#include <array>
#include <span>

#include "backend/strided_loop.h"
#include "op/program.h"

namespace epilogue {

// Outputs first, then the program's inputs. Dimensions are innermost first, and minimal.
struct ProgramLoop {
  static constexpr int kMostOperands = PointwiseProgram::kMostInputs + PointwiseProgram::kMostOutputs;

  int dims = 0, outputs = 0, operands = 0;
  std::array<int64_t, kMaxDims> sizes{};
  std::array<LoopOperand, kMostOperands> operand{};

  // `inputs` are what the program's operand numbers name; they broadcast to the outputs' one shape. Counts as
  // a write to the outputs.
  static ProgramLoop over(const PointwiseProgram& program, std::span<Tensor> outputs,
                          std::span<const Tensor> inputs);
  int64_t numel() const;
  void collapse();
};

}  // namespace epilogue
