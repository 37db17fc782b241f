#include "base/file.h"

#include <csignal>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

#include <fcntl.h>
#include <unistd.h>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/un.h>
#include <sys/wait.h>

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
  void replace(const std::string& at) const {
    ReplacementFile file(at);
    file.write("new", 3);
    file.commit();
  }
  mode_t mode(const std::string& at) const {
    struct stat found {};
    return ::lstat(at.c_str(), &found) == 0 ? found.st_mode : 0;
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
  }
  EXPECT_EQ(content(), "old");
  EXPECT_EQ(files(), 1u);
}

TEST_F(ReplacementFileTest, IsGoneWithAKilledProcess) {
  const FileDescriptor unnamed(::open(folder_.c_str(), O_TMPFILE | O_WRONLY, 0600));
  if (!unnamed) GTEST_SKIP() << "this file system has no files without a name";
  const pid_t child = ::fork();
  if (child == 0) {
    try {
      ReplacementFile file(path());
      file.write("new", 3);
      ::raise(SIGKILL);
    } catch (...) {
    }
    ::_exit(1);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  ASSERT_TRUE(WIFSIGNALED(status));
  EXPECT_EQ(content(), "old");
  EXPECT_EQ(files(), 1u);
}

TEST_F(ReplacementFileTest, TakesItsPlaceOnce) {
  ReplacementFile file(path());
  file.write("new", 3);
  file.commit();
  file.commit();
  EXPECT_EQ(content(), "new");
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

TEST_F(ReplacementFileTest, WritesThroughAPipe) {
  const std::string pipe = folder_ + "/pipe";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  const FileDescriptor reader(::open(pipe.c_str(), O_RDONLY | O_NONBLOCK));
  replace(pipe);
  char got[8] = {};
  EXPECT_EQ(::read(reader.get(), got, sizeof got), 3);
  EXPECT_STREQ(got, "new");
  EXPECT_TRUE(S_ISFIFO(mode(pipe)));
  EXPECT_EQ(files(), 2u);
}

TEST_F(ReplacementFileTest, WritesThroughADeviceBehindALink) {
  const std::string device = folder_ + "/device", link = folder_ + "/link";
  if (::mknod(device.c_str(), S_IFCHR | 0600, makedev(1, 3)) != 0) GTEST_SKIP() << "may not make a device";
  if (!FileDescriptor(::open(device.c_str(), O_WRONLY))) GTEST_SKIP() << "may not open a device here";
  std::filesystem::create_symlink("device", link);
  replace(device);
  replace(link);
  EXPECT_TRUE(S_ISCHR(mode(device)));
  EXPECT_TRUE(S_ISLNK(mode(link)));
  EXPECT_EQ(files(), 3u);
}

TEST_F(ReplacementFileTest, DoesNotTakeThePlaceOfASocket) {
  const std::string path = folder_ + "/socket";
  const FileDescriptor socket(::socket(AF_UNIX, SOCK_STREAM, 0));
  sockaddr_un address{.sun_family = AF_UNIX, .sun_path = {}};
  ASSERT_LT(path.size(), sizeof address.sun_path);
  path.copy(address.sun_path, path.size());
  ASSERT_EQ(::bind(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  EXPECT_THROW(ReplacementFile{path}, Error);
  EXPECT_TRUE(S_ISSOCK(mode(path)));
}

TEST_F(ReplacementFileTest, ReplacesWhatALinkLeadsToAndKeepsTheLink) {
  std::filesystem::create_directory(folder_ + "/other");
  std::filesystem::create_symlink("../file", folder_ + "/other/near");
  std::filesystem::create_symlink(folder_ + "/other/near", folder_ + "/far");
  replace(folder_ + "/far");
  EXPECT_EQ(content(), "new");
  EXPECT_TRUE(S_ISLNK(mode(folder_ + "/far")));
  EXPECT_TRUE(S_ISLNK(mode(folder_ + "/other/near")));
}

TEST_F(ReplacementFileTest, MakesTheFileThatALinkLeadsTo) {
  std::filesystem::create_symlink("absent", folder_ + "/link");
  replace(folder_ + "/link");
  EXPECT_TRUE(S_ISLNK(mode(folder_ + "/link")));
  EXPECT_TRUE(S_ISREG(mode(folder_ + "/absent")));
}

TEST_F(ReplacementFileTest, DoesNotFollowLinksInACircle) {
  std::filesystem::create_symlink("link", folder_ + "/link");
  EXPECT_THROW(ReplacementFile{folder_ + "/link"}, Error);
  EXPECT_EQ(files(), 2u);
}

TEST_F(ReplacementFileTest, KeepsTheModeOfTheFileItReplaces) {
  for (const mode_t kept : {0600u, 0640u, 0666u, 0755u}) {
    ASSERT_EQ(::chmod(path().c_str(), kept), 0);
    replace(path());
    EXPECT_EQ(mode(path()) & 07777, kept);
  }
}

TEST_F(ReplacementFileTest, PassesOverWhatACrashedProcessLeft) {
  unsigned next = 0;
  {
    const ReplacementFile file(path());
    for (const auto& entry : std::filesystem::directory_iterator(folder_))
      std::sscanf(entry.path().filename().c_str(), "file.%*d.%u.tmp", &next);
  }
  const std::string left = fmt::format("{}.{}.{}.tmp", path(), ::getpid(), next + 1);
  std::ofstream(left) << "left";
  replace(path());
  EXPECT_EQ(content(), "new");
  EXPECT_TRUE(std::filesystem::exists(left));
}

// What reading `path` as "a list" throws.
std::string refusal(const std::string& path) {
  try {
    read_file(path, "a list");
  } catch (const Error& error) {
    return error.what();
  }
  return "read";
}

TEST_F(ReplacementFileTest, IsReadWholeHoweverLong) {
  for (const size_t size : {size_t{0}, size_t{1}, size_t{1} << 16, (size_t{1} << 17) + 1}) {
    const std::string text(size, 'x');
    replace_file(path(), text);
    EXPECT_EQ(read_file(path(), "a list"), text);
  }
}

TEST_F(ReplacementFileTest, SaysWhatCannotBeReadAndWhy) {
  EXPECT_EQ(refusal(folder_ + "/none"), folder_ + "/none: cannot open: No such file or directory");
  EXPECT_EQ(refusal(folder_), folder_ + ": is a directory, expected a list");
}

}  // namespace
}  // namespace epilogue
