// Each pass alone, by what the printed graph says after it.
#include <algorithm>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/check.h"
#include "compile/pass.h"
#include "epilogue/ops.h"
#include "graph/capture.h"

namespace epilogue::compiler {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

struct Story {
  std::string before, after, notes;
};

// The graph before and after `pass`, with those that it needs before it on and the others off.
Story run_alone(const graph::Function& function, std::vector<Tensor> inputs, const std::string& pass,
                const std::vector<std::string>& needs = {}) {
  CompileOptions options;
  for (const std::string& name : compile_passes())
    if (name != pass && std::ranges::find(needs, name) == needs.end()) options.disable.push_back(name);
  options.enable = {pass};
  graph::Graph graph = graph::capture(function, inputs, {.symbols = true});
  Story story{.before = to_text(graph), .after = {}, .notes = {}};
  const PassesResult result = run_passes(graph, options, true);
  story.after = to_text(graph);
  for (const PassReport& report : result.reports) {
    EXPECT_EQ(report.off, report.name != pass && std::ranges::find(needs, report.name) == needs.end());
    for (const std::string& note : report.notes) story.notes += note + "\n";
  }
  return story;
}

std::vector<Tensor> one(const Tensor& x) { return {x}; }

Tensor parameter(const Dims& sizes, uint64_t seed) { return randn(sizes, seed).set_parameter(); }

TEST(DeadCode, RemovesWhatNobodyReads) {
  const auto story = run_alone(
      [](std::span<const Tensor> in) {
        mul(silu(in[0]), in[0]);
        return one(relu(in[0]));
      },
      {randn({4, 8}, 1)}, "dead_code");
  EXPECT_THAT(story.before, HasSubstr("silu"));
  EXPECT_THAT(story.after, AllOf(Not(HasSubstr("silu")), Not(HasSubstr("mul")), HasSubstr("relu(%0)")));
}

TEST(CommonSubexpressions, ComputesTheSameOnce) {
  const auto story = run_alone(
      [](std::span<const Tensor> in) { return one(mul(add(relu(in[0]), in[1]), add(relu(in[0]), in[1]))); },
      {randn({4, 8}, 1), randn({8}, 2)}, "common_subexpressions");
  EXPECT_THAT(story.before, HasSubstr("%5: f32[s0, 8] = add(%4, %1)"));
  EXPECT_THAT(story.after, AllOf(HasSubstr("mul(%3, %3)"), Not(HasSubstr("%5"))));
}

TEST(CommonSubexpressions, KeepsTwoOutputsApartAndDifferentAttributes) {
  const auto two = run_alone(
      [](std::span<const Tensor> in) {
        return std::vector{relu(in[0]), relu(in[0])};
      },
      {randn({4, 8}, 1)}, "common_subexpressions");
  EXPECT_THAT(two.after, HasSubstr("return %1, %2"));
  const auto gelus = run_alone(
      [](std::span<const Tensor> in) {
        const Tensor exact = gelu(in[0]), tanh = gelu(in[0], GeluApproximate::tanh);
        return one(add(exact, tanh));
      },
      {randn({4, 8}, 1)}, "common_subexpressions");
  EXPECT_THAT(gelus.after, HasSubstr("add(%1, %2)"));
}

TEST(CommonSubexpressions, KeepsTwoOutputsApartThatAreViewsOfTheSame) {
  const auto story = run_alone(
      [](std::span<const Tensor> in) {
        const Tensor inner = relu(in[0]);
        return std::vector{relu(in[0]).t(), relu(in[0]).unsqueeze(0), silu(inner)};
      },
      {randn({4, 8}, 1)}, "common_subexpressions");
  EXPECT_THAT(story.after, AllOf(HasSubstr("= t(%1)"), Not(HasSubstr("unsqueeze(%1")))) << story.before;
}

TEST(CommonSubexpressions, TellsZeroFromNegativeZero) {
  const auto story = run_alone(
      [](std::span<const Tensor> in) {
        return std::vector{add(in[0], full({8}, 0.0)), add(in[0], full({8}, -0.0))};
      },
      {randn({4, 8}, 1)}, "common_subexpressions");
  EXPECT_EQ(story.after, story.before);
}

TEST(GateUpMerge, TakesAProductWithAViewThatNobodyReads) {
  const Tensor gate = parameter({16, 8}, 1), up = parameter({16, 8}, 2);
  const auto story = run_alone(
      [&](std::span<const Tensor> in) {
        const Tensor product = linear(in[0], gate);
        product.t();
        return one(mul(gelu(product), linear(in[0], up)));
      },
      {randn({4, 8}, 3)}, "gate_up_merge", {"dead_code"});
  EXPECT_THAT(story.notes, HasSubstr("one product over stacked weights"));
}

TEST(ViewFolding, FoldsViewsOfViewsAndDropsThoseThatChangeNothing) {
  const auto story = run_alone(
      [](std::span<const Tensor> in) {
        const Tensor same = in[0].t().t(), flat = in[0].unsqueeze(0).view({-1});
        return std::vector{relu(same), relu(flat)};
      },
      {randn({4, 8}, 1)}, "view_folding");
  EXPECT_THAT(story.after, AllOf(HasSubstr("relu(%0)"), HasSubstr("= view(%0, [8*s0])"), Not(HasSubstr("t(")),
                                 Not(HasSubstr("unsqueeze"))));
}

TEST(GemmBias, MakesAnAdditionOfARowTheProductsBias) {
  const Tensor weight = parameter({16, 8}, 1), bias = parameter({16}, 2);
  const auto story =
      run_alone([&](std::span<const Tensor> in) { return one(add(bias, matmul(in[0], weight.t()))); },
                {randn({4, 6, 8}, 3)}, "gemm_bias");
  EXPECT_THAT(story.before, HasSubstr(" = mm("));
  EXPECT_THAT(story.after, AllOf(HasSubstr(" = addmm("), Not(HasSubstr(" mm(")), Not(HasSubstr(" add("))));
}

TEST(GemmBias, LeavesAProductThatIsReadElsewhere) {
  const Tensor weight = parameter({16, 8}, 1), bias = parameter({16}, 2);
  const auto story = run_alone(
      [&](std::span<const Tensor> in) {
        const Tensor product = mm(in[0], weight.t());
        return std::vector{add(product, bias), product};
      },
      {randn({4, 8}, 3)}, "gemm_bias");
  EXPECT_THAT(story.after, AllOf(HasSubstr(" mm("), HasSubstr(" add(")));
}

graph::Function gated(const Tensor& gate, const Tensor& up) {
  return [=](std::span<const Tensor> in) {
    return one(mul(gelu(linear(in[0], gate), GeluApproximate::tanh), linear(in[0], up)));
  };
}

TEST(GateUpMerge, MakesOneProductOverStackedWeights) {
  const auto story = run_alone(gated(parameter({16, 8}, 1), parameter({16, 8}, 2)), {randn({4, 6, 8}, 3)},
                               "gate_up_merge", {"dead_code", "common_subexpressions"});
  EXPECT_THAT(story.after,
              AllOf(HasSubstr("f32[32, 8] = 2 parameters, stacked"), HasSubstr("f32[s0*s1, 32] = mm("),
                    HasSubstr("= slice(%"), HasSubstr(", 1, 16:32)")));
  EXPECT_EQ(story.after.find(" = mm("), story.after.rfind(" = mm("));
}

TEST(GateUpMerge, StacksBiasesToo) {
  const Tensor w1 = parameter({16, 8}, 1), w2 = parameter({8, 8}, 2), b1 = parameter({16}, 3),
               b2 = parameter({8}, 4);
  const auto story = run_alone(
      [&](std::span<const Tensor> in) {
        return std::vector{relu(linear(in[0], w1, b1)), relu(linear(in[0], w2, b2))};
      },
      {randn({4, 8}, 5)}, "gate_up_merge");
  EXPECT_THAT(story.after,
              AllOf(HasSubstr("f32[24] = 2 parameters, stacked"), HasSubstr("f32[s0, 24] = addmm(")));
}

TEST(GateUpMerge, IsLeftOutOnACpuUnlessItIsAskedFor) {
  graph::Graph graph =
      graph::capture(gated(parameter({16, 8}, 1), parameter({16, 8}, 2)), std::vector{randn({4, 8}, 3)});
  CompileOptions options;
  options.disable = {"gated_fusion"};
  const PassesResult result = run_passes(graph, options);
  EXPECT_THAT(to_text(graph), Not(HasSubstr("stacked")));
  const auto report = std::ranges::find_if(
      result.reports, [](const PassReport& r) { return r.name == std::string("gate_up_merge"); });
  EXPECT_THAT(report->notes.at(0), HasSubstr("stay two products: "));
}

graph::Function gated_mlp_of(bool biases) {
  const Tensor gate = parameter({16, 8}, 1), up = parameter({16, 8}, 2), down = parameter({8, 16}, 3);
  const Tensor bias = biases ? parameter({16}, 4) : Tensor{}, last = biases ? parameter({8}, 5) : Tensor{};
  return [=](std::span<const Tensor> in) {
    return one(linear(mul(silu(linear(in[0], gate, bias)), linear(in[0], up, bias)), down, last));
  };
}

TEST(GatedFusion, SaysWhyThereIsNoKernel) {
  // Nobody multiplies f64 but the reference.
  const auto wide = [](const Tensor& t) { return t.to(DType::f64).set_parameter(); };
  graph::Graph graph = graph::capture(gated(wide(parameter({16, 8}, 1)), wide(parameter({16, 8}, 2))),
                                      std::vector{randn({4, 8}, 3, {DType::f64})});
  const PassesResult result = run_passes(graph, {});
  const auto report = std::ranges::find_if(
      result.reports, [](const PassReport& r) { return r.name == std::string("gated_fusion"); });
  ASSERT_EQ(report->notes.size(), 1u);
  EXPECT_THAT(report->notes[0], HasSubstr(" have no kernel for ep::gated_linear: "));
}

TEST(GatedFusion, MakesTheWholeBlockOneOpOrThePairWhereMoreReadsIt) {
  for (const bool biases : {false, true}) {
    const auto whole = run_alone(gated_mlp_of(biases), {randn({4, 6, 8}, 3)}, "gated_fusion",
                                 {"dead_code", "common_subexpressions"});
    EXPECT_THAT(whole.after, HasSubstr("f32[s0*s1, 8] = gated_mlp(%"));
    EXPECT_THAT(whole.after, AllOf(HasSubstr(", silu)"), Not(HasSubstr("mm(")), Not(HasSubstr("mul("))));
  }
  const auto pair = run_alone(gated(parameter({16, 8}, 1), parameter({16, 8}, 2)), {randn({4, 6, 8}, 3)},
                              "gated_fusion", {"dead_code", "common_subexpressions"});
  EXPECT_THAT(pair.after, AllOf(HasSubstr("f32[s0*s1, 16] = gated_linear(%"), HasSubstr(", gelu_tanh)")));
}

TEST(PointwiseFusion, MakesADagWithBroadcastsOneKernel) {
  const auto story = run_alone(
      [](std::span<const Tensor> in) {
        const Tensor a = relu(in[0]), b = mul(a, in[1]);
        return one(add(mul(silu(b), a), in[0]));
      },
      {randn({4, 6, 8}, 1), randn({6, 1}, 2)}, "pointwise_fusion");
  EXPECT_THAT(story.after, HasSubstr("= ep_fused_relu_mul_silu_mul_add_0(%0, %1)"));
  EXPECT_EQ(std::ranges::count(story.after, '\n'), 3);
}

TEST(PointwiseFusion, GivesSeveralResults) {
  const auto story = run_alone(
      [](std::span<const Tensor> in) {
        const Tensor a = relu(in[0]), b = silu(a);
        return std::vector{a, b, mul(a, b)};
      },
      {randn({4, 8}, 1)}, "pointwise_fusion");
  EXPECT_THAT(story.after,
              HasSubstr("%1: f32[s0, 8], %2: f32[s0, 8], %3: f32[s0, 8] = ep_fused_relu_silu_mul_0(%0)"));
}

TEST(PointwiseFusion, DoesNotLeaveAGroupAndEnterItAgain) {
  const Tensor weight = parameter({8, 8}, 1);
  const auto story = run_alone(
      [&](std::span<const Tensor> in) {
        const Tensor a = relu(in[0]);
        return one(add(a, mm(a, weight)));  // the addition needs the product, which needs a
      },
      {randn({4, 8}, 2)}, "pointwise_fusion");
  EXPECT_THAT(story.after, Not(HasSubstr("ep_fused")));
}

TEST(PointwiseFusion, RoundsWhereTheFunctionDoes) {
  const auto story =
      run_alone([](std::span<const Tensor> in) { return one(relu(add(in[0], in[0]).to(DType::bf16))); },
                {randn({4, 8}, 1)}, "pointwise_fusion");
  EXPECT_THAT(story.after, HasSubstr("v2 = to_bf16(v1)"));
  EXPECT_THAT(story.after, HasSubstr("-> v3:bf16"));
}

TEST(GemmEpilogue, TakesTheActivationOfAProduct) {
  const Tensor weight = parameter({16, 8}, 1), bias = parameter({16}, 2);
  const auto story =
      run_alone([&](std::span<const Tensor> in) { return one(gelu(linear(in[0], weight, bias))); },
                {randn({4, 6, 8}, 3)}, "gemm_epilogue");
  EXPECT_THAT(story.after,
              AllOf(HasSubstr("addmm("), HasSubstr(") with ep_fused_gelu_0()"), Not(HasSubstr("gelu(%"))));
}

TEST(GemmEpilogue, GivesTheGateToTheProductThatIsActivated) {
  const auto story = run_alone(gated(parameter({16, 8}, 1), parameter({16, 8}, 2)), {randn({4, 6, 8}, 3)},
                               "gemm_epilogue", {"dead_code", "pointwise_fusion"});
  EXPECT_THAT(story.after, HasSubstr("with ep_fused_gelu_mul_0(%"));
  EXPECT_THAT(story.after, HasSubstr("v0:f32=product, v1:f32=0; v2 = gelu_tanh_mul(v0, v1)"));
}

TEST(GemmEpilogue, ReadsBothHalvesOfAMergedProduct) {
  graph::Graph graph =
      graph::capture(gated(parameter({16, 8}, 1), parameter({16, 8}, 2)), std::vector{randn({4, 6, 8}, 3)});
  CompileOptions options;
  options.enable = {"gate_up_merge"};
  options.disable = {"gated_fusion"};
  run_passes(graph, options);
  EXPECT_THAT(to_text(graph), HasSubstr("product[:, 16:]; v2 = gelu_tanh_mul(v0, v1)"));
}

TEST(GemmEpilogue, SaysWhyAResultStaysAKernelOfItsOwn) {
  const Tensor weight = parameter({16, 8}, 1);
  const auto story =
      run_alone([&](std::span<const Tensor> in) { return one(relu(mm(in[0], weight.t()).t())); },
                {randn({4, 8}, 3)}, "gemm_epilogue");
  EXPECT_THAT(story.after, HasSubstr("= relu("));
  EXPECT_THAT(story.notes, HasSubstr("stays a kernel of its own: "));
}

TEST(BufferPlanning, ReusesAndWorksInPlace) {
  const Tensor weight = parameter({8, 8}, 1);
  graph::Graph graph = graph::capture(
      [&](std::span<const Tensor> in) {
        Tensor x = in[0];
        for (int i = 0; i < 4; ++i) x = relu(mm(x, weight));
        return one(x);
      },
      std::vector{randn({64, 8}, 2)});
  CompileOptions options;
  options.disable = {"gemm_epilogue"};
  const PassesResult result = run_passes(graph, options);
  const int64_t each = 64 * 8 * 4;
  EXPECT_EQ(result.buffers.unplanned, 8 * each);
  EXPECT_EQ(result.buffers.workspace, 2 * each);  // a product and its rectified self share one of two
  EXPECT_EQ(result.buffers.peak, 3 * each);
}

TEST(Passes, RefuseANameThatIsNone) {
  graph::Graph graph = graph::capture([](std::span<const Tensor> in) { return one(relu(in[0])); },
                                      std::vector{randn({4, 8}, 1)});
  CompileOptions options;
  options.disable = {"dead_cod"};
  EXPECT_THROW(run_passes(graph, options), Error);
}

}  // namespace
}  // namespace epilogue::compiler
