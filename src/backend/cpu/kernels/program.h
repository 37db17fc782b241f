// Runs a pointwise program on the CPU: tile by tile through L1, each step by the row kernel that eager uses.
#pragma once

#include <array>

#include "backend/backend.h"
#include "backend/cpu/kernels/copy.h"
#include "backend/program_loop.h"

namespace epilogue::cpu {

// A program with its row kernels for the instruction set in use. Cheap to make: no memory, no compiler.
class TileProgram {
 public:
  // Of an epilogue: in which dtype the loops have the product.
  explicit TileProgram(const PointwiseProgram& program, DType product = DType::f32);

  // On up to thread_count() threads; returns how many.
  int run(const ProgramLoop& loop) const;
  // On this thread alone.
  void run_here(const ProgramLoop& loop) const;

 private:
  struct Tiles;
  using At = std::array<char*, ProgramLoop::kMostOperands>;
  void run_tiles(const ProgramLoop& loop, const Tiles& tiles, int64_t begin, int64_t end) const;
  void run_tile(const ProgramLoop& loop, const At& at, int64_t n, char* scratch) const;
  Tiles tiles_of(const ProgramLoop& loop) const;

  const PointwiseProgram& program_;
  DType compute_;
  int64_t element_ = 0;  // bytes of the compute type
  std::array<RowKernel, PointwiseProgram::kMostSteps> steps_{};
  std::array<RowKernel, PointwiseProgram::kMostInputs> widen_{};    // null: read as they are
  std::array<RowKernel, PointwiseProgram::kMostOutputs> narrow_{};  // null: written as they are
};

// Serves `fused`.
KernelRan run_program(const KernelCall& call);

}  // namespace epilogue::cpu
