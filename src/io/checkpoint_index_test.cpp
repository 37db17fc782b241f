#include "io/checkpoint_index.h"

#include <gmock/gmock.h>

#include "error_of.h"

namespace epilogue::safetensors {
namespace {

using testing::StartsWith;

std::string error_of(std::string_view text) {
  return epilogue::error_of([&] { parse_checkpoint_index(text); });
}

TEST(CheckpointIndex, TellsTheFileOfEachTensor) {
  const CheckpointIndex index = parse_checkpoint_index(R"({"metadata": {"total_size": 12.5},
    "weight_map": {"a": "model-00001-of-00002.safetensors", "b": "model-00002-of-00002.safetensors",
                   "c": "model-00001-of-00002.safetensors", "": "a..b"}})");
  EXPECT_EQ(index, (CheckpointIndex{{"a", "model-00001-of-00002.safetensors"},
                                    {"b", "model-00002-of-00002.safetensors"},
                                    {"c", "model-00001-of-00002.safetensors"},
                                    {"", "a..b"}}));
  EXPECT_TRUE(parse_checkpoint_index(R"({"weight_map": {}})").empty());
}

TEST(CheckpointIndex, RejectsOtherFormsWithASentence) {
  for (const char* none : {"", "[]", "{", "{} {}", "\"x\"", "{\"weight_map\xff\": {}}"})
    EXPECT_THAT(error_of(none), StartsWith("the index of a checkpoint is a JSON object, and this is none: "));
  EXPECT_EQ(error_of(R"({"metadata": {}})"), "it has no weight_map, which tells the file of each tensor");
  EXPECT_EQ(error_of(R"({"weight_map": ["a"]})"), "its weight_map is no JSON object");
  EXPECT_EQ(error_of(R"({"weight_map": {}, "weight_map": {}})"),
            "the index has the key \"weight_map\" twice");
  EXPECT_EQ(error_of(R"({"weight_map": {"a": "x", "\u0061": "y"}})"),
            "its weight_map has the key \"a\" twice");
  EXPECT_EQ(error_of(R"({"weight_map": {"a": 1}})"),
            "its weight_map has a file for tensor \"a\" that is no string");
}

TEST(CheckpointIndex, NamesNoFileOutsideItsFolder) {
  for (const char* name : {"", ".", "..", "/etc/passwd", "../model.safetensors", "a/../../b", "a/b", "a/",
                           R"(..\\b)", R"(C:\\b)", R"(a\u0000b)", R"(\u002e\u002e)", R"(\u002fetc)"})
    EXPECT_THAT(error_of(R"({"weight_map": {"w": ")" + std::string(name) + "\"}}"),
                testing::AllOf(StartsWith("its weight_map has \""),
                               testing::EndsWith(
                                   " for tensor \"w\"; expected the plain name of a file beside the index")))
        << name;
}

}  // namespace
}  // namespace epilogue::safetensors
