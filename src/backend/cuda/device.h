// One CUDA device: its streams, its memory, and what a recording thread has under way.
#pragma once

#include <array>
#include <atomic>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <utility>
#include <vector>

#include <cublasLt.h>
#include <cuda_runtime_api.h>

#include "backend/cuda/allocator.h"
#include "epilogue/device.h"

namespace epilogue::cuda {

// Device memory for counters by which a kernel's blocks wait for each other: kCounterBytes, all zero between
// kernels. One at a time uses them: a stream's kernels, or a graph's.
using Counters = std::shared_ptr<void>;
inline constexpr size_t kCounterBytes = size_t{32} << 10;

// What a thread records into a graph: the memory it takes on the way, and the tensors from outside that the
// graph will read and write at every replay.
struct Capture {
  cudaStream_t stream = nullptr;
  Pool* pool = nullptr;
  std::vector<detail::StorageRef> kept;
  detail::StorageRef workspace;        // the GEMM library's: its own, since replays run beside eager calls
  Counters counters;                   // likewise
  bool one_call = false;               // of one op, to be replayed as one launch
  cudaStream_t replayed_on = nullptr;  // that one
};

// A captured graph, ready to be launched.
struct ReplayableGraph {
  cudaGraphExec_t exec = nullptr;
  Capture capture;
};

// Scratch memory for a GEMM on the current stream.
struct Workspace {
  void* data;
  size_t bytes;
};

// A workspace has room behind it for what one call passes from a kernel to the next. It is for calls replayed
// as one launch: then nothing else runs on the stream between the two.
inline constexpr size_t kWorkspaceBytes = size_t{32} << 20;  // what cuBLAS recommends for Hopper
inline constexpr size_t kBetweenKernelsBytes = size_t{8} << 20;

// Where a kernel is launched, and whether it may begin before its predecessor has ended (compute capability
// 9).
struct LaunchOn {
  cudaStream_t stream;
  bool overlap;
};

// A launch of blocks side by side, as the runtime takes it.
class LaunchConfig {
 public:
  LaunchConfig(int64_t blocks, int threads, LaunchOn on)
      : overlap_{.id = cudaLaunchAttributeProgrammaticStreamSerialization},
        config_{.gridDim = dim3(static_cast<unsigned>(blocks)),
                .blockDim = dim3(static_cast<unsigned>(threads)),
                .dynamicSmemBytes = 0,
                .stream = on.stream,
                .attrs = &overlap_,
                .numAttrs = on.overlap ? 1U : 0U} {
    overlap_.val.programmaticStreamSerializationAllowed = 1;
  }
  LaunchConfig(const LaunchConfig&) = delete;
  LaunchConfig& operator=(const LaunchConfig&) = delete;
  const cudaLaunchConfig_t* get() const { return &config_; }

 private:
  cudaLaunchAttribute overlap_;
  cudaLaunchConfig_t config_;
};

// Streams beside the default one. They are kept for the next who asks, since blocks and scratch memory belong
// to them.
class StreamPool {
 public:
  cudaStream_t take();  // of the current device
  void give_back(cudaStream_t stream);

 private:
  std::mutex mutex_;
  std::vector<cudaStream_t> idle_;
};

// To wait for the whole device while any thread records is an error, and breaks the recording. So those who
// wait, who may be several at once, and those who record, likewise, pass a gate in turns. Who waits comes
// first: a call that is not recorded now is at its next turn.
class RecordingGate {
 public:
  // Holds the gate for one kind as long as it lives. Empty: not entered.
  template <bool waits>
  class Holder {
   public:
    explicit Holder(RecordingGate* gate) : gate_(gate) {}
    Holder(Holder&& other) noexcept : gate_(std::exchange(other.gate_, nullptr)) {}
    ~Holder() {
      if (gate_) gate_->leave(waits);
    }
    explicit operator bool() const { return gate_; }

   private:
    RecordingGate* gate_;
  };
  using Recording = Holder<false>;
  using Waiting = Holder<true>;

  Recording try_record();  // empty while anyone waits for the device
  Recording record();
  Waiting wait();

 private:
  void leave(bool waits);

  std::mutex mutex_;
  std::condition_variable changed_;
  int recording_ = 0, waiting_ = 0;
};

class CudaDevice {
 public:
  explicit CudaDevice(int index);

  void make_current() const;  // on the calling thread
  cudaStream_t stream() const;
  void set_stream(cudaStream_t stream);
  LaunchOn launch_on() const;
  // Whether the last kernel on the current stream lets the next one begin early, as our own products do.
  // let_next_begin() says so of the kernel being launched, and what it writes; launch_is_over() ends its
  // launch.
  bool previous_lets_next_begin() const;
  bool previous_writes(const void* data, size_t bytes) const;  // asked when it lets the next one begin
  void let_next_begin(const void* writes, size_t bytes);
  void launch_is_over();
  StreamPool& streams() { return streams_; }
  // Nothing but recordings runs on these, so that no block of memory waits for them.
  StreamPool& recording_streams() { return recording_streams_; }
  Capture* capture() const;
  void set_capture(Capture* capture);

  // Of single calls. Beside a user's capture, which may take as long as it likes, nobody waits: that is
  // refused or put off until it has ended.
  RecordingGate& recordings() { return recordings_; }
  void begin_capture(std::unique_ptr<Capture> capture);  // of a user's graph, by this thread
  void end_capture();                                    // after CUDA's own end
  void synchronize();                          // throws Error where a user's graph is being captured
  void when_idle(std::function<void()> free);  // at once, or where it cannot be waited for now when it can

  detail::StorageRef allocate(size_t bytes);  // for work on the current stream
  Workspace workspace();
  detail::StorageRef workspace_storage();  // what workspace() lies in
  Counters counters();                     // the current stream's, or the recording's
  // Whether kernels whose blocks wait for each other may run on a stream as others do. Of two such kernels at
  // the same time each could hold multiprocessors that the other's blocks need, so only those of the default
  // stream may; elsewhere, and in recorded graphs, they are launched cooperatively, all blocks at once, which
  // takes 1 us longer.
  bool may_wait_freely(cudaStream_t stream) const { return stream == nullptr && !shared_with_processes_; }
  static uint64_t thread_allocations();  // made by allocate() on the calling thread
  Allocator& allocator() { return allocator_; }
  cublasLtHandle_t cublaslt() const { return cublaslt_; }
  const cudaDeviceProp& properties() const { return properties_; }
  int index() const { return index_; }
  DeviceInfo info() const;
  // Its name and its software's versions: where what was timed or compiled holds.
  std::string platform() const;

 private:
  Counters take_counters();
  std::atomic<const void*>& last_launcher() const;  // on the current stream
  bool wait_for_idle();                             // false beside a capture of a user or of another library
  void free_what_was_put_off();

  const int index_;
  cudaDeviceProp properties_{};
  bool shared_with_processes_ = true;  // by MPS
  cublasLtHandle_t cublaslt_ = nullptr;
  Allocator allocator_;
  StreamPool streams_, recording_streams_;
  RecordingGate recordings_;
  std::mutex captures_mutex_;  // of the two below
  int captures_ = 0;           // that users have under way
  std::vector<std::function<void()>> put_off_;
  mutable std::array<std::atomic<const void*>, 64> last_launchers_{};
  std::mutex workspaces_mutex_;
  std::unordered_map<cudaStream_t, detail::StorageRef> workspaces_;
  std::unordered_map<cudaStream_t, Counters> counters_;
  std::vector<void*> idle_counters_;
};

CudaDevice& cuda_device(int index);  // made and warmed up at the first call, lives for the process
CudaDevice& device_of(const Tensor& tensor);

}  // namespace epilogue::cuda
