// act(gate) * up on the CPU, compiled once per variant for that variant's instruction set. The formulas and
// the vector arithmetic are those of the built-in kernels, so the bits are too.
#include <iterator>

#include <string.h>

#include "backend/cpu/kernels/vector_math-inl.h"
#include "epilogue/kernel_abi.h"

#if HWY_TARGET != GEGLU_TARGET
#error "the compiler's flags do not give the instruction set of this variant"
#endif

namespace epilogue::cpu::HWY_NAMESPACE {

#define EPILOGUE_FN
#include "op/activation-inl.h"
#undef EPILOGUE_FN

struct GeluTanh {
  static HWY_INLINE F32x of(F32x x) { return gelu_tanh(x); }
};
struct Gelu {
  static HWY_INLINE F32x of(F32x x) { return gelu(x); }
};
struct Silu {
  static HWY_INLINE F32x of(F32x x) { return silu(x); }
};

template <class E>
struct Operands {
  const E *gate, *up;
  E* out;
};

template <class Act, class E>
void run_range(void* context, int64_t begin, int64_t end) {
  const Operands<E> on = *static_cast<const Operands<E>*>(context);
  constexpr int64_t kLanes = hn::MaxLanes(F32Tag());
  int64_t i = begin;
  for (; i + kLanes <= end; i += kLanes) store(Act::of(load(on.gate + i)) * load(on.up + i), on.out + i);
  if (i == end) return;
  E rest[3][kLanes] = {};
  const size_t bytes = static_cast<size_t>(end - i) * sizeof(E);
  memcpy(rest[0], on.gate + i, bytes);
  memcpy(rest[1], on.up + i, bytes);
  store(Act::of(load(rest[0])) * load(rest[1]), rest[2]);
  memcpy(on.out + i, rest[2], bytes);
}

template <class E>
E* data_of(const DLTensor& tensor) {
  return reinterpret_cast<E*>(static_cast<char*>(tensor.data) + tensor.byte_offset);
}

template <class Act, class E>
int32_t run(const EpCall* call) {
  Operands<E> on{data_of<E>(call->inputs[0]), data_of<E>(call->inputs[1]), data_of<E>(call->outputs[0])};
  int64_t count = 1;
  for (int32_t d = 0; d < call->outputs[0].ndim; ++d) count *= call->outputs[0].shape[d];
  constexpr int64_t kGrain = 16384;  // elements a thread is worth
  if (count <= kGrain)
    run_range<Act, E>(&on, 0, count);
  else
    call->host->parallel_for(count, kGrain, run_range<Act, E>, &on);
  return EP_OK;
}

constexpr DLDataType kF32{kDLFloat, 32, 1}, kBf16{kDLBfloat, 16, 1}, kF16{kDLFloat, 16, 1};
#define GEGLU_NAME(op, dtype) "pointwise_" op "_" EPILOGUE_ISA_NAME "_" dtype
#define GEGLU_KERNELS(op, Act)                                        \
  {op, kF32, GEGLU_NAME(op, "f32"), nullptr, run<Act, float>},        \
      {op, kBf16, GEGLU_NAME(op, "bf16"), nullptr, run<Act, Bf16>}, { \
    op, kF16, GEGLU_NAME(op, "f16"), nullptr, run<Act, F16>           \
  }
constexpr EpKernel kKernels[] = {GEGLU_KERNELS("gelu_tanh_mul", GeluTanh), GEGLU_KERNELS("gelu_mul", Gelu),
                                 GEGLU_KERNELS("silu_mul", Silu)};
constexpr EpPackage kPackage{EP_KERNEL_ABI_VERSION, 1, "epilogue/geglu", kKernels, std::size(kKernels)};

}  // namespace epilogue::cpu::HWY_NAMESPACE

extern "C" const EpPackage* ep_kernel_package(uint32_t host_abi_version) {
  return host_abi_version >= EP_KERNEL_ABI_VERSION ? &epilogue::cpu::HWY_NAMESPACE::kPackage : nullptr;
}
