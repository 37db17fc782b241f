// compile() as its callers see it: right at once, the same as eager, no recompile for a new length.
#include "epilogue/compile.h"

#include <atomic>
#include <cmath>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "close.h"
#include "epilogue/memory.h"
#include "epilogue/nn.h"
#include "epilogue/profiler.h"
#include "traced.h"

namespace epilogue {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

CompiledFunction compiled(const nn::GatedMlp& layer, CompileOptions options = {}) {
  return compile([&layer](const Tensor& x) { return layer.forward(x); }, std::move(options));
}

TEST(Compile, AnswersTheFirstCallOpByOpAndThenByItsPlan) {
  const nn::GatedMlp layer(64, 96);
  const CompiledFunction f = compiled(layer);
  const Tensor x = randn({3, 5, 64}, 1), expected = layer.forward(x);
  EXPECT_LT(max_error(f(x), expected), 1e-5);
  f.wait_ready();
  EXPECT_LT(max_error(f(x), expected), 1e-5);
  const CompileStats stats = f.stats();
  EXPECT_EQ(stats.calls, 2);
  EXPECT_LE(stats.eager_calls, 1);  // the build may be as quick as the first call
  EXPECT_EQ(stats.builds, 1);
  EXPECT_EQ(stats.recompiles, 0);
  EXPECT_THAT(stats.failures, ElementsAre());
  EXPECT_GT(stats.peak_bytes, 0);
  EXPECT_LE(stats.peak_bytes, stats.unplanned_bytes);
  EXPECT_EQ(stats.passes.size(), compile_passes().size());
}

TEST(Compile, GatedMlpHasNoPassOverMemoryOfItsOwnForTheActivation) {
  const nn::GatedMlp layer(64, 96);
  const Tensor x = randn({40, 64}, 1);
  const CompiledFunction f = compiled(layer);
  f(x);
  f.wait_ready();
  EXPECT_THAT(kernels_of([&] { f(x); }), ElementsAre(HasSubstr("gated_mlp_gelu_tanh")));
  const CompiledFunction apart = compiled(layer, {.disable = {"gated_fusion"}});
  apart(x);
  apart.wait_ready();
  const std::vector<std::string> names = kernels_of([&] { apart(x); });
  ASSERT_EQ(names.size(), 3u);
  EXPECT_THAT(names, Contains(HasSubstr("gelu_tanh_mul")));
  const CompiledFunction merged = compiled(layer, {.disable = {"gated_fusion"}, .enable = {"gate_up_merge"}});
  merged(x);
  merged.wait_ready();
  merged(x);  // stacks the weights
  EXPECT_EQ(kernels_of([&] { merged(x); }).size(), 2u);
  EXPECT_LT(max_error(merged(x), layer.forward(x)), 1e-5);
}

TEST(Compile, AGateWithoutActivationIsOneKernelToo) {
  for (const bool bias : {false, true}) {
    const nn::GatedMlp layer(64, 96, {.act = Act::none, .bias = bias});
    const Tensor x = randn({40, 64}, 1);
    const CompiledFunction f = compiled(layer);
    f(x);
    f.wait_ready();
    EXPECT_THAT(kernels_of([&] { f(x); }), ElementsAre(HasSubstr("gated_mlp")));
    EXPECT_LT(max_error(f(x), layer.forward(x)), 1e-5);
  }
  // A column times a row: as many elements in each, more in the result.
  const Tensor a = randn({8, 6}, 2).set_parameter(), b = randn({8, 6}, 3).set_parameter(),
               row = randn({1, 6}, 4);
  const auto outer = [&](const Tensor& t) { return mul(linear(t, a).view({8, 1}), linear(t, b)); };
  const CompiledFunction g = compile(outer);
  g(row);
  g.wait_ready();
  EXPECT_LT(max_error(g(row), outer(row)), 1e-5);
}

TEST(Compile, AGateRegroupedBeforeTheDownProductKeepsItsRows) {
  const Tensor gate = randn({64, 32}, 1).set_parameter(), up = randn({64, 32}, 2).set_parameter(),
               down = randn({16, 32}, 3).set_parameter(), x = randn({8, 32}, 4);
  const auto function = [&](const Tensor& t) {
    return linear(mul(gelu(linear(t, gate)), linear(t, up)).view({-1, 32}), down);
  };
  const CompiledFunction f = compile(function);
  f(x);
  f.wait_ready();
  EXPECT_LT(max_error(f(x), function(x)), 1e-3);
  EXPECT_EQ(f.stats().failed_builds, 0);
}

TEST(Compile, LinearIsOneKernelAndLinearGeluLinearTwo) {
  const nn::Linear linear(32, 64);
  const Tensor x = randn({16, 32}, 1);
  const CompiledFunction one = compile([&](const Tensor& t) { return linear.forward(t); });
  one(x);
  one.wait_ready();
  EXPECT_EQ(kernels_of([&] { one(x); }).size(), 1u);
  const nn::Mlp mlp(32, 64, {.bias = true});
  const CompiledFunction two = compile([&](const Tensor& t) { return mlp.forward(t); });
  two(x);
  two.wait_ready();
  EXPECT_EQ(kernels_of([&] { two(x); }).size(), 2u);
  EXPECT_LT(max_error(two(x), mlp.forward(x)), 1e-5);
}

TEST(Compile, ManyEpiloguesKeepTheirNames) {
  const nn::Linear layer(32, 64);
  const Tensor x = randn({4, 32}, 1);
  std::vector<CompiledFunction> functions;
  for (int i = 0; i < 40; ++i) {
    functions.push_back(compile([&layer, i](const Tensor& t) {
      return i % 3 == 0 ? silu(layer.forward(t)) : gelu(layer.forward(t));
    }));
    functions.back()(x);
    functions.back().wait_ready();
  }
  for (int round = 0; round < 2; ++round)
    for (size_t i = 0; i < functions.size(); ++i)
      EXPECT_THAT(kernels_of([&] { functions[i](x); }),
                  ElementsAre(HasSubstr(i % 3 == 0 ? "_silu" : "_gelu")));
}

TEST(Compile, NanPassesThroughReluAsInEager) {
  for (const DType dtype : {DType::f32, DType::bf16})
    for (const bool parameter : {false, true}) {
      const Tensor weight = randn({64, 64}, 3, {dtype}).set_parameter(parameter);
      const CompiledFunction f = compile([&](const Tensor& t) { return relu(mm(t, weight)); });
      const Tensor x = full({8, 64}, std::nan(""), {dtype});
      f(x);
      f.wait_ready();
      EXPECT_TRUE(std::isnan(f(x).select(0, 0).select(0, 0).item())) << dtype_name(dtype) << " " << parameter;
    }
}

TEST(Compile, AnEpilogueMayReadTheProductTwice) {
  for (const bool parameter : {false, true}) {
    const Tensor weight = randn({64, 64}, 3).set_parameter(parameter), scale = randn({64}, 4);
    const auto function = [&](const Tensor& t) {
      const Tensor product = mm(t, weight);
      return add(mul(product, scale), product);
    };
    const CompiledFunction f = compile(function);
    const Tensor x = randn({8, 64}, 5);
    f(x);
    f.wait_ready();
    EXPECT_LT(max_error(f(x), function(x)), 1e-4) << parameter;
  }
}

TEST(Compile, SixtyFourLengthsAreNoRecompile) {
  const nn::GatedMlp layer(32, 48);
  const CompiledFunction f = compiled(layer);
  f(randn({2, 3, 32}, 1));
  f.wait_ready();
  for (int64_t i = 0; i < 64; ++i) {
    const Tensor x = randn({1 + (i * 37) % 61, 1 + (i * 11) % 17, 32}, static_cast<uint64_t>(i));
    EXPECT_LT(max_error(f(x), layer.forward(x)), 1e-5) << x.sizes().to_string();
  }
  const CompileStats stats = f.stats();
  EXPECT_EQ(stats.recompiles, 0);
  EXPECT_EQ(stats.builds, 1);
  EXPECT_LE(stats.eager_calls, 1) << "only the first call may run op by op";
}

TEST(Compile, TheSizesUsedTheLongestAgoGoFirst) {
  const CompiledFunction f = compile([](const Tensor& x) { return relu(x); });
  f(ones({1}));
  f.wait_ready();
  for (int64_t i = 1; i <= 256; ++i) f(ones({i}));
  f(ones({1}));
  f(ones({257}));  // one too many: size 2 goes
  int64_t planned = f.stats().shapes;
  f(ones({256}));
  f(ones({1}));
  EXPECT_EQ(f.stats().shapes, planned);
  f(ones({2}));
  EXPECT_EQ(f.stats().shapes, planned + 1);
}

TEST(Compile, CountsRecompilesAndKeepsTheirReasons) {
  const CompiledFunction f = compile([](const Tensor& x) { return relu(add(x, x)); });
  const auto call = [&](const Tensor& x) {
    f(x);
    f.wait_ready();
    EXPECT_EQ(max_error(f(x), relu(add(x, x))), 0);
  };
  call(randn({4, 8}, 1));
  call(randn({4, 8}, 1, {DType::bf16}));
  call(randn({4, 8, 2}, 1, {DType::bf16}));
  call(randn({8, 4}, 1).t());
  const CompileStats stats = f.stats();
  EXPECT_EQ(stats.recompiles, 3);
  EXPECT_THAT(stats.reasons, ElementsAre("input 0: dtype f32 became bf16", "input 0: 2 dimensions became 3",
                                         "input 0: dtype bf16 became f32"));
}

TEST(Compile, FollowsTheFunctionWhereItBranchesOnSizes) {
  const auto function = [](const Tensor& x) { return x.size(0) > 10 ? relu(mul(x, x)) : silu(add(x, x)); };
  const CompiledFunction f = compile(function);
  for (const int64_t rows : {4, 20, 5, 21, 11, 10}) {
    const Tensor x = randn({rows, 8}, 1);
    f(x);
    f.wait_ready();
    EXPECT_LT(max_error(f(x), function(x)), 1e-6) << rows;
  }
  EXPECT_EQ(f.stats().recompiles, 1);
  EXPECT_THAT(f.stats().reasons.at(0), HasSubstr("took another path for sizes [20, 8]"));
}

TEST(Compile, SizesWithoutAPlanArePlannedOnce) {
  const auto function = [](std::span<const Tensor> in) {
    return std::vector{relu(in[0]), silu(in[0]), gelu(in[0])};
  };
  const CompiledFunction f = compile(function);
  const std::vector<Tensor> small{ones({2, 1}).expand({2, 4})};
  const std::vector<Tensor> large{ones({2, 1}).expand({2, int64_t{1} << 59})};  // results of 4 EiB each
  f(small);
  f.wait_ready();
  for (int i = 0; i < 3; ++i) EXPECT_THROW(f(large), Error);
  EXPECT_EQ(f.stats().failed_builds, 1);
}

TEST(Compile, SizesThatTheFunctionBringsAlongHold) {
  const auto function = [](const Tensor& x) { return relu(add(x.view({4, -1}), full({4, 1}, 2.0))); };
  const CompiledFunction f = compile(function);
  for (const int64_t rows : {8, 4, 12}) {
    const Tensor x = randn({rows, 6}, 3);
    f(x);
    f.wait_ready();
    EXPECT_EQ(max_error(f(x), function(x)), 0);
  }
  EXPECT_EQ(f.stats().recompiles, 0);
  EXPECT_THROW(f(randn({3, 3}, 1)), Error);
}

TEST(Compile, SeesAWeightThatIsWrittenInPlace) {
  nn::GatedMlp layer(32, 48);
  for (const std::vector<std::string>& enable : {std::vector<std::string>{}, {"gate_up_merge"}}) {
    const CompiledFunction f = compiled(layer, {.enable = enable});
    const Tensor x = randn({7, 32}, 1);
    f(x);
    f.wait_ready();
    EXPECT_LT(max_error(f(x), layer.forward(x)), 1e-5);
    layer.up_proj.weight.copy_(randn({48, 32}, 99));
    EXPECT_LT(max_error(f(x), layer.forward(x)), 1e-3);
    layer.gate_proj.weight.copy_(randn({48, 32}, 98));
    EXPECT_LT(max_error(f(x), layer.forward(x)), 1e-3);
    EXPECT_EQ(f.stats().recompiles, 0);
  }
}

TEST(Compile, SeesAWatchedTensorThatIsReplaced) {
  nn::Linear layer(8, 4, {.bias = false});
  const CompiledFunction f =
      compile([&](const Tensor& x) { return layer.forward(x); }, {.watch = {&layer.weight}});
  const Tensor x = randn({3, 8}, 1);
  f(x);
  f.wait_ready();
  layer.weight = randn({4, 8}, 50).set_parameter();
  EXPECT_LT(max_error(f(x), layer.forward(x)), 1e-6);
  f.wait_ready();
  EXPECT_LT(max_error(f(x), layer.forward(x)), 1e-6);
}

TEST(Compile, SeesAWatchedTensorThatBecameItsTranspose) {
  nn::Linear layer(8, 8, {.bias = false});
  const CompiledFunction f =
      compile([&](const Tensor& x) { return layer.forward(x); }, {.watch = {&layer.weight}});
  const Tensor x = randn({3, 8}, 1);
  f(x);
  f.wait_ready();
  layer.weight = layer.weight.t();
  EXPECT_LT(max_error(f(x), layer.forward(x)), 1e-6);
}

TEST(Compile, LetsGoOfTensorsThatWereReplaced) {
  for (const std::vector<std::string>& enable : {std::vector<std::string>{}, {"gate_up_merge"}}) {
    nn::GatedMlp layer(32, 48);
    const CompiledFunction f =
        compile([&](const Tensor& x) { return layer.forward(x); },
                {.disable = {"gated_fusion"}, .enable = enable, .watch = {&layer.gate_proj.weight}});
    const auto replace_and_call = [&](uint64_t seed) {
      layer.gate_proj.weight = randn({48, 32}, seed).set_parameter();
      for (const int64_t rows : {3, 4}) {
        const Tensor x = randn({rows, 32}, seed);
        f(x);
        f.wait_ready();
        EXPECT_LT(max_error(f(x), layer.forward(x)), 1e-3);
      }
    };
    replace_and_call(1);
    replace_and_call(2);
    const int64_t before = memory_stats().allocated;
    for (uint64_t seed = 3; seed < 9; ++seed) replace_and_call(seed);
    EXPECT_EQ(memory_stats().allocated, before);
    EXPECT_EQ(f.stats().recompiles, 0);
  }
}

TEST(Compile, EachNumberOfInputsIsCapturedOnItsOwn) {
  const CompiledFunction sum = compile([](std::span<const Tensor> all) {
    Tensor total = all[0];
    for (const Tensor& one : all.subspan(1)) total = add(total, one);
    return std::vector{total};
  });
  const std::vector<Tensor> inputs{ones({4}), ones({4}), ones({4})};
  for (const size_t count : {3, 2, 1, 3}) {
    EXPECT_EQ(max_error(sum(std::span(inputs).first(count))[0], full({4}, static_cast<double>(count))), 0);
    sum.wait_ready();
  }
  EXPECT_THAT(sum.stats().reasons, ElementsAre("3 inputs became 2", "2 inputs became 1"));
}

TEST(Compile, ADeleterMayCallTheFunctionThatLetsItsTensorGo) {
  CompiledFunction f;
  const Tensor x = randn({3, 8}, 1);
  std::vector<float> memory(8, 2.0F);
  int calls = 0;
  Tensor weight = from_blob(memory.data(), {8}, {}, [&](void*) {
    f(x);
    ++calls;
  });
  f = compile([&](const Tensor& t) { return mul(t, weight); }, {.watch = {&weight}});
  f(x);
  f.wait_ready();
  weight = ones({8});
  EXPECT_EQ(max_error(f(x), x), 0);
  f.wait_ready();
  EXPECT_EQ(calls, 1);
}

TEST(Compile, TheWorkspaceHasNoPlaceForWhatAKernelMakesItself) {
  const nn::GatedMlp layer(64, 96, {.mode = nn::Mode::fused});
  const CompiledFunction f = compile([&](const Tensor& t) { return relu(layer.forward(t)); });
  const Tensor x = randn({512, 64}, 1);
  const auto peak_of = [&](const auto& function) {
    const int64_t before = memory_stats().allocated;
    reset_peak_memory();
    function(x);
    return memory_stats().peak_allocated - before;
  };
  f(x);
  f.wait_ready();
  EXPECT_THAT(kernels_of([&] { f(x); }), ElementsAre(HasSubstr("gated_mlp"), HasSubstr("relu")));
  const int64_t result = 512 * 64 * 4;
  EXPECT_EQ(f.stats().peak_bytes, 2 * result);  // the MLP's and relu's
  const int64_t block = peak_of([&](const Tensor& t) { return layer.forward(t); }) - result;
  EXPECT_LE(peak_of(f), result + std::max(result, block));
}

TEST(Compile, SeveralInputsAndOutputsAndViewsOfInputs) {
  const auto function = [](std::span<const Tensor> in) {
    const Tensor sum = add(in[0], in[1]);
    return std::vector{sum, in[0].t(), relu(sum), in[1]};
  };
  const CompiledFunction f = compile(function);
  const std::vector<Tensor> inputs{randn({4, 6}, 1), randn({6}, 2)};
  for (int i = 0; i < 2; ++i) {
    const std::vector<Tensor> found = f(inputs), expected = function(inputs);
    ASSERT_EQ(found.size(), 4u);
    for (size_t o = 0; o < 4; ++o) EXPECT_EQ(max_error(found[o], expected[o]), 0);
    EXPECT_TRUE(found[1].shares_storage_with(inputs[0]));
    EXPECT_TRUE(found[3].shares_storage_with(inputs[1]));
    EXPECT_FALSE(found[0].shares_storage_with(found[2]));
    f.wait_ready();
  }
}

TEST(Compile, AnInputThatBeginsElsewhereInItsStorageIsReadThere) {
  const auto function = [](const Tensor& x) { return relu(mul(x.slice(0, 1, 3), x.select(0, 0))); };
  const CompiledFunction f = compile(function);
  const Tensor store = randn({12, 8}, 1);
  for (const int64_t begin : {0, 4, 7}) {
    const Tensor x = store.slice(0, begin, begin + 4);
    f(x);
    f.wait_ready();
    EXPECT_EQ(max_error(f(x), function(x)), 0);
  }
  const auto absolute = [](const Tensor& x) { return relu(x.as_strided({2, 2}, {1, 2}, 5)); };
  const CompiledFunction g = compile(absolute);
  for (const int64_t begin : {0, 4, 7}) {
    const Tensor x = store.slice(0, begin, begin + 4);
    g(x);
    g.wait_ready();
    EXPECT_EQ(max_error(g(x), absolute(x)), 0);
  }
}

TEST(Compile, AnInputOverASmallerStorageIsNotReadPastIt) {
  const CompiledFunction f = compile([](const Tensor& x) { return relu(x.as_strided({1000}, {1}, 0)); });
  const Tensor large = ones({1000}), small = ones({16});
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(f(large.slice(0, 0, 16)).numel(), 1000);
    f.wait_ready();
    EXPECT_THROW(f(small), Error);
  }
}

TEST(Compile, EmptyTensorsPassThrough) {
  const nn::GatedMlp layer(16, 24);
  const CompiledFunction f = compiled(layer);
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(f(empty({0, 16})).sizes(), (Dims{0, 16}));
    EXPECT_EQ(f(empty({3, 0, 16})).sizes(), (Dims{3, 0, 16}));
    f.wait_ready();
  }
  EXPECT_EQ(f.stats().failed_builds, 0);
}

TEST(Compile, AProductOverAnInnerSizeOfZeroIsItsBias) {
  const Tensor weight = empty({8, 0}).set_parameter(), bias = ones({8}), x = empty({4, 0});
  const CompiledFunction f = compile([&](const Tensor& t) { return relu(linear(t, weight, bias)); });
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(max_error(f(x), ones({4, 8})), 0);
    f.wait_ready();
  }
  EXPECT_EQ(f.stats().failed_builds, 0);
}

TEST(Compile, ACompiledFunctionInsideAnotherIsPartOfItsGraph) {
  const CompiledFunction inner = compile([](const Tensor& x) { return relu(x); });
  const CompiledFunction outer = compile([&](const Tensor& x) { return mul(inner(x), x); });
  const Tensor x = randn({4, 8}, 1);
  outer(x);
  outer.wait_ready();
  EXPECT_EQ(max_error(outer(x), mul(relu(x), x)), 0);
  EXPECT_EQ(kernels_of([&] { outer(x); }).size(), 1u);
  EXPECT_EQ(inner.stats().calls, 0);
}

TEST(Compile, ErrorsOfTheFunctionComeOutAndAreNoState) {
  const nn::Linear layer(8, 4);
  const CompiledFunction f = compile([&](const Tensor& x) { return layer.forward(x); });
  EXPECT_THROW(f(randn({2, 7}, 1)), Error);
  const Tensor x = randn({2, 8}, 1);
  EXPECT_EQ(max_error(f(x), layer.forward(x)), 0);
  EXPECT_THROW(f(Tensor{}), Error);
  EXPECT_THROW(CompiledFunction{}(x), Error);
}

TEST(Compile, EightThreadsCallOneFunction) {
  const nn::GatedMlp layer(32, 48);
  const CompiledFunction f = compiled(layer, {.enable = {"gate_up_merge"}});
  std::vector<Tensor> inputs, expected;
  for (int64_t rows = 1; rows <= 8; ++rows) {
    inputs.push_back(randn({rows, 32}, static_cast<uint64_t>(rows)));
    expected.push_back(layer.forward(inputs.back()));
  }
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (size_t t = 0; t < 8; ++t)
    threads.emplace_back([&, t] {
      for (size_t i = 0; i < 40; ++i) {
        const size_t which = (t + i) % 8;
        if (!(max_error(f(inputs[which]), expected[which]) < 1e-5)) ++wrong;
      }
    });
  for (std::thread& thread : threads) thread.join();
  f.wait_ready();
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(f.stats().calls, 320);
  EXPECT_EQ(f.stats().builds, 1);
}

TEST(Compile, MayBeDestroyedWhileItBuilds) {
  const Tensor x = randn({4, 8}, 1);
  for (int i = 0; i < 50; ++i) compile([](const Tensor& t) { return relu(add(t, t)); })(x);
}

TEST(Compile, WhoHasWaitedHasTheMemoryBack) {
  const Tensor x = randn({4, 8}, 1);
  const int64_t before = memory_stats().allocated;
  for (int i = 0; i < 200; ++i) {
    const CompiledFunction f = compile([layer = nn::Linear(8, 4)](const Tensor& t) {
      return layer.forward(t);
    });  // the function has it alone
    f(x);
    f.wait_ready();
  }
  EXPECT_EQ(memory_stats().allocated, before);
}

TEST(Compile, ExplainTellsTheStory) {
  const nn::GatedMlp layer(32, 48);
  const CompiledFunction f = compiled(layer);
  const Tensor x = randn({4, 6, 32}, 1);
  const std::string story = f.explain(std::span(&x, 1), {.passes = true});
  EXPECT_THAT(story, HasSubstr("graph(%0: f32[s0, s1, 32]):"));
  for (const std::string& pass : compile_passes()) EXPECT_THAT(story, HasSubstr("\n== " + pass));
  EXPECT_THAT(story, HasSubstr(" became ep::gated_mlp"));
}

}  // namespace
}  // namespace epilogue
