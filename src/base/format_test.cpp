#include "base/format.h"

#include <gtest/gtest.h>

namespace epilogue {
namespace {

TEST(Format, TimesUsePyTorchsUnits) {
  EXPECT_EQ(format_us(12.34), "12.340us");
  EXPECT_EQ(format_us(1234), "1.234ms");
  EXPECT_EQ(format_us(2.5e6), "2.500s");
}

TEST(Format, BytesUsePyTorchsUnits) {
  EXPECT_EQ(format_bytes(0), "0 B");
  EXPECT_EQ(format_bytes(-7077888), "-6.75 MB");
  EXPECT_EQ(format_bytes(3 << 20), "3.00 MB");
}

TEST(Format, TableAlignsNumbersToTheRight) {
  TextTable table({{"Name", false}, {"Calls"}});
  table.add_row({"mm", "3"});
  table.add_row({"addmm", "12"});
  EXPECT_EQ(table.to_string(), "Name   Calls\n-----  -----\nmm         3\naddmm     12\n");
}

}  // namespace
}  // namespace epilogue
