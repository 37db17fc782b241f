#include "io/safetensors_header.h"

#include <cstring>

#include <gmock/gmock.h>

namespace epilogue::safetensors {
namespace {

using testing::HasSubstr;

// A file of the header `json` and `data_bytes` of data.
std::string file_of(const std::string& json, size_t data_bytes = 0) {
  const uint64_t length = json.size();
  std::string file(sizeof length, '\0');
  std::memcpy(file.data(), &length, sizeof length);
  return file + json + std::string(data_bytes, '\x7f');
}

Header parse(const std::string& file) { return parse_header(std::as_bytes(std::span(file))); }

std::string error_of(const std::string& file) {
  try {
    parse(file);
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

// The one tensor "w" with these members.
std::string entry(const std::string& members) { return R"({"w":{)" + members + "}}"; }

TEST(SafetensorsHeader, ReadsEveryDType) {
  const std::pair<const char*, DType> cases[] = {{"F32", DType::f32}, {"BF16", DType::bf16},
                                                 {"F16", DType::f16}, {"F64", DType::f64},
                                                 {"I32", DType::i32}, {"I64", DType::i64}};
  for (const auto& [name, dtype] : cases) {
    const size_t bytes = 6 * dtype_size(dtype);
    const Header header =
        parse(file_of(entry(R"("dtype":")" + std::string(name) + R"(","shape":[2,3],"data_offsets":[0,)" +
                            std::to_string(bytes) + "]"),
                      bytes));
    ASSERT_EQ(header.entries.size(), 1u);
    EXPECT_EQ(header.entries[0].dtype, dtype);
    EXPECT_EQ(header.entries[0].shape, (std::vector<int64_t>{2, 3}));
    EXPECT_STREQ(file_dtype_name(dtype), name);
  }
}

TEST(SafetensorsHeader, OrdersEntriesByTheirData) {
  const Header header = parse(file_of(R"({"b":{"dtype":"F32","shape":[1],"data_offsets":[8,12]},
    "none":{"dtype":"F32","shape":[0,9],"data_offsets":[8,8]},"a":{"data_offsets":[0,8],"shape":[],"dtype":"F64"},
    "__metadata__":{"format":"pt","key\n":""}}   )",
                                      12));
  ASSERT_EQ(header.entries.size(), 3u);
  EXPECT_EQ(header.entries[0].name, "a");
  EXPECT_EQ(header.entries[1].name, "none");
  EXPECT_EQ(header.entries[2].name, "b");
  EXPECT_EQ(header.entries[2].begin, 8u);
  EXPECT_EQ(header.metadata, (std::map<std::string, std::string>{{"format", "pt"}, {"key\n", ""}}));
}

TEST(SafetensorsHeader, AcceptsAFileWithoutTensors) { EXPECT_TRUE(parse(file_of("{}")).entries.empty()); }

TEST(SafetensorsHeader, IgnoresKeysOfAnEntryItDoesNotKnow) {
  EXPECT_EQ(parse(file_of(entry(R"("dtype":"F32","shape":[1],"data_offsets":[0,4],"note":{"x":1})"), 4))
                .entries.size(),
            1u);
}

struct Rejected {
  const char* name;
  std::string file;
  const char* sentence;
};
void PrintTo(const Rejected& form, std::ostream* out) { *out << form.name; }

class SafetensorsHeaderRejects : public testing::TestWithParam<Rejected> {};

TEST_P(SafetensorsHeaderRejects, TheFormWithASentence) {
  EXPECT_THAT(error_of(GetParam().file), HasSubstr(GetParam().sentence));
}

std::string with_length(uint64_t length, const std::string& rest) {
  return std::string(reinterpret_cast<const char*>(&length), sizeof length) + rest;
}

const std::string kTwoFloats = R"("dtype":"F32","shape":[2],"data_offsets":[0,8])";

INSTANTIATE_TEST_SUITE_P(
    Forms, SafetensorsHeaderRejects,
    testing::Values(
        Rejected{"EmptyFile", "", "it has 0 bytes; expected at least 8"},
        Rejected{"CutLengthField", "\x02\0\0", "expected at least 8"},
        Rejected{"HeaderTooLong", with_length(100'000'001, "{}"), "at most 100000000"},
        Rejected{"HeaderLengthNearOverflow", with_length(UINT64_MAX - 3, "{}"), "at most 100000000"},
        Rejected{"CutHeader", with_length(9, "{}"), "ends inside its header of 9 bytes"},
        Rejected{"EmptyHeader", file_of(""), "does not begin with '{'"},
        Rejected{"LeadingSpace", file_of(" {}"), "does not begin with '{'"},
        Rejected{"HeaderIsAnArray", file_of("[]"), "does not begin with '{'"},
        Rejected{"PaddedWithNewlines", file_of("{}\n\n"), "does not end with '}' and spaces"},
        Rejected{"PaddedWithZeros", file_of(std::string("{}\0\0", 4)), "does not end with '}' and spaces"},
        Rejected{"TwoDocuments", file_of("{} {}"), "no JSON object"},
        Rejected{"BrokenJson", file_of(R"({"w":})"), "no JSON object"},
        Rejected{"InvalidUtf8", file_of("{\"w\xff\":{" + kTwoFloats + "}}", 8),
                 "no JSON object: The input is not valid UTF-8"},
        Rejected{"DeepNesting", file_of("{\"w\":" + std::string(5000, '[') + std::string(5000, ']') + "}"),
                 "no JSON object"},
        Rejected{"RepeatedTensor", file_of("{\"w\":{" + kTwoFloats + "},\"w\":{" + kTwoFloats + "}}", 8),
                 "the header has the key \"w\" twice"},
        Rejected{"RepeatedTensorSpelledOtherwise",
                 file_of("{\"w\":{" + kTwoFloats + "},\"\\u0077\":{" + kTwoFloats + "}}", 8),
                 "the header has the key \"w\" twice"},
        Rejected{"RepeatedKeyInAnEntry", file_of(entry(kTwoFloats + R"(,"shape":[2])"), 8),
                 "tensor \"w\" has the key \"shape\" twice"},
        Rejected{"RepeatedMetadata", file_of(R"({"__metadata__":{},"__metadata__":{}})"),
                 "\"__metadata__\" twice"},
        Rejected{"RepeatedKeyInMetadata", file_of(R"({"__metadata__":{"a":"1","a":"1"}})"),
                 "__metadata__ has the key \"a\" twice"},
        Rejected{"MetadataIsNoObject", file_of(R"({"__metadata__":"x"})"), "__metadata__ is no JSON object"},
        Rejected{"MetadataNumber", file_of(R"({"__metadata__":{"a":1}})"),
                 "value for \"a\" that is no string"},
        Rejected{"MetadataNull", file_of(R"({"__metadata__":{"a":null}})"),
                 "value for \"a\" that is no string"},
        Rejected{"EntryIsNoObject", file_of(R"({"w":[]})"), "tensor \"w\" is described by no JSON object"},
        Rejected{"NoDType", file_of(entry(R"("shape":[2],"data_offsets":[0,8])"), 8), "has no dtype"},
        Rejected{"NoShape", file_of(entry(R"("dtype":"F32","data_offsets":[0,8])"), 8), "has no shape"},
        Rejected{"NoOffsets", file_of(entry(R"("dtype":"F32","shape":[2])"), 8), "has no data_offsets"},
        Rejected{"DTypeIsNoString", file_of(entry(R"("dtype":32,"shape":[2],"data_offsets":[0,8])"), 8),
                 "no string"},
        Rejected{"UnknownDType", file_of(entry(R"("dtype":"f32","shape":[2],"data_offsets":[0,8])"), 8),
                 "tensor \"w\" has dtype \"f32\"; supported are F32, BF16, F16, F64, I32 and I64"},
        Rejected{"SpanOfADTypeWeDoNotHave",
                 file_of(entry(R"("dtype":"F8_E4M3","shape":[7],"data_offsets":[0,8])"), 8),
                 "tensor \"w\" spans 8 bytes, but its shape and dtype need 7"},
        Rejected{"PartOfAByte", file_of(entry(R"("dtype":"F4","shape":[3],"data_offsets":[0,8])"), 8),
                 "tensor \"w\" ends within a byte"},
        Rejected{"ShapeIsNoArray", file_of(entry(R"("dtype":"F32","shape":2,"data_offsets":[0,8])"), 8),
                 "no array"},
        Rejected{"NegativeSize", file_of(entry(R"("dtype":"F32","shape":[-2],"data_offsets":[0,8])"), 8),
                 "no integer"},
        Rejected{"FractionalSize", file_of(entry(R"("dtype":"F32","shape":[2.0],"data_offsets":[0,8])"), 8),
                 "no integer"},
        Rejected{"SizeOfTwoTo63",
                 file_of(entry(R"("dtype":"F32","shape":[9223372036854775808],"data_offsets":[0,8])"), 8),
                 "no integer"},
        Rejected{"NineDimensions",
                 file_of(entry(R"("dtype":"F32","shape":[1,1,1,1,1,1,1,1,1],"data_offsets":[0,4])"), 4),
                 "9 dimensions; at most 8"},
        Rejected{"SizeOverflows",
                 file_of(entry(R"("dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,0])")),
                 "overflows"},
        Rejected{"BytesOverflow",
                 file_of(entry(R"("dtype":"F32","shape":[4611686018427387904],"data_offsets":[0,0])")),
                 "overflows"},
        Rejected{"EmptyShapeWithStridesThatOverflow",
                 file_of(entry(R"("dtype":"F32","shape":[0,4294967296,4294967296],"data_offsets":[0,0])")),
                 "overflows"},
        Rejected{"OneOffset", file_of(entry(R"("dtype":"F32","shape":[2],"data_offsets":[8])"), 8),
                 "not two integers"},
        Rejected{"ThreeOffsets", file_of(entry(R"("dtype":"F32","shape":[2],"data_offsets":[0,8,8])"), 8),
                 "not two integers"},
        Rejected{"NegativeOffset", file_of(entry(R"("dtype":"F32","shape":[2],"data_offsets":[-8,0])"), 8),
                 "not two integers"},
        Rejected{"EndsBeforeItBegins", file_of(entry(R"("dtype":"F32","shape":[2],"data_offsets":[8,0])"), 8),
                 "end before they begin"},
        Rejected{"SpanTooLong", file_of(entry(R"("dtype":"F32","shape":[2],"data_offsets":[0,12])"), 12),
                 "spans 12 bytes, but its shape and dtype need 8"},
        Rejected{"SpanTooShort", file_of(entry(R"("dtype":"F32","shape":[2],"data_offsets":[0,4])"), 4),
                 "spans 4 bytes, but its shape and dtype need 8"},
        Rejected{"BytesInAnEmptyTensor",
                 file_of(entry(R"("dtype":"F32","shape":[0],"data_offsets":[0,4])"), 4), "need 0"},
        Rejected{"DataDoesNotStartAtZero",
                 file_of(entry(R"("dtype":"F32","shape":[1],"data_offsets":[4,8])"), 8),
                 "begins at byte 4 of the data; expected 0"},
        Rejected{
            "Gap",
            file_of(
                R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},"b":{"dtype":"F32","shape":[1],"data_offsets":[8,12]}})",
                12),
            "tensor \"b\" begins at byte 8 of the data; expected 4"},
        Rejected{
            "Overlap",
            file_of(
                R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},"b":{"dtype":"F32","shape":[2],"data_offsets":[4,12]}})",
                12),
            "tensor \"b\" begins at byte 4 of the data; expected 8"},
        Rejected{
            "EmptyTensorInsideAnother",
            file_of(
                R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},"b":{"dtype":"F32","shape":[0],"data_offsets":[4,4]}})",
                8),
            "tensor \"b\" begins at byte 4"},
        Rejected{"CutData", file_of(entry(kTwoFloats), 7), "end at byte 8 of the data, but the file holds 7"},
        Rejected{"BytesLeftOver", file_of(entry(kTwoFloats), 9),
                 "end at byte 8 of the data, but the file holds 9"},
        Rejected{"DataWithoutTensors", file_of("{}", 1), "end at byte 0 of the data, but the file holds 1"}),
    [](const auto& form) { return std::string(form.param.name); });

}  // namespace
}  // namespace epilogue::safetensors
