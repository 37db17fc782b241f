#include "package/index.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "epilogue/error.h"

namespace epilogue::package {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

IndexEntry entry() { return {{"test/a", 1}, "b1", "a.tar.gz", 10, std::string(64, 'e')}; }

TEST(PackageIndex, WhatIsWrittenIsRead) {
  Index index;
  index.set(entry());
  IndexEntry later = entry();
  later.build = "b2";
  index.set(later);
  index.set(later);
  const Index read = parse_index(index.to_json(), "index.json");
  ASSERT_EQ(read.entries.size(), 2u);
  EXPECT_EQ(read.find({"test/a", 1}, "index.json").build, "b2");
  EXPECT_THAT(
      [&] {
        read.find({"test/b", 1}, "index.json");
      },
      ThrowsMessage<Error>(HasSubstr("it has test/a@1")));
}

TEST(PackageIndex, WhatIsWrongIsNamed) {
  const std::string good = Index{{entry()}}.to_json();
  const struct {
    std::string from, to, says;
  } rows[] = {{"\"format\":1", "\"format\":2", "newer"},
              {"\"packages\"", "\"others\"", "'packages'"},
              {"test/a", "test", "'name'"},
              {"\"a.tar.gz\"", "\"../a.tar.gz\"", "'file'"},
              {"\"a.tar.gz\"", "\"x/a.tar.gz\"", "'file'"},
              {"\"size\":10", "\"size\":-1", "'size'"},
              {"\"size\":10", "\"size\":1e99", "'size'"},
              {"eeee", "EEEE", "'sha256'"},
              {"\"build\":\"b1\"", "\"build\":\"\"", "'build'"},
              {"{\"format\"", "[\"format\"", "JSON"}};
  for (const auto& row : rows) {
    std::string text = good;
    const size_t at = text.find(row.from);
    ASSERT_NE(at, text.npos) << row.from;
    text.replace(at, row.from.size(), row.to);
    EXPECT_THAT([&] { parse_index(text, "index.json"); }, ThrowsMessage<Error>(HasSubstr(row.says))) << text;
  }
}

}  // namespace
}  // namespace epilogue::package
