#include "op/program.h"

#include <algorithm>
#include <atomic>

#include <fmt/format.h>

#include "base/check.h"
#include "base/intern.h"

namespace epilogue {
namespace {

const char* plain_name(Op op) { return op_row(op).name + 4; }  // behind "ep::"

std::vector<int> count_reads(const PointwiseProgram& program) {
  std::vector<int> reads(static_cast<size_t>(program.values()));
  for (const ProgramStep& step : program.steps) {
    ++reads[static_cast<size_t>(step.a)];
    if (step.b >= 0) ++reads[static_cast<size_t>(step.b)];
  }
  for (const ProgramOutput& output : program.outputs) ++reads[static_cast<size_t>(output.value)];
  return reads;
}

bool is_activation(const ProgramStep& step) { return step.op == Op::gelu || step.op == Op::silu; }

// gelu(a) times b is one step: the eager kernels have it as one, too.
void join_gates(PointwiseProgram& program) {
  const std::vector<int> reads = count_reads(program);
  const auto inputs = static_cast<int>(program.inputs.size());
  const auto joinable = [&](int value) {
    return value >= inputs && reads[static_cast<size_t>(value)] == 1 &&
           is_activation(program.steps[static_cast<size_t>(value - inputs)]);
  };
  for (ProgramStep& step : program.steps) {
    if (step.op != Op::mul || step.a == step.b) continue;
    if (!joinable(step.a)) std::swap(step.a, step.b);
    if (!joinable(step.a)) {
      std::swap(step.a, step.b);
      continue;
    }
    const ProgramStep activation = program.steps[static_cast<size_t>(step.a - inputs)];
    step.op = activation.op == Op::gelu ? Op::gelu_mul : Op::silu_mul;
    step.approximate = activation.approximate;
    step.a = activation.a;
  }
}

void drop_unread(PointwiseProgram& program) {
  const size_t inputs = program.inputs.size();
  std::vector<bool> read(static_cast<size_t>(program.values()));
  for (const ProgramOutput& output : program.outputs) read[static_cast<size_t>(output.value)] = true;
  for (size_t i = program.steps.size(); i-- > 0;) {
    if (!read[inputs + i]) continue;
    read[static_cast<size_t>(program.steps[i].a)] = true;
    if (program.steps[i].b >= 0) read[static_cast<size_t>(program.steps[i].b)] = true;
  }
  std::vector<int16_t> renamed(read.size());
  int16_t next = 0;
  for (size_t v = 0; v < read.size(); ++v) {
    renamed[v] = next;
    if (v < inputs || read[v]) ++next;
  }
  std::vector<ProgramStep> kept;
  for (size_t i = 0; i < program.steps.size(); ++i) {
    if (!read[inputs + i]) continue;
    ProgramStep step = program.steps[i];
    step.a = renamed[static_cast<size_t>(step.a)];
    if (step.b >= 0) step.b = renamed[static_cast<size_t>(step.b)];
    kept.push_back(step);
  }
  program.steps = std::move(kept);
  for (ProgramOutput& output : program.outputs) output.value = renamed[static_cast<size_t>(output.value)];
}

// A slot is free again after the last read of what it holds, so that few of them fill L1.
void assign_slots(PointwiseProgram& program) {
  const auto inputs = static_cast<int>(program.inputs.size());
  std::vector<size_t> last_read(static_cast<size_t>(program.values()));
  for (size_t i = 0; i < program.steps.size(); ++i) {
    last_read[static_cast<size_t>(program.steps[i].a)] = i;
    if (program.steps[i].b >= 0) last_read[static_cast<size_t>(program.steps[i].b)] = i;
  }
  for (const ProgramOutput& output : program.outputs)
    last_read[static_cast<size_t>(output.value)] = program.steps.size();
  std::vector<int16_t> free;
  program.slots = 0;
  for (size_t i = 0; i < program.steps.size(); ++i) {
    ProgramStep& step = program.steps[i];
    if (free.empty()) free.push_back(static_cast<int16_t>(program.slots++));
    step.slot = free.back();
    free.pop_back();
    for (size_t before = 0; before <= i; ++before)
      if (last_read[static_cast<size_t>(inputs) + before] == i && before < i)
        free.push_back(program.steps[before].slot);
  }
}

std::string joined_names(const PointwiseProgram& program) {
  constexpr size_t kMost = 48;
  std::string names;
  for (const ProgramStep& step : program.steps) {
    const std::string name = plain_name(step.op);
    if (names.size() + name.size() > kMost) return names + "_more";
    names += (names.empty() ? "" : "_") + name;
  }
  return names.empty() ? "copy" : names;
}

}  // namespace

DType program_compute_type(DType dtype) {
  return dtype == DType::bf16 || dtype == DType::f16 ? DType::f32 : dtype;
}

std::string step_name(const ProgramStep& step) {
  const bool tanh = step.approximate == GeluApproximate::tanh;
  switch (step.op) {
    case Op::gelu:
      return tanh ? "gelu_tanh" : "gelu";
    case Op::gelu_mul:
      return tanh ? "gelu_tanh_mul" : "gelu_mul";
    case Op::to:
      return std::string("to_") + dtype_name(step.dtype);
    default:
      return plain_name(step.op);
  }
}

std::string PointwiseProgram::to_string() const {
  std::string text = fmt::format("{}:", dtype_name(compute));
  for (size_t i = 0; i < inputs.size(); ++i) {
    text += fmt::format("{} v{}:{}", i ? "," : "", i, dtype_name(inputs[i].dtype));
    if (inputs[i].operand != ProgramInput::kProduct)
      text += fmt::format("={}", inputs[i].operand);
    else
      text += inputs[i].column ? fmt::format("=product[:, {}:]", inputs[i].column) : "=product";
  }
  for (size_t i = 0; i < steps.size(); ++i) {
    text += fmt::format("; v{} = {}(v{}", inputs.size() + i, step_name(steps[i]), steps[i].a);
    text += steps[i].b >= 0 ? fmt::format(", v{})", steps[i].b) : ")";
  }
  text += "; ->";
  for (const ProgramOutput& output : outputs)
    text += fmt::format(" v{}:{}", output.value, dtype_name(output.dtype));
  return text;
}

void finish_program(PointwiseProgram& program, int number) {
  EP_CHECK(static_cast<int>(program.inputs.size()) <= PointwiseProgram::kMostInputs &&
               static_cast<int>(program.steps.size()) <= PointwiseProgram::kMostSteps &&
               static_cast<int>(program.outputs.size()) <= PointwiseProgram::kMostOutputs,
           "a pointwise program has at most {} inputs, {} steps and {} outputs; got {}, {} and {}",
           PointwiseProgram::kMostInputs, PointwiseProgram::kMostSteps, PointwiseProgram::kMostOutputs,
           program.inputs.size(), program.steps.size(), program.outputs.size());
  const std::string names = joined_names(program);  // as they were written, before gates are joined
  join_gates(program);
  drop_unread(program);
  assign_slots(program);
  static std::atomic<uint64_t> made{0};
  program.id = ++made;
  program.name = intern(fmt::format("ep_fused_{}_{}", names, number));
}

}  // namespace epilogue
