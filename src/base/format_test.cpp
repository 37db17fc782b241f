#include "base/format.h"

#include <gtest/gtest.h>

namespace epilogue {
namespace {

TEST(Format, TimesUsePyTorchsUnits) {
  EXPECT_EQ(format_us(12.34), "12.340us");
  EXPECT_EQ(format_us(1234), "1.234ms");
  EXPECT_EQ(format_us(2.5e6), "2.500s");
}

TEST(Format, BytesAreOf1024AndSaySoButInPyTorchsTable) {
  EXPECT_EQ(format_bytes(0), "0 B");
  EXPECT_EQ(format_bytes(-7077888), "-6.75 MiB");
  EXPECT_EQ(format_bytes(1536), "1.50 KiB");
  EXPECT_EQ(format_bytes_as_pytorch(-7077888), "-6.75 MB");
  EXPECT_EQ(format_bytes_as_pytorch(3 << 20), "3.00 MB");
}

TEST(Format, JsonStringsAreValidUtf8) {
  EXPECT_EQ(json_quote("a\"\n\x01 \xC2\xB5 \xF0\x9F\x98\x80"),
            "\"a\\\"\\n\\u0001 \xC2\xB5 \xF0\x9F\x98\x80\"");
  const std::string none = "\xEF\xBF\xBD";  // U+FFFD
  EXPECT_EQ(json_quote("\xFF"), '"' + none + '"');
  EXPECT_EQ(json_quote("cut \xC2"), "\"cut " + none + '"');
  EXPECT_EQ(valid_utf8("\xC0\x80"), none + none);             // overlong
  EXPECT_EQ(valid_utf8("\xED\xA0\x80"), none + none + none);  // a surrogate
}

TEST(Format, ATerminalIsNotGivenWhatItWouldObey) {
  EXPECT_EQ(printable("a\x1b[31mred\r\n\x7f"), "a?[31mred?\n?");
  EXPECT_EQ(printable("\xC2\x9B"
                      "31m \xC2\xB5"),
            "?31m \xC2\xB5");
}

TEST(Format, PrefixEndsBeforeACodePointItWouldCut) {
  EXPECT_EQ(utf8_prefix("ab\xC2\xB5", 3), "ab");
  EXPECT_EQ(utf8_prefix("ab\xC2\xB5", 4), "ab\xC2\xB5");
  EXPECT_EQ(utf8_prefix("abc", 2), "ab");
}

TEST(Format, TableAlignsNumbersToTheRight) {
  TextTable table({{"Name", false}, {"Calls"}});
  table.add_row({"mm", "3"});
  table.add_row({"addmm", "12"});
  EXPECT_EQ(table.to_string(), "Name   Calls\n-----  -----\nmm         3\naddmm     12\n");
}

}  // namespace
}  // namespace epilogue
