#include "backend/cuda/program.h"

#include <algorithm>
#include <array>
#include <future>
#include <map>
#include <mutex>
#include <string>

#include <cuda_runtime.h>

#include <fmt/format.h>

#include "backend/cuda/check.h"
#include "backend/cuda/device.h"
#include "backend/cuda/gemm.h"
#include "backend/cuda/kernels/elementwise.h"
#include "backend/program_loop.h"
#include "base/check.h"
#include "codegen/cuda_source.h"
#include "codegen/nvrtc.h"

namespace epilogue::cuda {
namespace {

// Something for each kernel of a program.
template <class T>
struct OfKernels : std::array<T, codegen::kCudaKernels.size()> {
  T& of(codegen::CudaKernel kernel) { return (*this)[static_cast<size_t>(kernel)]; }
  const T& of(codegen::CudaKernel kernel) const { return (*this)[static_cast<size_t>(kernel)]; }
};
using Kernels = OfKernels<cudaKernel_t>;

// Loaded code stays for the life of the process: a call may be under way, or a recorded graph may hold it.
struct Loaded {
  std::mutex mutex;
  std::map<std::pair<int, std::string>, Kernels> kernels;
};

Loaded& loaded() {
  static auto* all = new Loaded;
  return *all;
}

std::string key_of(const PointwiseProgram& program) {
  return fmt::format("{} {}", program.name, program.to_string());
}

const Kernels* find_kernels(const PointwiseProgram& program, int device) {
  const std::lock_guard lock(loaded().mutex);
  const auto found = loaded().kernels.find({device, key_of(program)});
  return found == loaded().kernels.end() ? nullptr : &found->second;
}

std::string architecture_of(int device) {
  const cudaDeviceProp& properties = cuda_device(device).properties();
  return fmt::format("sm_{}{}", properties.major, properties.minor);
}

Kernels load(const PointwiseProgram& program, int device) {
  const auto compile = [&, architecture = architecture_of(device),
                        platform = cuda_device(device).platform()](codegen::CudaKernel kernel) {
    return codegen::nvrtc_compile_cached(codegen::cuda_source(program, kernel),
                                         codegen::cuda_kernel_name(program, kernel), architecture, platform);
  };
  OfKernels<std::future<std::string>> codes;
  for (const codegen::CudaKernel kernel : codegen::kCudaKernels)
    codes.of(kernel) = std::async(compile, kernel);
  cuda_device(device).make_current();
  Kernels kernels;
  for (const codegen::CudaKernel kernel : codegen::kCudaKernels) {
    const std::string code = codes.of(kernel).get(), name = codegen::cuda_kernel_name(program, kernel);
    cudaLibrary_t library = nullptr;
    EP_CUDA(cudaLibraryLoadData(&library, code.data(), nullptr, nullptr, 0, nullptr, nullptr, 0));
    EP_CUDA(cudaLibraryGetKernel(&kernels.of(kernel), library, name.c_str()));
  }
  return kernels;
}

template <class Arguments>
void launch(cudaKernel_t kernel, int64_t blocks, Arguments& arguments, LaunchOn on) {
  void* parameters[] = {&arguments};
  LaunchConfig config(blocks, codegen::kCudaThreads, on);
  EP_CUDA(cudaLaunchKernelExC(config.get(), reinterpret_cast<const void*>(kernel), parameters));
}

}  // namespace

void prepare_program(const PointwiseProgram& program, int device) {
  if (find_kernels(program, device)) return;
  const Kernels kernels = load(program, device);
  const std::lock_guard lock(loaded().mutex);
  loaded().kernels.emplace(std::pair(device, key_of(program)), kernels);
}

bool is_program_prepared(const PointwiseProgram& program, int device) {
  return find_kernels(program, device) != nullptr;
}

const char* refuse_program(const KernelCall& call) {
  return find_kernels(*call.program, device_of(call.output).index()) ? nullptr
                                                                     : "its kernel was not prepared";
}

KernelRan run_program(const KernelCall& call) {
  CudaDevice& device = device_of(call.output);
  const Kernels& kernels = *find_kernels(*call.program, device.index());
  const ProgramLoop loop = ProgramLoop::over(*call.program, call.outputs, call.inputs);
  codegen::RowsArguments rows;
  if (codegen::rows_arguments(*call.program, loop, rows)) {
    launch(kernels.of(codegen::has_single(*call.program, rows) ? codegen::CudaKernel::single
                                                               : codegen::CudaKernel::rows),
           std::max<int64_t>((rows.vectors + codegen::kCudaThreads - 1) / codegen::kCudaThreads, 1), rows,
           device.launch_on());
  } else {
    codegen::StridedArguments strided = codegen::strided_arguments(loop);
    const int64_t blocks = (strided.elements + codegen::kCudaThreads - 1) / codegen::kCudaThreads;
    launch(kernels.of(codegen::CudaKernel::strided), std::min<int64_t>(blocks, 1 << 16), strided,
           device.launch_on());
  }
  return {call.program->name};
}

Act epilogue_activation(const PointwiseProgram& program) {
  const bool alone = program.inputs.size() == 1 && program.steps.size() == 1 && program.outputs.size() == 1 &&
                     program.inputs[0].operand == ProgramInput::kProduct && program.inputs[0].column == 0 &&
                     program.inputs[0].dtype == program.outputs[0].dtype;
  if (!alone) return Act::none;
  const ProgramStep& step = program.steps[0];
  if (step.op == Op::relu) return Act::relu;
  return step.op == Op::gelu && step.approximate == GeluApproximate::tanh ? Act::gelu_tanh : Act::none;
}

const char* refuse_reference_epilogue(const KernelCall& call) {
  return epilogue_activation(*call.program) == Act::none ? "only an activation alone follows the plain kernel"
                                                         : nullptr;
}

KernelRan run_reference_epilogue(const KernelCall& call) {
  run_gemm_reference(call);
  const ProgramStep& step = call.program->steps[0];
  const Attrs attrs{.approximate = step.approximate};
  const Tensor product = call.output;
  run_pointwise({step.op, attrs, std::span(&product, 1), call.output});
  return {"gemm_reference"};
}

}  // namespace epilogue::cuda
