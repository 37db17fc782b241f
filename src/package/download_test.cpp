#include "package/download.h"

#include <filesystem>
#include <thread>

#include <httplib.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "epilogue/error.h"
#include "package/index.h"
#include "package/source.h"
#include "package/verify.h"
#include "package_data.h"

namespace epilogue::package {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

// Serves a folder on loopback and cuts connections when told to.
class Server {
 public:
  explicit Server(std::string folder) : folder_(std::move(folder)) {
    server_.Get(".*", [this](const httplib::Request& request, httplib::Response& response) {
      answer(request, response);
    });
    port_ = server_.bind_to_any_port("127.0.0.1");
    thread_ = std::thread([this] { server_.listen_after_bind(); });
    while (!server_.is_running()) std::this_thread::yield();
  }
  ~Server() {
    server_.stop();
    thread_.join();
  }
  std::string url() const { return "http://127.0.0.1:" + std::to_string(port_); }

  std::atomic<size_t> cut_after{SIZE_MAX};  // bytes of an archive that go out before the connection is cut
  std::atomic<bool> ranges{true};           // whether it can go on from the middle
  std::atomic<int> partial{0};              // answers that went on from the middle
  std::atomic<bool> longer{false};          // sends more than the index tells

 private:
  void answer(const httplib::Request& request, httplib::Response& response) {
    std::string content;
    try {
      content = read_text(folder_ + request.path);
    } catch (const Error&) {
      response.status = 404;
      return;
    }
    if (longer && request.path.ends_with(".gz")) content += "more";
    const bool archive = request.path.ends_with(".gz");
    size_t begin = 0;
    if (archive && ranges && request.has_header("Range")) {
      begin = std::stoul(request.get_header_value("Range").substr(6));
      response.status = 206;
      ++partial;
    }
    const_cast<httplib::Request&>(request).ranges.clear();  // httplib would cut the answer once more
    const size_t limit = archive ? cut_after.load() : SIZE_MAX, size = content.size();
    if (response.status == 206)
      response.set_header("Content-Range", "bytes " + std::to_string(begin) + "-" + std::to_string(size - 1) +
                                               "/" + std::to_string(size));
    response.set_content_provider(
        size - begin, "application/octet-stream",
        [content, begin, limit](size_t offset, size_t length, httplib::DataSink& sink) {
          if (offset >= limit) return false;
          const size_t some = std::min(length, limit - offset);
          return sink.write(content.data() + begin + offset, some);
        });
  }

  std::string folder_;
  httplib::Server server_;
  int port_ = 0;
  std::thread thread_;
};

class DownloadTest : public PackageTest {
 protected:
  void SetUp() override {
    PackageTest::SetUp();
    packed_ = make_package("a library that does not compress well: 8f7e6d5c4b3a29180716253443526170");
    size_ = std::filesystem::file_size(packed_.archive);
    server_ = std::make_unique<Server>(path("packed"));
  }
  Installed add() {
    Cache there = cache();
    return add_from(there, server_->url(), Reference{"test/fixture", 1}, {}, {});
  }
  void expect_whole() {
    ASSERT_EQ(cache().list().size(), 1u);
    const Installed installed = cache().find({"test/fixture", 1});
    EXPECT_NO_THROW(
        verify_files(installed.folder, read_manifest(installed.folder, installed.digest, nullptr).manifest));
    EXPECT_TRUE(std::filesystem::is_empty(cache().downloads()));
  }

  Packed packed_;
  size_t size_ = 0;
  std::unique_ptr<Server> server_;
};

TEST_F(DownloadTest, AnIndexOnAServerGivesThePackage) {
  uint64_t last = 0;
  Cache there = cache();
  add_from(there, server_->url() + "/index.json", std::nullopt, {}, [&](uint64_t done, uint64_t total) {
    EXPECT_EQ(total, size_);
    last = done;
  });
  EXPECT_EQ(last, size_);
  expect_whole();
}

TEST_F(DownloadTest, CutAtEveryTenthByteItLeavesNothingAndGoesOnWhereItWas) {
  for (size_t cut = 0; cut < size_; cut += 10) {
    server_->cut_after = cut;
    EXPECT_THROW(add(), Error) << cut;
    EXPECT_TRUE(cache().list().empty()) << cut;
    server_->cut_after = SIZE_MAX;
    server_->partial = 0;
    add();
    EXPECT_EQ(server_->partial, cut == 0 ? 0 : 1) << cut;
    expect_whole();
    cache().remove({"test/fixture", 1});
  }
}

TEST_F(DownloadTest, TenBytesATimeItArrivesInTheEnd) {
  server_->cut_after = 10;
  size_t tries = 0;
  for (bool done = false; !done; ++tries) {
    ASSERT_LE(tries, size_ / 10 + 1);
    try {
      add();
      done = true;
    } catch (const Error&) {
      EXPECT_TRUE(cache().list().empty());
    }
  }
  EXPECT_GE(tries, size_ / 10);
  expect_whole();
}

TEST_F(DownloadTest, AServerThatCannotGoOnSendsAllOfItAgain) {
  server_->cut_after = size_ / 2;
  EXPECT_THROW(add(), Error);
  server_->cut_after = SIZE_MAX;
  server_->ranges = false;
  add();
  expect_whole();
}

TEST_F(DownloadTest, WhatAnEarlierTryLeftOfAnotherContentIsFetchedAnew) {
  const Index index = parse_index(read_text(path("packed/index.json")), "index");
  write_text(cache().downloads() + "/" + index.entries[0].sha256 + ".part", std::string(size_ / 2, 'x'));
  add();
  expect_whole();
  cache().remove({"test/fixture", 1});
  write_text(cache().downloads() + "/" + index.entries[0].sha256 + ".part", std::string(size_ * 2, 'x'));
  add();
  expect_whole();
}

TEST_F(DownloadTest, AnArchiveThatIsNotTheIndexsIsRefused) {
  std::string archive = read_text(packed_.archive);
  archive[archive.size() / 2] = static_cast<char>(archive[archive.size() / 2] ^ 1);
  write_text(packed_.archive, archive);
  EXPECT_THAT([&] { add(); }, ThrowsMessage<Error>(HasSubstr("SHA-256")));
  EXPECT_TRUE(cache().list().empty());
  server_->longer = true;
  EXPECT_THAT([&] { add(); }, ThrowsMessage<Error>(HasSubstr("larger than")));
  EXPECT_TRUE(cache().list().empty());
}

TEST_F(DownloadTest, AMissingServerFileOrPackageIsTold) {
  Cache there = cache();
  EXPECT_THAT(
      [&] {
        add_from(there, server_->url() + "/no/", Reference{"test/fixture", 1}, {}, {});
      },
      ThrowsMessage<Error>(HasSubstr("404")));
  EXPECT_THAT(
      [&] {
        add_from(there, server_->url(), Reference{"test/fixture", 9}, {}, {});
      },
      ThrowsMessage<Error>(HasSubstr("it has test/fixture@1")));
  std::filesystem::remove(packed_.archive);
  EXPECT_THAT([&] { add(); }, ThrowsMessage<Error>(HasSubstr("404")));
  const std::string gone = server_->url();
  server_.reset();
  EXPECT_THAT(
      [&] {
        add_from(there, gone, Reference{"test/fixture", 1}, {}, {});
      },
      ThrowsMessage<Error>(HasSubstr(gone)));
  EXPECT_THROW(add_from(there, "/no/such/folder", {}, {}, {}), Error);
  EXPECT_TRUE(cache().list().empty());
}

TEST_F(DownloadTest, AFolderWithAnIndexServesWithoutAServer) {
  Cache there = cache();
  add_from(there, path("packed"), Reference{"test/fixture", 1}, {}, {});
  ASSERT_EQ(cache().list().size(), 1u);
  write_text(packed_.archive, "other");
  EXPECT_THAT(
      [&] {
        add_from(there, path("packed"), Reference{"test/fixture", 1}, {}, {});
      },
      ThrowsMessage<Error>(HasSubstr("SHA-256")));
}

}  // namespace
}  // namespace epilogue::package
