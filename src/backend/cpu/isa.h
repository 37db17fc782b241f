// The instruction sets that CPU kernels are compiled for, and which of them runs. Sources that use Highway's
// dynamic dispatch include this first.
#pragma once

// Between scalar and AVX2 there is nothing: every x86 machine of the last ten years has AVX2. Nor above
// AVX-512: what is there beyond it is asked for by name (bf16_pairs-inl.h, amx.h).
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_SSE4 | (HWY_AVX3 - 1))

#include <cstdint>
#include <string_view>

namespace epilogue::cpu {

// Caps the instruction set by EPILOGUE_ISA, once; every dispatching kernel calls it first, which then costs a
// load and a branch. Throws Error when the variable names no instruction set.
void apply_isa_cap();

// "avx512", "avx2" or "scalar": what kernels use from now on; products may go to AVX512-BF16 or AMX.
const char* isa_name();

// Whether products go to AMX, or else those of bf16 to AVX512-BF16: the machine has it and no cap forbids it.
bool uses_amx();
bool uses_avx512_bf16();
bool has_avx512_bf16();  // whatever the cap

// Whether products of f32 may go to AMX too, where there is one (EPILOGUE_SPLIT_F32), and from how many rows.
// Fewer wait for the weight, which is half as large again in AMX's form: layers of 768/3072 and 1024/4096
// took as long either way with 48 rows, on two cores of an Emerald Rapids.
bool splits_f32();
inline constexpr int64_t kSplitRows = 64;

// Caps it anew at "scalar", "avx2", "avx512", "avx512_bf16" or "amx"; "" lifts the cap. Not to be called
// while kernels run. For tests and comparisons.
void set_isa_cap(std::string_view name);

}  // namespace epilogue::cpu
