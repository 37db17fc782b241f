#include "base/file.h"

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

#include <unistd.h>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "epilogue/error.h"

namespace epilogue {
namespace {

class ReplacementFileTest : public testing::Test {
 protected:
  ReplacementFileTest() : folder_(fmt::format("{}file_test.{}", testing::TempDir(), ::getpid())) {
    std::filesystem::create_directory(folder_);
    std::ofstream(path()) << "old";
  }
  ~ReplacementFileTest() override { std::filesystem::remove_all(folder_); }
  std::string path() const { return folder_ + "/file"; }
  std::string content() const {
    std::stringstream text;
    text << std::ifstream(path()).rdbuf();
    return text.str();
  }
  size_t files() const {
    return static_cast<size_t>(std::distance(std::filesystem::directory_iterator(folder_), {}));
  }

  const std::string folder_;
};

TEST_F(ReplacementFileTest, TakesItsPlaceOnCommitAlone) {
  ReplacementFile file(path());
  file.write("new", 3);
  EXPECT_EQ(content(), "old");
  file.commit();
  EXPECT_EQ(content(), "new");
  EXPECT_EQ(files(), 1u);
}

TEST_F(ReplacementFileTest, IsGoneWithoutACommit) {
  {
    ReplacementFile file(path());
    file.write("new", 3);
    EXPECT_EQ(files(), 2u);
  }
  EXPECT_EQ(content(), "old");
  EXPECT_EQ(files(), 1u);
}

TEST_F(ReplacementFileTest, TwoOfOneNameDoNotMeet) {
  ReplacementFile first(path()), second(path());
  first.write("first", 5);
  second.write("second", 6);
  second.commit();
  first.commit();
  EXPECT_EQ(content(), "first");
}

TEST_F(ReplacementFileTest, CannotBeMadeWhereThereIsNoFolder) {
  EXPECT_THROW(ReplacementFile(folder_ + "/none/file"), Error);
}

TEST_F(ReplacementFileTest, DoesNotTakeThePlaceOfAFolder) {
  EXPECT_THROW(ReplacementFile{folder_}, Error);
  EXPECT_EQ(files(), 1u);
}

}  // namespace
}  // namespace epilogue
