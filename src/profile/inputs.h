// An op's inputs between the hot path and the collector: words copied as they are, made into JSON later.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "epilogue/tensor.h"

namespace epilogue::profile {

// Per tensor: a word of dtype and dimension count, the sizes, the strides. First of all the count of words.
size_t encoded_words(std::span<const Tensor> inputs);
void encode_inputs(std::span<const Tensor> inputs, int64_t* words);

// Kineto's texts: dims "[[64, 1024], []]", types "[\"float\", \"\"]", strides as dims. An undefined tensor is
// [] and "".
struct InputTexts {
  std::string dims, types, strides;
};
InputTexts decode_inputs(const int64_t* words);

}  // namespace epilogue::profile
