// Plain names: Inductor's and Liger's Triton kernels, NCCL's, copies, and our own.
#include <algorithm>

#include <fmt/format.h>

#include "trace/kernel_name_parse.h"

namespace epilogue::trace {
namespace {

struct InductorKind {
  std::string_view word, op;
};
constexpr InductorKind kInductorKinds[] = {
    {"poi", "pointwise"}, {"red", "reduction"}, {"per", "reduction"},
    {"tem", ""},          {"for", "pointwise"}, {"spl", "scan"},
};

bool has_word(std::string_view fused, std::string_view word) {
  const Words words = split_words(fused);
  return std::ranges::find(words, word) != words.end();
}

// triton_<kind>_fused_<ops>_<n>
bool explain_inductor(std::string_view name, NameBuilder& out) {
  if (!name.starts_with("triton_") || name.size() < 17 || name.substr(10, 7) != "_fused_") return false;
  const std::string_view kind = name.substr(7, 3);
  const auto* row = std::ranges::find(kInductorKinds, kind, &InductorKind::word);
  if (row == std::end(kInductorKinds)) return false;
  std::string_view fused = name.substr(17);
  if (const size_t last = fused.rfind('_'); last != fused.npos && is_number(fused.substr(last + 1)))
    fused = fused.substr(0, last);
  else if (is_number(fused))
    fused = {};
  out.family("PyTorch", "inductor", "triton");
  out.stated(NameField::op, std::string(row->op), kind);
  out.stated(NameField::runs, std::string(fused), fused);
  if (kind == "per")
    out.feature("persistent: a row of the reduction stays in registers", Certainty::stated, kind);
  if (kind != "tem") return true;
  out.feature("made from a template", Certainty::stated, kind);
  if (contains(fused, "flex_attention"))
    out.convention(NameField::op, "attention", "flex_attention");
  else if (has_word(fused, "convolution"))
    out.convention(NameField::op, "convolution", "convolution");
  else if (has_word(fused, "mm") || has_word(fused, "addmm") || has_word(fused, "bmm"))
    out.convention(NameField::op, "GEMM", fused);
  return true;
}

// The functions of Liger-Kernel; a plain Triton kernel has its function's name.
struct LigerKernel {
  std::string_view name, op, runs;
};
constexpr LigerKernel kLiger[] = {
    {"_geglu_tanh_forward_kernel", "pointwise", "gelu(a) * b, tanh form"},
    {"_geglu_tanh_backward_kernel", "pointwise", "gelu(a) * b, tanh form, backward"},
    {"_swiglu_forward_kernel", "pointwise", "silu(a) * b"},
    {"_swiglu_backward_kernel", "pointwise", "silu(a) * b, backward"},
    {"_rms_norm_forward_kernel", "normalisation", "RMS norm"},
    {"_rms_norm_backward_kernel", "normalisation", "RMS norm, backward"},
    {"_block_rms_norm_forward_kernel", "normalisation", "RMS norm"},
    {"_block_rms_norm_backward_kernel", "normalisation", "RMS norm, backward"},
    {"_fused_add_rms_norm_forward_kernel", "normalisation", "add and RMS norm"},
    {"_fused_add_rms_norm_backward_kernel", "normalisation", "add and RMS norm, backward"},
    {"_layer_norm_forward_kernel", "normalisation", "layer norm"},
    {"_layer_norm_backward_kernel", "normalisation", "layer norm, backward"},
    {"liger_cross_entropy_kernel", "loss", "cross entropy"},
    {"_triton_rope", "pointwise", "rotary embedding"},
};

bool explain_liger(std::string_view name, NameBuilder& out) {
  const auto* row = std::ranges::find(kLiger, name, &LigerKernel::name);
  if (row == std::end(kLiger)) return false;
  out.family("LinkedIn", "liger", name,
             name.starts_with("liger_") ? Certainty::stated : Certainty::convention);
  out.stated(NameField::op, std::string(row->op), name);
  out.convention(NameField::runs, std::string(row->runs), name);
  return true;
}

std::string memory_kind(std::string_view text) {  // "Memcpy HtoD (Pinned -> Device)": "Pinned -> Device"
  const size_t open = text.find('('), close = text.rfind(')');
  return open == text.npos || close == text.npos || close < open
             ? std::string{}
             : std::string(text.substr(open + 1, close - open - 1));
}

// A dtype stands between what our kernel does and how: <what>_<dtype>_<how>.
void explain_how(std::string_view word, NameBuilder& out) {
  const bool tile = sizes_of(word).size() >= 2;
  if (tile)
    out.stated(NameField::tile, std::string(word), word);
  else if (word.size() > 1 && word[0] == 's' && is_number(word.substr(1)))
    out.stated(NameField::stages, std::string(word.substr(1)), word);
  else if (word.size() > 1 && word[0] == 'c' && !sizes_of(word.substr(1)).empty())
    out.stated(NameField::cluster, std::string(word.substr(1)), word);
  else if (word.size() > 1 && word[0] == 'v' && is_number(word.substr(1)))
    out.stated(NameField::vector_width, std::string(word.substr(1)), word);
  else if (word.starts_with("sm") && word.size() > 2 && is_number(word.substr(2, 2)))
    out.stated(NameField::arch, std::string(word), word);
  else if (word == "pingpong" || word == "cooperative")
    out.stated(NameField::schedule, std::string(word), word);
  else if (word.starts_with("splitk"))
    out.stated(NameField::split_k, "on", word);
  else
    out.feature(std::string(word), Certainty::stated, word);
}

std::string op_of_ours(std::string_view what) {
  for (std::string_view word : {"gemm", "matmul", "linear", "gemv", "brgemm"})
    if (contains(what, word)) return word == "gemv" ? "GEMV" : "GEMM";
  if (contains(what, "copy") || contains(what, "transpose") || contains(what, "pack")) return "copy";
  if (contains(what, "fill")) return "fill";
  if (contains(what, "reduce") || contains(what, "sum")) return "reduction";
  if (contains(what, "gated")) return "GEMM";
  return "pointwise";
}

constexpr std::string_view kInstructionSets[] = {"sse41", "sse42", "avx",    "avx2", "avx512", "amx",
                                                 "neon",  "sve",   "scalar", "jit",  "ref",    "any"};

// <provider>_<what>[_<isa>]_<dtype>[_<how>]...
void explain_own_words(std::span<const std::string_view> words, std::string prefix, NameBuilder& out) {
  std::string what = std::move(prefix), isa;
  size_t i = 0;
  for (; i < words.size() && element_type(words[i]).empty(); ++i) {
    const bool is_isa = std::ranges::find(kInstructionSets, words[i]) != std::end(kInstructionSets);
    if (is_isa || !isa.empty())  // avx512_core_amx is one instruction set
      append_part(isa, words[i], "_");
    else
      append_part(what, words[i], "_");
  }
  out.stated(NameField::op, op_of_ours(what), what);
  out.stated(NameField::runs, what, what);
  out.stated(NameField::arch, isa, isa);
  if (i < words.size()) {
    const std::string type = element_type(words[i]);
    out.stated(NameField::a, type, words[i]), out.stated(NameField::d, type, words[i]);
    if (out.kernel().value(NameField::op) == "GEMM") out.stated(NameField::b, type, words[i]);
    ++i;
  }
  for (; i < words.size(); ++i) explain_how(words[i], out);
}

}  // namespace

bool explain_triton(std::string_view name, NameBuilder& out) {
  return explain_inductor(name, out) || explain_liger(name, out);
}

// ncclDevKernel_<collective>[_<op>_<type>]_<algorithm>_<protocol>; before 2.20 ncclKernel_<...>_<op>_<type>.
// Any such kernel can run any collective with any algorithm and protocol: the name is the case it was
// specialised for.
bool explain_nccl(std::string_view name, NameBuilder& out) {
  if (name.starts_with("void ")) name.remove_prefix(5);
  const std::string_view prefix = name.starts_with("ncclDevKernel_") ? "ncclDevKernel_"
                                  : name.starts_with("ncclKernel_")  ? "ncclKernel_"
                                                                     : "";
  if (prefix.empty()) return false;
  const Words words = split_words(name.substr(prefix.size(), name.find('(') - prefix.size()));
  out.family("NVIDIA", "nccl", prefix);
  out.stated(NameField::op, "collective", prefix);
  if (words[0] != "Generic") out.convention(NameField::runs, std::string(words[0]), words[0]);
  for (std::string_view word : std::span(words).subspan(1)) {
    if (const std::string type = element_type(word); !type.empty())
      out.convention(NameField::a, type, word);
    else
      out.feature(std::string(word), Certainty::convention, word);
  }
  out.feature("may run another collective, algorithm or protocol than its name", Certainty::stated, prefix);
  return true;
}

bool explain_copy(std::string_view name, NameBuilder& out) {
  const bool nsys = name.starts_with("[CUDA mem");
  const bool set = name.starts_with("Memset") || name.starts_with("[CUDA memset");
  const bool copy = name.starts_with("Memcpy") || name.starts_with("[CUDA memcpy");
  if (!set && !copy) return false;
  out.family("NVIDIA", set ? "memset" : "memcpy", name.substr(0, nsys ? 12 : 6));
  out.stated(NameField::op, set ? "memset" : "copy", name.substr(0, nsys ? 12 : 6));
  constexpr std::pair<std::string_view, std::string_view> kWays[] = {
      {"HtoD", "host to device"},
      {"Host-to-Device", "host to device"},
      {"DtoH", "device to host"},
      {"DtoD", "device to device"},
      {"Device-to-Device", "device to device"},
      {"Device-to-Host", "device to host"},
      {"HtoH", "host to host"},
      {"PtoP", "device to another device"},
  };
  for (const auto& [word, way] : kWays)
    if (contains(name, word)) out.stated(NameField::runs, std::string(way), word);
  if (const std::string memory = memory_kind(name); !memory.empty())
    out.feature(memory, Certainty::stated, memory);
  return true;
}

bool explain_ours(std::string_view name, NameBuilder& out) {
  if (name.starts_with("ep_fused_")) {
    std::string_view fused = name.substr(9);
    const size_t last = fused.rfind('_');
    if (last != fused.npos && is_number(fused.substr(last + 1))) fused = fused.substr(0, last);
    out.family("Epilogue", "epilogue-compiled", "ep_fused");
    out.stated(NameField::op, "pointwise", "ep_fused");
    out.stated(NameField::runs, std::string(fused), fused);
    return true;
  }
  const Words words = split_words(name);
  const std::string_view provider = words[0];
  const bool cpu = provider == "pointwise" || provider == "onednn";
  if ((provider != "epilogue" && !cpu) || words.size() < 3) return false;
  if (cpu && std::ranges::none_of(words, [](std::string_view w) { return !element_type(w).empty(); }))
    return false;
  out.family("Epilogue",
             provider == "onednn" ? "epilogue-onednn"
             : cpu                ? "epilogue-cpu"
                                  : "epilogue-cuda",
             provider);
  explain_own_words(std::span(words).subspan(1), {}, out);
  if (provider == "onednn") out.set(NameField::vendor, "Intel", Certainty::stated, provider);
  if (provider == "pointwise") out.stated(NameField::op, "pointwise", provider);
  return true;
}

}  // namespace epilogue::trace
