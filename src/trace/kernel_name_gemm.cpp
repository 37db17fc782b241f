#include "trace/kernel_name_gemm.h"

#include <fmt/format.h>

namespace epilogue::trace {
namespace {

std::string accumulator_of(char letter) {
  switch (letter) {
    case 's':
      return "f32";
    case 'd':
      return "f64";
    case 'h':
      return "f16";
    case 'i':
      return "s32";
    case 'c':
      return "cf32";
    case 'z':
      return "cf64";
    default:
      return {};
  }
}

std::string instruction_of(std::string_view digits) {
  constexpr std::pair<std::string_view, std::string_view> kShapes[] = {
      {"884", "8x8x4"},     {"1688", "16x8x8"},     {"16816", "16x8x16"},   {"16832", "16x8x32"},
      {"16864", "16x8x64"}, {"168128", "16x8x128"}, {"168256", "16x8x256"}, {"8816", "8x8x16"},
      {"8832", "8x8x32"},   {"161616", "16x16x16"}, {"32816", "32x8x16"},   {"83216", "8x32x16"},
      {"1684", "16x8x4"},   {"88128", "8x8x128"},
  };
  for (const auto& [text, shape] : kShapes)
    if (digits == text) return std::string(shape);
  return sizes_of(digits).empty() ? std::string{} : std::string(digits);
}

void explain_word(std::string_view word, NameBuilder& out) {
  const KernelName& kernel = out.kernel();
  const std::vector<int> sizes = sizes_of(word);
  if (sizes.size() == 2 && kernel.value(NameField::tile).empty()) {
    out.stated(NameField::tile, std::string(word), word);
  } else if (sizes.size() == 2 && kernel.value(NameField::stages).empty()) {
    const FieldValue tile = kernel[NameField::tile];
    out.set(NameField::tile, fmt::format("{}x{}", tile.value, sizes[0]), tile.certainty,
            fmt::format("{}_{}", tile.token, word));
    out.stated(NameField::stages, fmt::format("{}", sizes[1]), word);
  } else if (is_layout(word)) {
    out.stated(NameField::layout, std::string(word), word);
  } else if (word.starts_with("align") && is_number(word.substr(5))) {
    out.stated(NameField::alignment, std::string(word.substr(5)), word);
  } else if (word == "relu") {
    out.convention(NameField::epilogue, "relu (built in; whether it is applied is decided at launch)", word);
  } else if (word == "splitK") {
    out.stated(NameField::split_k, "on", word);
  } else if (!word.empty() && word != "stages") {
    out.unknown_word(word);
  }
}

}  // namespace

std::optional<GemmCore> parse_core(std::string_view word) {
  GemmCore core;
  constexpr std::pair<std::string_view, std::string_view> kOps[] = {
      {"spgemm", "sparse GEMM"}, {"gemm", "GEMM"},         {"fprop", "convolution"},
      {"dgrad", "convolution"},  {"wgrad", "convolution"},
  };
  size_t end = word.npos;
  for (const auto& [text, op] : kOps)
    if (word.ends_with(text)) {
      core.op = op;
      end = word.size() - text.size();
      break;
    }
  if (end == word.npos || word.size() > 40) return std::nullopt;
  std::string_view before = word.substr(0, end);
  if (before.empty()) return core;
  if (before == "gc") before = "c";  // cuBLAS's complex kernels for general use
  core.accumulator = accumulator_of(before.front());
  if (core.accumulator.empty()) return std::nullopt;
  before.remove_prefix(1);
  const size_t digits = before.find_first_not_of("0123456789x");
  const std::string_view shape = before.substr(0, digits);
  core.instruction = instruction_of(shape);
  if (!shape.empty() && core.instruction.empty()) return std::nullopt;
  if (digits != before.npos) {
    core.math = element_type(before.substr(digits));
    if (core.math.empty()) return std::nullopt;
  }
  return core;
}

void explain_core(std::string_view word, Certainty certainty, NameBuilder& out) {
  const std::optional<GemmCore> core = parse_core(word);
  if (!core) return;
  out.stated(NameField::op, core->op, word);
  out.set(NameField::accumulator, core->accumulator, certainty, word);
  out.set(NameField::instruction, core->instruction, certainty, word);
  if (!core->math.empty())
    out.feature(fmt::format("operands are rounded to {} for the tensor cores", core->math), certainty, word);
}

void set_result_type(NameBuilder& out, const std::string& type, std::string_view token, Certainty certainty) {
  out.set(NameField::c, type, certainty, token);
  out.set(NameField::d, type, certainty, token);
}

void explain_gemm_words(std::span<const std::string_view> words, Certainty types, NameBuilder& out) {
  const std::string_view core_word = words[0];
  explain_core(core_word, types, out);
  const std::string accumulator = out.kernel().value(NameField::accumulator);
  if (out.kernel().value(NameField::d).empty()) set_result_type(out, accumulator, core_word, types);
  std::string operand = accumulator;
  std::string_view operand_word = core_word;
  for (std::string_view word : words.subspan(1)) {
    const std::string type = element_type(word);
    if (type.empty() || !out.kernel().value(NameField::tile).empty()) {
      explain_word(word, out);
    } else {
      operand = type;
      operand_word = word;
    }
  }
  out.set(NameField::a, operand, types, operand_word);
  out.set(NameField::b, operand, types, operand_word);
  const std::string& instruction = out.kernel().value(NameField::instruction);
  const std::optional<GemmCore> core = parse_core(core_word);
  const bool names_math = core && !core->math.empty();
  if (operand == "f32" && !instruction.empty() && !names_math)
    out.feature("tensor cores over f32 operands: tf32 arithmetic", Certainty::convention, core_word);
}

}  // namespace epilogue::trace
