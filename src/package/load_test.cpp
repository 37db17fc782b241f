#include "package/load.h"

#include <filesystem>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/check.h"
#include "package/lock_file.h"
#include "package_data.h"

namespace epilogue::package {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

class LoadTest : public PackageTest {
 protected:
  Installed install(const Packed& packed) { return cache().add(packed.archive, {}, {}); }
  Loaded load(const std::string& lock_file = "", const Policy& policy = {}) {
    return load_package(cache(), kFixture, policy, {.lock_file = lock_file});
  }
  void expect_refused(const std::string& says) {
    EXPECT_THAT([&] { load(); }, ThrowsMessage<Error>(HasSubstr(says)));
  }
};

TEST_F(LoadTest, AVerifiedPackageGivesItsKernels) {
  install(make_fixture("good"));
  const Loaded loaded = load();
  EXPECT_EQ(loaded.variant->name, "any");
  ASSERT_NE(loaded.kernel("silu_mul", DType::f32), nullptr);
  EXPECT_EQ(loaded.kernel("silu_mul", DType::bf16), nullptr);
  EXPECT_EQ(loaded.kernel("gelu_mul", DType::f32), nullptr);
  EXPECT_EQ(load().package, loaded.package);  // the library is loaded once
}

TEST_F(LoadTest, AnAbiFromTheFutureIsRefusedByTheManifest) {
  std::string manifest = kAuthorManifest;
  manifest.replace(manifest.find("abi = 1"), 7, "abi = 2");
  install(make_fixture("future", manifest));
  expect_refused("its ABI 2 is newer than this Epilogue's 1");
}

TEST_F(LoadTest, AnAbiFromTheFutureIsRefusedByTheHandshake) {
  install(make_fixture("future"));
  expect_refused("it speaks ABI 2");
}

TEST_F(LoadTest, ALibraryThatIsNotWhatItsManifestSaysIsRefused) {
  install(make_fixture("stranger"));
  expect_refused("it calls itself other/name@1");
  install(make_fixture("unwilling"));
  expect_refused("it refuses to work with ABI 1");
}

TEST_F(LoadTest, WhatIsNoLibraryIsRefused) {
  install(make_package("no library at all"));
  expect_refused("cannot be loaded");
}

TEST_F(LoadTest, AFileThatChangedAfterItWasLoadedFailsTheNextLoad) {
  const Installed installed = install(make_fixture("good"));
  load();
  const std::string file = installed.folder + "/build/any/libfixture.so";
  std::string bytes = read_text(file);
  bytes.back() = static_cast<char>(bytes.back() ^ 1);
  write_text(file, bytes);
  expect_refused(file);
  std::filesystem::remove(file);
  expect_refused(file);
}

TEST_F(LoadTest, ALockFilePinsTheBuild) {
  const Installed first = install(make_fixture("good"));
  const Manifest manifest = read_manifest(first.folder, first.digest, nullptr).manifest;
  LockFile lock;
  lock.set(lock_package(manifest, first.digest));
  write_text(path("kernels.lock"), lock.to_text());
  std::string described = kAuthorManifest;
  install(make_fixture("good", "description = \"another build\"\n" + described));
  EXPECT_EQ(load(path("kernels.lock")).known.digest, first.digest);
  EXPECT_NE(load().known.digest, first.digest);
}

TEST_F(LoadTest, ALockFileThatDoesNotFitIsRefused) {
  const Installed installed = install(make_fixture("good"));
  write_text(path("kernels.lock"), LockFile().to_text());
  EXPECT_THAT([&] { load(path("kernels.lock")); },
              ThrowsMessage<Error>(HasSubstr("does not pin test/fixture@1")));
  const Manifest manifest = read_manifest(installed.folder, installed.digest, nullptr).manifest;
  LockFile lock;
  lock.set(lock_package(manifest, std::string(64, '0')));
  write_text(path("kernels.lock"), lock.to_text());
  EXPECT_THAT([&] { load(path("kernels.lock")); }, ThrowsMessage<Error>(HasSubstr("not in the cache")));
  LockedPackage other = lock_package(manifest, installed.digest);
  other.files.begin()->second = std::string(64, '0');
  lock.set(other);
  write_text(path("kernels.lock"), lock.to_text());
  EXPECT_THAT([&] { load(path("kernels.lock")); },
              ThrowsMessage<Error>(AllOf(HasSubstr("kernels.lock"), HasSubstr("libfixture.so"))));
}

TEST_F(LoadTest, APolicyThatCameLaterRefusesAtTheNextLoad) {
  install(make_fixture("good"));
  EXPECT_THAT([&] { load("", {.require_signature = true}); },
              ThrowsMessage<Error>(AllOf(HasSubstr("requires the signature"), HasSubstr("not signed"))));
}

}  // namespace
}  // namespace epilogue::package
