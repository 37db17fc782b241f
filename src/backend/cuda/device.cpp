#include "backend/cuda/device.h"

#include <array>
#include <functional>
#include <iterator>
#include <utility>

#include <fmt/format.h>

#include "backend/cuda/check.h"
#include "backend/cuda/warm_up.h"
#include "base/check.h"
#include "profile/event.h"

namespace epilogue::cuda {
namespace {

constexpr int kMostDevices = 64;

struct ThreadState {
  cudaStream_t stream = nullptr;  // null: the default stream
  Capture* capture = nullptr;
  // From, to: what the launch in progress and the one before write, if they let the next one begin; else
  // empty.
  std::pair<uintptr_t, uintptr_t> writes, previous_writes;
  cudaStream_t previous_stream = nullptr;
};
thread_local std::array<ThreadState, kMostDevices> thread_state;
thread_local int thread_device = -1;
thread_local uint64_t allocations_of_thread = 0;

template <class T>
T take_last(std::vector<T>& all) {
  const T last = all.back();
  all.pop_back();
  return last;
}

std::string version_text(int version) { return fmt::format("{}.{}", version / 1000, version % 1000 / 10); }

}  // namespace

CudaDevice::CudaDevice(int index) : index_(index), allocator_(index) {
  make_current();
  EP_CUDA(cudaGetDeviceProperties(&properties_, index));
  int shared = 0;  // a driver that does not know is taken to share
  if (cudaDeviceGetAttribute(&shared, cudaDevAttrMpsEnabled, index) == cudaSuccess)
    shared_with_processes_ = shared != 0;
  else
    (void)cudaGetLastError();
  EP_CUDA(cublasLtCreate(&cublaslt_));
}

void CudaDevice::make_current() const {
  if (thread_device == index_) return;
  EP_CUDA(cudaSetDevice(index_));
  thread_device = index_;
}

cudaStream_t CudaDevice::stream() const { return thread_state[static_cast<size_t>(index_)].stream; }
void CudaDevice::set_stream(cudaStream_t stream) {
  thread_state[static_cast<size_t>(index_)].stream = stream;
}

cudaStream_t StreamPool::take() {
  {
    const std::lock_guard lock(mutex_);
    if (!idle_.empty()) return take_last(idle_);
  }
  cudaStream_t stream = nullptr;
  EP_CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  return stream;
}

void StreamPool::give_back(cudaStream_t stream) {
  const std::lock_guard lock(mutex_);
  idle_.push_back(stream);
}

Capture* CudaDevice::capture() const { return thread_state[static_cast<size_t>(index_)].capture; }
void CudaDevice::set_capture(Capture* capture) {
  thread_state[static_cast<size_t>(index_)].capture = capture;
}

RecordingGate::Recording RecordingGate::try_record() {
  const std::lock_guard lock(mutex_);
  if (waiting_ > 0) return Recording(nullptr);
  ++recording_;
  return Recording(this);
}

RecordingGate::Recording RecordingGate::record() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return waiting_ == 0; });
  ++recording_;
  return Recording(this);
}

RecordingGate::Waiting RecordingGate::wait() {
  std::unique_lock lock(mutex_);
  ++waiting_;
  changed_.wait(lock, [this] { return recording_ == 0; });
  return Waiting(this);
}

void RecordingGate::leave(bool waits) {
  const std::lock_guard lock(mutex_);
  if (--(waits ? waiting_ : recording_) == 0) changed_.notify_all();
}

void CudaDevice::begin_capture(std::unique_ptr<Capture> capture) {
  const RecordingGate::Recording none_waits = recordings_.record();
  EP_CUDA(cudaStreamBeginCapture(capture->stream, cudaStreamCaptureModeThreadLocal));
  capture->pool = allocator_.make_pool();
  const std::lock_guard lock(captures_mutex_);
  ++captures_;
  set_capture(capture.release());
}

void CudaDevice::end_capture() {
  set_capture(nullptr);
  {
    const std::lock_guard lock(captures_mutex_);
    --captures_;
  }
  free_what_was_put_off();
}

bool CudaDevice::wait_for_idle() {
  make_current();
  const RecordingGate::Waiting none_records = recordings_.wait();
  {
    const std::lock_guard lock(captures_mutex_);
    if (captures_ > 0) return false;
  }
  const cudaError_t error = cudaDeviceSynchronize();
  if (error == cudaErrorStreamCaptureUnsupported) {
    (void)cudaGetLastError();
    return false;
  }
  check_cuda("cudaDeviceSynchronize", error);
  return true;
}

void CudaDevice::synchronize() {
  EP_CHECK(!capture(), "synchronize: a graph is being captured on this thread");
  EP_CHECK(wait_for_idle(),
           "synchronize: another thread captures a graph of cuda:{}, which waiting for the whole device "
           "would break; wait for a stream or an event, or until Graph::capture has returned",
           index_);
  free_what_was_put_off();
}

void CudaDevice::when_idle(std::function<void()> free) {
  {
    const std::lock_guard lock(captures_mutex_);
    put_off_.push_back(std::move(free));
  }
  free_what_was_put_off();
}

// Called where memory is let go of, which cannot fail: after an error of the device it is let go of at once.
void CudaDevice::free_what_was_put_off() {
  std::vector<std::function<void()>> due;
  {
    const std::lock_guard lock(captures_mutex_);
    due.swap(put_off_);
  }
  if (due.empty()) return;
  bool idle = true;
  try {
    idle = wait_for_idle();
  } catch (const Error&) {
    (void)cudaGetLastError();
  }
  if (idle) {
    for (const std::function<void()>& free : due) free();
    return;
  }
  const std::lock_guard lock(captures_mutex_);
  put_off_.insert(put_off_.end(), std::make_move_iterator(due.begin()), std::make_move_iterator(due.end()));
}

detail::StorageRef CudaDevice::allocate(size_t bytes) {
  make_current();
  ++allocations_of_thread;
  const Capture* recording = capture();
  return allocator_.allocate(bytes, stream(), recording ? recording->pool : allocator_.shared_pool());
}

Workspace CudaDevice::workspace() { return {workspace_storage().get()->data, kWorkspaceBytes}; }

detail::StorageRef CudaDevice::workspace_storage() {
  if (Capture* recording = capture()) {
    if (!recording->workspace.get()) recording->workspace = allocate(kWorkspaceBytes + kBetweenKernelsBytes);
    return recording->workspace;
  }
  const std::lock_guard lock(workspaces_mutex_);
  detail::StorageRef& kept = workspaces_[stream()];
  if (!kept.get()) kept = allocate(kWorkspaceBytes + kBetweenKernelsBytes);
  return kept;
}

Counters CudaDevice::counters() {
  Capture* recording = capture();
  if (recording && !recording->one_call) {
    if (!recording->counters) recording->counters = take_counters();
    return recording->counters;
  }
  const cudaStream_t used_on = recording ? recording->replayed_on : stream();
  {
    const std::lock_guard lock(workspaces_mutex_);
    if (const auto found = counters_.find(used_on); found != counters_.end()) return found->second;
  }
  Counters taken = take_counters();
  const std::lock_guard lock(workspaces_mutex_);
  return counters_.try_emplace(used_on, std::move(taken)).first->second;
}

// Not from the allocator, whose blocks hold what kernels under way still write. They come back when no kernel
// uses them any more: a stream's never do, a graph's when it is destroyed.
Counters CudaDevice::take_counters() {
  void* data = nullptr;
  {
    const std::lock_guard lock(workspaces_mutex_);
    if (!idle_counters_.empty()) data = take_last(idle_counters_);
  }
  if (!data) {
    const OutsideCapture outside;
    if (cudaMalloc(&data, kCounterBytes) != cudaSuccess) {
      (void)cudaGetLastError();
      allocator_.empty_cache();
      EP_CUDA(cudaMalloc(&data, kCounterBytes));
    }
    EP_CUDA(cudaMemset(data, 0, kCounterBytes));
    EP_CUDA(cudaStreamSynchronize(nullptr));
  }
  return Counters(data, [this](void* idle) {
    const std::lock_guard lock(workspaces_mutex_);
    idle_counters_.push_back(idle);
  });
}

uint64_t CudaDevice::thread_allocations() { return allocations_of_thread; }

// Threads may share a stream, and what this one knows of its own last kernel is of no use where another
// thread has launched since. Streams of one slot only make it more careful.
std::atomic<const void*>& CudaDevice::last_launcher() const {
  return last_launchers_[std::hash<const void*>()(stream()) / 64 % last_launchers_.size()];
}

bool CudaDevice::previous_lets_next_begin() const {
  const ThreadState& state = thread_state[static_cast<size_t>(index_)];
  return state.previous_writes.first < state.previous_writes.second &&
         state.previous_stream == state.stream && last_launcher().load(std::memory_order_acquire) == &state &&
         profile::recording_now() == 0;
}
bool CudaDevice::previous_writes(const void* data, size_t bytes) const {
  const auto [from, to] = thread_state[static_cast<size_t>(index_)].previous_writes;
  const auto begin = reinterpret_cast<uintptr_t>(data);
  return begin < to && from < begin + bytes;
}
void CudaDevice::let_next_begin(const void* writes, size_t bytes) {
  const auto from = reinterpret_cast<uintptr_t>(writes);
  thread_state[static_cast<size_t>(index_)].writes = {from, from + bytes};
}
void CudaDevice::launch_is_over() {
  ThreadState& state = thread_state[static_cast<size_t>(index_)];
  state.previous_writes = std::exchange(state.writes, {});
  state.previous_stream = state.stream;
  last_launcher().store(&state, std::memory_order_release);
}

// Kernels that overlap are hard to read in a profile: there each has its own time, but for those of calls
// that were recorded for replay before.
LaunchOn CudaDevice::launch_on() const {
  return {stream(), properties_.major >= 9 && profile::recording_now() == 0};
}

DeviceInfo CudaDevice::info() const {
  int driver = 0, runtime = 0;
  EP_CUDA(cudaDriverGetVersion(&driver));
  EP_CUDA(cudaRuntimeGetVersion(&runtime));
  const size_t lt = cublasLtGetVersion();
  return {.name = properties_.name,
          .processors = properties_.multiProcessorCount,
          .memory_bytes = static_cast<int64_t>(properties_.totalGlobalMem),
          .cache_bytes = properties_.l2CacheSize,
          .capability = fmt::format("{}.{}", properties_.major, properties_.minor),
          .libraries = {{"driver", version_text(driver)},
                        {"runtime", version_text(runtime)},
                        {"cuBLASLt", fmt::format("{}.{}.{}", lt / 10000, lt % 10000 / 100, lt % 100)}}};
}

std::string CudaDevice::platform() const {
  const DeviceInfo all = info();
  std::string text = all.name;
  for (const auto& [name, version] : all.libraries) text += fmt::format("; {} {}", name, version);
  return text;
}

CudaDevice& cuda_device(int index) {
  static std::array<std::once_flag, kMostDevices> once;
  static std::array<CudaDevice*, kMostDevices> devices{};
  const auto at = static_cast<size_t>(index);
  std::call_once(once[at], [&] {
    devices[at] = new CudaDevice(index);
    warm_up(*devices[at]);
  });
  return *devices[at];
}

CudaDevice& device_of(const Tensor& tensor) { return cuda_device(tensor.device().index); }

}  // namespace epilogue::cuda
