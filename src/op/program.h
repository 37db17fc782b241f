// A pointwise program: what a group of pointwise ops computes for one element, as a short list of steps.
// Plain data that backends run: on the CPU tile by tile, on a GPU as a kernel made from its text.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "op/op.h"

namespace epilogue {

// A value of a program is a number: the inputs come first, then the results of the steps.
struct ProgramStep {
  Op op = Op::add;                                      // of class pointwise, or `to`, which rounds
  GeluApproximate approximate = GeluApproximate::none;  // gelu, gelu_mul
  DType dtype = DType::f32;                             // to
  int16_t a = 0, b = -1;                                // b: -1 for ops of one input
  int16_t slot = -1;  // where a runner may keep the result; set by finish_program
  bool operator==(const ProgramStep&) const = default;
};

struct ProgramInput {
  static constexpr int16_t kProduct = -1;

  DType dtype = DType::f32;
  int16_t operand =
      0;               // which of the call's tensors, or kProduct: the matrix product this is the epilogue of
  int64_t column = 0;  // of the product's columns, the first that is read
  bool operator==(const ProgramInput&) const = default;
};

struct ProgramOutput {
  int16_t value = 0;
  DType dtype = DType::f32;
  bool operator==(const ProgramOutput&) const = default;
};

struct PointwiseProgram {
  static constexpr int kMostInputs = 12, kMostSteps = 32, kMostOutputs = 4;

  std::vector<ProgramInput> inputs;
  std::vector<ProgramStep> steps;
  std::vector<ProgramOutput> outputs;
  DType compute = DType::f32;  // 16-bit floats are computed in f32 and rounded where they are stored
  int slots = 0;
  const char* name = "";  // "ep_fused_gelu_mul_0", lives as long as the process
  uint64_t id = 0;        // no two programs that finish_program has made share one, in a process

  int values() const { return static_cast<int>(inputs.size() + steps.size()); }
  // For people and as a key: "in0:f32 in1:f32 | v2 = gelu_tanh(in0) | ..."; without the name.
  std::string to_string() const;
};

// The dtype that elements of `dtype` are computed in.
DType program_compute_type(DType dtype);

// Joins an activation and the multiplication that alone reads it, drops steps nobody reads, gives steps their
// slots and the program its name, of which `number` is the last part.
void finish_program(PointwiseProgram& program, int number);

// "gelu_tanh", "add", "to_bf16": a step as names and texts have it.
std::string step_name(const ProgramStep& step);

}  // namespace epilogue
