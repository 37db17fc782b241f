#include <filesystem>
#include <fstream>
#include <random>
#include <sstream>

#include <zlib.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "epilogue/trace.h"
#include "test_data.h"
#include "trace/op_table.h"
#include "trace/summary.h"

namespace epilogue::trace {
namespace {

using testing::HasSubstr;

std::string data(const std::string& name) { return test_data("traces/" + name); }

std::string bytes_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

std::string inflated(const std::string& path) {
  gzFile file = gzopen(path.c_str(), "rb");
  std::string text(size_t{1} << 20, '\0');
  text.resize(static_cast<size_t>(gzread(file, text.data(), static_cast<unsigned>(text.size()))));
  gzclose(file);
  return text;
}

class Reader : public testing::Test {
 protected:
  Trace read(const std::string& bytes) {
    std::ofstream(path_, std::ios::binary) << bytes;
    return read_trace(path_);
  }
  std::string error_of(const std::string& bytes) {
    try {
      (void)read(bytes);
    } catch (const Error& error) {
      return error.what();
    }
    return "no error";
  }
  void TearDown() override { std::filesystem::remove(path_); }

  std::string path_ = testing::TempDir() + "reader_" +
                      testing::UnitTest::GetInstance()->current_test_info()->name() + ".json";
};

std::string problems_of(const Trace& trace) {
  std::string text;
  for (const Problem& problem : trace.problems)
    text += problem.what + ": " + std::to_string(problem.count) + "\n";
  return text;
}

std::string table_of(const Trace& trace) {
  return key_averages(trace, {.group_by_shape = true}).table({.sort_by = "cpu_time_total", .rows = -1});
}

// The events of the older dialect and of today's, between the brackets of a trace.
std::string trace_of(const std::string& events) {
  return "{\"schemaVersion\": 1, \"traceEvents\": [" + events + "]}";
}

const char* const kOp =
    R"({"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 1, "tid": 1, "ts": 10.5, "dur": 2.001, "args": {"External id": 18446744073709551615, "Input Dims": [[2, 3], [3, 4]]}})";

TEST_F(Reader, CutFileKeepsWhatItHolds) {
  const std::string whole = inflated(data("mlp_fp32_gelu.json.gz"));
  const Trace expected = read(whole);
  const size_t first_event = whole.find("\"traceEvents\": [") + 16;
  size_t before = 0;
  for (size_t cut = first_event; cut + 3 < whole.size(); cut += 997) {
    const Trace trace = read(whole.substr(0, cut));
    EXPECT_GE(trace.events.size(), before) << cut;
    EXPECT_LE(trace.events.size(), expected.events.size());
    EXPECT_THAT(problems_of(trace), HasSubstr("file ends")) << cut;
    before = trace.events.size();
  }
  EXPECT_GE(before + 1, expected.events.size());
}

// What is left out may be the kernel that a rule counts.
TEST_F(Reader, EventsThatAreLeftOutDamageTheTrace) {
  const std::string op = kOp;
  EXPECT_FALSE(read(trace_of(op)).damaged);
  for (const char* lost : {R"({"ph": "X", "name": "a", "ts": 1, "dur": -2, "pid": 1, "tid": 1})",
                           R"({"ph": "X", "name": "a", "ts": 1, "pid": 1, "tid": 1})",
                           R"({"ph": "X", "name": "a", "dur": 2, "pid": 1, "tid": 1})",
                           R"({"ph": "X", "ts": 1, "dur": 2, "pid": 1, "tid": 1})",
                           R"({"name": "a", "ts": 1, "dur": 2, "pid": 1, "tid": 1})",
                           R"({"ph": "X", "name": a, "ts": 1, "dur": 2})", "stray"}) {
    const Trace trace = read(trace_of(op + ", " + lost + ", " + op));
    EXPECT_EQ(trace.events.size(), 2u) << lost;
    EXPECT_TRUE(trace.damaged) << lost;
    EXPECT_EQ(trace.problems.size(), 1u) << lost << "\n" << problems_of(trace);
  }
  EXPECT_FALSE(read(trace_of(op + R"(, {"ph": "Z", "name": "another tool's", "ts": 1})")).damaged);
}

TEST_F(Reader, TextAfterTheEndDamagesTheTrace) {
  const std::string object = trace_of(kOp), array = std::string("[") + kOp + "]";
  const std::string with_metadata = object.substr(0, object.size() - 1) + R"(, "a": {"b": "}"}, "c": 1})";
  for (const std::string& whole : {object, array, with_metadata}) {
    EXPECT_FALSE(read(whole + " \n").damaged) << whole;
    for (const std::string& rest : {whole, std::string("more"), std::string("}")}) {
      const Trace trace = read(whole + "\n" + rest);
      EXPECT_EQ(trace.events.size(), 1u);
      EXPECT_TRUE(trace.damaged);
      EXPECT_EQ(problems_of(trace), "text after the trace's end, which was not read: 1\n") << whole << rest;
    }
  }
  EXPECT_EQ(read(with_metadata).metadata.size(), 2u);
}

TEST_F(Reader, CutGzipKeepsWhatItHolds) {
  const std::string whole = bytes_of(data("mlp_eager.json.gz"));
  for (size_t cut = 600; cut < whole.size(); cut += 501)
    EXPECT_THAT(problems_of(read(whole.substr(0, cut))), HasSubstr("gzip data is cut short: 1")) << cut;
}

TEST_F(Reader, WrongGzipChecksumIsAProblem) {
  std::string bytes = bytes_of(data("mlp_eager.json.gz"));
  bytes[bytes.size() - 6] = static_cast<char>(bytes[bytes.size() - 6] ^ 1);
  const Trace trace = read(bytes);
  EXPECT_EQ(trace.events.size(), 140u);
  EXPECT_THAT(problems_of(trace), HasSubstr("gzip data is damaged: incorrect data check"));
}

TEST_F(Reader, GzipOfSeveralMembersIsOneFile) {
  const std::string text = inflated(data("linear_eager.json.gz"));
  std::string bytes;
  for (const std::string& part : {text.substr(0, 3000), text.substr(3000)}) {
    const std::string name = path_ + ".gz";
    gzFile file = gzopen(name.c_str(), "wb");
    gzwrite(file, part.data(), static_cast<unsigned>(part.size()));
    gzclose(file);
    bytes += bytes_of(name);
    std::filesystem::remove(name);
  }
  EXPECT_EQ(table_of(read(bytes)), table_of(read(text)));
}

TEST_F(Reader, WhatIsNoTraceGetsOneClearLine) {
  EXPECT_THAT(error_of(""), HasSubstr("is empty, expected a Kineto trace"));
  EXPECT_THAT(error_of("\x1f\x8b\x08"), HasSubstr("gzip data is cut short, expected a Kineto trace"));
  EXPECT_THAT(error_of("PK\x03\x04 and so on"), HasSubstr("is packed as ZIP, expected JSON"));
  EXPECT_THAT(error_of("\x28\xB5\x2F\xFD and so on"), HasSubstr("is packed as zstd"));
  EXPECT_THAT(error_of("\x7f"
                       "ELF binary"),
              HasSubstr("is no JSON"));
  EXPECT_THAT(error_of(R"("x")"), HasSubstr("is no JSON object or array")) << "JSON it is";
  EXPECT_THAT(error_of("{}"), HasSubstr("has no traceEvents"));
  EXPECT_THAT(error_of(R"({"a": [1, {"b": "]}"}], "c": 2})"), HasSubstr("has no traceEvents"));
  EXPECT_THAT(error_of(R"({"traceEvents": 3})"), HasSubstr("are no array"));
  EXPECT_THAT(error_of(R"({"schemaVersion": 1, "trac)"), HasSubstr("ends before its traceEvents"));
  EXPECT_THROW((void)read_trace(testing::TempDir()), Error);
  EXPECT_THROW((void)read_trace("no/such/file.json"), Error);
}

TEST_F(Reader, BareArrayOfEventsIsATrace) {
  const Trace trace = read(std::string("[") + kOp + "]");
  ASSERT_EQ(trace.events.size(), 1u);
  EXPECT_EQ(trace.events[0].start_ns, 10500);
  EXPECT_EQ(trace.events[0].duration_ns, 2001);
  EXPECT_EQ(trace.events[0].external_id, UINT64_MAX);
  EXPECT_EQ(trace.strings[trace.op_inputs[trace.events[0].detail].dims], "[[2, 3], [3, 4]]");
  EXPECT_TRUE(trace.problems.empty());
}

TEST_F(Reader, ABareArrayNeedNotBeClosed) {
  const std::string op = kOp;
  for (const char* end : {"", ",", " ,\n", "\n"}) {
    for (const std::string& events : {op, op + ",\n" + op}) {
      const Trace trace = read("[" + events + end);
      EXPECT_EQ(trace.events.size(), events == op ? 1u : 2u) << end;
      EXPECT_FALSE(trace.damaged) << end;
      EXPECT_EQ(problems_of(trace), "") << end;
    }
  }
  const Trace cut = read("[" + op + ",\n" + op.substr(0, op.size() - 20));
  EXPECT_EQ(cut.events.size(), 1u);
  EXPECT_TRUE(cut.damaged);
  const Trace object = read("{\"traceEvents\": [" + op);
  EXPECT_EQ(object.events.size(), 1u) << "it is whole";
  EXPECT_TRUE(object.damaged) << "an object must be closed";
}

TEST_F(Reader, ATraceWithoutEventsIsEmptyAndWhole) {
  const Trace trace = read(trace_of(""));
  EXPECT_TRUE(trace.events.empty());
  EXPECT_TRUE(trace.problems.empty());
}

TEST_F(Reader, BrokenEventIsCountedAndItsNeighboursKept) {
  for (const char* broken :
       {R"({"ph": "X", "name": "a" "b"})", R"({"ph": "X", "name: 3, "ts": 1})", "{\"ph\": \"X\xff\"}"}) {
    const Trace trace = read(trace_of(std::string(kOp) + ",\n" + broken + ",\n" + kOp));
    EXPECT_EQ(trace.events.size(), 2u) << broken;
    EXPECT_THAT(problems_of(trace), HasSubstr("events that are no JSON (left out): 1")) << broken;
  }
  const Trace garbage = read(trace_of(std::string(kOp) + ", what, 12 , " + kOp));
  EXPECT_EQ(garbage.events.size(), 2u);
  EXPECT_THAT(problems_of(garbage), HasSubstr("unreadable stretches between events"));
}

TEST_F(Reader, DamageBehindAnEventDoesNotRepeatIt) {
  const std::string op = kOp;
  for (const auto& [damage, problem] : std::vector<std::pair<std::string, std::string>>{
           {" ", "commas missing between events: 1\n"},
           {"}, ", "unreadable stretches between events: 1\n"},
           {" word, ", "unreadable stretches between events: 1\n"}}) {
    for (const size_t behind : {0u, 1u}) {
      const Trace trace = read(trace_of(op + damage + op + (behind ? "," + op : "")));
      EXPECT_EQ(trace.events.size(), 2 + behind) << damage;
      EXPECT_EQ(problems_of(trace), problem) << damage;
    }
  }
}

TEST_F(Reader, WhatLooksLikeTheEndOfAnEventInsideOneIsNone) {
  const std::string tricky =
      R"({"ph": "X", "cat": "cpu_op", "name": "a }, { b ] \" c", "pid": 1, "tid": 1, "ts": 1, "dur": 1, "args": {"x": [{"y": 1}, {"z": 2}]}})";
  for (const std::string& events : {tricky, tricky + "," + kOp, std::string(kOp) + "," + tricky}) {
    const Trace trace = read(trace_of(events));
    EXPECT_TRUE(trace.problems.empty()) << problems_of(trace);
    EXPECT_EQ(trace.name(trace.events[0]), "a }, { b ] \" c");
  }
}

TEST_F(Reader, EventsWithoutWhatTheyNeedAreCounted) {
  const Trace trace = read(trace_of(R"({"ph": "X", "name": "a", "ts": 1},
    {"ph": "X", "name": "a", "ts": 1, "dur": -1}, {"ph": "X", "name": "a", "dur": 1}, {"ph": "X", "ts": 1, "dur": 1},
    {"ph": "X", "name": "a", "ts": {"b": 1}, "dur": [1]}, {"name": "a"}, {"ph": "B", "name": "a", "ts": 1},
    {"ph": "i", "name": "[memory]", "ts": 1, "args": {}}, {"ph": "X", "name": "no args", "ts": "1.5", "dur": "2"})"));
  ASSERT_EQ(trace.events.size(), 1u);
  EXPECT_EQ(trace.name(trace.events[0]), "no args");
  EXPECT_EQ(trace.events[0].start_ns, 1500);
  EXPECT_EQ(problems_of(trace),
            "events of phase 'B' (left out): 1\n"
            "events without a name (left out): 1\n"
            "events without a phase (left out): 1\n"
            "events without a time (left out): 1\n"
            "memory events without a size (left out): 1\n"
            "slices with a wrong duration (left out): 2\n"
            "slices without a duration (left out): 1\n");
}

TEST_F(Reader, LinksThatAreMissingAndSlicesThatOverlapAreCounted) {
  const Trace trace = read(trace_of(R"(
    {"ph": "X", "cat": "kernel", "name": "k", "pid": 0, "tid": 7, "ts": 5, "dur": 1, "args": {"correlation": 9}},
    {"ph": "X", "cat": "cpu_op", "name": "a", "pid": 1, "tid": 1, "ts": 0, "dur": 10},
    {"ph": "X", "cat": "cpu_op", "name": "b", "pid": 1, "tid": 1, "ts": 5, "dur": 10})"));
  EXPECT_EQ(
      problems_of(trace),
      "kernels and copies without the call that launched them: 1\nslices that overlap on one thread: 1\n");
}

TEST_F(Reader, OlderDialectReadsTheSame) {
  const Trace trace = read(trace_of(R"(
    {"ph": "X", "cat": "Operator", "name": "aten::mm", "pid": 5, "tid": "5", "ts": 1, "dur": 9, "args": {"Input dims": [[2]], "External id": 3}},
    {"ph": "X", "cat": "Runtime", "name": "cudaLaunchKernel", "pid": 5, "tid": "5", "ts": 2, "dur": 1, "args": {"correlation": "4", "external id": "3"}},
    {"ph": "s", "id": 4, "pid": 5, "tid": "5", "ts": 2, "cat": "async", "name": "launch"},
    {"ph": "X", "cat": "Kernel", "name": "k", "pid": 0, "tid": "stream 7", "ts": 4, "dur": 3, "args": {"correlation": 4, "external id": "3", "grid": [1, 2, 3]}},
    {"ph": "f", "id": 4, "pid": 0, "tid": "stream 7", "ts": 4, "cat": "async", "name": "launch", "bp": "e"})"));
  EXPECT_TRUE(trace.problems.empty()) << problems_of(trace);
  ASSERT_EQ(trace.events.size(), 3u);
  EXPECT_EQ(trace.events[2].kind, EventKind::kernel);
  EXPECT_EQ(trace.tracks[trace.events[2].track].thread, 7);
  EXPECT_TRUE(trace.tracks[trace.events[2].track].device);
  EXPECT_EQ(trace.launches[0].grid, (std::array<int32_t, 3>{1, 2, 3}));
  EXPECT_EQ(key_averages(trace).rows[0].device_total_us, 3);
}

TEST_F(Reader, OrderOfTheEventsChangesNothing) {
  const std::string text = inflated(data("mlp_liger.json.gz"));
  const size_t begin = text.find("\"traceEvents\": [") + 16, end = text.rfind(']');
  std::vector<std::string> events;
  for (size_t at = begin;;) {
    const size_t next = text.find("\n  },\n  {", at);
    if (next == std::string::npos || next > end) {
      events.push_back(text.substr(at, end - at));
      break;
    }
    events.push_back(text.substr(at, next + 4 - at));
    at = next + 5;
  }
  ASSERT_EQ(events.size(), 243u);
  Summary expected = summarise(read(text));
  const auto joined = [&] {
    std::string shuffled = text.substr(0, begin);
    for (size_t i = 0; i < events.size(); ++i) shuffled += (i ? "," : "") + events[i];
    return shuffled + text.substr(end);
  };
  std::reverse(events.begin(), events.end());
  EXPECT_EQ(summary_json({summarise(read(joined()))}), summary_json({expected}));
  std::shuffle(events.begin(), events.end(), std::mt19937(1));
  EXPECT_EQ(summary_json({summarise(read(joined()))}), summary_json({expected}));
}

TEST_F(Reader, FileOfManyWindowsReadsAsItsParts) {
  std::string events;
  for (int i = 0; i < 20000; ++i) {
    events += i ? ",\n" : "";
    events += R"({"ph": "X", "cat": "cpu_op", "name": "op)" + std::to_string(i % 7) +
              R"(", "pid": 1, "tid": )" + std::to_string(i % 3) + R"(, "ts": )" + std::to_string(i * 10) +
              R"(, "dur": 5, "args": {"External id": )" + std::to_string(i + 1) + R"(, "Input Dims": [[)" +
              std::to_string(i % 5) + R"(, 8]], "Input type": ["float"]}})";
  }
  const Trace trace = read(trace_of(events));
  EXPECT_TRUE(trace.problems.empty()) << problems_of(trace);
  ASSERT_EQ(trace.events.size(), 20000u);
  for (size_t i = 0; i < trace.events.size(); ++i) {
    const Event& event = trace.events[i];
    ASSERT_EQ(event.external_id, i + 1);
    ASSERT_EQ(trace.name(event), "op" + std::to_string(i % 7));
    ASSERT_EQ(trace.tracks[event.track].thread, static_cast<int64_t>(i % 3));
    ASSERT_EQ(trace.strings[trace.op_inputs[event.detail].dims], "[[" + std::to_string(i % 5) + ", 8]]");
  }
  EXPECT_EQ(trace.op_inputs.size(), 5u);
  // One broken event in the middle costs that event alone.
  const size_t middle = events.find("\"ts\": 100000,");
  const Trace damaged = read(trace_of(events.replace(middle, 5, "\"ts\" ,")));
  EXPECT_EQ(damaged.events.size(), 19999u);
  EXPECT_EQ(problems_of(damaged), "events that are no JSON (left out): 1\n");
}

TEST_F(Reader, KeepsAtMostHundredBytesPerEvent) {
  const Trace trace = read_trace(data("mlp_eager.json.gz"));
  EXPECT_LE(sizeof(Event) + sizeof(Memory), 100u);
  EXPECT_EQ(trace.launches.size(), 4u);    // of 15 kernels
  EXPECT_LE(trace.op_inputs.size(), 30u);  // of 87 ops
}

TEST_F(Reader, MetadataAndDevicesAreKept) {
  const Trace trace = read_trace(data("mlp_eager.json.gz"));
  ASSERT_EQ(trace.devices.size(), 1u);
  EXPECT_EQ(trace.devices[0].name, "NVIDIA H200");
  EXPECT_EQ(trace.devices[0].multiprocessors, 132);
  EXPECT_EQ(trace.base_ns, 1790857026000000000);
  EXPECT_THAT(trace.metadata, testing::Contains(testing::Pair("cupti_version", "130001")));
  const auto op = std::find_if(trace.events.begin(), trace.events.end(),
                               [](const Event& event) { return event.kind == EventKind::cpu_op; });
  EXPECT_EQ(trace.strings[trace.tracks[op->track].name], "thread 1906 (python3)");
}

}  // namespace
}  // namespace epilogue::trace
