#include "profile/inputs.h"

#include <array>
#include <vector>

#include <gtest/gtest.h>

#include "profile/event.h"
#include "profile/window.h"

namespace epilogue::profile {
namespace {

InputTexts texts_of(std::span<const Tensor> inputs) {
  std::vector<int64_t> words(encoded_words(inputs));
  encode_inputs(inputs, words.data());
  EXPECT_EQ(words[0], static_cast<int64_t>(words.size()));
  return decode_inputs(words.data());
}

TEST(Inputs, AreKinetosTexts) {
  const std::array inputs = {empty({64, 1024}).t(), Tensor(), empty({}, {.dtype = DType::bf16})};
  const InputTexts texts = texts_of(inputs);
  EXPECT_EQ(texts.dims, "[[1024, 64], [], []]");
  EXPECT_EQ(texts.strides, "[[1, 1024], [], []]");
  EXPECT_EQ(texts.types, R"(["float", "", "c10::BFloat16"])");
}

TEST(Inputs, NoneIsAnEmptyList) {
  const InputTexts texts = texts_of({});
  EXPECT_EQ(texts.dims, "[]");
  EXPECT_EQ(texts.types, "[]");
}

TEST(Inputs, TypesBearTorchsNames) {
  std::vector<Tensor> inputs;
  for (DType dtype : {DType::f32, DType::bf16, DType::f16, DType::f64, DType::i32, DType::i64})
    inputs.push_back(empty({1}, {.dtype = dtype}));
  EXPECT_EQ(texts_of(inputs).types,
            R"(["float", "c10::BFloat16", "c10::Half", "double", "int", "long int"])");
}

TEST(Inputs, EqualOnesAreKeptOnceAndOnlyWhenShapesAreRecorded) {
  const std::array small = {empty({2, 3})}, large = {empty({4, 3})};
  for (const bool record_shapes : {false, true}) {
    Window window({.record_shapes = record_shapes});
    { OpScope op("ep::relu", small); }
    { OpScope op("ep::relu", large); }
    { OpScope op("ep::relu", small); }
    const trace::Trace trace = window.finish().trace;
    ASSERT_EQ(trace.events.size(), 3u);
    ASSERT_EQ(trace.op_inputs.size(), record_shapes ? 2u : 0u);
    EXPECT_EQ(trace.events[0].detail, trace.events[2].detail);
    if (!record_shapes) continue;
    EXPECT_EQ(trace.strings[trace.op_inputs[trace.events[1].detail].dims], "[[4, 3]]");
  }
}

}  // namespace
}  // namespace epilogue::profile
