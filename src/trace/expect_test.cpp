#include "trace/expect.h"

#include <filesystem>

#include <simdjson.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "real_traces.h"
#include "test_data.h"
#include "trace/links.h"

namespace epilogue::trace {
namespace {

using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

RuleResult check(const std::string& rule, const Trace& trace) {
  return check_rules(parse_rules("[[rule]]\n" + rule, "r.toml"), trace).at(0);
}

std::string refusal(const std::string& text) {
  try {
    parse_rules(text, "r.toml");
  } catch (const Error& error) {
    return error.what();
  }
  return "accepted";
}

TEST(Rules, BoundsAreANumberOrMinAndMax) {
  const auto rules = parse_rules(
      "[[rule]]\nkernels_per_step = 5\n[[rule]]\nname = 'quick'\nstep_time_us = {max = 1.5}\n"
      "[[rule]]\nop = 'mm'\nkernels_per_call = {min = 1, max = 2}\n",
      "r.toml");
  ASSERT_EQ(rules.size(), 3u);
  EXPECT_EQ(rules[0].name, "kernels_per_step = 5");
  EXPECT_EQ(rules[1].name, "quick");
  EXPECT_EQ(expectation(rules[1]), "step_time_us <= 1.5");
  EXPECT_EQ(expectation(rules[2]), "1 <= kernels_per_call of mm <= 2");
}

TEST(Rules, RefusalsNameFileLineAndWhatWasExpected) {
  EXPECT_THAT(refusal("[[rule]]\n\nkernels = 5"),
              StartsWith("r.toml:3: 'kernels' is not known, expected one of name, "));
  EXPECT_THAT(refusal("[[rule]]\nkernels_per_step = 'five'"),
              StartsWith("r.toml:2: kernels_per_step: expected a number or"));
  EXPECT_EQ(refusal("[[rule]]\nmemory_peak_bytes = '1 GB'"),
            "r.toml:2: memory_peak_bytes: expected a number of bytes or {min = ..., max = ...}, not text");
  EXPECT_EQ(refusal("[[rule]]\nmemory_peak_bytes = {max = '1 GB'}"),
            "r.toml:2: memory_peak_bytes: expected a number of bytes, not text");
  EXPECT_EQ(refusal("[[rule]]\nstep_time_us = {max = '1 ms'}"),
            "r.toml:2: step_time_us: expected a number of microseconds, not text");
  EXPECT_THAT(refusal("[[rule]]\nkernels_per_step = -1"), HasSubstr("not negative"));
  EXPECT_THAT(refusal("[[rule]]\nkernels_per_step = nan"), HasSubstr("not negative"));
  EXPECT_THAT(refusal("[[rule]]\nkernels_per_step = {max = 1, min = 2}"), HasSubstr("min 2 is above max 1"));
  EXPECT_THAT(refusal("[[rule]]\nkernels_per_step = 5.5"), HasSubstr("no whole number can meet this"));
  EXPECT_THAT(refusal("[[rule]]\nop = 'mm'\nkernels_per_call = {min = 1.2, max = 1.8}"),
              HasSubstr("no whole number"));
  EXPECT_EQ(refusal("[[rule]]\nkernels_per_step = {min = 1.2, max = 2.8}"), "accepted");
  for (const char* share : {"2", "{max = 1.5}", "{min = 1.01}"})
    EXPECT_THAT(refusal(fmt::format("[[rule]]\ndevice_idle_share = {}", share)),
                HasSubstr("expected 0 to 1"));
  EXPECT_THAT(refusal("[[rule]]\nkernels_per_step = {}"), HasSubstr("expected min, max or both"));
  EXPECT_THAT(refusal("[[rule]]\nkernels_per_step = {most = 1}"),
              HasSubstr("'most' is not known, expected min or max"));
  EXPECT_THAT(refusal("[[rule]]\nno_copy = false"), HasSubstr("no_copy: expected true"));
  EXPECT_THAT(refusal("[[rule]]\nno_kernel = ''"), HasSubstr("not empty"));
  EXPECT_THAT(refusal("[[rule]]\nname = 'x'"),
              HasSubstr("expects nothing, give it one of kernels_per_step, "));
  EXPECT_THAT(refusal("[[rule]]\nop = 'mm'\nno_copy = true"), HasSubstr("need each other"));
  EXPECT_THAT(refusal("[[rule]]\nkernels_per_call = 1"), HasSubstr("need each other"));
  EXPECT_THAT(refusal("[[rule]]\nno_copy = true\nno_recompile = true"), HasSubstr("one expectation"));
  EXPECT_THAT(refusal("[rules]\nx = 1"), HasSubstr("'rules' is not known here"));
  EXPECT_EQ(refusal("\n[rule]\nno_copy = true"),
            "r.toml:2: [rule] has single brackets, expected [[rule]] before each rule");
  EXPECT_THAT(refusal("[rule]\nno_copy = true\n[[rule]]\nno_copy = true"), StartsWith("r.toml:"));
  EXPECT_THAT(refusal("rule = 5"), HasSubstr("holds no rules"));
  EXPECT_THAT(refusal("rule = [1]"), HasSubstr("expected a [[rule]] table"));
  EXPECT_THAT(refusal(""), HasSubstr("holds no rules"));
  EXPECT_THAT(refusal("[[rule]]\nname = "), StartsWith("r.toml:2: "));
  EXPECT_THROW(read_rules("none.toml"), Error);
}

TEST(Rules, PatternsAreAShellsStarsAndQuestionMarks) {
  EXPECT_TRUE(matches_pattern("triton_poi_fused_gelu_0", "triton_*"));
  EXPECT_TRUE(matches_pattern("abcabd", "*ab?"));
  EXPECT_TRUE(matches_pattern("", "*"));
  EXPECT_FALSE(matches_pattern("triton", "trito"));
  EXPECT_FALSE(matches_pattern("trito", "trito?"));
  EXPECT_FALSE(matches_pattern("abc", "*d*"));
}

TEST(Expect, EachRuleCanPassAndFail) {
  const Trace eager = real("mlp_eager");
  for (const char* holds :
       {"kernels_per_step = 5", "step_time_us = {max = 200}", "device_time_us = {min = 100, max = 400}",
        "device_idle_share = {max = 1}", "longest_gap_us = {max = 100000}",
        "has_kernel = '*GeluCUDAKernelImpl*'", "no_kernel = 'triton_*'",
        "op = 'linear'\nkernels_per_call = 1", "op = 'aten::gelu'\nkernels_per_call = 1",
        "no_recompile = true", "no_copy = true", "no_problems = true"})
    EXPECT_TRUE(check(holds, eager).passed) << holds << ": " << check(holds, eager).found;
  for (const char* fails :
       {"kernels_per_step = 4", "step_time_us = {max = 100}", "device_time_us = {max = 100}",
        "device_idle_share = {min = 1}", "longest_gap_us = {min = 100000}", "has_kernel = 'triton_*'",
        "no_kernel = '*GeluCUDAKernelImpl*'", "op = 'linear'\nkernels_per_call = {max = 0}"})
    EXPECT_FALSE(check(fails, eager).passed) << fails;
}

TEST(Expect, APatternMatchesTheFullNameOrTheShortOneThatTablesPrint) {
  const Trace eager = real("mlp_eager");
  for (const char* pattern : {"vectorized_elementwise MulFunctor", "*at::native::*MulFunctor*", "gemm *"}) {
    EXPECT_TRUE(check(fmt::format("has_kernel = '{}'", pattern), eager).passed) << pattern;
    EXPECT_FALSE(check(fmt::format("no_kernel = '{}'", pattern), eager).passed) << pattern;
  }
  EXPECT_FALSE(check("has_kernel = 'MulFunctor'", eager).passed) << "a part of neither is enough";
}

TEST(Expect, SaysWhatItFound) {
  const RuleResult result = check("kernels_per_step = 4", real("mlp_eager"));
  EXPECT_EQ(result.expected, "kernels_per_step = 4");
  EXPECT_EQ(result.found, "5");
  EXPECT_EQ(check("op = 'linear'\nkernels_per_call = 2", real("mlp_eager")).found, "1 in 9 calls");
}

// 36.225 of 167.325 us, though what that step launched took longer than the step.
TEST(Expect, IdleIsOfTheStepsOwnTime) {
  EXPECT_EQ(check("device_idle_share = {max = 0.1}", real("mlp_eager")).found, "0.2165");
}

TEST(Expect, WhatCannotBeDecidedFails) {
  const Trace eager = real("mlp_eager");
  for (const char* rule : {"memory_peak_bytes = {max = 1e18}", "op = 'softmax'\nkernels_per_call = {max = 9}",
                           "op = 'ep::linear'\nkernels_per_call = 1"}) {
    EXPECT_FALSE(check(rule, eager).passed) << rule;
    EXPECT_THAT(check(rule, eager).found, StartsWith("cannot be decided: "));
  }
  for (const char* rule : {"kernels_per_step = {min = 0}", "step_time_us = {max = 1e9}", "no_copy = true",
                           "no_kernel = 'x'", "no_recompile = true", "device_idle_share = {max = 1}"}) {
    EXPECT_FALSE(check(rule, Trace{}).passed) << rule;
    EXPECT_THAT(check(rule, Trace{}).found, HasSubstr("holds no event"));
  }
}

Trace without_steps(const std::string& name) {
  Trace trace = real(name);
  std::erase_if(trace.events, [](const Event& event) { return event.kind == EventKind::user_annotation; });
  return trace;
}

TEST(Expect, WhatNeedsNoStepsIsDecidedOverATraceThatMarksNone) {
  const Trace eager = without_steps("mlp_eager");
  for (const char* holds : {"has_kernel = '*GeluCUDAKernelImpl*'", "no_kernel = 'triton_*'",
                            "op = 'linear'\nkernels_per_call = 1", "no_recompile = true", "no_copy = true"})
    EXPECT_TRUE(check(holds, eager).passed) << holds << ": " << check(holds, eager).found;
  for (const char* fails : {"has_kernel = 'triton_*'", "no_kernel = '*GeluCUDAKernelImpl*'",
                            "op = 'linear'\nkernels_per_call = 2"})
    EXPECT_FALSE(check(fails, eager).passed) << fails;
  for (const char* rule :
       {"kernels_per_step = 5", "step_time_us = {max = 1e9}", "device_time_us = {max = 1e9}",
        "device_idle_share = {max = 1}", "longest_gap_us = {max = 1e9}"})
    EXPECT_THAT(check(rule, eager).found, HasSubstr("marks no steps")) << rule;
}

// Kernels without their launching call are none of any op's: that op's count is not known.
TEST(Expect, WithoutStepsKernelsLackingTheirLaunchLeaveOpsUndecided) {
  Trace untied = without_steps("mlp_eager");
  std::erase_if(untied.events, [](const Event& event) { return is_runtime_call(event.kind); });
  EXPECT_THAT(check("op = 'linear'\nkernels_per_call = {min = 0}", untied).found,
              HasSubstr("of the trace lack the call"));
  EXPECT_FALSE(check("no_kernel = '*GeluCUDAKernelImpl*'", untied).passed);
}

TEST(Expect, OfATraceWithoutStepsRulesThatNeedNoneAreProposed) {
  const std::string rules = propose_rules(without_steps("mlp_eager"));
  for (const char* rule : {"no_copy = true", "op = \"linear\"\nkernels_per_call = 1", "marks no steps"})
    EXPECT_THAT(rules, HasSubstr(rule));
  EXPECT_THAT(rules, Not(HasSubstr("step_time_us")));
  for (const RuleResult& result : check_rules(parse_rules(rules, "proposed"), without_steps("mlp_eager")))
    EXPECT_TRUE(result.passed) << result.rule << ": " << result.found;
}

// As PyTorch's of a CPU: not one kernel tells that none ran.
TEST(Expect, ATraceOfOpsAloneDecidesNothingAboutKernels) {
  Trace ops = real("mlp_eager");
  std::erase_if(ops.events, [](const Event& event) {
    return event.kind != EventKind::cpu_op && event.kind != EventKind::user_annotation;
  });
  for (const char* rule : {"kernels_per_step = {max = 5}", "kernels_per_step = 0", "no_kernel = 'x'"})
    EXPECT_EQ(check(rule, ops).found, "cannot be decided: the steps hold no kernels") << rule;
  EXPECT_TRUE(check("step_time_us = {max = 1000}", ops).passed);
  EXPECT_THAT(propose_rules(ops), Not(HasSubstr("kernels_per_step")));
}

TEST(Expect, OfADamagedTraceOnlyWhatIsFoundPasses) {
  Trace damaged = real("mlp_eager");
  damaged.damaged = true;
  EXPECT_TRUE(check("has_kernel = '*GeluCUDAKernelImpl*'", damaged).passed);
  for (const char* rule :
       {"no_kernel = 'triton_*'", "has_kernel = 'triton_*'", "no_copy = true", "no_recompile = true",
        "kernels_per_step = {max = 5}", "step_time_us = {max = 1000}", "device_time_us = {max = 1000}",
        "device_idle_share = {max = 1}", "longest_gap_us = {max = 1000}",
        "op = 'linear'\nkernels_per_call = 1", "memory_peak_bytes = {max = 1e18}"}) {
    EXPECT_FALSE(check(rule, damaged).passed) << rule;
    EXPECT_THAT(check(rule, damaged).found, StartsWith("cannot be decided: the trace is damaged")) << rule;
  }
  EXPECT_THROW(propose_rules(damaged), Error);
}

// One step with a compile event, a copy to the host and a kernel whose launch is not there.
TEST(Expect, FindsCompilesCopiesAndUntiedKernels) {
  Trace trace;
  trace.tracks = {{.process = 1, .thread = 1}, {.process = 0, .thread = 7, .device = true}};
  const auto add = [&](EventKind kind, const char* name, int64_t start, int64_t duration, uint32_t track,
                       uint32_t correlation) {
    Event event;
    event.kind = kind;
    event.name = trace.strings.intern(name);
    event.start_ns = start;
    event.duration_ns = duration;
    event.track = track;
    event.correlation = correlation;
    trace.events.push_back(event);
  };
  add(EventKind::user_annotation, "ProfilerStep#1", 0, 1000, 0, 0);
  add(EventKind::user_annotation, "compile_fx_inner (dynamo_timed)", 10, 100, 0, 0);
  add(EventKind::cuda_runtime, "cudaMemcpyAsync", 200, 10, 0, 1);
  add(EventKind::gpu_memcpy, "Memcpy DtoH (Device -> Pinned)", 300, 10, 1, 1);
  EXPECT_EQ(check("no_recompile = true", trace).found, "compile_fx_inner (dynamo_timed) (1)");
  EXPECT_FALSE(check("no_recompile = true", trace).passed);
  EXPECT_FALSE(check("no_copy = true", trace).passed);
  for (const char* copy :
       {"Memcpy HtoA (Pinned -> Array)", "Memcpy AtoH (Array -> Pinned)", "CopyHostToDevice"}) {
    trace.events.back().name = trace.strings.intern(copy);
    EXPECT_FALSE(check("no_copy = true", trace).passed) << copy;
  }
  trace.events.back().name = trace.strings.intern("Memcpy DtoD (Device -> Device)");
  EXPECT_TRUE(check("no_copy = true", trace).passed);
  EXPECT_TRUE(check("kernels_per_step = 0", trace).passed);
  add(EventKind::kernel, "k", 400, 10, 1, 2);
  EXPECT_FALSE(check("kernels_per_step = 0", trace).passed);
  EXPECT_THAT(check("kernels_per_step = 0", trace).found, HasSubstr("lack the call"));
  EXPECT_TRUE(check("step_time_us = 1", trace).passed) << "wall time needs no launches";
  trace.events.back().start_ns = -100;
  EXPECT_TRUE(check("kernels_per_step = 0", trace).passed) << "it began before the first step";
}

TEST(Expect, MemoryIsHeldAgainstEachDevicesOwnBound) {
  Trace before, after;
  before.memories = {{.bytes = 1, .total_allocated = 10'000, .device_type = 0},
                     {.bytes = 1, .total_allocated = 1'000, .device_type = 1}};
  after.memories = before.memories;
  after.memories[1].total_allocated = 2'000;
  const auto rules = parse_rules(propose_rules(before), "proposed");
  const auto failed = [&](const Trace& trace) {
    std::vector<std::string> expected;
    for (const RuleResult& result : check_rules(rules, trace))
      if (!result.passed) expected.push_back(result.expected);
    return expected;
  };
  EXPECT_THAT(failed(before), testing::IsEmpty());
  EXPECT_THAT(failed(after), testing::ElementsAre("memory_peak_bytes of CUDA 0 <= 1100"));
  EXPECT_EQ(check("memory_peak_bytes = {max = 1}", after).found, "10000") << "of the device that held most";
  EXPECT_THAT(check("device = 'CUDA 1'\nmemory_peak_bytes = {max = 1}", after).found,
              HasSubstr("no memory events of CUDA 1"));
  EXPECT_THAT(refusal("[[rule]]\ndevice = 'CPU'\nno_copy = true"), HasSubstr("memory_peak_bytes alone"));
}

TEST(Expect, ProposedRulesPassOnTheirTrace) {
  int traces = 0;
  for (const auto& file : std::filesystem::directory_iterator(test_data("traces"))) {
    if (file.path().extension() != ".gz") continue;
    ++traces;
    const Trace trace = read_trace(file.path().string());
    const auto results = check_rules(parse_rules(propose_rules(trace), "proposed"), trace);
    EXPECT_GT(results.size(), 8u) << file.path();
    for (const RuleResult& result : results)
      EXPECT_TRUE(result.passed) << file.path() << ": " << result.rule << ": " << result.expected << ", "
                                 << result.found;
  }
  EXPECT_EQ(traces, 7);
}

Trace steps_of(int64_t us, int count) {
  Trace trace;
  trace.tracks = {{.process = 1, .thread = 1}};
  for (int i = 0; i < count; ++i) {
    Event step;
    step.kind = EventKind::user_annotation;
    step.name = trace.strings.intern(fmt::format("ProfilerStep#{}", i));
    step.start_ns = i * us * 1000;
    step.duration_ns = us * 1000;
    trace.events.push_back(step);
  }
  return trace;
}

TEST(Expect, ProposedTimesLeaveRoomWhereStepsAreFewOrShort) {
  const auto proposed = [](int64_t us, int steps) { return propose_rules(steps_of(us, steps)); };
  EXPECT_THAT(proposed(17, 3), HasSubstr("step_time_us = {max = 51}"));
  EXPECT_THAT(proposed(17, 10), HasSubstr("step_time_us = {max = 25.5}"));
  EXPECT_THAT(proposed(200, 3), HasSubstr("step_time_us = {max = 300}"));
  EXPECT_THAT(proposed(200, 10), HasSubstr("step_time_us = {max = 250}"));
}

TEST(Expect, ProposedRulesTellOnHowManyStepsTheyRest) {
  const std::string few = propose_rules(steps_of(17, 3)), many = propose_rules(steps_of(17, 20));
  EXPECT_THAT(few, HasSubstr("\n# Bounds on times rest on 3 steps alone and are wide"));
  EXPECT_THAT(few, HasSubstr("[[rule]]  # 17.000 in 3 steps; 3 times that\n"));
  EXPECT_THAT(many, HasSubstr("\n# Bounds on times rest on 20 steps.\n"));
}

TEST(Expect, ProposedRulesTellEagerFromCompiled) {
  const auto rules = parse_rules(propose_rules(real("mlp_eager")), "proposed");
  const auto results = check_rules(rules, real("mlp_compile"));
  EXPECT_TRUE(std::any_of(results.begin(), results.end(), [](const RuleResult& result) {
    return !result.passed && result.expected == "kernels_per_step = 5" && result.found == "4";
  }));
}

TEST(Expect, ResultsAsJsonAndJunit) {
  const std::vector<RuleResult> results{{"a \"rule\"", "t.json", true, "x <= 1", "0"},
                                        {"b", "t.json", false, "x <= 1", "<2 & \x01>"}};
  simdjson::dom::parser parser;
  const simdjson::dom::element root = parser.parse(expect_json(results));
  EXPECT_EQ(root["rules"].at(0)["rule"].get_string().value(), "a \"rule\"");
  EXPECT_EQ(root["rules"].at(1)["passed"].get_bool().value(), false);
  const std::string xml = expect_junit(results);
  EXPECT_THAT(xml, HasSubstr("<testsuites tests=\"2\" failures=\"1\" errors=\"0\">"));
  EXPECT_THAT(xml, HasSubstr("name=\"a &quot;rule&quot;\"/>"));
  EXPECT_THAT(xml, HasSubstr("<failure message=\"expected x &lt;= 1; found &lt;2 &amp; ?&gt;\"/>"));
  EXPECT_THAT(expect_text(results), HasSubstr("1 of 2 passed"));
  const std::string unread = expect_junit(results, {{"<b>.json", "cannot open"}});
  EXPECT_THAT(unread, HasSubstr("<testsuites tests=\"3\" failures=\"1\" errors=\"1\">"));
  EXPECT_THAT(
      unread,
      HasSubstr(
          "<testcase classname=\"&lt;b&gt;.json\" name=\"can be read\"><error message=\"cannot open\"/>"));
}

}  // namespace
}  // namespace epilogue::trace
