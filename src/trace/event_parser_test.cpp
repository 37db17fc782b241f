#include "trace/event_parser.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "trace/links.h"

namespace epilogue::trace {
namespace {

Trace parse(const std::vector<std::string>& events) {
  Trace trace;
  EventParser parser(trace);
  simdjson::ondemand::parser json;
  for (const std::string& event : events) {
    const simdjson::padded_string text(event);
    simdjson::ondemand::document document = json.iterate(text);
    EXPECT_EQ(parser.add(document.get_object()), simdjson::SUCCESS);
  }
  parser.finish();
  return trace;
}

TEST(EventParser, LeavesOutTimesWhoseSumsOverflow) {
  const Trace trace =
      parse({R"({"ph":"X","cat":"cpu_op","name":"a","pid":1,"tid":1,"ts":9.2e15,"dur":1})",
             R"({"ph":"X","cat":"cpu_op","name":"b","pid":1,"tid":1,"ts":1,"dur":4e15})",
             R"({"ph":"X","cat":"cpu_op","name":"c","pid":1,"tid":1,"ts":1794714672788943.469,"dur":1})"});
  ASSERT_EQ(trace.events.size(), 1u);
  EXPECT_EQ(trace.events[0].start_ns, 1794714672788943469);
  ASSERT_EQ(trace.problems.size(), 2u);
  EXPECT_EQ(trace.problems[0].what, "events without a time (left out)");
  EXPECT_EQ(trace.problems[1].what, "slices with a wrong duration (left out)");
}

TEST(EventParser, CountsSizesWhoseSumsOverflow) {
  const Trace trace = parse({R"({"ph":"X","cat":"cpu_kernel","name":"k","pid":1,"tid":1,"ts":1,"dur":1,)"
                             R"("args":{"flops":9223372036854775807,"bytes":12,"threads":2}})"});
  ASSERT_EQ(trace.work.size(), 1u);
  EXPECT_EQ(trace.work[0], (Work{.flops = 0, .bytes = 12, .threads = 2}));
  ASSERT_EQ(trace.problems.size(), 1u);
  EXPECT_EQ(trace.problems[0].what, "sizes too large to be true (read as 0)");
}

TEST(EventParser, StepsOfTheOlderDialectAreRanges) {
  const Trace trace =
      parse({R"({"ph":"X","cat":"Operator","name":"ProfilerStep#3","pid":1,"tid":1,"ts":1,"dur":9})",
             R"({"ph":"X","cat":"Operator","name":"aten::mm","pid":1,"tid":1,"ts":2,"dur":3})"});
  ASSERT_EQ(trace.events.size(), 2u);
  EXPECT_EQ(trace.events[0].kind, EventKind::user_annotation);
  EXPECT_EQ(trace.events[1].kind, EventKind::cpu_op);
}

TEST(EventParser, CallsOfOtherVendorsAreLaunches) {
  for (const char* category : {"xpu_runtime", "xpu_driver", "privateuse1_runtime", "privateuse1_driver"}) {
    const Trace trace = parse(
        {fmt::format(R"({{"ph":"X","cat":"{}","name":"urEnqueueKernelLaunch","pid":1,"tid":1,"ts":1,"dur":2,)"
                     R"("args":{{"correlation":7}}}})",
                     category)});
    ASSERT_EQ(trace.events.size(), 1u);
    EXPECT_TRUE(is_runtime_call(trace.events[0].kind)) << category;
    EXPECT_EQ(trace.events[0].correlation, 7u);
  }
}

TEST(EventParser, AGridMayStandOnLinesOfItsOwn) {
  const Trace trace =
      parse({"{\"ph\":\"X\",\"cat\":\"kernel\",\"name\":\"k\",\"pid\":0,\"tid\":7,\"ts\":1,\"dur\":1,"
             "\"args\":{\"grid\":[\r\n  2,\r\n  3,\r\n  4\r\n]}}"});
  ASSERT_EQ(trace.launches.size(), 1u);
  EXPECT_EQ(trace.launches[0].grid, (std::array<int32_t, 3>{2, 3, 4}));
}

TEST(EventParser, NumbersBeyondAFloatAreAsIfTheyWereNotThere) {
  const Trace trace = parse({R"({"ph":"X","cat":"gpu_memcpy","name":"c","pid":0,"tid":7,"ts":1,"dur":1,)"
                             R"x("args":{"bytes":12,"memory bandwidth (GB/s)":1e300}})x"});
  ASSERT_EQ(trace.copies.size(), 1u);
  EXPECT_EQ(trace.copies[0].gb_per_s, 0);
}

}  // namespace
}  // namespace epilogue::trace
