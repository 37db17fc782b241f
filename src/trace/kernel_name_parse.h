// What the families of kernel names share: words, sizes, element types, C++ templates. Internal to
// kernel_name.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "trace/kernel_name.h"

namespace epilogue::trace {

using Words = std::vector<std::string_view>;

Words split_words(std::string_view text, char by = '_');  // empty words are kept
bool is_number(std::string_view text);                    // digits only, at least one
std::vector<int> sizes_of(std::string_view word);         // "128x64x32": {128, 64, 32}; else empty
bool is_layout(std::string_view word);                    // two or three of n and t
std::string_view strip(std::string_view text);            // spaces at both ends
bool contains(std::string_view text, std::string_view part);
void append_part(std::string& to, std::string_view part,
                 std::string_view between);  // between: unless `to` is empty

// "bf16" for any way to write it (bf16, c10::BFloat16, __nv_bfloat16, cutlass::bfloat16_t); "" when not a
// type.
std::string element_type(std::string_view word);

// A C++ function as a profiler prints it, taken apart at its outermost level. The views live as long as the
// text. Accepts cu++filt's, Nsight's ("(int)4", "<unnamed>") and nvprof's ("int=4") ways to print.
struct CppName {
  std::string_view scope;     // "at::native::"
  std::string_view function;  // "reduce_kernel"
  Words arguments;            // of the function's template
};
CppName parse_cpp(std::string_view text);
Words template_arguments(std::string_view text);  // "Array<char*, 2>": {"char*", "2"}
std::string_view plain_argument(
    std::string_view argument);  // "(int)4", "int=4", "4u": "4"; "(bool)1": "true"

std::string_view template_from(std::string_view text,
                               std::string_view name);  // the text from `name` on; "" if absent
std::string cute_sizes(std::string_view tuple);         // "cute::tuple<cute::C<1>, cute::C<2>>": "1x2"

// Fills a KernelName; each call names the part of the name it read.
class NameBuilder {
 public:
  explicit NameBuilder(KernelName& kernel) : kernel_(kernel) {}
  void family(std::string vendor, std::string family, std::string_view token,
              Certainty certainty = Certainty::stated);
  void stated(NameField field, std::string value, std::string_view token) {
    set(field, std::move(value), Certainty::stated, token);
  }
  void convention(NameField field, std::string value, std::string_view token) {
    set(field, std::move(value), Certainty::convention, token);
  }
  void set(NameField field, std::string value, Certainty certainty, std::string_view token);
  void feature(std::string text, Certainty certainty, std::string_view token);
  void unknown_word(std::string_view word) { feature(std::string(word), Certainty::unknown, word); }
  const KernelName& kernel() const { return kernel_; }

 private:
  KernelName& kernel_;
};

// One reader per family: true when the name is of that family, whose fields it then filled.
bool explain_cutlass(std::string_view name, NameBuilder& out);   // cutlass_80_..., cutlass3x_sm90_...
bool explain_cublas(std::string_view name, NameBuilder& out);    // ampere_..., sm80_xmma_..., nvjet_...
bool explain_cublas_cpp(const CppName& cpp, NameBuilder& out);   // gemv, split-K reduction, scal, dot
bool explain_cutlass_cpp(const CppName& cpp, NameBuilder& out);  // cutlass::Kernel2<...>, device_kernel<...>
bool explain_attention(std::string_view name, const CppName& cpp, NameBuilder& out);  // flash, fmha, cuDNN's
bool explain_aten(const CppName& cpp, NameBuilder& out);                              // at::native::...
bool explain_triton(std::string_view name, NameBuilder& out);  // Inductor's and Liger's
bool explain_nccl(std::string_view name, NameBuilder& out);
bool explain_copy(std::string_view name, NameBuilder& out);  // Memcpy, Memset
bool explain_cudnn(std::string_view name, const CppName& cpp, NameBuilder& out);
bool explain_ours(std::string_view name, NameBuilder& out);   // epilogue_..., ep_fused_..., panel_...
bool explain_ours_cpp(const CppName& cpp, NameBuilder& out);  // epilogue::cuda::...

}  // namespace epilogue::trace
