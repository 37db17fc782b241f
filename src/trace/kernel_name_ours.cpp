// Our own names, by the grammar of docs/kernel-names.md.
#include <algorithm>

#include "trace/kernel_name_parse.h"

namespace epilogue::trace {
namespace {

bool is_pointwise(std::string_view word) {
  constexpr std::string_view kWords[] = {"add",  "sub",   "mul",    "div",     "gelu", "silu",
                                         "relu", "geglu", "swiglu", "sigmoid", "tanh", "pointwise"};
  return std::ranges::find(kWords, word) != std::end(kWords);
}

// "" where no word of it is known.
std::string op_of(std::string_view what) {
  if (contains(what, "gemv")) return "GEMV";
  for (std::string_view word : {"gemm", "matmul", "linear", "gated"})
    if (contains(what, word)) return "GEMM";
  if (contains(what, "copy") || contains(what, "pack")) return "copy";
  if (contains(what, "fill")) return "fill";
  if (contains(what, "reduce") || contains(what, "sum")) return "reduction";
  return std::ranges::any_of(split_words(what), is_pointwise) ? "pointwise" : "";
}

bool is_instruction_set(std::string_view word) {
  constexpr std::string_view kSets[] = {"scalar", "sse41", "avx", "avx2", "avx512", "amx", "neon", "sve"};
  return std::ranges::find(kSets, word) != std::end(kSets);
}

bool is_type(std::string_view word) { return !element_type(word).empty(); }

// The words of ops of two operands, which are of one dtype: ours ("gelu_tanh_mul" is gelu(a) * b), and those
// that packages name their kernels by.
bool takes_two(std::string_view what) {
  constexpr std::string_view kOps[] = {"add", "sub", "mul", "div", "geglu", "swiglu"};
  const Words words = split_words(what);
  return std::ranges::any_of(
      words, [&](std::string_view word) { return std::ranges::find(kOps, word) != std::end(kOps); });
}

// What stands behind the dtype: how it is done.
void explain_how(std::string_view word, NameBuilder& out) {
  const std::string_view rest = word.empty() ? word : word.substr(1);
  if (sizes_of(word).size() >= 2)
    out.stated(NameField::tile, std::string(word), word);
  else if (word.starts_with("sm") && is_number(word.substr(2, 2)))
    out.stated(NameField::arch, std::string(word), word);
  else if (word.starts_with('s') && is_number(rest))
    out.stated(NameField::stages, std::string(rest), word);
  else if (word.starts_with('c') && !sizes_of(rest).empty())
    out.stated(NameField::cluster, std::string(rest), word);
  else if (word.starts_with('v') && is_number(rest))
    out.stated(NameField::vector_width, std::string(rest), word);
  else if (word == "pingpong" || word == "cooperative")
    out.stated(NameField::schedule, std::string(word), word);
  else if (word == "splitk")
    out.stated(NameField::split_k, "on", word);
  else
    out.feature(std::string(word), Certainty::stated, word);
}

void set_types(std::string_view word, NameBuilder& out) {
  const std::string type = element_type(word);
  out.stated(NameField::a, type, word), out.stated(NameField::d, type, word);
  const std::string& op = out.kernel().value(NameField::op);
  const bool two = op == "pointwise" && takes_two(out.kernel().value(NameField::runs));
  if (op == "GEMM" || op == "GEMV" || two) out.stated(NameField::b, type, word);
}

// <what>[_<isa>]_<dtype>[_from_<dtype>][_<how>]...; both <what> and <isa> may hold underscores.
void explain_words(std::span<const std::string_view> words, NameBuilder& out) {
  std::string what, isa;
  size_t i = 0;
  // avx512_bf16 is an instruction set when another dtype follows.
  const auto goes_on = [&] {
    return !is_type(words[i]) || (isa == "avx512" && i + 1 < words.size() && is_type(words[i + 1]));
  };
  for (; i < words.size() && goes_on(); ++i)
    append_part(is_instruction_set(words[i]) || !isa.empty() ? isa : what, words[i], "_");
  out.stated(NameField::op, op_of(what), what);
  out.stated(NameField::runs, what, what);
  out.stated(NameField::arch, isa, isa);
  if (i < words.size()) set_types(words[i++], out);
  if (i + 1 < words.size() && words[i] == "from" && is_type(words[i + 1])) {
    out.stated(NameField::accumulator, out.kernel().value(NameField::a), words[i - 1]);
    set_types(words[i + 1], out);
    i += 2;
  }
  if (i < words.size() && words[i] == "bf16x3")
    out.feature("each number as 3 of bf16", Certainty::stated, words[i++]);
  // Behind a product's dtype stand the steps of its epilogue.
  const auto how = words.subspan(std::min(i, words.size()));
  const bool product = out.kernel().value(NameField::op) == "GEMM";
  if (product && !how.empty() && std::ranges::all_of(how, is_pointwise)) {
    const std::string_view steps(
        how.front().data(), static_cast<size_t>(how.back().data() + how.back().size() - how.front().data()));
    out.stated(NameField::epilogue, std::string(steps), steps);
    return;
  }
  for (; i < words.size(); ++i) explain_how(words[i], out);
}

// gemm_reference_f64: what runs where no other product does.
bool explain_reference(const Words& words, NameBuilder& out) {
  if (words.size() != 3 || words[0] != "gemm" || words[1] != "reference" || !is_type(words[2])) return false;
  out.family("Epilogue", "epilogue-cpu", words[1]);
  explain_words(words, out);
  return true;
}

// copy_<from>_<to>_<isa> and fill_<dtype>: others use such names too.
bool explain_copy_or_fill(const Words& words, NameBuilder& out) {
  const bool fill = words.size() == 2 && words[0] == "fill" && is_type(words[1]);
  const bool copy = words.size() == 4 && words[0] == "copy" && is_type(words[1]) && is_type(words[2]) &&
                    is_instruction_set(words[3]);
  if (!fill && !copy) return false;
  out.family("Epilogue", "epilogue-cpu", words[0], copy ? Certainty::stated : Certainty::convention);
  out.stated(NameField::op, std::string(words[0]), words[0]);
  out.stated(fill ? NameField::d : NameField::a, element_type(words[1]), words[1]);
  if (copy) out.stated(NameField::d, element_type(words[2]), words[2]);
  if (copy) out.stated(NameField::arch, std::string(words[3]), words[3]);
  return true;
}

bool explain_compiled(std::string_view name, NameBuilder& out) {
  constexpr std::string_view kPrefix = "ep_fused_";
  if (!name.starts_with(kPrefix) || name.size() == kPrefix.size()) return false;
  std::string_view fused = name.substr(kPrefix.size());
  const size_t last = fused.rfind('_');
  if (last != fused.npos && is_number(fused.substr(last + 1))) fused = fused.substr(0, last);
  out.family("Epilogue", "epilogue-compiled", kPrefix);
  out.stated(NameField::op, op_of(fused), fused);
  out.stated(NameField::runs, std::string(fused), fused);
  return true;
}

// "... [epilogue/geglu@1]": the kernel package it comes from. Takes it off the name.
std::string_view take_package(std::string_view& name) {
  const size_t begin = name.rfind(" [");
  if (begin == name.npos || begin == 0 || name.back() != ']') return {};
  const std::string_view package = name.substr(begin + 2, name.size() - begin - 3);
  if (!contains(package, "/") || !contains(package, "@")) return {};
  name = name.substr(0, begin);
  return package;
}

}  // namespace

bool explain_ours(std::string_view name, NameBuilder& out) {
  const std::string_view package = take_package(name);
  const Words words = split_words(name);
  if (explain_compiled(name, out) || explain_copy_or_fill(words, out) || explain_reference(words, out))
    return true;
  const std::string_view provider = words[0];
  const bool onednn = provider == "onednn", pointwise = provider == "pointwise", panel = provider == "panel";
  if ((provider != "epilogue" && !onednn && !pointwise && !panel) || words.size() < 3) return false;
  if (std::ranges::none_of(words, is_type)) return false;
  out.family(onednn ? "Intel" : "Epilogue",
             onednn               ? "onednn"
             : pointwise || panel ? "epilogue-cpu"
                                  : "epilogue-cuda",
             provider);
  explain_words(std::span(words).subspan(1), out);
  if (pointwise) out.stated(NameField::op, "pointwise", provider);
  if (!package.empty()) out.feature("kernel package " + std::string(package), Certainty::stated, package);
  return true;
}

}  // namespace epilogue::trace
