#include <cstdio>
#include <string>
#include <utility>
#include <vector>

#include <simdjson.h>
#include <unistd.h>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "epilogue/trace.h"
#include "trace/lanes.h"

namespace epilogue::trace {
namespace {

using testing::ElementsAre;

// A trace of one thread and one stream.
struct MadeEvents {
  MadeEvents() {
    trace.tracks = {{.process = 100, .thread = 100, .device = false},
                    {.process = 0, .thread = 7, .device = true}};
  }
  Event& add(EventKind kind, const char* name, int64_t start_ns, int64_t end_ns, uint32_t correlation = 0) {
    const bool host = kind == EventKind::cpu_op || kind == EventKind::cuda_runtime;
    trace.events.push_back({.start_ns = start_ns,
                            .duration_ns = end_ns - start_ns,
                            .correlation = correlation,
                            .name = trace.strings.intern(name),
                            .track = host ? 0u : 1u,
                            .kind = kind});
    return trace.events.back();
  }
  Trace trace;
};

class Written {
 public:
  explicit Written(const Trace& trace)
      : path_(fmt::format("{}write_test.{}.json", testing::TempDir(), ::getpid())) {
    write_trace(trace, path_);
    json_ = parser_.load(path_);
  }
  ~Written() { std::remove(path_.c_str()); }

  simdjson::dom::element event(std::string_view name, std::string_view phase = "X") const {
    for (const auto event : json_["traceEvents"])
      if (std::string_view(event["name"]) == name && std::string_view(event["ph"]) == phase) return event;
    throw Error(fmt::format("no event {}", name));
  }
  Trace read() const { return read_trace(path_); }

 private:
  std::string path_;
  simdjson::dom::parser parser_;
  simdjson::dom::element json_;
};

TEST(WriteTrace, CallsBearTheirNumber) {
  MadeEvents made;
  made.add(EventKind::cuda_runtime, "cudaLaunchKernel", 0, 10, 5).detail = 211;
  made.add(EventKind::cuda_runtime, "cudaFree", 20, 30, 6);
  const Written written(made.trace);
  EXPECT_EQ(int64_t(written.event("cudaLaunchKernel")["args"]["cbid"]), 211);
  EXPECT_TRUE(written.event("cudaFree")["args"]["cbid"].error());
  const Trace back = written.read();
  EXPECT_EQ(back.events.at(0).detail, 211u);
  EXPECT_EQ(back.events.at(1).detail, kNoDetail);
}

TEST(WriteTrace, WaitsTellTheirKind) {
  MadeEvents made;
  made.add(EventKind::cuda_sync, "Stream Sync", 0, 10, 5);
  const Written written(made.trace);
  EXPECT_EQ(std::string_view(written.event("Stream Sync")["args"]["cuda_sync_kind"]), "Stream Sync");
}

TEST(WriteTrace, GraphNodesAreKept) {
  MadeEvents made;
  made.trace.launches = {{.grid = {1, 2, 3}, .graph_node = 8589934593, .graph = 2}};
  made.add(EventKind::kernel, "k", 0, 10, 5).detail = 0;
  const Written written(made.trace);
  EXPECT_EQ(int64_t(written.event("k")["args"]["graph node id"]), 8589934593);
  EXPECT_EQ(written.read().launches, made.trace.launches);
}

TEST(WriteTrace, KernelsThatOverlapOnAStreamHaveRowsOfTheirOwnAndReadBackAsItsOwn) {
  MadeEvents made;
  made.add(EventKind::cuda_runtime, "cudaLaunchKernel", 0, 1, 2);
  made.add(EventKind::kernel, "first", 10, 30, 1);
  made.add(EventKind::kernel, "early", 20, 40, 2);
  made.add(EventKind::kernel, "next", 40, 50, 3);
  const Written written(made.trace);
  EXPECT_EQ(int64_t(written.event("first")["tid"]), 7);
  const int64_t row = int64_t(written.event("early")["tid"]);
  EXPECT_NE(row, 7);
  EXPECT_EQ(int64_t(written.event("ac2g", "f")["tid"]), row);
  EXPECT_EQ(int64_t(written.event("early")["args"]["stream"]), 7);
  EXPECT_EQ(int64_t(written.event("next")["tid"]), 7);
  const Trace back = written.read();
  EXPECT_EQ(back.tracks.at(back.events.at(2).track).thread, 7);
  EXPECT_EQ(back.events[1].track, back.events[2].track);
}

TEST(OverlapLanes, RangesHoldKernelsAndKernelsHoldNothing) {
  MadeEvents made;
  made.add(EventKind::kernel, "k", 0, 10);
  made.add(EventKind::gpu_user_annotation, "equal to its kernel", 0, 10);
  made.add(EventKind::gpu_user_annotation, "outer", 20, 90);
  made.add(EventKind::gpu_user_annotation, "inner", 20, 50);
  made.add(EventKind::kernel, "long", 20, 50);
  made.add(EventKind::kernel, "inside the long one", 30, 40);
  made.add(EventKind::gpu_user_annotation, "overlaps inner", 45, 80);
  made.add(EventKind::cuda_sync, "waits overlap all", 45, 100);
  made.add(EventKind::kernel, "k", 50, 80);
  EXPECT_THAT(overlap_lanes(made.trace), ElementsAre(0, 0, 0, 0, 0, 1, 1, 0, 0));
}

TEST(OverlapLanes, AreNotWithoutEnd) {
  MadeEvents made;
  for (int64_t i = 0; i < 1000; ++i) made.add(EventKind::kernel, "k", i, 100000);
  EXPECT_EQ(overlap_lanes(made.trace).back(), 63u);
}

}  // namespace
}  // namespace epilogue::trace
