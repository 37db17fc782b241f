// Attention: flash attention 2 and 3, PyTorch's memory-efficient kernels, cuDNN's; and cuDNN's convolutions.
#include <fmt/format.h>

#include "trace/kernel_name_parse.h"

namespace epilogue::trace {
namespace {

void set_direction(NameBuilder& out, bool backward, std::string_view token) {
  out.stated(NameField::runs, backward ? "backward" : "forward", token);
}

// Flash_fwd_kernel_traits<head dim, block M, block N, warps, ..., element type, ...>
void explain_flash2(const CppName& cpp, NameBuilder& out) {
  const Words traits = template_arguments(cpp.arguments[0]);
  if (traits.size() < 4) return;
  const std::string_view head = plain_argument(traits[0]), m = plain_argument(traits[1]),
                         n = plain_argument(traits[2]);
  if (!is_number(head) || !is_number(m) || !is_number(n)) return;
  out.convention(NameField::tile, fmt::format("{}x{}x{}", m, n, head),
                 fmt::format("{}, {}, {}", traits[0], traits[1], traits[2]));
  out.feature(fmt::format("head dimension {}", head), Certainty::convention, traits[0]);
  for (std::string_view trait : traits)
    if (const std::string type = element_type(trait); !type.empty())
      return out.convention(NameField::a, type, trait);
}

// CollectiveMainloopFwdSm90<stages, cluster, tile M x N x head dim, value head dim, element type,
// accumulator, ...>
void explain_flash3(std::string_view kernel, NameBuilder& out) {
  out.stated(NameField::op, "attention", kernel.substr(0, kernel.find('<')));
  set_direction(out, contains(kernel, "Bwd"), contains(kernel, "Bwd") ? "Bwd" : "Fwd");
  if (contains(kernel, "Combine")) out.feature("combines the parts of a split", Certainty::stated, "Combine");
  for (std::string_view arch : {"Sm80", "Sm90", "Sm100"})
    if (contains(kernel, arch)) out.stated(NameField::arch, "sm" + std::string(arch.substr(2)), arch);
  const Words mainloop = template_arguments(template_from(kernel, "CollectiveMainloopFwd"));
  if (mainloop.size() < 6) return;
  out.convention(NameField::stages, std::string(plain_argument(mainloop[0])), mainloop[0]);
  out.convention(NameField::cluster, cute_sizes(mainloop[1]), mainloop[1]);
  out.convention(NameField::tile, cute_sizes(mainloop[2]), mainloop[2]);
  out.convention(NameField::a, element_type(mainloop[4]), mainloop[4]);
  out.convention(NameField::accumulator, element_type(mainloop[5]), mainloop[5]);
}

// fmha_cutlassF_<type>_<aligned|notaligned>_<queries>x<keys>[_k<n>]_<rf|gmem>_sm<arch>, by PyTorch's
// generator.
void explain_fmha(std::string_view name, NameBuilder& out) {
  const Words words = split_words(name.substr(0, name.find('(')));
  out.family("PyTorch", "fmha-cutlass", words[1]);
  out.stated(NameField::op, "attention", words[0]);
  set_direction(out, words[1].ends_with('B'), words[1]);
  for (std::string_view word : std::span(words).subspan(2)) {
    if (const std::string type = element_type(word); !type.empty())
      out.stated(NameField::a, type, word);
    else if (!sizes_of(word).empty())
      out.stated(NameField::tile, std::string(word), word);
    else if (word.starts_with("sm"))
      out.stated(NameField::arch, std::string(word), word);
    else if (word == "rf" || word == "gmem")
      out.feature(word == "rf" ? "output kept in registers" : "output kept in global memory",
                  Certainty::stated, word);
    else
      out.feature(std::string(word), Certainty::stated, word);
  }
}

// cudnn_generated_fort_native_sdpa_sm<arch>_flash_<fprop|bprop>_..._knob_<n>_<M>x<N>x<K>_...
void explain_cudnn_sdpa(std::string_view name, NameBuilder& out) {
  const Words words = split_words(name);
  out.family("NVIDIA", "cudnn", "cudnn_generated");
  out.stated(NameField::op, "attention", "sdpa");
  for (size_t i = 5; i < words.size(); ++i) {
    const std::string_view word = words[i];
    if (word.starts_with("sm") && is_number(word.substr(2)))
      out.stated(NameField::arch, std::string(word), word);
    else if (word == "fprop" || word == "bprop")
      set_direction(out, word == "bprop", word);
    else if (sizes_of(word).size() == 3 && out.kernel().value(NameField::tile).empty())
      out.convention(NameField::tile, std::string(word), word);
    else if (word == "f16")
      out.feature("f16: a 16-bit type; bf16 runs under the same word", Certainty::convention, word);
    else if (word.starts_with("cga"))
      out.convention(NameField::cluster, std::string(word.substr(3)), word);
    else
      out.unknown_word(word);
  }
}

}  // namespace

bool explain_attention(std::string_view name, const CppName& cpp, NameBuilder& out) {
  if (name.starts_with("fmha_cutlass")) return explain_fmha(name, out), true;
  if (name.starts_with("cudnn_generated_fort_native_sdpa")) return explain_cudnn_sdpa(name, out), true;
  const std::string_view first = cpp.arguments.empty() ? std::string_view{} : cpp.arguments[0];
  const bool flash2 = cpp.function.starts_with("flash_fwd_") || cpp.function.starts_with("flash_bwd_");
  const bool flash3 = cpp.scope.starts_with("cutlass::") && first.starts_with("flash::");
  if (!flash2 && !flash3 && cpp.scope != "flash::") return false;
  out.family("Dao-AILab", flash3 ? "flash-attention-3" : "flash-attention", flash3 ? "flash::" : cpp.function,
             flash3 || cpp.scope.ends_with("flash::") ? Certainty::stated : Certainty::convention);
  out.stated(NameField::function, std::string(cpp.function), cpp.function);
  if (flash3) {
    explain_flash3(first, out);
  } else if (flash2) {
    out.stated(NameField::op, "attention", cpp.function);
    set_direction(out, cpp.function.starts_with("flash_bwd_"), cpp.function);
    if (contains(cpp.function, "splitkv"))
      out.feature(
          contains(cpp.function, "combine") ? "combines the parts of a split" : "keys and values are split",
          Certainty::stated, "splitkv");
    if (!first.empty()) explain_flash2(cpp, out);
  } else {
    out.stated(NameField::runs, std::string(cpp.function), cpp.function);
  }
  if (cpp.scope == "pytorch_flash::") out.feature("built into PyTorch", Certainty::stated, "pytorch_flash");
  return true;
}

// maxwell_scudnn_..., volta_s884cudnn_..., implicit_convolve_sgemm<...>, cudnn::...
bool explain_cudnn(std::string_view name, const CppName& cpp, NameBuilder& out) {
  const bool scoped = cpp.scope.starts_with("cudnn::");
  const bool implicit = cpp.function.starts_with("implicit_convolve_");
  const size_t word = name.find("cudnn_");
  const bool by_architecture = (name.starts_with("maxwell_") || name.starts_with("volta_") ||
                                name.starts_with("turing_") || name.starts_with("ampere_")) &&
                               word != name.npos;
  if (!scoped && !implicit && !by_architecture) return false;
  out.family("NVIDIA", "cudnn",
             scoped     ? cpp.scope
             : implicit ? cpp.function
                        : name.substr(0, word + 5),
             implicit && !scoped ? Certainty::convention : Certainty::stated);
  out.stated(NameField::function, std::string(cpp.function), cpp.function);
  if (implicit || contains(cpp.function, "winograd") || by_architecture)
    out.convention(NameField::op, "convolution", cpp.function);
  if (contains(cpp.function, "winograd")) out.feature("winograd", Certainty::stated, "winograd");
  if (contains(cpp.function, "nchwToNhwc") || contains(cpp.function, "nhwcToNchw"))
    out.stated(NameField::op, "copy", cpp.function);
  if (implicit && !cpp.arguments.empty())
    out.convention(NameField::a, element_type(cpp.arguments[0]), cpp.arguments[0]);
  return true;
}

}  // namespace epilogue::trace
