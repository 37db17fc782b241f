#include "backend/cuda/launch_memo.h"

#include <array>
#include <bit>
#include <utility>

#include "backend/cuda/check.h"
#include "profile/event.h"

namespace epilogue::cuda {
namespace {

constexpr int kTimesBefore = 2;  // ordinary runs before a call is captured
constexpr int kNever = -1;
constexpr int kMostBroken = 3;

// Four chains beside each other: the steps of one wait for each other.
uint64_t hash_of(const CallSignature& words) {
  std::array<uint64_t, 4> chains{1, 2, 3, 4};
  const auto step = [](uint64_t h, uint64_t word) {
    h = (h ^ word) * 0xff51afd7ed558ccd;
    return h ^ h >> 32;
  };
  size_t i = 0;
  for (; i + 4 <= words.size(); i += 4)
    for (size_t c = 0; c < 4; ++c) chains[c] = step(chains[c], words[i + c]);
  for (size_t c = 0; i < words.size(); ++i, ++c) chains[c] = step(chains[c], words[i]);
  return step(step(step(chains[0], chains[1]), chains[2]), chains[3]);
}

void write_tensor(CallSignature& words, const Tensor& tensor) {
  words.push_back(reinterpret_cast<uint64_t>(tensor.data()));
  words.push_back(static_cast<uint64_t>(tensor.dtype()) << 8 | static_cast<uint64_t>(tensor.dim()));
  for (int d = 0; d < tensor.dim(); ++d) {
    words.push_back(static_cast<uint64_t>(tensor.sizes()[d]));
    words.push_back(static_cast<uint64_t>(tensor.strides()[d]));
  }
}

// While it lives the thread launches into a graph instead of its stream.
class OneCallCapture {
 public:
  OneCallCapture(CudaDevice& device, cudaStream_t stream) : device_(device), stream_before_(device.stream()) {
    capture_.workspace = device.workspace_storage();  // of the stream the call belongs to
    capture_.one_call = true;
    capture_.replayed_on = stream_before_;
    capture_.stream = stream;
    capture_.pool = device.allocator().shared_pool();
    EP_CUDA(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
    device.set_stream(stream);
    device.set_capture(&capture_);
  }
  ~OneCallCapture() {
    if (cudaGraph_t graph = end()) cudaGraphDestroy(graph);
  }
  OneCallCapture(const OneCallCapture&) = delete;
  OneCallCapture& operator=(const OneCallCapture&) = delete;

  cudaGraph_t end() {
    cudaGraph_t graph = nullptr;
    if (std::exchange(ended_, true)) return graph;
    device_.set_stream(stream_before_);
    device_.set_capture(nullptr);
    if (cudaStreamEndCapture(capture_.stream, &graph) != cudaSuccess) cudaGetLastError();
    return graph;
  }

 private:
  CudaDevice& device_;
  const cudaStream_t stream_before_;
  Capture capture_;
  bool ended_ = false;
};

}  // namespace

void write_signature(CallSignature& words, const KernelCall& call, cudaStream_t stream) {
  words.clear();
  words.push_back(static_cast<uint64_t>(call.op) | static_cast<uint64_t>(call.attrs.approximate) << 8 |
                  static_cast<uint64_t>(call.attrs.act) << 24 |
                  static_cast<uint64_t>(call.inputs.size()) << 16);
  words.push_back(std::bit_cast<uint64_t>(call.attrs.value));
  words.push_back(reinterpret_cast<uint64_t>(stream));
  words.push_back(call.program ? call.program->id : 0);
  words.push_back(reinterpret_cast<uint64_t>(call.attrs.implementation));
  for (const Tensor& input : call.inputs) write_tensor(words, input);
  write_tensor(words, call.output);
  for (size_t i = 1; i < call.outputs.size(); ++i) write_tensor(words, call.outputs[i]);
}

LaunchMemo::~LaunchMemo() {
  clear();
  if (recording_stream_) device_.recording_streams().give_back(recording_stream_);
}

void LaunchMemo::clear() {
  for (Entry& entry : table_)
    if (entry.graph) cudaGraphExecDestroy(entry.graph);
  table_.assign(kSlots, {});
  used_ = 0;
}

// Open addressing; half of the slots stay empty.
LaunchMemo::Entry& LaunchMemo::slot_of(const CallSignature& words, uint64_t hash) {
  size_t at = hash % kSlots;
  while (!table_[at].words.empty() && (table_[at].hash != hash || table_[at].words != words))
    at = (at + 1) % kSlots;
  return table_[at];
}

bool LaunchMemo::replay(const KernelCall& call) {
  if (table_.empty()) return false;
  const cudaStream_t stream = device_.stream();
  write_signature(words_, call, stream);
  const Entry& entry = slot_of(words_, hash_of(words_));
  if (!entry.graph) return false;
  EP_CUDA(cudaGraphLaunch(entry.graph, stream));
  return true;
}

void LaunchMemo::run(const Implementation& implementation, const KernelCall& call) {
  if (table_.empty() || used_ >= kMost) clear();
  write_signature(words_, call, device_.stream());
  const uint64_t hash = hash_of(words_);
  Entry& entry = slot_of(words_, hash);
  if (entry.words.empty()) {
    entry.hash = hash;
    entry.words = words_;
    ++used_;
  }
  // While a profile is recorded kernels do not overlap, and a graph of them never would.
  if (entry.seen >= kTimesBefore && !entry.graph && profile::recording_now() == 0)
    record(implementation, call, entry);
  if (entry.graph) {
    EP_CUDA(cudaGraphLaunch(entry.graph, device_.stream()));
    return;
  }
  const KernelRan ran = implementation.run(call);
  if (entry.seen != kNever && ran.repeatable) ++entry.seen;
}

// Where it cannot be recorded the call runs as it is, and tells what is wrong with it.
void LaunchMemo::record(const Implementation& implementation, const KernelCall& call, Entry& entry) {
  const RecordingGate::Recording entered = device_.recordings().try_record();
  if (!entered) return;  // at the next call
  entry.seen = kNever;
  if (!recording_stream_) recording_stream_ = device_.recording_streams().take();
  cudaGraph_t recorded = nullptr;  // none: something broke it, perhaps another library's wait for the device
  bool took_memory = false;        // which would be another's at the replay
  try {
    OneCallCapture recording(device_, recording_stream_);  // may take the stream's workspace, which stays
    const uint64_t allocations = device_.thread_allocations();
    implementation.run(call);
    took_memory = device_.thread_allocations() != allocations;
    recorded = recording.end();
  } catch (const Error&) {
    (void)cudaGetLastError();
  }
  if (!recorded && ++entry.broken < kMostBroken) entry.seen = 0;
  if (recorded && !took_memory && cudaGraphInstantiate(&entry.graph, recorded, 0) != cudaSuccess) {
    cudaGetLastError();
    entry.graph = nullptr;
  }
  if (recorded) cudaGraphDestroy(recorded);
}

}  // namespace epilogue::cuda
