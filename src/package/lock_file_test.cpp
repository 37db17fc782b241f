#include "package/lock_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "epilogue/error.h"

namespace epilogue::package {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

Manifest manifest() {
  Manifest m;
  m.reference = {"test/a", 1};
  m.build = "b1";
  m.files["build/x/a.so"] = {3, std::string(64, 'a')};
  return m;
}

TEST(KernelsLock, WhatIsWrittenIsRead) {
  LockFile lock;
  lock.set(lock_package(manifest(), std::string(64, 'c')));
  lock.set(lock_package(manifest(), std::string(64, 'd')));  // in place of the first
  const LockFile read = parse_lock(lock.to_text(), "kernels.lock");
  ASSERT_EQ(read.packages.size(), 1u);
  EXPECT_EQ(read.find({"test/a", 1})->digest, std::string(64, 'd'));
  EXPECT_EQ(read.find({"test/a", 2}), nullptr);
  EXPECT_EQ(read.to_text(), lock.to_text());
  EXPECT_NO_THROW(check_locked(read.packages[0], manifest(), "kernels.lock"));
}

TEST(KernelsLock, AnotherBuildOrFileIsRefused) {
  const LockedPackage locked = lock_package(manifest(), std::string(64, 'c'));
  Manifest other = manifest();
  other.build = "b2";
  EXPECT_THAT([&] { check_locked(locked, other, "kernels.lock"); },
              ThrowsMessage<Error>(HasSubstr("build b1")));
  other = manifest();
  other.files["build/x/a.so"].sha256 = std::string(64, 'b');
  EXPECT_THAT([&] { check_locked(locked, other, "kernels.lock"); },
              ThrowsMessage<Error>(HasSubstr("build/x/a.so")));
  other = manifest();
  other.files["build/x/b.so"] = {3, std::string(64, 'b')};
  EXPECT_THROW(check_locked(locked, other, "kernels.lock"), Error);
  other = manifest();
  other.files.clear();
  EXPECT_THROW(check_locked(locked, other, "kernels.lock"), Error);
}

TEST(KernelsLock, WhatIsWrongIsNamed) {
  LockFile lock;
  lock.set(lock_package(manifest(), std::string(64, 'c')));
  const std::string good = lock.to_text();
  const struct {
    std::string from, to, says;
  } rows[] = {{"format = 1", "format = 2", "'format'"},
              {"format = 1", "", "'format' is missing"},
              {"test/a", "test", "'name'"},
              {"cccc", "CCCC", "'manifest'"},
              {"'build/x/a.so'", "'../a.so'", "leads out"},
              {"[[package]]", "[[packages]]", "not known"},
              {"aaaa", "zzzz", "SHA-256"}};
  for (const auto& row : rows) {
    std::string text = good;
    const size_t at = text.find(row.from);
    ASSERT_NE(at, text.npos) << row.from;
    text.replace(at, row.from.size(), row.to);
    EXPECT_THAT([&] { parse_lock(text, "kernels.lock"); }, ThrowsMessage<Error>(HasSubstr(row.says))) << text;
  }
}

}  // namespace
}  // namespace epilogue::package
