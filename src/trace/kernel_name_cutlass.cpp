// CUTLASS: the procedural names of its library (documented in its profiler guide), and its C++ templates.
#include <algorithm>
#include <optional>

#include <fmt/format.h>

#include "trace/kernel_name_gemm.h"

namespace epilogue::trace {
namespace {

// cutlass_[<sm>_]<class>_[<C>_]<accumulator><instruction>gemm_[<A>_]<M>x<N>_<K>x<stages>_<AB>_align<n>
bool explain_cutlass2(std::string_view name, NameBuilder& out) {
  Words words = split_words(name);
  size_t i = 1;
  if (i < words.size() && is_number(words[i])) {
    out.stated(NameField::arch, fmt::format("sm{}", words[i]), words[i]);
    ++i;
  }
  for (; i < words.size() && !parse_core(words[i]); ++i) {
    if (words[i] == "tensorop" || words[i] == "simt" || words[i] == "wmma" || words[i] == "sptensorop")
      out.feature(words[i] == "simt" ? "simt: no tensor cores" : std::string(words[i]), Certainty::stated,
                  words[i]);
    else if (const std::string type = element_type(words[i]); !type.empty())
      set_result_type(out, type, words[i], Certainty::stated);
    else
      out.unknown_word(words[i]);
  }
  if (i == words.size()) return false;
  out.family("NVIDIA", "cutlass2", words[0]);
  explain_gemm_words(std::span(words).subspan(i), Certainty::stated, out);
  return true;
}

void explain_cutlass3_tail(std::span<const std::string_view> words, NameBuilder& out) {
  std::string schedule, epilogue;
  for (size_t i = 0; i < words.size(); ++i) {
    const std::string_view word = words[i];
    if (word == "warpspecialized" || word == "pingpong" || word == "cooperative" || word == "1sm" ||
        word == "2sm" || word == "cpasync")
      append_part(schedule, word, " ");
    else if (word == "epi" && i + 1 < words.size())
      append_part(epilogue, words[++i] == "tma" ? "tma store" : words[i], " ");
    else if (word == "bias" || word == "relu" || word == "gelu" || word == "silu")
      append_part(epilogue, word, " ");
    else if (word == "k" && i > 0 && words[i - 1] == "stream")
      out.stated(NameField::split_k, "stream-K", "stream_k");
    else if (word != "stream" && (element_type(word).empty() || epilogue.empty()))
      out.unknown_word(word);
  }
  out.stated(NameField::schedule, schedule, schedule);
  out.stated(NameField::epilogue, epilogue, epilogue);
}

// cutlass3x_sm<arch>_<class>_<core>_<A>_<B>_<acc>_<C>_<D>_<MxNxK>_<cluster>_<stages>_<ABC>_align<n>[_<schedule>]
bool explain_cutlass3(std::string_view name, NameBuilder& out) {
  Words words = split_words(name);
  size_t i = 1;
  if (i < words.size() && words[i].starts_with("sm")) {
    out.stated(NameField::arch, std::string(words[i]), words[i]);
    ++i;
  }
  for (; i < words.size() && !parse_core(words[i]); ++i)
    out.feature(std::string(words[i]), Certainty::stated, words[i]);
  if (i == words.size()) return false;
  out.family("NVIDIA", "cutlass3", words[0]);
  explain_core(words[i], Certainty::stated, out);
  size_t types = ++i;
  while (i < words.size() && sizes_of(words[i]).empty()) ++i;
  if (i - types == 5) {
    constexpr NameField kOrder[] = {NameField::a, NameField::b, NameField::accumulator, NameField::c,
                                    NameField::d};
    for (NameField field : kOrder) {
      const std::string_view word = words[types++];
      const std::string type = element_type(word);
      out.stated(field, type.empty() ? std::string(word) : type, word);
    }
  }
  if (i < words.size()) out.stated(NameField::tile, std::string(words[i]), words[i]), ++i;
  if (i < words.size() && !sizes_of(words[i]).empty()) {
    out.stated(NameField::cluster, words[i] == "0x0x1" ? "chosen at launch" : std::string(words[i]),
               words[i]);
    ++i;
  }
  if (i < words.size() && is_number(words[i])) {
    out.stated(NameField::stages, words[i] == "0" ? "auto" : std::string(words[i]), words[i]);
    ++i;
  }
  if (i < words.size() && is_layout(words[i]))
    out.stated(NameField::layout, std::string(words[i]), words[i]), ++i;
  if (i < words.size() && words[i].starts_with("align")) {
    out.stated(NameField::alignment, std::string(words[i].substr(5)), words[i]);
    ++i;
  }
  explain_cutlass3_tail(std::span(words).subspan(std::min(i, words.size())), out);
  return true;
}

void explain_collective(std::string_view kernel, NameBuilder& out) {
  const Words mma = template_arguments(template_from(kernel, "CollectiveMma<"));
  if (mma.size() < 5) return;
  const Words policy = template_arguments(mma[0]);
  if (!policy.empty() && is_number(plain_argument(policy[0])))
    out.convention(NameField::stages, std::string(plain_argument(policy[0])), policy[0]);
  for (std::string_view part : policy)
    if (part.starts_with("cute::tuple<")) out.convention(NameField::cluster, cute_sizes(part), part);
  out.convention(NameField::tile, cute_sizes(mma[1]), mma[1]);
  out.convention(NameField::a, element_type(mma[2]), mma[2]);
  out.convention(NameField::b, element_type(mma[4]), mma[4]);
}

}  // namespace

bool explain_cutlass(std::string_view name, NameBuilder& out) {
  if (const size_t parameters = name.find_first_of(" (<"); parameters != name.npos)
    name = name.substr(0, parameters);
  if (name.starts_with("cutlass3x_")) return explain_cutlass3(name, out);
  if (name.starts_with("cutlass_")) return explain_cutlass2(name, out);
  return false;
}

bool explain_cutlass_cpp(const CppName& cpp, NameBuilder& out) {
  if (!cpp.scope.starts_with("cutlass") || cpp.arguments.empty()) return false;
  const std::string_view kernel = cpp.arguments[0];
  if (explain_cutlass(kernel, out)) return true;
  if (cpp.function != "device_kernel" && !cpp.function.starts_with("Kernel")) return false;
  if (!contains(kernel, "cutlass::gemm::") && !contains(kernel, "cutlass::conv::")) return false;
  out.family("NVIDIA",
             contains(kernel, "Collective") || cpp.function == "device_kernel" ? "cutlass3" : "cutlass2",
             kernel.substr(0, 60));
  out.stated(NameField::function, std::string(cpp.function), cpp.function);
  const bool convolution = contains(kernel, "cutlass::conv::");
  out.stated(NameField::op, convolution ? "convolution" : "GEMM",
             convolution ? "cutlass::conv" : "cutlass::gemm");
  if (contains(kernel, "GroupProblemShape") || contains(kernel, "GemmGrouped"))
    out.feature("grouped: many problems in one launch", Certainty::stated, "Group");
  for (std::string_view arch : {"Sm70", "Sm75", "Sm80", "Sm89", "Sm90", "Sm100", "Sm120"})
    if (contains(kernel, arch)) out.stated(NameField::arch, "sm" + std::string(arch.substr(2)), arch);
  std::string schedule;
  for (std::string_view word : {"WarpSpecialized", "Pingpong", "Cooperative"})
    if (contains(kernel, word)) {
      schedule += schedule.empty() ? "" : " ";
      for (char c : word) schedule += static_cast<char>(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
    }
  out.stated(NameField::schedule, schedule, "WarpSpecialized");
  explain_collective(kernel, out);
  return true;
}

}  // namespace epilogue::trace
