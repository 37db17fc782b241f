#include "package/manifest.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "epilogue/error.h"

namespace epilogue::package {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

const std::string kHash(64, 'a');

std::string good() {
  return R"(name = "test/pair"
version = 2
build = "b7"
license = "MIT"
[[op]]
name = "silu_mul"
dtypes = ["f32", "bf16"]
[[layer]]
name = "GatedMlp"
ops = ["silu_mul"]
[[variant]]
name = "cpu"
system = "linux"
arch = "x86_64"
backend = "cpu"
isa = "avx2"
abi = 1
library = "a.so"
[[variant]]
name = "gpu"
system = "linux"
arch = "x86_64"
backend = "cuda"
cuda = 13
archs = [80, 90]
abi = 1
library = "a.so"
[files]
"build/cpu/a.so" = {size = 5, sha256 = ")" +
         kHash + R"("}
"build/gpu/a.so" = {size = 7, sha256 = ")" +
         kHash + R"("}
)";
}

std::string changed(const std::string& from, const std::string& to) {
  std::string text = good();
  const size_t at = text.find(from);
  EXPECT_NE(at, text.npos) << from;
  return text.replace(at, from.size(), to);
}

TEST(PackageManifest, EveryFieldIsRead) {
  const Manifest m = parse_manifest(good(), "package.toml");
  EXPECT_EQ(m.reference.to_string(), "test/pair@2");
  EXPECT_EQ(m.build, "b7");
  ASSERT_EQ(m.variants.size(), 2u);
  EXPECT_EQ(m.variants[0].isa, "avx2");
  EXPECT_EQ(m.variants[1].cuda, 13);
  EXPECT_EQ(m.variants[1].archs, (std::vector<int64_t>{80, 90}));
  EXPECT_EQ(m.op("silu_mul")->dtypes, (std::vector{DType::f32, DType::bf16}));
  EXPECT_EQ(m.op("gelu_mul"), nullptr);
  EXPECT_NE(m.layer("GatedMlp"), nullptr);
  EXPECT_EQ(m.unpacked_bytes(), 12u);
  EXPECT_FALSE(m.is_signed);
}

TEST(PackageManifest, WhatIsWrongIsNamed) {
  const struct {
    std::string from, to, says;
  } rows[] = {
      {"name = \"test/pair\"", "name = \"../pair\"", "OWNER/NAME"},
      {"version = 2", "version = 0", "'version'"},
      {"version = 2", "version = \"2\"", "'version'"},
      {"version = 2", "", "'version' is missing"},
      {"build = \"b7\"", "build = \"../..\"", "'build'"},
      {"license = \"MIT\"", "", "'license' is missing"},
      {"license = \"MIT\"", "licence = \"MIT\"", "'licence' is not known"},
      {"\"bf16\"", "\"bf17\"", "bf17"},
      {"ops = [\"silu_mul\"]", "ops = [\"gelu_mul\"]", "'gelu_mul' is no [[op]]"},
      {"isa = \"avx2\"", "isa = \"mmx\"", "expected scalar, avx2, avx512"},
      {"backend = \"cpu\"", "backend = \"tpu\"", "expected cpu, cuda"},
      {"archs = [80, 90]", "archs = []", "'archs'"},
      {"archs = [80, 90]", "archs = [\"80\"]", "'archs'"},
      {"library = \"a.so\"", "library = \"../a.so\"", "'library'"},
      {"library = \"a.so\"", "library = \"b.so\"", "build/cpu/b.so is not among [files]"},
      {"name = \"gpu\"", "name = \"cpu\"", "variant 'cpu' is there twice"},
      {"\"build/cpu/a.so\"", "\"../a.so\"", "leads out"},
      {"\"build/cpu/a.so\"", "\"/etc/a.so\"", "absolute"},
      {"\"build/cpu/a.so\"", "\"package.toml\"", "must not name"},
      {"size = 5", "size = -5", "'size'"},
      {"size = 5", "size = 2000000000", "more than the 1073741824 bytes"},
      {"size = 5, ", "", "'size' is missing"},
      {kHash, "A" + kHash.substr(1), "lower-case hex"},
      {"[files]", "[files", "package.toml:"},
  };
  for (const auto& row : rows)
    EXPECT_THAT([&] { parse_manifest(changed(row.from, row.to), "package.toml"); },
                ThrowsMessage<Error>(AllOf(HasSubstr("package.toml"), HasSubstr(row.says))))
        << row.from << " -> " << row.to;
}

TEST(PackageManifest, SizesThatOverflowASumAreRefused) {
  EXPECT_THROW(parse_manifest(changed("size = 5", "size = 9223372036854775807"), "m"), Error);
}

TEST(PackageManifest, AnAuthorLeavesBuildAndFilesToPack) {
  EXPECT_THAT([] { parse_author_manifest(good(), "package.toml"); },
              ThrowsMessage<Error>(HasSubstr("written by kernels pack")));
}

TEST(PackageManifest, AHugeManifestIsRefusedUnread) {
  EXPECT_THAT([] { parse_manifest(good() + "#" + std::string(2 << 20, 'x'), "m"); },
              ThrowsMessage<Error>(HasSubstr("more than")));
}

}  // namespace
}  // namespace epilogue::package
