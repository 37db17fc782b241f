// The words that CUTLASS's and cuBLAS's GEMM names share. Internal to kernel_name.
#pragma once

#include <optional>
#include <span>

#include "trace/kernel_name_parse.h"

namespace epilogue::trace {

// "s16816gemm", "sgemm", "s64x128x16gemm", "s1688tf32gemm", "s1688fprop": the word every such name turns on.
struct GemmCore {
  std::string accumulator;  // "f32"; empty where the word has no letter ("gemm")
  std::string instruction;  // "16x8x16"; empty without tensor cores
  std::string math;         // "tf32" in s1688tf32gemm: what operands are converted to
  std::string op;           // "GEMM", "sparse GEMM" or "convolution"
};
std::optional<GemmCore> parse_core(std::string_view word);
void explain_core(std::string_view word, Certainty certainty, NameBuilder& out);

// The type of C and D where the name gives one for both.
void set_result_type(NameBuilder& out, const std::string& type, std::string_view token, Certainty certainty);

// The core and everything behind it: types, tile, K x stages, layout, alignment, epilogue. Types that the
// name leaves out are the accumulator's. `types` is how sure their places are.
void explain_gemm_words(std::span<const std::string_view> words, Certainty types, NameBuilder& out);

}  // namespace epilogue::trace
