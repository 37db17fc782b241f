#include "profile/inputs.h"

#include <algorithm>
#include <string>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace epilogue::profile {
namespace {

constexpr int64_t kUndefined = -1;

const char* torch_type_name(DType dtype) {
  switch (dtype) {
    case DType::f32:
      return "float";
    case DType::bf16:
      return "c10::BFloat16";
    case DType::f16:
      return "c10::Half";
    case DType::f64:
      return "double";
    case DType::i32:
      return "int";
    case DType::i64:
      return "long int";
  }
  return "";
}

}  // namespace

size_t encoded_words(std::span<const Tensor> inputs) {
  size_t words = 1;
  for (const Tensor& input : inputs)
    words += 1 + (input.defined() ? 2 * static_cast<size_t>(input.dim()) : 0);
  return words;
}

void encode_inputs(std::span<const Tensor> inputs, int64_t* words) {
  int64_t* word = words + 1;
  for (const Tensor& input : inputs) {
    if (!input.defined()) {
      *word++ = kUndefined;
      continue;
    }
    *word++ = static_cast<int64_t>(input.dtype()) << 8 | input.dim();
    word = std::copy(input.sizes().begin(), input.sizes().end(), word);
    word = std::copy(input.strides().begin(), input.strides().end(), word);
  }
  words[0] = word - words;
}

InputTexts decode_inputs(const int64_t* words) {
  InputTexts texts{"[", "[", "["};
  const char* comma = "";
  for (const int64_t* word = words + 1; word != words + words[0];) {
    const int64_t head = *word++;
    const int64_t count = head == kUndefined ? 0 : head & 0xff;
    const char* type = head == kUndefined ? "" : torch_type_name(static_cast<DType>(head >> 8));
    texts.dims += fmt::format("{}[{}]", comma, fmt::join(word, word + count, ", "));
    texts.types += fmt::format("{}\"{}\"", comma, type);
    texts.strides += fmt::format("{}[{}]", comma, fmt::join(word + count, word + 2 * count, ", "));
    word += 2 * count;
    comma = ", ";
  }
  for (std::string* text : {&texts.dims, &texts.types, &texts.strides}) *text += "]";
  return texts;
}

}  // namespace epilogue::profile
