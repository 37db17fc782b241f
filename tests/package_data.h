// Kernel packages made for a test, in a folder that goes with it.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include <gtest/gtest.h>

#include "package/cache.h"
#include "package/files.h"
#include "package/pack.h"

namespace epilogue::package {

// Where the build left the packages: packed/ as `make packages` does, fixtures/ for tests.
inline std::string test_packages(const std::string& path) {
  const char* folder = std::getenv("EPILOGUE_TEST_PACKAGES");
  return std::string(folder ? folder : EPILOGUE_TEST_PACKAGES) + "/" + path;
}

inline void write_text(const std::string& path, const std::string& text) {
  std::filesystem::create_directories(std::filesystem::path(path).parent_path());
  std::ofstream(path, std::ios::binary) << text;
}

inline std::string read_text(const std::string& path) { return read_file(path, UINT64_MAX); }

inline const Reference kFixture{"test/fixture", 1};

inline constexpr const char* kAuthorManifest = R"(name = "test/fixture"
version = 1
license = "Apache-2.0"
[[op]]
name = "silu_mul"
dtypes = ["f32"]
max-elements = 1000000
[[layer]]
name = "GatedMlp"
ops = ["silu_mul"]
[[variant]]
name = "any"
system = "linux"
arch = "x86_64"
backend = "cpu"
isa = "scalar"
abi = 1
library = "libfixture.so"
)";

// RFC 8032, 7.1, TEST 1.
inline constexpr const char* kPrivateKey =
    "-----BEGIN PRIVATE KEY-----\nMC4CAQAwBQYDK2VwBCIEIJ1hsZ3v/VpguoRK9JLsLMREScVpezJpGXA7rAMcrn9g\n"
    "-----END PRIVATE KEY-----\n";
inline constexpr const char* kPublicKey = "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a";

class PackageTest : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = ::testing::TempDir() + "package_test_XXXXXX";
    ASSERT_TRUE(mkdtemp(folder_.data()));
    setenv("EPILOGUE_CACHE_DIR", (folder_ + "/cache").c_str(), 1);
    setenv("XDG_CONFIG_HOME", (folder_ + "/config").c_str(), 1);
  }
  void TearDown() override {
    unsetenv("EPILOGUE_CACHE_DIR");
    unsetenv("XDG_CONFIG_HOME");
    remove_tree(folder_);
  }

  Cache cache() const { return Cache(folder_ + "/cache/packages"); }
  std::string path(const std::string& name) const { return folder_ + "/" + name; }

  // Packs a package whose library is `library`'s bytes.
  Packed make_package(const std::string& library, const std::string& manifest = kAuthorManifest,
                      const std::string& key_file = "") {
    remove_tree(path("author"));
    write_text(path("author/package.toml"), manifest);
    write_text(path("author/build/any/libfixture.so"), library);
    return pack({.folder = path("author"), .output = path("packed"), .key_file = key_file});
  }
  // The same with a library of tests/packages/fixture.cpp.
  Packed make_fixture(const std::string& name, const std::string& manifest = kAuthorManifest,
                      const std::string& key_file = "") {
    return make_package(read_text(test_packages("fixtures/lib" + name + ".so")), manifest, key_file);
  }

  std::string folder_;
};

}  // namespace epilogue::package
