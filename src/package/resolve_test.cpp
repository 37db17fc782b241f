#include "package/resolve.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "epilogue/error.h"

namespace epilogue::package {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

Variant cpu(const char* name, const char* isa) {
  return {.name = name, .system = "linux", .arch = "x86_64", .backend = "cpu", .isa = isa, .abi = 1};
}
Variant cuda(const char* name, int64_t toolkit, std::vector<int64_t> archs) {
  return {.name = name,
          .system = "linux",
          .arch = "x86_64",
          .backend = "cuda",
          .cuda = toolkit,
          .archs = archs,
          .abi = 1};
}

Manifest with(std::vector<Variant> variants) {
  Manifest manifest;
  manifest.reference = {"test/a", 1};
  manifest.variants = std::move(variants);
  return manifest;
}

const Machine kCpuMachine{.system = "linux", .arch = "x86_64", .abi = 1, .isa = "avx2"};
const Machine kHopper{.system = "linux",
                      .arch = "x86_64",
                      .abi = 1,
                      .device = {DeviceType::cuda, 0},
                      .isa = "avx2",
                      .cuda = 13,
                      .capability = 90};

TEST(PackageResolve, TheHighestInstructionSetThatFitsIsTaken) {
  const Manifest m = with({cpu("low", "scalar"), cpu("fits", "avx2"), cpu("high", "avx512")});
  const auto choices = resolve(m, kCpuMachine);
  ASSERT_EQ(choices.size(), 3u);
  EXPECT_EQ(choices[0].verdict, Verdict::passed_over);
  EXPECT_EQ(choices[0].reason, "fits is better here");
  EXPECT_EQ(choices[1].verdict, Verdict::taken);
  EXPECT_THAT(choices[1].reason, HasSubstr("avx2 is the highest"));
  EXPECT_EQ(choices[2].verdict, Verdict::refused);
  EXPECT_THAT(choices[2].reason, HasSubstr("needs avx512"));
}

TEST(PackageResolve, MachineCodeRunsOnItsOwnMajorFromItsMinorOn) {
  const Manifest m = with({cuda("ampere", 13, {80}), cuda("later", 13, {92}), cuda("hopper", 12, {80, 90})});
  EXPECT_EQ(choose_variant(m, kHopper).name, "hopper");
  EXPECT_EQ(resolve(m, kHopper)[2].reason,
            "its code for 90, built with CUDA 12, is the nearest to this device's 90");
  EXPECT_THAT(resolve(m, kHopper)[1].reason, HasSubstr("it has code for 92, the device is 90"));
  Machine ada = kHopper;
  ada.capability = 89;
  EXPECT_EQ(choose_variant(m, ada).name, "ampere");
}

TEST(PackageResolve, EveryRefusalIsToldWhenNoneFits) {
  Variant future = cpu("future", "scalar"), arm = cpu("arm", "scalar"), mac = cpu("mac", "scalar");
  future.abi = 2;
  arm.arch = "aarch64";
  mac.system = "darwin";
  const Manifest m = with({future, arm, mac, cuda("gpu", 13, {90})});
  EXPECT_THAT([&] { choose_variant(m, kCpuMachine); },
              ThrowsMessage<Error>(
                  AllOf(HasSubstr("test/a@1"), HasSubstr("future: its ABI 2 is newer than this Epilogue's 1"),
                        HasSubstr("arm: it is for aarch64"), HasSubstr("mac: it is for darwin"),
                        HasSubstr("gpu: it is for cuda"))));
}

TEST(PackageResolve, ADriverTooOldForTheToolkitRefuses) {
  Machine old = kHopper;
  old.cuda = 12;
  EXPECT_THAT([&] { choose_variant(with({cuda("gpu", 13, {90})}), old); },
              ThrowsMessage<Error>(HasSubstr("built with CUDA 13, the driver runs CUDA 12")));
}

TEST(PackageResolve, ThisMachineTellsWhatItIs) {
  const Machine here = this_machine({});
  EXPECT_EQ(here.system, "linux");
  EXPECT_EQ(here.abi, 1u);
  EXPECT_THAT(here.isa, ::testing::AnyOf("scalar", "avx2", "avx512"));
}

}  // namespace
}  // namespace epilogue::package
