#include "base/blob_cache.h"

#include <filesystem>
#include <fstream>
#include <thread>

#include <signal.h>
#include <unistd.h>

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>

namespace epilogue {
namespace {

namespace fs = std::filesystem;

class BlobCacheTest : public ::testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/tmp/blob_cache_XXXXXX";
    folder_ = mkdtemp(name);
  }
  void TearDown() override { fs::remove_all(folder_); }

  BlobCache cache(int64_t most = 1 << 20) const { return {folder_, most}; }
  std::string only_file() const {
    std::string found;
    for (const auto& file : fs::directory_iterator(folder_)) found = file.path();
    return found;
  }

  // Runs `body` in a process of its own and gives how it ended.
  static int in_child(const std::function<void()>& body) {
    const pid_t child = fork();
    if (child == 0) {
      body();
      _exit(0);
    }
    int status = 0;
    waitpid(child, &status, 0);
    return status;
  }

  std::string folder_;
};

std::string kernel(int number, size_t size = 5000) {
  std::string bytes(size, static_cast<char>('a' + number % 26));
  bytes[0] = '\0';  // bytes, not text
  return bytes;
}

TEST_F(BlobCacheTest, GivesWhatWasPutUnderTheWholeKey) {
  BlobCache one = cache(), other = cache();
  EXPECT_FALSE(one.get("key"));
  EXPECT_TRUE(one.empty());
  EXPECT_TRUE(one.put("key", kernel(1)));
  EXPECT_FALSE(one.empty());
  EXPECT_EQ(other.get("key"), kernel(1));
  EXPECT_FALSE(other.get("key "));
  EXPECT_TRUE(one.put("key", kernel(2)));
  EXPECT_EQ(other.get("key"), kernel(2));
  EXPECT_TRUE(one.put("empty", ""));
  EXPECT_EQ(one.get("empty"), "");
  EXPECT_EQ(one.list().size(), 2u);
  EXPECT_GT(one.clear(), 5000);
  EXPECT_FALSE(one.get("key"));
}

TEST_F(BlobCacheTest, NoticesEveryKindOfDamageAndIsRebuilt) {
  BlobCache tested = cache();
  ASSERT_TRUE(tested.put("key", kernel(1)));
  const auto size = fs::file_size(only_file());
  for (const uintmax_t cut : {uintmax_t{0}, uintmax_t{5}, uintmax_t{40}, size / 2, size - 1}) {
    ASSERT_TRUE(tested.put("key", kernel(1)));
    fs::resize_file(only_file(), cut);
    EXPECT_FALSE(tested.get("key")) << "cut to " << cut;
    EXPECT_EQ(only_file(), "") << "what is damaged goes";
  }
  for (const uintmax_t at : {uintmax_t{3}, uintmax_t{18}, size / 2, size - 1}) {
    ASSERT_TRUE(tested.put("key", kernel(1)));
    std::fstream file(only_file(), std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(static_cast<std::streamoff>(at));
    file.put('#');
    file.close();
    EXPECT_FALSE(tested.get("key")) << "byte " << at << " changed";
  }
  ASSERT_TRUE(tested.put("key", kernel(1)));
  std::ofstream(only_file(), std::ios::app) << "more";
  EXPECT_FALSE(tested.get("key"));
  ASSERT_TRUE(tested.put("key", kernel(1)));
  fs::resize_file(only_file(), uintmax_t{1} << 42);  // more than there is memory
  EXPECT_EQ(tested.list().size(), 1u);
  EXPECT_FALSE(tested.get("key"));
  EXPECT_EQ(only_file(), "");
  EXPECT_GE(tested.counts().damaged, 10);
}

TEST_F(BlobCacheTest, StaysWithinItsSizeAndKeepsTheLatestUsed) {
  BlobCache small = cache(20000);
  for (int i = 0; i < 10; ++i) {
    ASSERT_TRUE(small.put("key" + std::to_string(i), kernel(i)));
    // Times of files are compared in seconds.
    for (const auto& file : fs::directory_iterator(folder_))
      fs::last_write_time(file, fs::last_write_time(file) - std::chrono::seconds(2));
    small.get("key0");
  }
  int64_t total = 0;
  for (const auto& entry : small.list()) total += entry.bytes;
  EXPECT_LE(total, 20000);
  EXPECT_TRUE(small.get("key0"));
  EXPECT_TRUE(small.get("key9"));
  EXPECT_FALSE(small.get("key1"));
}

TEST_F(BlobCacheTest, AProcessKilledWhileItWritesLeavesNothingWrong) {
  for (int i = 0; i < 20; ++i) {
    const pid_t child = fork();
    if (child == 0) {
      BlobCache writer(folder_, 1 << 30);
      for (int n = 0;; ++n) writer.put("key" + std::to_string(n % 4), kernel(n % 4, 1 << 20));
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(2 + i));
    kill(child, SIGKILL);
    waitpid(child, nullptr, 0);
    BlobCache reader = cache(1 << 30);
    for (int n = 0; n < 4; ++n) {
      const auto found = reader.get("key" + std::to_string(n));
      EXPECT_TRUE(!found || *found == kernel(n, 1 << 20));
    }
  }
}

TEST_F(BlobCacheTest, AFullDiskCostsTheEntryAlone) {
  // A limit on a file's size ends a write as a full disk does.
  const int status = in_child([&] {
    signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{4096, 4096};
    setrlimit(RLIMIT_FSIZE, &limit);
    BlobCache full(folder_, 1 << 20);
    const bool kept = full.put("large", kernel(1, 100000));
    const bool small = full.put("small", "bytes");
    _exit(!kept && small && full.counts().failed_writes == 1 ? 0 : 1);
  });
  EXPECT_EQ(status, 0);
  BlobCache after = cache();
  EXPECT_FALSE(after.get("large"));
  EXPECT_EQ(after.get("small"), "bytes");
  EXPECT_EQ(after.list().size(), 1u);
  for (const auto& file : fs::directory_iterator(folder_)) EXPECT_EQ(file.path().extension(), ".blob");
}

TEST_F(BlobCacheTest, LeavesTheTemporariesOfOthersAlone) {
  ASSERT_TRUE(cache().put("key", "bytes"));
  const std::string entry = only_file();
  // A process of another container may have the same number.
  std::vector<std::string> foreign;
  for (int i = 0; i < 1000; ++i) {
    foreign.push_back(entry + "." + std::to_string(getpid()) + "." + std::to_string(i) + ".tmp");
    std::ofstream(foreign.back()) << "half an entry";
  }
  EXPECT_TRUE(cache().put("key", "bytes"));
  for (const std::string& file : foreign) EXPECT_TRUE(fs::exists(file)) << file;
}

TEST_F(BlobCacheTest, AFolderThatCannotBeWrittenIsNoError) {
  BlobCache none("", 1 << 20), wrong("/proc/no/such", 1 << 20);
  EXPECT_FALSE(none.put("key", "bytes"));
  EXPECT_FALSE(none.get("key"));
  EXPECT_FALSE(wrong.put("key", "bytes"));
  EXPECT_FALSE(wrong.get("key"));
  EXPECT_TRUE(wrong.list().empty());
  EXPECT_TRUE(wrong.empty());
}

TEST_F(BlobCacheTest, TwoProcessesAndTheirThreadsShareOneFolder) {
  const auto work = [&](int seed) {
    BlobCache shared(folder_, 40000);
    int wrong = 0;
    for (int i = 0; i < 200; ++i) {
      const int number = (i * seed) % 12;
      const std::string key = "key" + std::to_string(number);
      const auto found = shared.get(key);
      wrong += found && *found != kernel(number);
      if (!found) shared.put(key, kernel(number));
    }
    return wrong;
  };
  const pid_t child = fork();
  if (child == 0) _exit(work(5) == 0 ? 0 : 1);
  std::atomic<int> wrong{0};
  std::thread one([&] { wrong += work(7); }), two([&] { wrong += work(11); });
  one.join();
  two.join();
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(cache().counts().damaged, BlobCache(folder_, 1).counts().damaged);
}

}  // namespace
}  // namespace epilogue
