// What the CPU backend found on this machine.
#pragma once

#include <string>

namespace epilogue::cpu {

// Whether the CPU multiplies bf16 itself, by AVX512-BF16 or AMX, and EPILOGUE_ISA lets it; otherwise it is
// emulated, or done in f32.
bool has_native_bf16();
bool has_emulated_bf16();  // by oneDNN, on AVX-512
std::string onednn_version();
std::string onednn_isa();  // "AVX-512"

}  // namespace epilogue::cpu
