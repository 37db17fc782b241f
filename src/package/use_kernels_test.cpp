#include <filesystem>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "backend/cpu/isa.h"
#include "base/check.h"
#include "close.h"
#include "devices.h"
#include "epilogue/compile.h"
#include "epilogue/kernels.h"
#include "epilogue/profiler.h"
#include "package_data.h"

namespace epilogue::package {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::ThrowsMessage;

const KernelMap kGeglu{{"GatedMlp", "epilogue/geglu@1"}}, kFixtureMap{{"GatedMlp", "test/fixture@1"}};

KernelStats stats_of(const std::string& package, const std::string& op = "silu_mul",
                     const std::string& reason = "") {
  KernelStats sum{.package = package};
  for (const KernelStats& s : kernel_stats()) {
    if (s.package != package || s.op != op || s.reason.find(reason) == std::string::npos) continue;
    sum.calls += s.calls;
    sum.fallbacks += s.fallbacks;
    if (!s.reason.empty()) sum.reason = s.reason;
  }
  return sum;
}

std::vector<std::string> names_of_a_trace(const std::function<void()>& run) {
  Profiler profiler(ProfilerOptions{});
  profiler.start();
  run();
  profiler.stop();
  std::vector<std::string> names;
  for (const trace::Event& event : profiler.trace().events) names.emplace_back(profiler.trace().name(event));
  return names;
}

class UseKernels : public PackageTest {
 protected:
  void add_geglu() { cache_of_user().add(geglu_archive(), {}, {}); }
  void add_fixture(const std::string& manifest = kAuthorManifest) {
    cache_of_user().add(make_fixture("good", manifest).archive, {}, {});
  }
  static Cache cache_of_user() { return Cache::of_user(); }
  static std::string geglu_archive() {
    for (const auto& entry : std::filesystem::directory_iterator(test_packages("packed")))
      if (entry.path().string().ends_with(".tar.gz")) return entry.path();
    fail("no package in {}", test_packages("packed"));
  }
  nn::GatedMlp small(Act act = Act::silu, DType dtype = DType::f32) {
    return nn::GatedMlp(16, 32, {.act = act, .mode = nn::Mode::tuned, .tensor = {dtype, {}}, .seed = 5});
  }
};

TEST_F(UseKernels, ThePackagesKernelsGiveTheBitsOfTunedModeInEveryVariant) {
  add_geglu();
  for (const char* isa : {"scalar", "avx2", "avx512"}) {
    cpu::set_isa_cap(isa);
    if (std::string(isa) != cpu::isa_name()) continue;  // this processor has no such instructions
    for (const DType dtype : {DType::f32, DType::bf16, DType::f16})
      for (const Act act : {Act::silu, Act::gelu, Act::gelu_tanh})
        for (const int64_t rows : {1, 7, 600}) {
          nn::GatedMlp layer(24, 37, {.act = act, .mode = nn::Mode::tuned, .tensor = {dtype, {}}, .seed = 3});
          const Tensor x = randn({rows, 24}, 9, {dtype, {}});
          const Tensor built_in = layer.forward(x);
          use_kernels(layer, kGeglu);
          const Tensor by_package = layer.forward(x);
          EXPECT_TRUE(same_bits(by_package, built_in))
              << isa << " " << act_name(act) << " " << dtype_name(dtype);
          restore_kernels(layer);
          EXPECT_TRUE(same_bits(layer.forward(x), built_in));
        }
  }
  cpu::set_isa_cap("");
}

TEST_F(UseKernels, TheCudaKernelsGiveTheBitsOfTunedMode) {
  if (const std::string why = why_not_here(kCuda); !why.empty()) GTEST_SKIP() << why;
  add_geglu();
  for (const DType dtype : {DType::f32, DType::bf16, DType::f16})
    for (const Act act : {Act::silu, Act::gelu, Act::gelu_tanh})
      for (const int64_t rows : {1, 7, 600}) {
        const TensorOptions options{dtype, kCuda};
        nn::GatedMlp layer(24, 37, {.act = act, .mode = nn::Mode::tuned, .tensor = options, .seed = 3});
        const Tensor x = randn({rows, 24}, 9, options);
        for (int i = 0; i < 40; ++i) layer.forward(x);  // until the products' kernels are chosen
        const Tensor built_in = layer.forward(x).to(kCpu);
        use_kernels(layer, kGeglu);
        EXPECT_TRUE(same_bits(layer.forward(x).to(kCpu), built_in))
            << act_name(act) << " " << dtype_name(dtype);
      }
}

TEST_F(UseKernels, TheSwapIsSeenAndUndone) {
  add_fixture();
  nn::GatedMlp layer = small();
  const Tensor x = randn({4, 16}, 1);
  const Tensor before = layer.forward(x);
  const Tensor expected = layer.down_proj.forward(mul(layer.gate_proj.forward(x), layer.up_proj.forward(x)));
  const int64_t calls = stats_of("test/fixture@1").calls;
  use_kernels(layer, kFixtureMap);
  EXPECT_TRUE(same_bits(layer.forward(x), expected));  // the fixture leaves the activation out
  EXPECT_EQ(stats_of("test/fixture@1").calls, calls + 1);
  restore_kernels(layer);
  EXPECT_TRUE(same_bits(layer.forward(x), before));
  EXPECT_EQ(stats_of("test/fixture@1").calls, calls + 1);
}

TEST_F(UseKernels, AModelOfManyLayersIsSwappedAsAWhole) {
  add_fixture();
  std::vector<nn::GatedMlp> model;
  for (int i = 0; i < 3; ++i) model.push_back(small());
  use_kernels(model, kFixtureMap);
  for (const nn::GatedMlp& layer : model) EXPECT_NE(layer.act_mul_kernel, nullptr);
  restore_kernels(model);
  for (const nn::GatedMlp& layer : model) EXPECT_EQ(layer.act_mul_kernel, nullptr);
}

TEST_F(UseKernels, TheTraceNamesThePackageBesideTheKernel) {
  add_geglu();
  nn::GatedMlp layer = small();
  use_kernels(layer, kGeglu);
  const auto names = names_of_a_trace([&] { layer.forward(randn({4, 16}, 1)); });
  EXPECT_THAT(names, Contains("epilogue/geglu@1"));
  EXPECT_THAT(names, Contains(AllOf(HasSubstr("pointwise_silu_mul_"), HasSubstr("_f32 [epilogue/geglu@1]"))));
}

TEST_F(UseKernels, ALayerThatCannotHaveThePackageFailsAndStaysAsItWas) {
  nn::GatedMlp layer = small();
  EXPECT_THAT([&] { use_kernels(layer, kFixtureMap); }, ThrowsMessage<Error>(HasSubstr("not in the cache")));
  add_fixture();
  nn::GatedMlp gelu = small(Act::gelu), bf16 = small(Act::silu, DType::bf16);
  EXPECT_THAT([&] { use_kernels(gelu, kFixtureMap); },
              ThrowsMessage<Error>(HasSubstr("no activation gelu; it has silu_mul")));
  EXPECT_THAT([&] { use_kernels(bf16, kFixtureMap); }, ThrowsMessage<Error>(HasSubstr("no kernel for bf16")));
  EXPECT_THAT(
      [&] {
        use_kernels(layer, {{"Attention", "test/fixture@1"}});
      },
      ThrowsMessage<Error>(HasSubstr("no layer 'Attention'")));
  EXPECT_THAT(
      [&] {
        use_kernels(layer, {{"GatedMlp", "test/fixture"}});
      },
      ThrowsMessage<Error>(HasSubstr("no version")));
  for (const nn::GatedMlp* untouched : {&layer, &gelu, &bf16}) EXPECT_EQ(untouched->act_mul_kernel, nullptr);
}

TEST_F(UseKernels, APromiseThatTheLibraryDoesNotKeepIsRefused) {
  cache_of_user().add(make_fixture("empty").archive, {}, {});
  nn::GatedMlp layer = small();
  EXPECT_THAT([&] { use_kernels(layer, kFixtureMap); },
              ThrowsMessage<Error>(HasSubstr("though its manifest says so")));
}

TEST_F(UseKernels, ACallThatTheKernelRefusesFailsWithItsReason) {
  add_fixture();
  nn::GatedMlp layer(16, 31, {.act = Act::silu, .seed = 5});  // the fixture takes multiples of 8 alone
  use_kernels(layer, kFixtureMap);
  EXPECT_THAT(
      [&] {
        layer.forward(randn({1, 16}, 1));
      },
      ThrowsMessage<Error>(AllOf(HasSubstr("test/fixture@1"), HasSubstr("multiples of 8"))));
  layer.act = Act::gelu;
  EXPECT_THAT(
      [&] {
        layer.forward(randn({8, 16}, 1));
      },
      ThrowsMessage<Error>(HasSubstr("the layer asks for gelu_mul")));
  layer.act = Act::relu;
  EXPECT_THAT(
      [&] {
        layer.forward(randn({8, 16}, 1));
      },
      ThrowsMessage<Error>(HasSubstr("no activation relu")));
}

TEST_F(UseKernels, TheManifestsLimitsHold) {
  std::string manifest = kAuthorManifest;
  const std::string limit = "max-elements = 1000000";
  manifest.replace(manifest.find(limit), limit.size(), "max-elements = 64");
  add_fixture(manifest);
  nn::GatedMlp layer = small();
  use_kernels(layer, kFixtureMap);
  EXPECT_NO_THROW(layer.forward(randn({2, 16}, 1)));
  EXPECT_THAT(
      [&] {
        layer.forward(randn({3, 16}, 1));
      },
      ThrowsMessage<Error>(HasSubstr("at most 64 elements, the call has 96")));
}

TEST_F(UseKernels, AKernelThatFailsIsToldInItsWords) {
  add_fixture();
  nn::GatedMlp layer = small();
  layer.gate_proj.weight.copy_(zeros({32, 16}));
  layer.gate_proj.bias = full({32}, 13.0);
  use_kernels(layer, kFixtureMap);
  EXPECT_THAT(
      [&] {
        layer.forward(randn({2, 16}, 1));
      },
      ThrowsMessage<Error>(
          AllOf(HasSubstr("test/fixture@1 (any)"), HasSubstr("failed: 13 brings bad luck"))));
}

TEST_F(UseKernels, AFallbackRunsOnlyWhereAllowedAndIsTold) {
  add_fixture();
  nn::GatedMlp layer(16, 31, {.act = Act::silu, .mode = nn::Mode::tuned, .seed = 5});
  const Tensor x = randn({1, 16}, 1), built_in = layer.forward(x);
  use_kernels(layer, kFixtureMap, {.allow_fallback = true});
  const KernelStats before = stats_of("test/fixture@1");
  Tensor y;
  const auto names = names_of_a_trace([&] { y = layer.forward(x); });
  EXPECT_TRUE(same_bits(y, built_in));
  const KernelStats after = stats_of("test/fixture@1");
  EXPECT_EQ(after.fallbacks, before.fallbacks + 1);
  EXPECT_EQ(after.calls, before.calls);
  EXPECT_THAT(after.reason, HasSubstr("multiples of 8"));
  EXPECT_THAT(names, Contains(HasSubstr("test/fixture@1 not used: it takes multiples of 8")));
  EXPECT_THAT(names, Not(Contains(HasSubstr("fixture_mul"))));
}

TEST_F(UseKernels, AMissingPackageFallsBackOnlyWhereAllowedAndIsTold) {
  nn::GatedMlp layer = small();
  const Tensor x = randn({2, 16}, 1), built_in = layer.forward(x);
  use_kernels(layer, {{"GatedMlp", "test/missing@3"}}, {.allow_fallback = true});
  Tensor y;
  const auto names = names_of_a_trace([&] { y = layer.forward(x); });
  EXPECT_TRUE(same_bits(y, built_in));
  EXPECT_EQ(stats_of("test/missing@3").fallbacks, 1);
  EXPECT_EQ(stats_of("test/missing@3").calls, 0);
  EXPECT_THAT(names, Contains(HasSubstr("test/missing@3 not used")));
}

TEST_F(UseKernels, ThePackagesKernelRunsUnderCompile) {
  add_fixture();
  nn::GatedMlp layer = small();
  use_kernels(layer, kFixtureMap);
  const Tensor x = randn({4, 16}, 1), eager = layer.forward(x);
  const CompiledFunction compiled = compile([&](const Tensor& in) { return layer.forward(in); });
  compiled(x);
  compiled.wait_ready();
  const int64_t calls = stats_of("test/fixture@1").calls;
  Tensor y;
  const auto names = names_of_a_trace([&] { y = compiled(x); });
  EXPECT_TRUE(same_bits(y, eager));
  EXPECT_EQ(stats_of("test/fixture@1").calls, calls + 1);
  EXPECT_THAT(names, Contains("fixture_mul [test/fixture@1]"));
  EXPECT_THAT(compiled.explain(std::span(&x, 1)), HasSubstr("by test/fixture@1"));
  EXPECT_EQ(compiled.stats().failed_builds, 0);
}

TEST_F(UseKernels, ACompiledLayerFollowsASwapAndItsUndoing) {
  add_fixture();
  nn::GatedMlp layer = small();
  const Tensor x = randn({4, 16}, 1);
  use_kernels(layer, kFixtureMap);
  const Tensor by_package = layer.forward(x);
  restore_kernels(layer);
  layer.mode = nn::Mode::compiled;
  const auto settled = [&] {
    layer.forward(x);
    layer.compiled().wait_ready();
    return layer.forward(x);
  };
  const Tensor built_in = settled();
  EXPECT_FALSE(same_bits(built_in, by_package));
  use_kernels(layer, kFixtureMap);
  EXPECT_TRUE(same_bits(settled(), by_package));
  restore_kernels(layer);
  EXPECT_TRUE(same_bits(settled(), built_in));
}

TEST_F(UseKernels, ALockFileIsKept) {
  add_fixture();
  write_text(path("kernels.lock"), "format = 1\n");
  nn::GatedMlp layer = small();
  EXPECT_THAT([&] { use_kernels(layer, kFixtureMap, {.lock_file = path("kernels.lock")}); },
              ThrowsMessage<Error>(HasSubstr("does not pin")));
  EXPECT_NO_THROW(use_kernels(layer, kFixtureMap, {.lock_file = ""}));
}

TEST_F(UseKernels, TheUsersPolicyIsKept) {
  add_fixture();
  write_text(path("config/epilogue/kernels.toml"), "require-signature = true\n");
  nn::GatedMlp layer = small();
  EXPECT_THAT([&] { use_kernels(layer, kFixtureMap); },
              ThrowsMessage<Error>(HasSubstr("requires the signature")));
  write_text(path("config/epilogue/kernels.toml"), "requires-signature = true\n");
  EXPECT_THAT([&] { use_kernels(layer, kFixtureMap); }, ThrowsMessage<Error>(HasSubstr("not known")));
}

}  // namespace
}  // namespace epilogue::package
