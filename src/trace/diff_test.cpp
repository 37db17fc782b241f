#include "trace/diff.h"

#include <simdjson.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "real_traces.h"
#include "trace/links.h"

namespace epilogue::trace {
namespace {

using testing::ContainsRegex;
using testing::ElementsAre;
using testing::EndsWith;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::StartsWith;

// Steps of 100 us on thread 0; each kernel is launched by an op of its own and runs on track 1.
struct Made {
  Trace trace;
  uint32_t correlation = 0;
  int64_t now = 0;

  Made() { trace.tracks = {{.process = 1, .thread = 1}, {.process = 0, .thread = 7, .device = true}}; }

  void step(int64_t us) {
    add(EventKind::user_annotation, "ProfilerStep#" + std::to_string(now), now, us);
    now += us;
  }
  // In the last step, after its first `at` us.
  void kernel(const std::string& op, const std::string& name, int64_t at, int64_t us, int32_t blocks = 1) {
    const int64_t start = trace.events[last_step()].start_ns / 1000 + at;
    add(EventKind::cpu_op, op, start, 2);
    add(EventKind::cuda_runtime, "cudaLaunchKernel", start, 1);
    trace.events.back().correlation = ++correlation;
    add(EventKind::kernel, name, start + 1, us, 1);
    trace.events.back().correlation = correlation;
    trace.events.back().detail = static_cast<uint32_t>(trace.launches.size());
    trace.launches.push_back({.grid = {blocks, 1, 1}, .block = {128, 1, 1}});
  }
  // Another kernel of an op that began 9 us before.
  void call_again(const std::string& name, int64_t start) {
    add(EventKind::cuda_runtime, "cudaLaunchKernel", start - 9, 0);
    trace.events.back().correlation = ++correlation;
    add(EventKind::kernel, name, start, 5, 1);
    trace.events.back().correlation = correlation;
  }
  Trace done() {
    order_events(trace);
    return std::move(trace);
  }

 private:
  size_t last_step() const {
    size_t at = 0;
    for (size_t i = 0; i < trace.events.size(); ++i)
      if (trace.events[i].kind == EventKind::user_annotation) at = i;
    return at;
  }
  void add(EventKind kind, const std::string& name, int64_t start_us, int64_t us, uint32_t track = 0) {
    Event event;
    event.kind = kind;
    event.name = trace.strings.intern(name);
    event.start_ns = start_us * 1000;
    event.duration_ns = us * 1000;
    event.track = track;
    trace.events.push_back(event);
  }
};

struct MadeKernel {
  const char *op, *name;
};
Trace one_step(std::initializer_list<MadeKernel> kernels) {
  Made made;
  made.step(100);
  int64_t at = 0;
  for (const auto& [op, name] : kernels) made.kernel(op, name, at += 10, 5);
  return made.done();
}

Trace one_kernel_steps(const std::vector<int64_t>& kernel_us, int32_t blocks = 1) {
  Made made;
  for (const int64_t us : kernel_us) {
    made.step(100);
    made.kernel("aten::mul", "k", 10, us, blocks);
  }
  return made.done();
}

TEST(Diff, CompileMakesOneKernelOfGeluAndMul) {
  const Diff diff = diff_traces(real("mlp_eager"), real("mlp_compile"));
  EXPECT_THAT(diff_sentence(diff),
              StartsWith("B runs 4 kernels per step instead of 5: gelu and mul became one "
                         "(triton_poi_fused__unsafe_view_gelu_mul_0); the step's device time is "));
  ASSERT_EQ(diff.fusions.size(), 1u);
  EXPECT_THAT(diff.fusions[0].from, ElementsAre("gelu", "mul"));
  EXPECT_THAT(diff.gone, IsEmpty());
  EXPECT_THAT(diff.added, IsEmpty());
}

TEST(Diff, LigerMakesOneKernelOfGeluAndMul) {
  const Diff diff = diff_traces(real("mlp_eager"), real("mlp_liger"));
  EXPECT_THAT(diff_sentence(diff),
              StartsWith("B runs 4 kernels per step instead of 5: gelu and mul became one "
                         "(_geglu_tanh_forward_kernel)"));
}

TEST(Diff, AddmmTakesTheAddIn) {
  const Diff diff = diff_traces(real("add_matmul"), real("linear_eager"));
  EXPECT_THAT(diff_sentence(diff), StartsWith("B runs 1 kernel per step instead of 2: mm and add became one "
                                              "(nvjet_sm90_tst_64x8_64x16_1x2_h_bz_bias_TNT)"));
}

TEST(Diff, AGatedMlpTakesAllFiveIn) {
  Made a, b;
  a.step(100);
  for (const int64_t at : {10, 20, 50}) a.kernel("ep::mm", "panel_gemm_avx512_f32", at, 5);
  a.kernel("ep::gelu", "pointwise_gelu_tanh_avx512_f32", 30, 5);
  a.kernel("ep::mul", "pointwise_mul_avx512_f32", 40, 5);
  b.step(100);
  b.kernel("ep::gated_mlp", "panel_gated_mlp_gelu_tanh_avx512_f32", 10, 20);
  EXPECT_THAT(diff_sentence(diff_traces(a.done(), b.done())),
              StartsWith("B runs 1 kernel per step instead of 5: gelu, mul and 3 mm became one "
                         "(panel_gated_mlp_gelu_tanh_avx512_f32)"));
}

TEST(Diff, NothingChangesAgainstItself) {
  for (const char* name : {"mlp_eager", "mlp_fp32_gelu", "linear_compile"}) {
    const Diff diff = diff_traces(real(name), real(name));
    EXPECT_TRUE(diff.empty()) << name;
    EXPECT_THAT(diff_sentence(diff), StartsWith("Nothing changed: ")) << name;
    EXPECT_THAT(failed_conditions(diff, {"any-change", "new-kernels", "kernels-per-step", "step-time"}),
                IsEmpty());
  }
}

TEST(Diff, NoFusionIsClaimedWithoutEvidence) {
  const Diff diff = diff_traces(one_step({{"aten::gelu", "one"}, {"aten::mul", "two"}}),
                                one_step({{"vendor::magic", "three"}}));
  EXPECT_THAT(diff.fusions, IsEmpty());
  EXPECT_THAT(diff_sentence(diff), HasSubstr("one and two gone; three new"));
}

TEST(Diff, AnOpOfSeveralKernelsMadeNothingOne) {
  const Trace apart = one_step({{"aten::mm", "one_gemm"}, {"aten::add", "two"}});
  EXPECT_EQ(diff_traces(apart, one_step({{"aten::addmm", "three_gemm"}})).fusions.size(), 1u);
  Made made;
  made.step(100);
  made.kernel("aten::addmm", "three_gemm", 10, 5);
  made.call_again("splitKreduce_kernel", 20);
  EXPECT_THAT(diff_traces(apart, made.done()).fusions, IsEmpty()) << "addmm launches two";
}

TEST(Diff, AKernelThatRunsOnBothSidesIsNeitherNewNorGone) {
  constexpr MadeKernel kGemm{"aten::mm", "gemm"};
  const Trace once = one_step({kGemm}), twice = one_step({kGemm, kGemm});
  EXPECT_THAT(diff_sentence(diff_traces(once, twice)), HasSubstr("gemm more often"));
  EXPECT_THAT(diff_sentence(diff_traces(twice, once)), HasSubstr("gemm less often"));
}

TEST(Diff, AnotherKernelOfTheSameOpIsNoFusion) {
  const Diff diff = diff_traces(one_step({{"aten::mm", "slow_gemm"}}), one_step({{"ep::mm", "quick_gemm"}}));
  EXPECT_THAT(diff_sentence(diff),
              StartsWith("B runs 1 kernel per step, as A does: mm runs another kernel (quick_gemm)"));
  for (const DiffRow& row : diff.only_a) EXPECT_NE(row.kind, DiffKind::op) << "aten::mm is ep::mm";
}

TEST(Diff, CountsPerStepSoThatTheNumberOfStepsDoesNotMatter) {
  const Diff diff = diff_traces(one_kernel_steps({5, 5}), one_kernel_steps({5, 5, 5, 5}));
  EXPECT_TRUE(diff.empty());
}

TEST(Diff, AnOpAndAKernelOfOneNameAreTwo) {
  Made made;
  made.step(100);
  made.kernel("aten::mm", "aten::mm", 10, 5);
  Made idle;
  idle.step(100);
  Trace trace = made.done();
  for (Event& event : trace.events) event.detail = kNoDetail;
  const Diff diff = diff_traces(idle.done(), trace);
  ASSERT_EQ(diff.only_b.size(), 2u);
  EXPECT_EQ(diff.only_b[0].kind, DiffKind::kernel);
  EXPECT_EQ(diff.only_b[1].kind, DiffKind::op);
  for (const DiffRow& row : diff.only_b) EXPECT_EQ(row.b->calls, 1);
}

TEST(Diff, AnotherLaunchTupleIsAChange) {
  const Diff diff = diff_traces(one_kernel_steps({5, 5}, 16), one_kernel_steps({5, 5}, 32));
  ASSERT_EQ(diff.changed.size(), 1u);
  EXPECT_TRUE(diff.changed[0].launch_changed());
  EXPECT_THAT(diff_text(diff), HasSubstr("16x1x1 / 128x1x1 became 32x1x1 / 128x1x1"));
}

TEST(Diff, TimesWithinTheSpreadBetweenStepsAreNoise) {
  const Diff noisy = diff_traces(one_kernel_steps({10, 20, 30}), one_kernel_steps({15, 25, 35}));
  ASSERT_EQ(noisy.changed.size(), 1u);
  EXPECT_TRUE(noisy.changed[0].time_within_noise());
  EXPECT_THAT(diff_text(noisy), HasSubstr("+25.0%, within noise"));
  EXPECT_THAT(failed_conditions(noisy, {"device-time"}), IsEmpty());

  const Diff steady = diff_traces(one_kernel_steps({20, 20, 20}), one_kernel_steps({25, 25, 25}));
  EXPECT_FALSE(steady.changed[0].time_within_noise());
  EXPECT_THAT(diff_text(steady), Not(HasSubstr("noise")));
  EXPECT_THAT(failed_conditions(steady, {"device-time:20%"}),
              ElementsAre(HasSubstr("25.000us instead of 20.000us")));
  EXPECT_THAT(failed_conditions(steady, {"device-time:30%"}), IsEmpty());
}

TEST(Diff, ASlowFirstStepDoesNotHideAChange) {
  const Diff diff = diff_traces(one_kernel_steps({30, 10, 11}), one_kernel_steps({80, 40, 41}));
  ASSERT_EQ(diff.changed.size(), 1u);
  EXPECT_FALSE(diff.changed[0].time_within_noise());
  EXPECT_EQ(failed_conditions(diff, {"device-time:5%"}).size(), 1u);
}

// 61 us became 177 us, with a first step of 224 us before and a fastest one of 159 us after.
TEST(Diff, ASlowFirstStepOfARealTraceDoesNotHideThreeTimesTheTime) {
  const Diff diff = diff_traces(real("linear_eager"), real("linear_compile"));
  EXPECT_THAT(failed_conditions(diff, {"step-time:5%"}),
              ElementsAre(HasSubstr("177.459us instead of 61.193us, +190.0%")));
  EXPECT_THAT(diff_sentence(diff), EndsWith(", the host's time per step 2.9 times as long."));
}

TEST(Diff, FromThreeStepsOnTheSlowestDoesNotCount) {
  EXPECT_FALSE(within_noise(Spread({90, 10, 11}), Spread({95, 13, 12})));
  EXPECT_TRUE(within_noise(Spread({90, 10}), Spread({95, 13}))) << "of two neither can be left out";
}

TEST(Diff, AChangeOfAllStepsByHalfIsNeverNoise) {
  const Spread a({10, 40, 90, 90}), b({20, 100, 100, 300});
  EXPECT_LE(b.low, a.high);
  EXPECT_FALSE(within_noise(a, b));
  EXPECT_FALSE(within_noise(b, a));
}

TEST(Diff, StepsThatANeighbourLengthenedAreNoise) {
  const Spread calm({100, 105}), disturbed({100, 300});
  EXPECT_TRUE(within_noise(calm, disturbed));
  EXPECT_TRUE(within_noise(disturbed, calm));
}

TEST(Diff, OfManyStepsTheOutermostDoNotCount) {
  std::vector<int64_t> a(20, 10), b(20, 20);
  a[3] = 50;
  b[7] = 1;
  EXPECT_FALSE(within_noise(Spread(a), Spread(b)));
}

TEST(Diff, TimeThatComesFromNothingExceedsAnyShare) {
  Made idle;
  idle.step(100);
  idle.kernel("aten::mul", "k", 10, 5);
  for (int i = 0; i < 2; ++i) idle.step(100);
  const Diff diff = diff_traces(idle.done(), one_kernel_steps({5}));
  EXPECT_THAT(diff_sentence(diff), HasSubstr("5.000us instead of none"));
  EXPECT_EQ(failed_conditions(diff, {"device-time:500%"}).size(), 1u);
}

TEST(Diff, FailsOnWhatItWasToldTo) {
  const Diff more = diff_traces(real("mlp_compile"), real("mlp_eager"));
  EXPECT_THAT(failed_conditions(more, {"kernels-per-step"}), ElementsAre("kernels-per-step: 5 instead of 4"));
  EXPECT_THAT(failed_conditions(more, {"new-kernels"}), ElementsAre(HasSubstr("GeluCUDAKernelImpl")));
  EXPECT_THAT(failed_conditions(more, {"memory:5%"}), ElementsAre(HasSubstr("cannot be decided")));
  const Diff fewer = diff_traces(real("mlp_eager"), real("mlp_compile"));
  EXPECT_THAT(failed_conditions(fewer, {"kernels-per-step"}), IsEmpty());
  for (const char* wrong : {"speed", "step-time:fast", "step-time:-1%", "new-kernels:5%", ""})
    EXPECT_THROW(failed_conditions(fewer, {wrong}), Error) << wrong;
}

TEST(Diff, OneStepThatRunsMoreKernelsIsNoticed) {
  const auto steps = [](std::initializer_list<int64_t> counts) {
    Made made;
    for (const int64_t count : counts) {
      made.step(1000);
      for (int64_t k = 0; k < count; ++k) made.kernel("aten::mm", "k", 10 * k, 5);
    }
    return made.done();
  };
  EXPECT_THAT(failed_conditions(diff_traces(steps({5, 5, 5}), steps({5, 5, 50})), {"kernels-per-step"}),
              ElementsAre("kernels-per-step: 20 instead of 5 in the mean, some steps run more"));
  EXPECT_THAT(failed_conditions(diff_traces(steps({5, 5, 50}), steps({5, 5})), {"kernels-per-step"}),
              IsEmpty());
}

TEST(Diff, AnotherNamespaceIsNoChange) {
  const Diff diff = diff_traces(one_step({{"aten::mm", "k"}}), one_step({{"ep::mm", "k"}}));
  EXPECT_THAT(failed_conditions(diff, {"any-change"}), IsEmpty());
  EXPECT_THAT(fail_on_help(), HasSubstr("an op is the same in any namespace"));
}

TEST(Diff, AnotherGridMakesNoNewKernel) {
  const auto kernels = [](const std::vector<int32_t>& grids) {
    Made made;
    made.step(100);
    for (size_t i = 0; i < grids.size(); ++i)
      made.kernel("aten::mm", "k", static_cast<int64_t>(10 * i), 5, grids[i]);
    return made.done();
  };
  EXPECT_THAT(failed_conditions(diff_traces(kernels({1}), kernels({1, 2})), {"new-kernels"}), IsEmpty());
}

TEST(Diff, ATraceWithoutStepsSaysSo) {
  const Diff diff = diff_traces(Trace{}, one_kernel_steps({5}));
  EXPECT_THAT(diff_sentence(diff), HasSubstr(" A marks no steps (ProfilerStep#N), so the whole trace"));
  EXPECT_THAT(failed_conditions(diff, {"step-time:5%"}), ElementsAre(HasSubstr("cannot be decided")));
  EXPECT_THAT(diff_sentence(diff_traces(Trace{}, Trace{})), StartsWith("Neither trace marks steps"));
}

TEST(Diff, ATraceWithoutAnyKernelsSaysSoFirstAndNothingOfTheirTime) {
  const Trace whole = one_kernel_steps({5, 5, 5});
  Trace ops = one_kernel_steps({5, 5, 5});
  std::erase_if(ops.events, [](const Event& event) { return event.kind == EventKind::kernel; });
  const std::string text = diff_text(diff_traces(whole, ops));
  EXPECT_THAT(text, StartsWith("B holds no GPU kernels: was CUDA activity recorded? Nothing is said of"));
  for (const char* claim : {"-100", "shorter", "gone"})
    EXPECT_THAT(text.substr(0, text.find("Only in")), Not(HasSubstr(claim)));
  EXPECT_THAT(diff_sentence(diff_traces(ops, whole)), StartsWith("A holds no GPU kernels: was CUDA"));
}

TEST(Diff, MemoryMayRiseOnNoDevice) {
  const auto holding = [](int64_t host, int64_t device) {
    Trace trace = one_kernel_steps({5});
    trace.memories = {{.bytes = 1, .total_allocated = host, .device_type = 0},
                      {.bytes = 1, .total_allocated = device, .device_type = 1}};
    return trace;
  };
  const Diff diff = diff_traces(holding(10 << 20, 1 << 20), holding(10 << 20, 2 << 20));
  EXPECT_THAT(failed_conditions(diff, {"memory:5%"}),
              ElementsAre("memory:5%: 2.00 MiB instead of 1.00 MiB on CUDA 0"));
  EXPECT_THAT(failed_conditions(diff, {"memory:100%"}), IsEmpty());
  EXPECT_THAT(diff_text(diff), ContainsRegex("memory peak, CUDA 0 +1.00 MiB +2.00 MiB"));
  EXPECT_THAT(diff_json(diff), HasSubstr("\"memory_peaks\":{\"CPU\":[10485760,10485760],\"CUDA 0\":"));
}

TEST(Diff, KernelsWithoutTheirLaunchLeaveKernelConditionsUndecided) {
  Trace untied = one_kernel_steps({5, 5, 5});
  std::erase_if(untied.events, [](const Event& event) { return event.kind == EventKind::cuda_runtime; });
  const Trace whole = one_kernel_steps({5, 5, 5});
  for (const Diff& diff : {diff_traces(whole, untied), diff_traces(untied, whole)}) {
    for (const char* condition : {"kernels-per-step", "new-kernels", "any-change", "device-time:5%"})
      EXPECT_THAT(failed_conditions(diff, {condition}),
                  ElementsAre(HasSubstr("lacks the calls that launched 3 of its kernels")))
          << condition;
    EXPECT_THAT(failed_conditions(diff, {"step-time:5%"}), IsEmpty()) << "wall time needs no launches";
  }
  EXPECT_THAT(diff_sentence(diff_traces(whole, untied)),
              StartsWith("B lacks the calls that launched 3 of its kernels or copies: nothing is said"));
  const std::string text = diff_text(diff_traces(whole, untied));
  EXPECT_THAT(text, HasSubstr("\nIn A, not in what is left of B\n"));
  for (const char* claim : {"Only in A", "-100", "gone"}) EXPECT_THAT(text, Not(HasSubstr(claim)));
}

TEST(Diff, WorkFromBeforeTheFirstStepIsNotMissed) {
  Trace trace = one_kernel_steps({5, 5});
  Event warm_up = trace.events.back();
  warm_up.correlation = 999;
  warm_up.start_ns = -9000;
  trace.events.insert(trace.events.begin(), warm_up);
  EXPECT_THAT(failed_conditions(diff_traces(trace, one_kernel_steps({5, 5})), {"any-change", "device-time"}),
              IsEmpty());
}

TEST(Diff, ATraceThatRanNothingPassesNoConditionOnKernels) {
  const auto idle = [] {
    Made made;
    made.step(100);
    return made.done();
  };
  for (const char* condition : {"kernels-per-step", "new-kernels", "device-time"}) {
    EXPECT_THAT(failed_conditions(diff_traces(idle(), idle()), {condition}),
                ElementsAre(HasSubstr("holds no kernels")));
    EXPECT_THAT(failed_conditions(diff_traces(one_kernel_steps({5}), idle()), {condition}),
                ElementsAre(HasSubstr("holds no kernels")));
    EXPECT_THAT(failed_conditions(diff_traces(idle(), one_kernel_steps({5})), {condition}),
                ElementsAre(HasSubstr("holds no kernels")));
  }
  EXPECT_THAT(failed_conditions(diff_traces(idle(), idle()), {"any-change", "step-time"}), IsEmpty());
}

TEST(Diff, ADamagedTracePassesNoCondition) {
  Trace damaged = one_kernel_steps({5});
  damaged.damaged = true;
  EXPECT_THAT(failed_conditions(diff_traces(one_kernel_steps({5}), damaged), {"kernels-per-step"}),
              ElementsAre(HasSubstr("cannot be decided")));
}

TEST(Diff, OfADamagedTraceNothingIsSaidToHaveChanged) {
  Trace damaged;
  damaged.damaged = true;
  damaged.problems = {{"gzip data is cut short"}};
  const Diff diff = diff_traces(one_kernel_steps({5, 5}), damaged);
  EXPECT_THAT(diff_text(diff), StartsWith("B is damaged (gzip data is cut short): "));
  EXPECT_THAT(diff_text(diff), HasSubstr("\nIn A, not in what is left of B\n"));
  for (const char* claim : {"instead of", "gone;", "shorter", "Only in", "marks no steps", "%"})
    EXPECT_THAT(diff_text(diff), Not(HasSubstr(claim)));
  Trace other = one_kernel_steps({9, 9});
  other.damaged = true;
  EXPECT_THAT(diff_text(diff_traces(other, damaged)), StartsWith("Both traces are damaged: "));
  EXPECT_THAT(diff_json(diff), HasSubstr("\"damaged\":[false,true]"));
}

TEST(Diff, EachRowSaysWhoseTimeItShows) {
  const std::string text = diff_text(diff_traces(Made().done(), one_kernel_steps({5})));
  EXPECT_THAT(text, ContainsRegex("kernel +k +1 +5.000us +device"));
  EXPECT_THAT(text, ContainsRegex("op +aten::mul +1 +2.000us +host"));
  EXPECT_THAT(diff_text(diff_traces(one_kernel_steps({5}), one_kernel_steps({7}))),
              ContainsRegex("kernel +k +1 +1 +5.000us +7.000us +device +.40.0%"));
}

TEST(Diff, JsonHasTheKeysOfTheContract) {
  const Diff diff = diff_traces(real("mlp_eager"), real("mlp_compile"));
  const std::string json = diff_json(diff, {"x"});
  simdjson::dom::parser parser;
  const simdjson::dom::element root = parser.parse(json);
  EXPECT_EQ(root["only_a"].get_array().value().size(), diff.only_a.size());
  EXPECT_EQ(root["only_b"].get_array().value().size(), diff.only_b.size());
  EXPECT_EQ(root["steps_us"].at(0).get_double().value(), 191.094);
  EXPECT_EQ(root["failed"].at(0).get_string().value(), "x");
  for (const simdjson::dom::element row : root["changed"])
    for (const char* key : {"calls", "total_us", "launch"})
      EXPECT_EQ(row[key].get_array().value().size(), 2u) << key;
}

}  // namespace
}  // namespace epilogue::trace
