#include "package/cache.h"

#include <filesystem>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/check.h"
#include "epilogue/error.h"
#include "package/digest.h"
#include "package/verify.h"
#include "package_data.h"

namespace epilogue::package {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

void verify_installed(const Installed& installed, const Policy& policy = {}) {
  verify_files(installed.folder, read_manifest(installed.folder, installed.digest, &policy).manifest);
}

std::vector<std::string> files_below(const std::string& folder) {
  std::vector<std::string> files;
  for (const auto& entry : fs::recursive_directory_iterator(folder))
    if (entry.is_regular_file()) files.push_back(entry.path());
  return files;
}

class PackageCache : public PackageTest {
 protected:
  Packed signed_package() {
    write_text(path("key.pem"), kPrivateKey);
    return make_package("the library", kAuthorManifest, path("key.pem"));
  }
};

TEST_F(PackageCache, AFolderAndItsArchiveAddTheSamePackage) {
  const Packed packed = make_package("the library");
  const Installed from_folder = cache().add(packed.folder, kFixture, {});
  const Installed from_archive = cache().add(packed.archive, {}, {});
  EXPECT_EQ(from_folder.digest, from_archive.digest);
  ASSERT_EQ(cache().list().size(), 1u);
  EXPECT_TRUE(cache().list()[0].selected);
  verify_installed(cache().find(kFixture));
}

TEST_F(PackageCache, NothingIsLeftBesideThePackages) {
  cache().add(make_package("the library").archive, {}, {});
  for (const auto& entry : fs::directory_iterator(cache().root() + "/unpacking"))
    EXPECT_EQ(entry.path().filename(), "guard");
}

TEST_F(PackageCache, AChangedByteOfAnyFileIsFoundWithItsName) {
  const Installed installed = cache().add(signed_package().archive, {}, {});
  const auto files = files_below(installed.folder);
  ASSERT_EQ(files.size(), 3u);
  for (const std::string& file : files) {
    const std::string good = read_text(file);
    for (size_t i = 0; i < good.size(); ++i) {
      std::string bad = good;
      bad[i] = static_cast<char>(bad[i] ^ 1);
      write_text(file, bad);
      EXPECT_THAT([&] { verify_installed(installed); }, ThrowsMessage<Error>(HasSubstr(file))) << i;
    }
    write_text(file, good);
  }
  EXPECT_NO_THROW(verify_installed(installed));
}

TEST_F(PackageCache, ADeletedAShortenedAndALengthenedFileAreFoundWithTheirNames) {
  const Installed installed = cache().add(signed_package().archive, {}, {});
  for (const std::string& file : files_below(installed.folder)) {
    const std::string good = read_text(file);
    fs::remove(file);
    EXPECT_THAT([&] { verify_installed(installed); },
                ThrowsMessage<Error>(AllOf(HasSubstr(file), HasSubstr("missing"))));
    for (const std::string& bad : {good.substr(1), good + "x", std::string()}) {
      write_text(file, bad);
      EXPECT_THAT([&] { verify_installed(installed); }, ThrowsMessage<Error>(HasSubstr(file)));
    }
    write_text(file, good);
  }
}

TEST_F(PackageCache, AFileThatIsNotListedAndALinkAreFound) {
  const Installed installed = cache().add(make_package("the library").archive, {}, {});
  write_text(installed.folder + "/build/any/more.so", "x");
  EXPECT_THAT([&] { verify_installed(installed); }, ThrowsMessage<Error>(HasSubstr("more.so")));
  fs::remove(installed.folder + "/build/any/more.so");
  const std::string library = installed.folder + "/build/any/libfixture.so";
  fs::rename(library, path("elsewhere.so"));
  fs::create_symlink(path("elsewhere.so"), library);
  EXPECT_THAT([&] { verify_installed(installed); }, ThrowsMessage<Error>(HasSubstr("symbolic link")));
}

TEST_F(PackageCache, AddingAgainMendsADamagedPackage) {
  const Packed packed = make_package("the library");
  const Installed installed = cache().add(packed.archive, {}, {});
  write_text(installed.folder + "/build/any/libfixture.so", "damaged");
  EXPECT_THROW(verify_installed(installed), Error);
  cache().add(packed.archive, {}, {});
  EXPECT_NO_THROW(verify_installed(installed));
}

TEST_F(PackageCache, TheBuildAddedLastIsSelectedAndEarlierOnesStay) {
  const Packed first = make_package("one"), second = make_package("two");
  const Installed a = cache().add(first.archive, {}, {}), b = cache().add(second.archive, {}, {});
  EXPECT_EQ(cache().find(kFixture).digest, b.digest);
  EXPECT_EQ(cache().find(kFixture, a.digest).folder, a.folder);
  cache().add(first.archive, {}, {});
  EXPECT_EQ(cache().find(kFixture).digest, a.digest);
  EXPECT_EQ(cache().list().size(), 2u);
  cache().remove(kFixture);
  EXPECT_TRUE(cache().list().empty());
  EXPECT_THAT([&] { cache().find(kFixture); }, ThrowsMessage<Error>(HasSubstr("epilogue kernels add")));
  EXPECT_THROW(cache().remove(kFixture), Error);
}

TEST_F(PackageCache, APackageOfAnotherNameThanAskedForIsRefused) {
  const Packed packed = make_package("the library");
  EXPECT_THAT(
      [&] {
        cache().add(packed.archive, {"test/other", 1}, {});
      },
      ThrowsMessage<Error>(HasSubstr("it is test/fixture@1, expected test/other@1")));
  EXPECT_THROW(cache().add(packed.archive, {"test/fixture", 2}, {}), Error);
  EXPECT_TRUE(cache().list().empty());
}

TEST_F(PackageCache, APolicyThatRequiresASignatureRefusesAMissingAndAnUnknownOne) {
  const Policy strict{.require_signature = true, .keys = {{"test", {kPublicKey}}}};
  const Policy other_owner{.require_signature = true, .keys = {{"other", {kPublicKey}}}};
  EXPECT_THAT([&] { cache().add(make_package("unsigned").archive, {}, strict); },
              ThrowsMessage<Error>(HasSubstr("is not signed")));
  const Packed packed = signed_package();
  EXPECT_EQ(packed.signed_by, kPublicKey);
  EXPECT_THAT([&] { cache().add(packed.archive, {}, other_owner); },
              ThrowsMessage<Error>(HasSubstr("not trusted")));
  EXPECT_TRUE(cache().list().empty());
  const Installed installed = cache().add(packed.archive, {}, strict);
  EXPECT_NO_THROW(verify_installed(installed, strict));
  EXPECT_THROW(verify_installed(installed, other_owner), Error);
  EXPECT_NO_THROW(verify_installed(installed));
}

TEST_F(PackageCache, ASignatureOfAnotherManifestIsRefusedUnderAnyPolicy) {
  const Packed packed = signed_package();
  const Signature other = sign("something else", path("key.pem"));
  write_text(packed.folder + "/package.sig", other.to_text());
  EXPECT_THAT([&] { cache().add(packed.folder, {}, {}); },
              ThrowsMessage<Error>(AllOf(HasSubstr("package.sig"), HasSubstr("does not fit"))));
  EXPECT_TRUE(cache().list().empty());
}

TEST_F(PackageCache, ThreadsThatAddTheSamePackageAtOnceAllSucceed) {
  const Packed packed = make_package(std::string(100'000, 'x'));
  std::vector<std::thread> threads;
  std::atomic<int> failed{0};
  for (int t = 0; t < 8; ++t)
    threads.emplace_back([&] {
      try {
        for (int i = 0; i < 5; ++i) cache().add(packed.archive, {}, {});
      } catch (const std::exception& error) {
        ++failed;
        ADD_FAILURE() << error.what();
      }
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(failed, 0);
  ASSERT_EQ(cache().list().size(), 1u);
  verify_installed(cache().find(kFixture));
}

TEST_F(PackageCache, WhatACrashLeftIsRemovedByTheNextAdd) {
  const Packed packed = make_package("the library");
  const std::string left = cache().root() + "/unpacking/abcdef";
  write_text(left + "/package.toml", "half");
  write_text(left + ".lock", "");
  cache().add(packed.archive, {}, {});
  EXPECT_FALSE(fs::exists(left));
  EXPECT_FALSE(fs::exists(left + ".lock"));
}

TEST(PackagePolicy, AMisspeltRuleIsRefused) {
  EXPECT_TRUE(parse_policy("require-signature = true", "p").require_signature);
  EXPECT_FALSE(parse_policy("", "p").require_signature);
  const Policy policy = parse_policy(fmt::format("[keys]\ntest = [\"{}\"]", kPublicKey), "p");
  EXPECT_TRUE(policy.trusts("test/fixture", kPublicKey));
  EXPECT_FALSE(policy.trusts("test2/fixture", kPublicKey));
  for (const char* text : {"require_signature = true", "require-signature = 1", "[keys]\ntest = []",
                           "[keys]\ntest = [\"ab\"]", "keys = 3", "[keys]\n\"a/b\" = [\"\"]"})
    EXPECT_THROW(parse_policy(text, "p"), Error) << text;
}

}  // namespace
}  // namespace epilogue::package
