// The instruction sets that CPU kernels are compiled for, and which of them runs. Sources that use Highway's
// dynamic dispatch include this first.
#pragma once

// Between scalar and AVX2 there is nothing: every x86 machine of the last ten years has AVX2.
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_SSE4)

#include <string_view>

namespace epilogue::cpu {

// Caps the instruction set by EPILOGUE_ISA, once; every dispatching kernel calls it first, which then costs a
// load and a branch. Throws Error when the variable names no instruction set.
void apply_isa_cap();

// "avx512", "avx2" or "scalar": what kernels use from now on; products of bf16 may go to AMX beyond it.
const char* isa_name();

// Whether products of bf16 go to AMX: the machine has it and no cap forbids it.
bool uses_amx();

// Caps it anew at "scalar", "avx2", "avx512" or "amx"; "" lifts the cap. Not to be called while kernels run.
// For tests and comparisons.
void set_isa_cap(std::string_view name);

}  // namespace epilogue::cpu
