// cuBLAS and cuBLASLt: the kernels named by architecture, xmma, nvjet, and the C++ templates around them.
#include <algorithm>

#include <fmt/format.h>

#include "trace/kernel_name_gemm.h"

namespace epilogue::trace {
namespace {

// ampere_[<C>_]<core>_[<A>_]<M>x<N>[_sliced1x2]_ldg8[_relu]_f2f_stages_<K>x<S>_<AB>: CUTLASS 2's order of
// words.
bool explain_by_architecture(std::string_view name, NameBuilder& out) {
  constexpr std::pair<std::string_view, std::string_view> kArchitectures[] = {
      {"maxwell", "sm50"}, {"pascal", "sm60"}, {"volta", "sm70"}, {"turing", "sm75"}, {"ampere", "sm80"},
  };
  Words words = split_words(name);
  size_t i = 0;
  if (words[0] == "trt") ++i;
  if (i >= words.size()) return false;
  const auto* arch = std::ranges::find(kArchitectures, words[i], [](const auto& row) { return row.first; });
  if (arch == std::end(kArchitectures)) return false;
  const std::string_view arch_word = words[i++];
  std::string result;
  std::string_view result_word;
  for (; i < words.size() && !parse_core(words[i]); ++i) {
    if (words[i].ends_with("cudnn")) return false;
    const std::string type = element_type(words[i]);
    if (type.empty()) return false;
    result = type;
    result_word = words[i];
  }
  if (i == words.size()) return false;
  out.family("NVIDIA", "cublas", arch_word, Certainty::convention);
  out.convention(NameField::arch, std::string(arch->second), arch_word);  // the name states a generation
  if (!result.empty()) set_result_type(out, result, result_word, Certainty::convention);
  if (words.back() == "kernel") words.pop_back();
  explain_gemm_words(std::span(words).subspan(i), Certainty::convention, out);
  for (NameField field : {NameField::tile, NameField::stages})
    out.convention(field, out.kernel().value(field), out.kernel()[field].token);
  return true;
}

// "bf16f32": {"bf16", "f32"}; empty when the word is not two types.
std::pair<std::string, std::string> type_pair(std::string_view word) {
  for (size_t at = 2; at + 2 <= word.size() && at <= 5; ++at) {
    std::string first = element_type(word.substr(0, at)), second = element_type(word.substr(at));
    if (!first.empty() && !second.empty()) return {std::move(first), std::move(second)};
  }
  return {};
}

// A bias and an activation are two words.
void add_epilogue(std::string_view word, NameBuilder& out) {
  const FieldValue& before = out.kernel()[NameField::epilogue];
  std::string value = before.value, token = before.token;
  append_part(value, word, ", ");
  append_part(token, word, ", ");
  out.stated(NameField::epilogue, std::move(value), token);
}

void explain_xmma_word(std::string_view word, NameBuilder& out) {
  const auto after = [&](std::string_view prefix) { return std::string(word.substr(prefix.size())); };
  if (word.starts_with("tilesize") && !sizes_of(after("tilesize")).empty()) {
    out.stated(NameField::tile, after("tilesize"), word);
  } else if (word.starts_with("stage") && is_number(after("stage"))) {
    out.stated(NameField::stages, after("stage"), word);
  } else if (word.starts_with("aligna")) {
    out.stated(NameField::alignment, after("aligna"), word);
  } else if (word.starts_with("tensor") && !sizes_of(after("tensor")).empty()) {
    out.stated(NameField::instruction, after("tensor"), word);
  } else if (word == "ffma") {
    out.feature("ffma: no tensor cores", Certainty::convention, word);
  } else if (word.starts_with("splitK") || word.starts_with("splitk")) {
    out.stated(NameField::split_k, "on", word);
  } else if (word == "bias" || word == "relu" || word == "gelu") {
    add_epilogue(word, out);
  } else if (word == "cublas" || word == "cudnn" || word == "trt") {
    out.feature(fmt::format("shipped in {}", word), Certainty::convention, word);
  } else if (!word.empty() && word != "execute" && word != "kernel" && word != "5x") {
    out.unknown_word(word);
  }
}

// sm<arch>_xmma_<op>_<in><out>_<math><acc>_<scale>_<AB>_<C>_tilesize<MxNxK>_...: the order of the types
// follows from e4m3bf16_e4m3f32_f32 (fp8 in, bf16 out) and f32f32_tf32f32_f32 (f32 in and out, tf32
// arithmetic).
bool explain_xmma(std::string_view name, NameBuilder& out) {
  Words words = split_words(name);
  if (words.size() < 4 || !words[0].starts_with("sm") || words[1] != "xmma") return false;
  const bool convolution = words[2] == "fprop" || words[2] == "dgrad" || words[2] == "wgrad";
  if (words[2] != "gemm" && !convolution) return false;
  out.family("NVIDIA", "xmma", words[1]);
  out.stated(NameField::arch, std::string(words[0]), words[0]);
  out.stated(NameField::op, convolution ? "convolution" : "GEMM", words[2]);
  int pairs = 0;
  for (size_t i = 3; i < words.size(); ++i) {
    const std::string_view word = words[i];
    const auto [first, second] = type_pair(word);
    if (!first.empty() && pairs == 0) {
      out.convention(NameField::a, first, word), out.convention(NameField::b, first, word);
      out.convention(NameField::d, second, word);
      ++pairs;
    } else if (!first.empty() && pairs == 1) {
      out.convention(NameField::accumulator, second, word);
      if (first != out.kernel().value(NameField::a))
        out.feature(fmt::format("operands are rounded to {} for the tensor cores", first),
                    Certainty::convention, word);
      if (i + 1 < words.size() && !element_type(words[i + 1]).empty()) ++i;  // the type of alpha and beta
      ++pairs;
    } else if (is_layout(word) && i + 1 < words.size() && words[i + 1].size() == 1) {
      out.convention(NameField::layout, std::string(word), word);
      ++i;
    } else if (word == "segment" && i + 2 < words.size()) {
      out.convention(NameField::split_k, std::string(words[i + 2]), "segment_k");
      i += 2;
    } else {
      explain_xmma_word(word, out);
    }
  }
  return true;
}

// cuBLAS's type letters, as in its documentation of cublas<t>gemm and of the fp8 types.
std::string letter_type(char letter) {
  switch (letter) {
    case 'd':
      return "f64";
    case 's':
      return "f32";
    case 'h':
      return "f16";
    case 't':
      return "bf16";
    case 'q':
      return "e4m3";
    case 'r':
      return "e5m2";
    case 'i':
      return "s32";
    case 'b':
      return "s8";
    default:
      return {};
  }
}

void explain_letters(std::string_view word, NameBuilder& out) {
  std::string all;
  for (char letter : word.substr(0, 8)) {
    const std::string type = letter_type(letter);
    if (type.empty()) return out.unknown_word(word);
    append_part(all, type, " ");
  }
  if (word.size() != 3) {
    out.feature(fmt::format("types {}, in an order that is not documented", all), Certainty::convention,
                word);
    return;
  }
  out.convention(NameField::a, letter_type(word[0]), word),
      out.convention(NameField::b, letter_type(word[0]), word);
  out.convention(NameField::accumulator, letter_type(word[1]), word);
  out.convention(NameField::d, letter_type(word[2]), word);
}

void explain_nvjet_word(std::string_view word, int& sizes_seen, NameBuilder& out) {
  const std::vector<int> sizes = sizes_of(word);
  const bool upper_layout = word.size() >= 2 && word.find_first_not_of("NT") == word.npos;
  if (sizes.size() >= 2 && sizes_seen < 3) {
    if (sizes_seen == 0) {
      out.convention(NameField::tile, std::string(word), word);
    } else if (sizes_seen == 1) {
      const FieldValue tile = out.kernel()[NameField::tile];
      out.convention(NameField::tile, fmt::format("{}x{}", tile.value, sizes[0]),
                     fmt::format("{}_{}", tile.token, word));
      out.convention(NameField::stages, fmt::format("{}", sizes[1]), word);
    } else {
      out.convention(NameField::cluster, std::string(word), word);
    }
    ++sizes_seen;
  } else if (upper_layout) {
    std::string layout;
    for (char c : word.substr(0, 2)) layout += c == 'T' ? 't' : 'n';
    out.convention(NameField::layout, layout, word);
  } else if (word == "splitK") {
    out.stated(NameField::split_k, "on", word);
  } else if (word == "bias" || word == "relu" || word == "gelu") {
    add_epilogue(word, out);
  } else if (word == "2cta") {
    out.feature("two blocks work on one tile", Certainty::convention, word);
  } else {
    out.unknown_word(word);
  }
}

// What follows `mma` in the names of sm120 and sm121: <M>x<N>x<K>_<stages>_<inner tile>. False when a word is
// none of these.
bool explain_nvjet_mma_word(std::string_view word, NameBuilder& out) {
  const bool has_tile = !out.kernel().value(NameField::tile).empty();
  const bool has_stages = !out.kernel().value(NameField::stages).empty();
  if (sizes_of(word).size() == 3 && !has_tile)
    out.convention(NameField::tile, std::string(word), word);
  else if (sizes_of(word).size() == 3)
    out.feature(fmt::format("inner tile {}", word), Certainty::convention, word);
  else if (is_number(word) && has_tile && !has_stages)
    out.convention(NameField::stages, std::string(word), word);
  else
    return false;
  return true;
}

// nvjet[_sm<arch>]_<types>_<M>x<N>_<K>x<stages>_<cluster>[_2cta]_<h|v>_<bz|badd|bx>[_coopA][_splitK][_bias]_<TNT>
bool explain_nvjet(std::string_view name, NameBuilder& out) {
  const Words words = split_words(name);
  if (words[0] != "nvjet" || words.size() < 2) return false;
  out.family("NVIDIA", "nvjet", words[0]);
  out.convention(NameField::op, "GEMM", words[0]);
  size_t i = 1;
  if (words[i].starts_with("sm") && is_number(words[i].substr(2))) {
    out.stated(NameField::arch, std::string(words[i]), words[i]);
    ++i;
  }
  int sizes_seen = 0;
  if (i < words.size()) explain_letters(words[i++], out);
  const bool mma = i < words.size() && words[i] == "mma";
  if (mma) out.feature("mma instructions", Certainty::convention, words[i++]);
  for (; i < words.size(); ++i)
    if (!mma || !explain_nvjet_mma_word(words[i], out)) explain_nvjet_word(words[i], sizes_seen, out);
  return true;
}

// Element types from position `at` on: A, x, y and what sums are kept in, as gemv's templates list them.
void explain_gemv_types(const CppName& cpp, size_t at, NameBuilder& out) {
  Words types;
  for (size_t i = at; i < cpp.arguments.size() && !element_type(cpp.arguments[i]).empty(); ++i)
    types.push_back(cpp.arguments[i]);
  const bool all_same = std::ranges::adjacent_find(types, std::not_equal_to<>()) == types.end();
  if (types.size() != 4 && !(all_same && types.size() >= 2)) return;
  out.convention(NameField::a, element_type(types[0]), types[0]);
  out.convention(NameField::b, element_type(types[1]), types[1]);
  out.convention(NameField::d, element_type(types.size() == 4 ? types[2] : types[0]), types[0]);
  out.convention(NameField::accumulator, element_type(types.back()), types.back());
}

struct CublasTemplate {
  std::string_view function;  // the function's name begins so
  std::string_view op, runs, note;
};
constexpr CublasTemplate kTemplates[] = {
    {"gemv", "GEMV", "matrix times vector", ""},
    {"dot_kernel", "reduction", "dot product", ""},
    {"reduce_1Block_kernel", "reduction", "second step of a dot product", ""},
    {"splitKreduce_kernel", "reduction", "sums the parts of a split-K GEMM", ""},
    {"globalKernel", "pointwise", "epilogue of a GEMM that has none of its own",
     "which epilogue is a launch argument"},
    {"scal_kernel", "pointwise", "scales a matrix", ""},
    {"gemmk1_kernel", "GEMM", "GEMM with K = 1", ""},
    {"gemmSN_", "GEMM", "GEMM with a small N", ""},
    {"sgemm_largek", "GEMM", "f32 GEMM with a large K", ""},
    {"magma_sgemmEx_kernel", "GEMM", "f32 GEMM from MAGMA", ""},
};

}  // namespace

bool explain_cublas(std::string_view name, NameBuilder& out) {
  if (const size_t parameters = name.find_first_of(" (<"); parameters != name.npos)
    name = name.substr(0, parameters);
  return explain_nvjet(name, out) || explain_xmma(name, out) || explain_by_architecture(name, out);
}

bool explain_cublas_cpp(const CppName& cpp, NameBuilder& out) {
  const bool library = cpp.scope.starts_with("cublasLt::") || cpp.scope.starts_with("internal::gemvx");
  if (!library && !cpp.scope.empty()) return false;
  const std::string_view function = cpp.scope.starts_with("internal::gemvx") ? "gemvx" : cpp.function;
  const auto* row = std::ranges::find_if(
      kTemplates, [&](const CublasTemplate& t) { return function.starts_with(t.function); });
  if (row == std::end(kTemplates) || cpp.arguments.empty()) return false;
  out.family("NVIDIA", "cublas", function, library ? Certainty::stated : Certainty::convention);
  out.stated(NameField::function, std::string(function), function);
  out.convention(NameField::op, std::string(row->op), function);
  out.convention(NameField::runs, std::string(row->runs), function);
  if (!row->note.empty()) out.feature(std::string(row->note), Certainty::stated, "cublasLtEpilogue_t");
  if (row->op == "GEMV")
    explain_gemv_types(cpp, cpp.arguments[0] == "int" ? 2 : 0, out);
  else if (function.starts_with("gemmk1") || function.starts_with("dot_") || function.starts_with("gemmSN"))
    out.convention(NameField::a, element_type(cpp.arguments[cpp.arguments[0] == "int" ? 1 : 0]),
                   cpp.arguments[0]);
  else if (function.starts_with("sgemm"))
    for (NameField field : {NameField::a, NameField::b, NameField::accumulator, NameField::d})
      out.convention(field, "f32", function.substr(0, 5));
  if (function.starts_with("gemv2T") || function.starts_with("gemv2N"))
    out.convention(NameField::layout, function[5] == 'T' ? "t" : "n", function);
  if (function.starts_with("gemmSN_TN") || function.starts_with("gemmSN_NN"))
    out.convention(NameField::layout, function[7] == 'T' ? "tn" : "nn", function);
  return true;
}

}  // namespace epilogue::trace
