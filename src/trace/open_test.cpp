#include "trace/open.h"

#include <filesystem>
#include <fstream>
#include <future>

#include <httplib.h>
#include <unistd.h>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "epilogue/error.h"

namespace epilogue::trace {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

class OpenTest : public ::testing::Test {
 protected:
  // A folder of its own: tests run beside each other.
  void SetUp() override {
    std::filesystem::create_directory(folder_);
    std::ofstream(path_) << content_;
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::string folder_ = fmt::format("{}open_test.{}", ::testing::TempDir(), ::getpid());
  std::string path_ = folder_ + "/open test.json";
  std::string content_ = R"({"traceEvents": []})" + std::string(200'000, ' ');
};

TEST_F(OpenTest, LinkNamesTheFileEncoded) {
  const TraceServer server({path_}, {.port = 0});
  EXPECT_THAT(server.links().at(0), EndsWith("/open%20test.json"));
  EXPECT_THAT(server.links().at(0), HasSubstr("https://ui.perfetto.dev/#!/?url=http://127.0.0.1:"));
}

TEST_F(OpenTest, ServesTheFileOnceToPerfettoThenEnds) {
  TraceServer server({path_}, {.port = 0, .timeout = 20s});
  auto served = std::async(std::launch::async, [&] { return server.serve(); });
  httplib::Client client("127.0.0.1", server.port());
  const auto other = client.Get("/etc/passwd");
  ASSERT_TRUE(other);
  EXPECT_EQ(other->status, 404);
  const auto rebound = client.Get("/open%20test.json", {{"Host", "elsewhere.example"}});
  ASSERT_TRUE(rebound);
  EXPECT_EQ(rebound->status, 404);
  const auto file = client.Get("/open%20test.json");
  ASSERT_TRUE(file);
  EXPECT_EQ(file->status, 200);
  EXPECT_EQ(file->body, content_);
  EXPECT_EQ(file->get_header_value("Access-Control-Allow-Origin"), "https://ui.perfetto.dev");
  ASSERT_EQ(served.wait_for(10s), std::future_status::ready);
  EXPECT_TRUE(served.get());
}

TEST_F(OpenTest, FilesOfOneNameAreServedUntilEachWasFetched) {
  std::filesystem::create_directory(folder_ + "/b");
  std::ofstream(folder_ + "/b/open test.json") << "second";
  TraceServer server({path_, folder_ + "/b/open test.json"}, {.port = 0, .timeout = 20s});
  EXPECT_THAT(server.links(), ElementsAre(EndsWith("/open%20test.json"), EndsWith("/2-open%20test.json")));
  auto served = std::async(std::launch::async, [&] { return server.serve(); });
  httplib::Client client("127.0.0.1", server.port());
  for (int again = 0; again < 2; ++again) {
    const auto second = client.Get("/2-open%20test.json");
    ASSERT_TRUE(second);
    EXPECT_EQ(second->body, "second");
  }
  EXPECT_EQ(served.wait_for(50ms), std::future_status::timeout);
  const auto first = client.Get("/open%20test.json");
  ASSERT_TRUE(first);
  EXPECT_EQ(first->body, content_);
  ASSERT_EQ(served.wait_for(10s), std::future_status::ready);
  EXPECT_TRUE(served.get());
}

TEST_F(OpenTest, EndsAtTheTimeoutWhenNobodyFetches) {
  TraceServer server({path_}, {.port = 0, .timeout = 50ms});
  EXPECT_FALSE(server.serve());
}

TEST_F(OpenTest, TakenPortIsAnError) {
  const TraceServer first({path_}, {.port = 0});
  EXPECT_THAT([&] { TraceServer({path_}, {.port = first.port()}); },
              ThrowsMessage<Error>(HasSubstr("is taken")));
}

TEST_F(OpenTest, MissingFileIsAnError) {
  EXPECT_THAT([] { TraceServer({"/nowhere/t.json"}, {.port = 0}); },
              ThrowsMessage<Error>(HasSubstr("cannot open: No such file")));
}

}  // namespace
}  // namespace epilogue::trace
