#include "package/archive.h"

#include <filesystem>
#include <memory>

#include <archive.h>
#include <archive_entry.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "epilogue/error.h"
#include "package/digest.h"
#include "package_data.h"

namespace epilogue::package {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

struct Entry {
  std::string path, content;
  int type = AE_IFREG;
  std::string symlink = "", hardlink = "";
};

void write_entries(const std::string& file, const std::vector<Entry>& entries) {
  archive* a = archive_write_new();
  archive_write_set_format_pax(a);
  archive_write_add_filter_gzip(a);
  ASSERT_EQ(archive_write_open_filename(a, file.c_str()), ARCHIVE_OK);
  for (const Entry& e : entries) {
    archive_entry* entry = archive_entry_new();
    archive_entry_set_pathname(entry, e.path.c_str());
    archive_entry_set_filetype(entry, static_cast<unsigned>(e.type));
    archive_entry_set_perm(entry, 0644);
    archive_entry_set_size(entry, static_cast<la_int64_t>(e.content.size()));
    if (!e.symlink.empty()) archive_entry_set_symlink(entry, e.symlink.c_str());
    if (!e.hardlink.empty()) archive_entry_set_hardlink(entry, e.hardlink.c_str());
    ASSERT_EQ(archive_write_header(a, entry), ARCHIVE_OK) << archive_error_string(a);
    archive_write_data(a, e.content.data(), e.content.size());
    archive_entry_free(entry);
  }
  archive_write_close(a);
  archive_free(a);
}

constexpr const char* kLibrary = "build/any/libfixture.so";

class ArchiveTest : public PackageTest {
 protected:
  void SetUp() override {
    PackageTest::SetUp();
    packed_ = make_package("the library");
    manifest_ = read_text(packed_.folder + "/package.toml");
    std::filesystem::create_directories(path("box/inside"));
  }

  void expect_refused(const std::vector<Entry>& entries, const std::string& says) {
    write_entries(path("evil.tar.gz"), entries);
    remove_tree(path("box"));
    std::filesystem::create_directories(path("box/inside"));
    EXPECT_THAT([&] { unpack_archive(path("evil.tar.gz"), path("box/inside")); },
                ThrowsMessage<Error>(::testing::AllOf(HasSubstr("evil.tar.gz"), HasSubstr(says))));
    for (const auto& entry : std::filesystem::directory_iterator(path("box")))
      EXPECT_EQ(entry.path().filename(), "inside");  // nothing was written outside
    EXPECT_THROW(cache().add(path("evil.tar.gz"), {}, {}), Error);
    EXPECT_TRUE(cache().list().empty());
  }

  Packed packed_;
  std::string manifest_;
};

TEST_F(ArchiveTest, WhatIsPackedIsUnpacked) {
  const Manifest manifest = unpack_archive(packed_.archive, path("box/inside"));
  EXPECT_EQ(manifest.reference.to_string(), "test/fixture@1");
  EXPECT_EQ(read_text(path("box/inside/package.toml")), manifest_);
  EXPECT_EQ(read_text(path("box/inside/") + kLibrary), "the library");
}

TEST_F(ArchiveTest, TheSamePackageGivesTheSameBytes) {
  const std::string first = read_text(packed_.archive);
  EXPECT_EQ(read_text(make_package("the library").archive), first);
}

TEST_F(ArchiveTest, PathsThatLeadOutAreRefused) {
  for (const char* outside : {"../evil", "/tmp/epilogue_evil", "build/../../evil", "build/any/../../../evil",
                              "..", "build//evil", "./package.toml"})
    expect_refused({{"package.toml", manifest_}, {outside, "evil"}}, "refused");
  EXPECT_FALSE(std::filesystem::exists("/tmp/epilogue_evil"));
}

TEST_F(ArchiveTest, LinksAreRefused) {
  expect_refused({{"package.toml", manifest_}, {kLibrary, "", AE_IFLNK, "/etc/passwd"}}, "is a link");
  expect_refused({{"package.toml", manifest_}, {kLibrary, "", AE_IFREG, "", "package.toml"}}, "is a link");
  // A link to a folder outside, then a file through it.
  expect_refused({{"package.toml", manifest_}, {"build", "", AE_IFLNK, ".."}, {kLibrary, "the library"}},
                 "is a link");
}

TEST_F(ArchiveTest, DevicesAndPipesAreRefused) {
  expect_refused({{"package.toml", manifest_}, {kLibrary, "", AE_IFIFO}}, "no regular file");
  expect_refused({{"package.toml", manifest_}, {kLibrary, "", AE_IFCHR}}, "no regular file");
}

TEST_F(ArchiveTest, OnlyWhatIsListedIsTakenInItsSizeAndOnce) {
  expect_refused({{"package.toml", manifest_}, {kLibrary, "the library"}, {"build/any/more", "x"}},
                 "not listed");
  expect_refused({{"package.toml", manifest_}, {kLibrary, "the library, longer"}}, "has 19 bytes");
  expect_refused({{"package.toml", manifest_}, {kLibrary, "the library"}, {kLibrary, "the library"}},
                 "twice");
  expect_refused({{"package.toml", manifest_}}, "is missing");
  expect_refused({{kLibrary, "the library"}, {"package.toml", manifest_}}, "its first file is");
  expect_refused({{"package.toml", manifest_}, {"package.sig", "x"}, {kLibrary, "the library"}},
                 "not expected");
  expect_refused({}, "it has no package.toml");
}

TEST_F(ArchiveTest, AnotherContentOfTheSameSizeIsRefusedByTheCache) {
  write_entries(path("evil.tar.gz"), {{"package.toml", manifest_}, {kLibrary, "the_library"}});
  EXPECT_THAT([&] { cache().add(path("evil.tar.gz"), {}, {}); },
              ThrowsMessage<Error>(::testing::AllOf(HasSubstr(kLibrary), HasSubstr("SHA-256"))));
  EXPECT_TRUE(cache().list().empty());
}

TEST_F(ArchiveTest, ABombOfSizesIsRefusedBeforeItIsUnpacked) {
  std::string huge = manifest_;
  const std::string from = "size = 11";
  ASSERT_NE(huge.find(from), huge.npos) << huge;
  huge.replace(huge.find(from), from.size(), "size = 5000000000");
  expect_refused({{"package.toml", huge}, {kLibrary, std::string(1 << 20, '\0')}},
                 "more than the 1073741824 bytes");
  expect_refused({{"package.toml", manifest_}, {kLibrary, std::string(64 << 20, '\0')}},
                 "has 67108864 bytes");
  expect_refused({{"package.toml", manifest_ + std::string(64 << 20, '\n')}}, "larger than 1048576");
  std::vector<Entry> many{{"package.toml", manifest_}};
  for (int i = 0; i < 3000; ++i) many.push_back({"build/" + std::to_string(i), "", AE_IFDIR});
  expect_refused(many, "more than 2000 entries");
}

TEST_F(ArchiveTest, ACutArchiveIsRefusedAtEveryByte) {
  const std::string whole = read_text(packed_.archive);
  for (size_t size = 0; size < whole.size(); ++size) {
    write_text(path("cut.tar.gz"), whole.substr(0, size));
    EXPECT_THROW(cache().add(path("cut.tar.gz"), {}, {}), Error) << size;
  }
  EXPECT_TRUE(cache().list().empty());
}

TEST_F(ArchiveTest, WhatIsNoArchiveIsRefused) {
  write_text(path("x.tar.gz"), "no archive");
  EXPECT_THROW(cache().add(path("x.tar.gz"), {}, {}), Error);
  EXPECT_THROW(cache().add(path("missing.tar.gz"), {}, {}), Error);
}

}  // namespace
}  // namespace epilogue::package
