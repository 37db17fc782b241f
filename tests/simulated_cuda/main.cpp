// The module's choices and threads outlive a test, so that each has a process of its own: by ctest, or by
// this one where several are asked for.
#include <cstdlib>

#include <unistd.h>

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace {

class OneProcessEach : public testing::EmptyTestEventListener {
  void OnTestProgramStart(const testing::UnitTest& all) override {
    if (all.test_to_run_count() <= 1) return;
    int failed = 0;
    for (int s = 0; s < all.total_test_suite_count(); ++s) {
      const testing::TestSuite& suite = *all.GetTestSuite(s);
      for (int t = 0; t < suite.total_test_count(); ++t) {
        const testing::TestInfo& test = *suite.GetTestInfo(t);
        if (!test.should_run()) continue;
        const std::string command = fmt::format("/proc/{}/exe --gtest_brief=1 --gtest_filter={}.{}", getpid(),
                                                suite.name(), test.name());
        if (std::system(command.c_str()) != 0) ++failed;
      }
    }
    fmt::print("{} passed, {} failed\n", all.test_to_run_count() - failed, failed);
    std::exit(failed == 0 ? 0 : 1);
  }
};

}  // namespace

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  testing::UnitTest::GetInstance()->listeners().Append(new OneProcessEach);
  return RUN_ALL_TESTS();
}
