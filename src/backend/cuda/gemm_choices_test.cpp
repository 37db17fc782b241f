#include "backend/cuda/gemm_choices.h"

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <future>
#include <thread>

#include <fcntl.h>
#include <unistd.h>

#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/wait.h>

namespace epilogue::cuda {
namespace {

namespace fs = std::filesystem;

class GemmChoicesFile : public testing::Test {
 protected:
  void SetUp() override {
    char pattern[] = "/tmp/epilogue_choices_XXXXXX";
    folder_ = mkdtemp(pattern);
  }
  void TearDown() override { fs::remove_all(folder_); }

  std::string file() const {
    for (const auto& entry : fs::directory_iterator(folder_))
      if (entry.path().extension() == ".tsv") return entry.path();
    return "";
  }
  std::string folder_;
};

GemmKey key_of(int64_t m) { return {.m = m, .n = 64, .k = 32, .a_ld = 32, .b_ld = 32, .dtype = DType::bf16}; }

GemmChoice algo_of(uint64_t number) {
  GemmChoice choice{};
  for (uint64_t i = 0; i < choice.size(); ++i) choice[i] = number * 1000003 + i;
  return choice;
}

TEST_F(GemmChoicesFile, IsReadByTheNextProcess) {
  GemmChoices first(folder_, "card; driver 1");
  for (int64_t m = 1; m <= 20; ++m) first.keep(key_of(m), {algo_of(static_cast<uint64_t>(m))});
  GemmChoices second(folder_, "card; driver 1");
  for (int64_t m = 1; m <= 20; ++m) {
    const auto found = second.find(key_of(m));
    ASSERT_TRUE(found);
    EXPECT_EQ((*found)[7], static_cast<uint64_t>(m) * 1000003 + 7);
  }
  EXPECT_FALSE(second.find(key_of(21)));
}

TEST_F(GemmChoicesFile, TellsAWholeMlpFromItsProductsAndFromAnotherOutput) {
  GemmKey gated = key_of(1024), whole = gated, wider = gated;
  gated.place = GemmPlace::gated;
  whole.place = wider.place = GemmPlace::whole_mlp;
  whole.last_n = 64;
  wider.last_n = 128;
  {
    GemmChoices choices(folder_, "card");
    choices.keep(gated, {algo_of(1)});
    choices.keep(whole, {GemmChoice{GemmWays::one_kernel, 1, 2}});
  }
  GemmChoices again(folder_, "card");
  EXPECT_EQ(again.find(gated), algo_of(1));
  EXPECT_EQ(again.find(whole), (GemmChoice{GemmWays::one_kernel, 1, 2}));
  EXPECT_FALSE(again.find(wider));
}

TEST_F(GemmChoicesFile, OfAnotherDriverIsNotUsed) {
  GemmChoices(folder_, "card; driver 1").keep(key_of(1), {algo_of(1)});
  EXPECT_FALSE(GemmChoices(folder_, "card; driver 2").find(key_of(1)));
  // Even under the name the other one's file has.
  const std::string path = file();
  std::ifstream in(path);
  std::string text((std::istreambuf_iterator<char>(in)), {});
  text.replace(text.find("driver 1"), 8, "driver 9");
  std::ofstream(path) << text;
  EXPECT_FALSE(GemmChoices(folder_, "card; driver 1").find(key_of(1)));
}

TEST_F(GemmChoicesFile, CutOrFlippedAnywhereGivesOnlyWholeLinesAndIsRewritten) {
  GemmChoices whole(folder_, "card");
  for (int64_t m = 1; m <= 5; ++m) whole.keep(key_of(m), {algo_of(static_cast<uint64_t>(m))});
  const std::string path = file();
  std::ifstream in(path);
  const std::string text((std::istreambuf_iterator<char>(in)), {});
  const auto check = [&](const std::string& damaged) {
    std::ofstream(path) << damaged;
    GemmChoices choices(folder_, "card");
    for (int64_t m = 1; m <= 5; ++m) {
      const auto found = choices.find(key_of(m));
      ASSERT_TRUE(!found || (*found)[0] == static_cast<uint64_t>(m) * 1000003);
    }
  };
  for (size_t at = 0; at < text.size(); at += 7) {
    check(text.substr(0, at));
    std::string flipped = text;
    flipped[at] = static_cast<char>(flipped[at] ^ 1);
    check(flipped);
  }
  // A line that was cut takes no other with it, and both kinds of damage go with the next choice.
  const size_t fourth = text.rfind('\n', text.size() - 2);
  for (const std::string& damaged :
       {text.substr(0, text.size() - 3), text.substr(0, fourth - 5) + text.substr(fourth)}) {
    std::ofstream(path) << damaged;
    GemmChoices(folder_, "card").keep(key_of(9), {algo_of(9)});
    std::ifstream mended(path);
    std::string line;
    std::getline(mended, line);
    std::getline(mended, line);
    int lines = 0;
    for (; std::getline(mended, line); ++lines) EXPECT_TRUE(parse_choice_line(line)) << line;
    EXPECT_EQ(lines, 5);
    EXPECT_TRUE(GemmChoices(folder_, "card").find(key_of(9)));
  }
}

TEST_F(GemmChoicesFile, HoldsNoChoiceThatIsTheProcessesAlone) {
  GemmChoices choices(folder_, "card");
  choices.keep(key_of(1), {algo_of(1)}, /*on_disk=*/false);
  choices.keep(key_of(2), {algo_of(2)});
  choices.keep(key_of(3), {algo_of(3)}, /*on_disk=*/false);
  choices.keep(key_of(4), {algo_of(4)});
  EXPECT_TRUE(choices.find(key_of(1)) && choices.find(key_of(3)));
  GemmChoices again(folder_, "card");
  EXPECT_TRUE(again.find(key_of(2)) && again.find(key_of(4)));
  EXPECT_FALSE(again.find(key_of(1)) || again.find(key_of(3)));
}

TEST_F(GemmChoicesFile, ProcessesWritingAtOnceLoseNothing) {
  constexpr int kProcesses = 4, kEach = 10;
  for (int p = 0; p < kProcesses; ++p)
    if (fork() == 0) {
      GemmChoices choices(folder_, "card");
      for (int i = 0; i < kEach; ++i) choices.keep(key_of(100 * p + i + 1), {algo_of(1)});
      _exit(0);
    }
  for (int p = 0; p < kProcesses; ++p) {
    int status = 0;
    wait(&status);
    EXPECT_EQ(status, 0);
  }
  GemmChoices choices(folder_, "card");
  for (int p = 0; p < kProcesses; ++p)
    for (int i = 0; i < kEach; ++i) EXPECT_TRUE(choices.find(key_of(100 * p + i + 1)));
}

TEST_F(GemmChoicesFile, IsFoundWhileAnotherProcessWrites) {
  GemmChoices choices(folder_, "card");
  choices.keep(key_of(1), {algo_of(1)});
  const int lock = open((file() + ".lock").c_str(), O_RDWR);
  ASSERT_EQ(flock(lock, LOCK_EX), 0);
  std::thread writer([&] { choices.keep(key_of(2), {algo_of(2)}); });
  const auto found = std::async(std::launch::async, [&] {
    while (!choices.find(key_of(2))) std::this_thread::yield();
  });
  EXPECT_EQ(found.wait_for(std::chrono::minutes(1)), std::future_status::ready);
  close(lock);
  writer.join();
  EXPECT_TRUE(GemmChoices(folder_, "card").find(key_of(2)));
}

TEST_F(GemmChoicesFile, KeepsWhatWasNearlyAsQuick) {
  const GemmFinalists three{algo_of(1), algo_of(2), algo_of(3)};
  GemmChoices(folder_, "card").keep(key_of(1), three);
  GemmChoices again(folder_, "card");
  EXPECT_EQ(again.find(key_of(1)), three[0]);
  EXPECT_EQ(again.finalists(key_of(1)), three);
  EXPECT_TRUE(again.finalists(key_of(2)).empty());
}

TEST_F(GemmChoicesFile, AFolderThatCannotBeMadeCostsNothingButTheFile) {
  std::ofstream(folder_ + "/file") << "x";
  GemmChoices choices(folder_ + "/file/below", "card");
  choices.keep(key_of(1), {algo_of(1)});
  EXPECT_TRUE(choices.find(key_of(1)));
}

}  // namespace
}  // namespace epilogue::cuda
