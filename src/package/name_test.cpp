#include "package/name.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "epilogue/error.h"

namespace epilogue::package {
namespace {

TEST(PackageName, AReferenceHasAnOwnerANameAndAWholeVersion) {
  const Reference reference = parse_reference("epilogue/geglu@12");
  EXPECT_EQ(reference.name, "epilogue/geglu");
  EXPECT_EQ(reference.version, 12u);
  EXPECT_EQ(reference.to_string(), "epilogue/geglu@12");
}

TEST(PackageName, AReferenceWithoutAVersionIsRefused) {
  EXPECT_THAT([] { parse_reference("epilogue/geglu"); },
              ::testing::ThrowsMessage<Error>(::testing::HasSubstr("names no version")));
}

TEST(PackageName, OtherFormsAreRefused) {
  for (const char* text : {"", "@1", "geglu@1", "a/b/c@1", "A/b@1", "a/../b@1", "../b@1", "a/b@", "a/b@1x",
                           "a/b@-1", "a/b@99999999999", "a/.b@1", "a/b c@1"})
    EXPECT_THROW(parse_reference(text), Error) << text;
}

TEST(PackageName, PathsThatCouldLeadOutOfTheFolderAreRefused) {
  for (const char* path : {"", "/etc/passwd", "..", "../x", "a/../b", "a/..", ".", "./a", "a//b", "a/",
                           "a\\b", "C:x", "a\nb", "a\x80", "a b"})
    EXPECT_NE(path_problem(path), "") << path;
  EXPECT_NE(path_problem(std::string(300, 'a')), "");
  for (const char* path : {"a", "build/linux/lib.so", "a..b", "..a/b..", "LICENSE"})
    EXPECT_EQ(path_problem(path), "") << path;
}

}  // namespace
}  // namespace epilogue::package
