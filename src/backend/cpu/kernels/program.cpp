#include "backend/cpu/kernels/program.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "backend/cpu/kernels/pointwise.h"
#include "base/check.h"
#include "base/threads.h"

namespace epilogue::cpu {
namespace {

constexpr int64_t kTile = 1024;       // elements: a handful of 4 KB buffers stays in L1
constexpr int64_t kLongTile = 16384;  // where nothing passes through a buffer
constexpr int64_t kGrain = 32768;     // elements a thread must have to be worth waking

template <class T>
void gather(char* to, const char* from, int64_t stride, int64_t n) {
  T* out = reinterpret_cast<T*>(to);
  for (int64_t i = 0; i < n; ++i) out[i] = *reinterpret_cast<const T*>(from + i * stride);
}

// Elements `stride` bytes apart, side by side.
void gather(char* to, const char* from, int64_t stride, int64_t n, int size) {
  if (size == 2) return gather<uint16_t>(to, from, stride, n);
  if (size == 4) return gather<uint32_t>(to, from, stride, n);
  gather<uint64_t>(to, from, stride, n);
}

DType dtype_of(const ProgramInput& input, DType product) {
  return input.operand == ProgramInput::kProduct ? product : input.dtype;
}

bool is_uniform(const PointwiseProgram& program, DType product) {
  const DType dtype = program.outputs[0].dtype;
  return program.steps.size() == 1 && program.steps[0].op != Op::to &&
         std::ranges::all_of(program.inputs,
                             [&](const ProgramInput& in) { return dtype_of(in, product) == dtype; });
}

}  // namespace

struct TileProgram::Tiles {
  int64_t length = kTile, per_row = 1, count = 1;
};

// One step of one dtype has a kernel of its own for 16-bit floats, which converts in registers.
TileProgram::TileProgram(const PointwiseProgram& program, DType product)
    : program_(program), compute_(is_uniform(program, product) ? program.outputs[0].dtype : program.compute) {
  element_ = static_cast<int64_t>(dtype_size(compute_));
  for (size_t i = 0; i < program.steps.size(); ++i) {
    const ProgramStep& step = program.steps[i];
    if (step.op == Op::to) continue;  // by copies, in run_tile
    const Attrs attrs{.approximate = step.approximate};
    steps_[i] = pointwise_kernel(pointwise_function(step.op, attrs), compute_).row;
    EP_CHECK(steps_[i], "{}: {} has no kernel for {}", program.name, step_name(step), dtype_name(compute_));
  }
  for (size_t i = 0; i < program.inputs.size(); ++i)
    if (const DType dtype = dtype_of(program.inputs[i], product); dtype != compute_)
      widen_[i] = copy_kernel(dtype, compute_).row;
  for (size_t i = 0; i < program.outputs.size(); ++i)
    if (program.outputs[i].dtype != compute_)
      narrow_[i] = copy_kernel(compute_, program.outputs[i].dtype).row;
}

void TileProgram::run_tile(const ProgramLoop& loop, const At& at, int64_t n, char* scratch) const {
  const size_t inputs = program_.inputs.size(), outputs = program_.outputs.size();
  const int64_t slot_bytes = kTile * 8;
  std::array<const char*, PointwiseProgram::kMostInputs + PointwiseProgram::kMostSteps> value{};
  char* free = scratch + slot_bytes * program_.slots;
  for (size_t i = 0; i < inputs; ++i) {
    const LoopOperand& operand = loop.operand[outputs + i];
    const char* from = at[outputs + i];
    if (operand.strides[0] != operand.element_size) {
      gather(free, from, operand.strides[0], n, operand.element_size);
      from = free;
      free += slot_bytes;
    }
    if (widen_[i]) {
      widen_[i](free, from, nullptr, n);
      from = free;
      free += slot_bytes;
    }
    value[i] = from;
  }
  // The last step may write its output at once; an earlier one might overwrite an input that a later one
  // reads.
  for (size_t i = 0; i < program_.steps.size(); ++i) {
    const ProgramStep& step = program_.steps[i];
    char* to = scratch + slot_bytes * step.slot;
    if (i + 1 == program_.steps.size())
      for (size_t o = 0; o < outputs; ++o)
        if (program_.outputs[o].value == static_cast<int16_t>(inputs + i) && !narrow_[o]) to = at[o];
    const char* b = step.b >= 0 ? value[static_cast<size_t>(step.b)] : nullptr;
    if (step.op != Op::to) {
      steps_[i](to, value[static_cast<size_t>(step.a)], b, n);
    } else {
      copy_kernel(compute_, step.dtype).row(free, value[static_cast<size_t>(step.a)], nullptr, n);
      copy_kernel(step.dtype, compute_).row(to, free, nullptr, n);
    }
    value[inputs + i] = to;
  }
  for (size_t o = 0; o < outputs; ++o) {
    const char* from = value[static_cast<size_t>(program_.outputs[o].value)];
    if (from == at[o]) continue;
    if (narrow_[o])
      narrow_[o](at[o], from, nullptr, n);
    else
      std::memmove(at[o], from, static_cast<size_t>(n * element_));
  }
}

TileProgram::Tiles TileProgram::tiles_of(const ProgramLoop& loop) const {
  bool direct = program_.steps.size() == 1 && program_.outputs.size() == 1 && program_.steps[0].op != Op::to;
  for (size_t i = 0; direct && i < program_.inputs.size(); ++i) {
    const LoopOperand& operand = loop.operand[program_.outputs.size() + i];
    direct = !widen_[i] && operand.strides[0] == operand.element_size;
  }
  direct = direct && !narrow_[0];
  Tiles tiles{.length = direct ? kLongTile : kTile};
  tiles.per_row = (loop.sizes[0] + tiles.length - 1) / tiles.length;
  tiles.count = tiles.per_row;
  for (int d = 1; d < loop.dims; ++d) tiles.count *= loop.sizes[d];
  return tiles;
}

void TileProgram::run_tiles(const ProgramLoop& loop, const Tiles& tiles, int64_t begin, int64_t end) const {
  thread_local std::vector<char> buffer;
  const size_t buffers = static_cast<size_t>(program_.slots) + 2 * program_.inputs.size() + 1;
  if (buffer.size() < buffers * kTile * 8 + 64) buffer.resize(buffers * kTile * 8 + 64);
  char* scratch = buffer.data() + (64 - reinterpret_cast<uintptr_t>(buffer.data()) % 64);
  for (int64_t tile = begin; tile < end; ++tile) {
    const int64_t first = tile % tiles.per_row * tiles.length;
    At at{};
    for (int o = 0; o < loop.operands; ++o) {
      const LoopOperand& operand = loop.operand[static_cast<size_t>(o)];
      at[static_cast<size_t>(o)] = operand.data + first * operand.strides[0];
      int64_t rest = tile / tiles.per_row;
      for (int d = 1; d < loop.dims; rest /= loop.sizes[d], ++d)
        at[static_cast<size_t>(o)] += rest % loop.sizes[d] * operand.strides[d];
    }
    run_tile(loop, at, std::min(tiles.length, loop.sizes[0] - first), scratch);
  }
}

int TileProgram::run(const ProgramLoop& loop) const {
  if (loop.numel() == 0) return 1;
  const Tiles tiles = tiles_of(loop);
  const int64_t grain = std::max<int64_t>(1, kGrain / std::min(tiles.length, loop.sizes[0]));
  return parallel_for(tiles.count, grain,
                      [&](int64_t begin, int64_t end) { run_tiles(loop, tiles, begin, end); });
}

void TileProgram::run_here(const ProgramLoop& loop) const {
  if (loop.numel() == 0) return;
  const Tiles tiles = tiles_of(loop);
  run_tiles(loop, tiles, 0, tiles.count);
}

KernelRan run_program(const KernelCall& call) {
  const TileProgram program(*call.program);
  return {call.program->name, program.run(ProgramLoop::over(*call.program, call.outputs, call.inputs))};
}

}  // namespace epilogue::cpu
