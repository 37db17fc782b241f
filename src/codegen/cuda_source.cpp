#include "codegen/cuda_source.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/check.h"
#include "codegen/activation_text.h"

namespace epilogue::codegen {
namespace {

const char* element_type(DType dtype) {
  switch (dtype) {
    case DType::f32:
      return "float";
    case DType::bf16:
      return "bf16";
    case DType::f16:
      return "f16";
    case DType::f64:
      return "double";
    case DType::i32:
      return "unsigned";  // signed integers wrap as these do
    case DType::i64:
      return "unsigned long long";
  }
  fail("no such dtype");
}

bool is_half(DType dtype) { return dtype == DType::bf16 || dtype == DType::f16; }

// 16-bit elements are computed as the eager kernels compute them: by the special-function unit's exp and
// quotient, far more exact than their own rounding.
const char* computed_type(const PointwiseProgram& program) {
  const bool all_half =
      std::ranges::all_of(program.inputs, [](const ProgramInput& input) { return is_half(input.dtype); });
  return program.compute == DType::f32 && all_half ? "Quick" : element_type(program.compute);
}

constexpr const char* kPreamble = R"(struct bf16 { unsigned short bits; };
struct f16 { unsigned short bits; };
struct Quick {
  float value;
  __device__ explicit Quick(float v) : value(v) {}
  __device__ explicit Quick(double v) : value(float(v)) {}
};
__device__ inline Quick operator+(Quick a, Quick b) { return Quick(a.value + b.value); }
__device__ inline Quick operator-(Quick a, Quick b) { return Quick(a.value - b.value); }
__device__ inline Quick operator-(Quick a) { return Quick(-a.value); }
__device__ inline Quick operator*(Quick a, Quick b) { return Quick(a.value * b.value); }
__device__ inline Quick operator/(Quick a, Quick b) { return Quick(__fdividef(a.value, b.value)); }
__device__ inline bool operator<(Quick a, Quick b) { return a.value < b.value; }
__device__ inline Quick exp(Quick a) { return Quick(__expf(a.value)); }
__device__ inline float multiply_add(float a, float b, float c) { return fmaf(a, b, c); }
__device__ inline double multiply_add(double a, double b, double c) { return fma(a, b, c); }
__device__ inline Quick multiply_add(Quick a, Quick b, Quick c) { return Quick(fmaf(a.value, b.value, c.value)); }
template <class T> __device__ inline T widen(T x) { return x; }
__device__ inline float widen(bf16 x) { return __uint_as_float(unsigned(x.bits) << 16); }
__device__ inline float widen(f16 x) { float y; asm("cvt.f32.f16 %0, %1;" : "=f"(y) : "h"(x.bits)); return y; }
template <class T> struct Narrow {
  static __device__ T from(T x) { return x; }
};
template <> struct Narrow<float> {
  static __device__ float from(float x) { return x; }
  static __device__ float from(Quick x) { return x.value; }
};
template <> struct Narrow<bf16> {
  static __device__ bf16 from(float x) { bf16 y; asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(y.bits) : "f"(x)); return y; }
  static __device__ bf16 from(Quick x) { return from(x.value); }
};
template <> struct Narrow<f16> {
  static __device__ f16 from(float x) { f16 y; asm("cvt.rn.f16.f32 %0, %1;" : "=h"(y.bits) : "f"(x)); return y; }
  static __device__ f16 from(Quick x) { return from(x.value); }
};
template <class T, int kWidth> struct alignas(sizeof(T) * kWidth) Vector { T element[kWidth]; };
__device__ inline void begin_after_predecessor() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;");
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}
)";

std::string declarations() {
  return fmt::format(
      "struct RowsArguments {{ char* operand[{0}]; long long row[{0}], inner[{0}]; long long vectors, "
      "elements; "
      "unsigned row_vectors, unused; }};\n"
      "struct StridedArguments {{ char* operand[{0}]; long long strides[{0}][{1}]; long long sizes[{1}]; "
      "long long elements, dims; }};\n",
      ProgramLoop::kMostOperands, kMaxDims);
}

std::string expression(const ProgramStep& step) {
  switch (step.op) {
    case Op::add:
      return fmt::format("v{} + v{}", step.a, step.b);
    case Op::mul:
      return fmt::format("v{} * v{}", step.a, step.b);
    case Op::to:
      return step.dtype == DType::f32
                 ? fmt::format("v{}", step.a)
                 : fmt::format("Computed(widen(Narrow<{}>::from(v{})))", element_type(step.dtype), step.a);
    case Op::gelu_mul:
    case Op::silu_mul: {
      ProgramStep activation = step;
      activation.op = step.op == Op::gelu_mul ? Op::gelu : Op::silu;
      return fmt::format("{}(v{}) * v{}", step_name(activation), step.a, step.b);
    }
    default:
      return fmt::format("{}(v{})", step_name(step), step.a);
  }
}

// One element: loads as written by `load`, one per input, then the steps, then one store per output.
std::string body(const PointwiseProgram& program, const std::string& indent) {
  std::string text;
  for (size_t i = 0; i < program.steps.size(); ++i)
    text += fmt::format("{}const Computed v{} = {};\n", indent, program.inputs.size() + i,
                        expression(program.steps[i]));
  return text;
}

// A vector a thread: more would keep more loads under way, but a load that stands behind a condition is
// waited for where the condition ends (measured: 35.8 us for one vector, 36.5 for two, at 8192x3072).
// `with_single`: inputs may have one element for a whole row. Asking which is such a condition, so the usual
// kernel does not ask.
std::string rows_kernel(const PointwiseProgram& program, bool with_single) {
  const size_t outputs = program.outputs.size(), inputs = program.inputs.size();
  std::string text = fmt::format(
      "extern \"C\" __global__ void __launch_bounds__({0}) {1}(const RowsArguments arguments) {{\n"
      "  constexpr int kWidth = {2};\n"
      "  begin_after_predecessor();\n"
      "  const unsigned at = blockIdx.x * {0}u + threadIdx.x;\n"
      "  if (at < arguments.vectors) {{\n"
      "    const unsigned row = arguments.row_vectors == 0 ? 0 : at / arguments.row_vectors;\n"
      "    const long long column = (long long)(at - row * arguments.row_vectors) * kWidth;\n",
      kCudaThreads, cuda_kernel_name(program, with_single ? CudaKernel::single : CudaKernel::rows),
      cuda_vector_width(program));
  for (size_t i = 0; i < inputs; ++i) {
    const char* type = element_type(program.inputs[i].dtype);
    const std::string from = fmt::format("arguments.operand[{0}] + row * arguments.row[{0}]", outputs + i);
    const std::string vector =
        fmt::format("*reinterpret_cast<const Vector<{0}, kWidth>*>({1} + column * sizeof({0}))", type, from);
    if (with_single)
      text += fmt::format(
          "    Vector<{0}, kWidth> in{1};\n"
          "    if (arguments.inner[{2}] != 0) in{1} = {3};\n"
          "    else for (int e = 0; e < kWidth; ++e) in{1}.element[e] = *reinterpret_cast<const "
          "{0}*>({4});\n",
          type, i, outputs + i, vector, from);
    else
      text += fmt::format("    const Vector<{}, kWidth> in{} = {};\n", type, i, vector);
  }
  for (size_t o = 0; o < outputs; ++o)
    text += fmt::format("    Vector<{}, kWidth> out{};\n", element_type(program.outputs[o].dtype), o);
  text += "#pragma unroll\n    for (int e = 0; e < kWidth; ++e) {\n";
  for (size_t i = 0; i < inputs; ++i)
    text += fmt::format("      const Computed v{0}(widen(in{0}.element[e]));\n", i);
  text += body(program, "      ");
  for (size_t o = 0; o < outputs; ++o)
    text += fmt::format("      out{}.element[e] = Narrow<{}>::from(v{});\n", o,
                        element_type(program.outputs[o].dtype), program.outputs[o].value);
  text += "    }\n";
  for (size_t o = 0; o < outputs; ++o)
    text += fmt::format(
        "    *reinterpret_cast<Vector<{0}, kWidth>*>(arguments.operand[{1}] + row * arguments.row[{1}] + "
        "column * sizeof({0})) = out{1};\n",
        element_type(program.outputs[o].dtype), o);
  // One row alone may end within a vector.
  text +=
      "  }\n"
      "  const long long tail = arguments.vectors * kWidth + threadIdx.x;\n"
      "  if (blockIdx.x == 0 && tail < arguments.elements) {\n";
  for (size_t i = 0; i < inputs; ++i)
    text += fmt::format(
        "    const Computed v{0}(widen(*reinterpret_cast<const {1}*>(arguments.operand[{2}] + tail * "
        "arguments.inner[{2}])));\n",
        i, element_type(program.inputs[i].dtype), outputs + i);
  text += body(program, "    ");
  for (size_t o = 0; o < outputs; ++o)
    text +=
        fmt::format("    reinterpret_cast<{0}*>(arguments.operand[{1}])[tail] = Narrow<{0}>::from(v{2});\n",
                    element_type(program.outputs[o].dtype), o, program.outputs[o].value);
  return text + "  }\n}\n";
}

std::string strided_kernel(const PointwiseProgram& program) {
  const size_t outputs = program.outputs.size(), operands = outputs + program.inputs.size();
  std::string text = fmt::format(
      "extern \"C\" __global__ void __launch_bounds__({0}) {1}(const StridedArguments arguments) {{\n"
      "  begin_after_predecessor();\n"
      "  for (long long i = blockIdx.x * (long long){0} + threadIdx.x; i < arguments.elements; i += "
      "gridDim.x * "
      "(long long){0}) {{\n"
      "    long long rest = i, offset[{2}] = {{}};\n"
      "#pragma unroll 1\n"  // several divisions side by side take NVRTC 30 ms more
      "    for (int d = 0; d < arguments.dims; ++d) {{\n"
      "      const long long at = rest % arguments.sizes[d];\n"
      "      rest /= arguments.sizes[d];\n"
      "#pragma unroll\n"
      "      for (int o = 0; o < {2}; ++o) offset[o] += at * arguments.strides[o][d];\n"
      "    }}\n",
      kCudaThreads, cuda_kernel_name(program, CudaKernel::strided), operands);
  for (size_t i = 0; i < program.inputs.size(); ++i)
    text += fmt::format(
        "    const Computed v{0}(widen(*reinterpret_cast<const {1}*>(arguments.operand[{2}] + "
        "offset[{2}])));\n",
        i, element_type(program.inputs[i].dtype), outputs + i);
  text += body(program, "    ");
  for (size_t o = 0; o < outputs; ++o)
    text += fmt::format(
        "    *reinterpret_cast<{0}*>(arguments.operand[{1}] + offset[{1}]) = Narrow<{0}>::from(v{2});\n",
        element_type(program.outputs[o].dtype), o, program.outputs[o].value);
  return text + "  }\n}\n";
}

std::string kernel_text(const PointwiseProgram& program, CudaKernel kernel) {
  return "\n" + (kernel == CudaKernel::strided ? strided_kernel(program)
                                               : rows_kernel(program, kernel == CudaKernel::single));
}

std::string what_kernels_share(const PointwiseProgram& program) {
  return fmt::format("// {}\n{}#define EPILOGUE_FN __device__\n{}\n{}using Computed = {};\n",
                     program.to_string(), kPreamble, activation_text(), declarations(),
                     computed_type(program));
}

int largest_element(const PointwiseProgram& program) {
  size_t size = 0;
  for (const ProgramInput& input : program.inputs) size = std::max(size, dtype_size(input.dtype));
  for (const ProgramOutput& output : program.outputs) size = std::max(size, dtype_size(output.dtype));
  return static_cast<int>(size);
}

}  // namespace

int cuda_vector_width(const PointwiseProgram& program) { return 16 / largest_element(program); }

std::string cuda_kernel_name(const PointwiseProgram& program, CudaKernel kernel) {
  const char* suffix = kernel == CudaKernel::rows     ? ""
                       : kernel == CudaKernel::single ? "_single"
                                                      : "_strided";
  return std::string(program.name).append(suffix);
}

std::string cuda_source(const PointwiseProgram& program, CudaKernel kernel) {
  return what_kernels_share(program) + kernel_text(program, kernel);
}

std::string cuda_source(const PointwiseProgram& program) {
  std::string text = what_kernels_share(program);
  for (const CudaKernel kernel : kCudaKernels) text += kernel_text(program, kernel);
  return text;
}

bool has_single(const PointwiseProgram& program, const RowsArguments& arguments) {
  const size_t operands = program.outputs.size() + program.inputs.size();
  return std::any_of(arguments.inner, arguments.inner + operands, [](int64_t bytes) { return bytes == 0; });
}

bool rows_arguments(const PointwiseProgram& program, const ProgramLoop& loop, RowsArguments& arguments) {
  const int64_t width = cuda_vector_width(program);
  if (loop.dims > 2 || (loop.dims == 2 && loop.sizes[0] % width != 0)) return false;
  if (loop.numel() / width > INT64_C(0xffffffff)) return false;
  for (int o = 0; o < loop.operands; ++o) {
    const LoopOperand& operand = loop.operand[static_cast<size_t>(o)];
    const bool side_by_side = operand.strides[0] == operand.element_size;
    if (!side_by_side && (operand.strides[0] != 0 || o < loop.outputs)) return false;
    const int64_t bytes = side_by_side ? operand.element_size * width : operand.element_size;
    if (reinterpret_cast<uintptr_t>(operand.data) % static_cast<uintptr_t>(bytes) != 0) return false;
    if (loop.dims == 2 && operand.strides[1] % bytes != 0) return false;
    arguments.operand[o] = operand.data;
    arguments.row[o] = loop.dims == 2 ? operand.strides[1] : 0;
    arguments.inner[o] = operand.strides[0];
  }
  arguments.vectors = loop.numel() / width;
  arguments.elements = loop.dims == 1 ? loop.sizes[0] : 0;
  arguments.row_vectors = loop.dims == 2 ? static_cast<uint32_t>(loop.sizes[0] / width) : 0;
  return true;
}

StridedArguments strided_arguments(const ProgramLoop& loop) {
  StridedArguments arguments;
  for (int o = 0; o < loop.operands; ++o) {
    arguments.operand[o] = loop.operand[static_cast<size_t>(o)].data;
    std::ranges::copy(loop.operand[static_cast<size_t>(o)].strides, arguments.strides[o]);
  }
  std::ranges::copy(loop.sizes, arguments.sizes);
  arguments.elements = loop.numel();
  arguments.dims = loop.dims;
  return arguments;
}

}  // namespace epilogue::codegen
