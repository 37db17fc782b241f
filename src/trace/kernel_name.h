// Takes a kernel's name apart: CUTLASS, cuBLAS, nvjet, cuDNN, ATen, Triton, flash attention, NCCL, copies,
// and ours on both devices. Every field carries how sure it is; nothing is guessed. The grammars and their
// sources stand in docs/kernel-names.md.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace epilogue::trace {

enum class Certainty : uint8_t {
  unknown,     // the name does not say, or says it in a word nobody has documented
  convention,  // inferred from how such names are known to be made
  stated,      // the name says it, by a documented grammar or in plain words
};
const char* certainty_name(Certainty certainty);

enum class NameField : uint8_t {
  vendor,        // who wrote the kernel: NVIDIA, PyTorch, ...
  family,        // the naming scheme: cutlass2, nvjet, aten, ...; "unknown" for a name of none
  op,            // GEMM, pointwise, reduction, attention, copy, ...
  runs,          // what it computes: ATen's functor, Inductor's fused ops, NCCL's collective
  function,      // the C++ function, without scopes and template arguments
  a,             // element types: the first operand (or only input),
  b,             // the second,
  accumulator,   // what sums are kept in,
  c,             // the addend read by the epilogue,
  d,             // and the result
  layout,        // n or t for each operand, in BLAS's column-major sense
  tile,          // output rows x columns of one block [x depth of one K step]
  stages,        // K steps in flight
  cluster,       // blocks that share loads, M x N [x K]
  instruction,   // the matrix instruction's M x N x K
  schedule,      // warpspecialized, pingpong, cooperative, 1sm, 2sm
  epilogue,      // what is done before the result is written: bias, relu, gelu
  split_k,       // on or off
  alignment,     // elements that operands are aligned to
  vector_width,  // elements per access
  arch,          // the architecture or instruction set it was built for
  count
};
inline constexpr size_t kNameFields = static_cast<size_t>(NameField::count);
const char* name_field_name(NameField field);  // "vendor", "split_k": also the JSON key

struct FieldValue {
  std::string value;  // empty: unknown
  Certainty certainty = Certainty::unknown;
  std::string token;  // the part of the name it was read from
};

struct KernelName {
  std::string name;       // as given
  std::string demangled;  // for a mangled name ("_ZN..."): up to its parameters
  std::array<FieldValue, kNameFields> fields;
  std::vector<FieldValue> features;  // what fits no field; Certainty::unknown: a word without a known meaning

  const FieldValue& operator[](NameField field) const { return fields[static_cast<size_t>(field)]; }
  const std::string& value(NameField field) const { return (*this)[field].value; }
  bool known() const { return value(NameField::family) != "unknown"; }
};

// What a reader would look for in a kernel of its op and the name does not say: of a GEMM its types, layout,
// tile and architecture, of a pointwise kernel what it computes and its types. Not every empty field.
std::vector<NameField> missing_fields(const KernelName& kernel);

// Never throws for any text; the work is linear in the name's length, and what is beyond 32 KiB is not read.
KernelName explain_kernel(std::string_view name);

// A compact form for tables: "gemm 128x128x64 bf16 tn", "vectorized_elementwise GeluCUDAKernelImpl<tanh>".
std::string short_name(std::string_view name);
std::string short_name(const KernelName& kernel);

// The shape of a row-major GEMM call and where it ran; 0 where the trace does not tell.
struct GemmCall {
  int64_t m = 0, n = 0, k = 0;
  int32_t multiprocessors = 0;
};

struct NameDifference {
  std::string field;  // name_field_name, or "waves" for what follows from the calls
  std::string a, b;
  std::string why;  // one or two sentences: why a library takes another kernel here
  Certainty certainty = Certainty::unknown;
};

// Why two GEMMs of one op have different names, most telling difference first. Empty when nothing that is
// known differs, or when either is no GEMM.
std::vector<NameDifference> compare_kernels(const KernelName& a, const KernelName& b,
                                            const GemmCall& call_a = {}, const GemmCall& call_b = {});

}  // namespace epilogue::trace
