// Plain names: Inductor's and Liger's Triton kernels, NCCL's, copies.
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
  // A foreach kernel holds whatever ops were batched, most often pointwise ones.
  out.set(NameField::op, std::string(row->op), kind == "for" ? Certainty::convention : Certainty::stated,
          kind);
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
  out.convention(NameField::op, std::string(row->op), name);
  out.convention(NameField::runs, std::string(row->runs), name);
  return true;
}

std::string memory_kind(std::string_view text) {  // "Memcpy HtoD (Pinned -> Device)": "Pinned -> Device"
  const size_t open = text.find('('), close = text.rfind(')');
  return open == text.npos || close == text.npos || close < open
             ? std::string{}
             : std::string(text.substr(open + 1, close - open - 1));
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
  out.family("", "nccl", prefix);
  out.convention(NameField::vendor, "NVIDIA", prefix);  // AMD's RCCL keeps the names
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
  // Kineto prints the same words for every vendor's driver.
  out.family(nsys ? "NVIDIA" : "", set ? "memset" : "memcpy", name.substr(0, nsys ? 12 : 6));
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

}  // namespace epilogue::trace
