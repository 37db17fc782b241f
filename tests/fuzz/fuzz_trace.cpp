// read_trace: any bytes give an Error or a trace whose indices are valid; the window's size changes nothing
// in a trace without problems. What was read can be summarised.
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <optional>

#include "trace/gaps.h"
#include "trace/read.h"
#include "trace/summary.h"

using namespace epilogue;
using namespace epilogue::trace;

namespace {

class Bytes final : public ByteSource {
 public:
  Bytes(const uint8_t* data, size_t size) : data_(data), left_(size) {}
  size_t read(char* into, size_t size) override {
    const size_t got = std::min(size, left_);
    if (got > 0) std::memcpy(into, data_, got);
    data_ += got;
    left_ -= got;
    return got;
  }

 private:
  const uint8_t* data_;
  size_t left_;
};

std::optional<Trace> read(const uint8_t* data, size_t size, size_t window_bytes) {
  Bytes source(data, size);
  try {
    return read_trace(source, "fuzz", window_bytes);
  } catch (const Error&) {
    return std::nullopt;
  }
}

void check(bool condition) {
  if (!condition) std::abort();
}

size_t details(const Trace& trace, EventKind kind) {
  switch (kind) {
    case EventKind::kernel:
      return trace.launches.size();
    case EventKind::cpu_op:
      return trace.op_inputs.size();
    case EventKind::memory:
      return trace.memories.size();
    case EventKind::gpu_memcpy:
    case EventKind::gpu_memset:
      return trace.copies.size();
    case EventKind::cpu_kernel:
      return trace.work.size();
    case EventKind::cuda_runtime:
    case EventKind::cuda_driver:
      return kNoDetail;  // a number of CUPTI's, no index
    default:
      return 0;
  }
}

void check_indices(const Trace& trace) {
  for (const Event& event : trace.events) {
    check(event.name < trace.strings.size() && event.track < trace.tracks.size());
    check(event.detail == kNoDetail || event.detail < details(trace, event.kind));
  }
  for (const OpInputs& inputs : trace.op_inputs)
    check(std::max({inputs.dims, inputs.types, inputs.strides, inputs.concrete}) < trace.strings.size());
  for (const Track& track : trace.tracks) check(track.name < trace.strings.size());
}

void check_same(const Trace& a, const Trace& b) {
  check(a.events.size() == b.events.size() && a.metadata == b.metadata &&
        a.problems.size() == b.problems.size());
  for (size_t i = 0; i < a.events.size(); ++i)
    check(a.events[i].start_ns == b.events[i].start_ns && a.name(a.events[i]) == b.name(b.events[i]));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::optional<Trace> whole = read(data, size, size_t{1} << 16), pieces = read(data, size, 64);
  check(whole.has_value() == pieces.has_value());
  if (!whole) return 0;
  check_indices(*whole);
  check_indices(*pieces);
  check(whole->problems.empty() == pieces->problems.empty());
  if (whole->problems.empty()) check_same(*whole, *pieces);
  check(!summary_json({summarise(*whole)}).empty() && !gaps_json(*whole, 10).empty());
  return 0;
}
