#include "trace/report.h"

#include <filesystem>
#include <fstream>

#include <simdjson.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "test_data.h"
#include "trace/report_data.h"

namespace epilogue::trace {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::ThrowsMessage;

std::string test_trace(const std::string& name) { return test_data("traces/" + name + ".json.gz"); }

class ReportData {
 public:
  explicit ReportData(const std::vector<const Trace*>& traces) : text_(report_data(traces, {})) {
    root_ = parser_.parse(text_);
  }
  simdjson::dom::element root() const { return root_; }
  std::vector<int64_t> column(const char* key) const {
    std::vector<int64_t> values;
    for (const int64_t value : root_["traces"].at(0)["events"][key].get_array()) values.push_back(value);
    return values;
  }

 private:
  simdjson::padded_string text_;
  simdjson::dom::parser parser_;
  simdjson::dom::element root_;
};

// A step, an op in it, the call it makes and the kernel that starts.
Trace small_trace() {
  Trace trace;
  trace.source = "runs/small.json.gz";
  trace.tracks = {{.process = 1, .thread = 1}, {.process = 0, .thread = 7, .device = true}};
  trace.launches = {{.grid = {4, 2, 1}, .block = {128, 1, 1}, .registers_per_thread = 40}};
  auto add = [&](EventKind kind, std::string_view name, int64_t start, int64_t duration,
                 uint32_t correlation) {
    Event event;
    event.kind = kind;
    event.name = trace.strings.intern(name);
    event.start_ns = start;
    event.duration_ns = duration;
    event.correlation = correlation;
    event.track = kind == EventKind::kernel ? 1 : 0;
    if (kind == EventKind::kernel) event.detail = 0;
    trace.events.push_back(event);
  };
  add(EventKind::cpu_op, "warm", 500, 100, 0);
  add(EventKind::user_annotation, "ProfilerStep#1", 1000, 900, 0);
  add(EventKind::cpu_op, "aten::mm", 1100, 300, 0);
  add(EventKind::cuda_runtime, "cudaLaunchKernel", 1200, 50, 9);
  add(EventKind::kernel, "</script><b>", 1400, 200, 9);
  return trace;
}

TEST(Report, TimesCountFromTheFirstStep) {
  const Trace trace = small_trace();
  const ReportData data({&trace});
  EXPECT_THAT(data.column("start"), ElementsAre(-500, 500, 100, 100, 200));
  EXPECT_THAT(data.column("duration"), ElementsAre(100, 900, 300, 50, 200));
}

TEST(Report, KernelPointsAtTheCallThatLaunchedIt) {
  const Trace trace = small_trace();
  const ReportData data({&trace});
  EXPECT_THAT(data.column("link"), ElementsAre(-1, -1, -1, -1, 3));
}

TEST(Report, NameIsTheFilesWithoutItsEndings) {
  const Trace trace = small_trace();
  EXPECT_EQ(ReportData({&trace}).root()["traces"].at(0)["name"].get_string().value(), "small");
}

TEST(Report, SeveralDevicesAreCounted) {
  Trace trace = small_trace();
  const auto title = [&] {
    return std::string(ReportData({&trace}).root()["traces"].at(0)["device"].get_string().value());
  };
  EXPECT_EQ(title(), "GPU 0");
  trace.devices = {{.id = 0, .name = "NVIDIA H200"}, {.id = 1, .name = "NVIDIA H200"}};
  EXPECT_EQ(title(), "NVIDIA H200") << "the other does nothing";
  trace.tracks.push_back({.process = 1, .thread = 7, .device = true});
  trace.events.push_back(trace.events.back());
  trace.events.back().track = 2;
  EXPECT_EQ(title(), "2x NVIDIA H200");
}

TEST(Report, NamesCannotEndTheScript) {
  const Trace trace = small_trace();
  const Trace* traces[] = {&trace};
  const std::string page = render_report(traces);
  EXPECT_THAT(page, Not(HasSubstr("</script><b>")));
  EXPECT_THAT(page, HasSubstr("\\u003c/script>\\u003cb>"));
}

TEST(Report, KernelsOfTheRealTracesHaveAClass) {
  const Trace trace = read_trace(test_trace("mlp_eager"));
  const ReportData data({&trace});
  std::map<std::string, int> classes;
  for (const auto entry : data.root()["classes"].get_array())
    ++classes[std::string(entry.at(1).get_string().value())];
  EXPECT_EQ(classes, (std::map<std::string, int>{{"gemm", 2}, {"pointwise", 2}}));
}

TEST(Report, LaterTracesAreComparedWithTheFirst) {
  const Trace eager = read_trace(test_trace("mlp_eager")), compiled = read_trace(test_trace("mlp_compile"));
  const ReportData data({&eager, &compiled});
  ASSERT_EQ(data.root()["diffs"].get_array().size(), 1);
  EXPECT_THAT(std::string(data.root()["diffs"].at(0)["says"].get_string().value()),
              testing::HasSubstr("4 kernels per step instead of 5"));
}

TEST(Report, RegimesComeWithTheirMeaning) {
  const Trace trace = small_trace();
  const ReportData data({&trace});
  std::vector<std::string> names;
  for (const auto entry : data.root()["regimes"].get_array()) {
    names.emplace_back(entry.at(0).get_string().value());
    EXPECT_FALSE(entry.at(1).get_string().value().empty()) << names.back();
  }
  EXPECT_THAT(names, ElementsAre("incomplete", "cpu", "device-bound", "waiting on sync", "launch-bound",
                                 "host-bound"));
}

TEST(Report, MemoryIsOneSeriesADevice) {
  const Trace trace = read_trace(test_trace("mlp_fp32_gelu"));
  const ReportData data({&trace});
  const auto memory = data.root()["traces"].at(0)["memory"].get_array();
  ASSERT_EQ(memory.size(), 1);
  EXPECT_EQ(memory.at(0)["device"].get_string().value(), "CUDA 0");
  EXPECT_EQ(memory.at(0)["time"].get_array().size(), memory.at(0)["reserved"].get_array().size());
}

TEST(Report, UnwritablePathIsAnErrorAndLeavesNothing) {
  const Trace trace = small_trace();
  const Trace* traces[] = {&trace};
  EXPECT_THAT([&] { write_report(traces, "/nowhere/report.html"); },
              ThrowsMessage<Error>(HasSubstr("/nowhere/report.html: cannot create")));
}

}  // namespace
}  // namespace epilogue::trace
