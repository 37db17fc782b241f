// The device tracer for NVIDIA's GPUs, a module of its own: this is the only file that knows CUPTI.
//
// CUPTI writes records into buffers that it asks for and gives back. It reads the time from our own clock, so
// that its records and the host's events can be laid side by side; device times it converts itself.
#include <algorithm>
#include <cstdlib>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

#include <cuda_runtime.h>
#include <cupti.h>
#include <cxxabi.h>

#include <fmt/format.h>

#include "base/check.h"
#include "profile/clock.h"
#include "profile/cupti_buffers.h"
#include "profile/cupti_devices.h"
#include "profile/device_tracer.h"

namespace epilogue::profile {
namespace {

using trace::EventKind;
using trace::StringId;

const char* error_text(CUptiResult result) {
  const char* text = nullptr;
  return cuptiGetResultString(result, &text) == CUPTI_SUCCESS && text ? text : "unknown CUPTI error";
}

#define EP_CUPTI(call)                                                                      \
  do {                                                                                      \
    const CUptiResult result_ = call;                                                       \
    EP_CHECK(result_ == CUPTI_SUCCESS, "CUPTI: {} failed: {}", #call, error_text(result_)); \
  } while (false)

// ---- what CUPTI asks for

void CUPTIAPI on_buffer_requested(uint8_t** buffer, size_t* size, size_t* most_records) {
  *buffer = BufferPool::instance().lend();
  *size = *buffer ? BufferPool::kBytes : 0;
  *most_records = 0;  // as many as fit
}

void CUPTIAPI on_buffer_completed(CUcontext, uint32_t, uint8_t* buffer, size_t, size_t valid) {
  BufferPool::instance().give_back(buffer, valid);
}

uint64_t CUPTIAPI on_timestamp_requested() { return clock_ns_now(); }

// ---- what is recorded

// Added to CUPTI's numbers, which begin at 1 in every window: HolisticTraceAnalysis stores row numbers in the
// integer type that the largest correlation needs, and fails where that is a byte.
constexpr uint32_t kFirstCorrelation = 1 << 20;

constexpr CUpti_ActivityKind kKinds[] = {CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL, CUPTI_ACTIVITY_KIND_MEMCPY,
                                         CUPTI_ACTIVITY_KIND_MEMCPY2,           CUPTI_ACTIVITY_KIND_MEMSET,
                                         CUPTI_ACTIVITY_KIND_RUNTIME,           CUPTI_ACTIVITY_KIND_DRIVER,
                                         CUPTI_ACTIVITY_KIND_SYNCHRONIZATION,   CUPTI_ACTIVITY_KIND_OVERHEAD};

// Frequent calls that tell nothing.
constexpr CUpti_CallbackId kQuietRuntimeCalls[] = {
    CUPTI_RUNTIME_TRACE_CBID_cudaGetDevice_v3020,
    CUPTI_RUNTIME_TRACE_CBID_cudaSetDevice_v3020,
    CUPTI_RUNTIME_TRACE_CBID_cudaGetLastError_v3020,
    CUPTI_RUNTIME_TRACE_CBID_cudaPeekAtLastError_v3020,
    CUPTI_RUNTIME_TRACE_CBID_cudaDeviceGetAttribute_v5000,
    CUPTI_RUNTIME_TRACE_CBID_cudaEventCreate_v3020,
    CUPTI_RUNTIME_TRACE_CBID_cudaEventCreateWithFlags_v3020,
    CUPTI_RUNTIME_TRACE_CBID_cudaEventDestroy_v3020,
    CUPTI_RUNTIME_TRACE_CBID_cudaEventQuery_v3020,
    CUPTI_RUNTIME_TRACE_CBID_cudaStreamIsCapturing_v10000,
    CUPTI_RUNTIME_TRACE_CBID_cudaStreamGetCaptureInfo_v10010,
    CUPTI_RUNTIME_TRACE_CBID_cudaThreadExchangeStreamCaptureMode_v10010,
};

// The driver's calls that launch work: libraries make them without the runtime. All others cost and tell
// nothing.
constexpr CUpti_CallbackId kDriverCalls[] = {
    CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel,
    CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel_ptsz,
    CUPTI_DRIVER_TRACE_CBID_cuLaunchKernelEx,
    CUPTI_DRIVER_TRACE_CBID_cuLaunchKernelEx_ptsz,
    CUPTI_DRIVER_TRACE_CBID_cuLaunchCooperativeKernel,
    CUPTI_DRIVER_TRACE_CBID_cuLaunchCooperativeKernel_ptsz,
    CUPTI_DRIVER_TRACE_CBID_cuGraphLaunch,
    CUPTI_DRIVER_TRACE_CBID_cuGraphLaunch_ptsz,
    CUPTI_DRIVER_TRACE_CBID_cuMemcpy,
    CUPTI_DRIVER_TRACE_CBID_cuMemcpyAsync,
    CUPTI_DRIVER_TRACE_CBID_cuMemcpyPeerAsync,
    CUPTI_DRIVER_TRACE_CBID_cuMemcpy2DAsync_v2,
    CUPTI_DRIVER_TRACE_CBID_cuMemcpy3DAsync_v2,
    CUPTI_DRIVER_TRACE_CBID_cuMemcpyHtoD_v2,
    CUPTI_DRIVER_TRACE_CBID_cuMemcpyDtoH_v2,
    CUPTI_DRIVER_TRACE_CBID_cuMemcpyDtoD_v2,
    CUPTI_DRIVER_TRACE_CBID_cuMemcpyHtoDAsync_v2,
    CUPTI_DRIVER_TRACE_CBID_cuMemcpyDtoHAsync_v2,
    CUPTI_DRIVER_TRACE_CBID_cuMemcpyDtoDAsync_v2,
    CUPTI_DRIVER_TRACE_CBID_cuMemsetD8_v2,
    CUPTI_DRIVER_TRACE_CBID_cuMemsetD32_v2,
    CUPTI_DRIVER_TRACE_CBID_cuMemsetD8Async,
    CUPTI_DRIVER_TRACE_CBID_cuMemsetD16Async,
    CUPTI_DRIVER_TRACE_CBID_cuMemsetD32Async,
};

bool is_launching_driver_call(CUpti_CallbackId call) {
  return std::find(std::begin(kDriverCalls), std::end(kDriverCalls), call) != std::end(kDriverCalls);
}

void enable_recording() {
  for (const CUpti_ActivityKind kind : kKinds) EP_CUPTI(cuptiActivityEnable(kind));
  for (const CUpti_CallbackId call : kQuietRuntimeCalls) EP_CUPTI(cuptiActivityEnableRuntimeApi(call, 0));
  // A call that this driver does not have is refused, which is as good as off.
  for (CUpti_CallbackId call = 1; call < CUPTI_DRIVER_TRACE_CBID_SIZE; ++call)
    if (!is_launching_driver_call(call)) cuptiActivityEnableDriverApi(call, 0);
}

void disable_recording() noexcept {
  for (const CUpti_ActivityKind kind : kKinds) cuptiActivityDisable(kind);
}

// ---- Kineto's words

const char* copy_direction(uint8_t kind) {
  switch (kind) {
    case CUPTI_ACTIVITY_MEMCPY_KIND_HTOD:
      return "HtoD";
    case CUPTI_ACTIVITY_MEMCPY_KIND_DTOH:
      return "DtoH";
    case CUPTI_ACTIVITY_MEMCPY_KIND_HTOA:
      return "HtoA";
    case CUPTI_ACTIVITY_MEMCPY_KIND_ATOH:
      return "AtoH";
    case CUPTI_ACTIVITY_MEMCPY_KIND_ATOA:
      return "AtoA";
    case CUPTI_ACTIVITY_MEMCPY_KIND_ATOD:
      return "AtoD";
    case CUPTI_ACTIVITY_MEMCPY_KIND_DTOA:
      return "DtoA";
    case CUPTI_ACTIVITY_MEMCPY_KIND_DTOD:
      return "DtoD";
    case CUPTI_ACTIVITY_MEMCPY_KIND_HTOH:
      return "HtoH";
    case CUPTI_ACTIVITY_MEMCPY_KIND_PTOP:
      return "PtoP";
    default:
      return "<unknown>";
  }
}

const char* memory_kind(uint16_t kind) {
  switch (kind) {
    case CUPTI_ACTIVITY_MEMORY_KIND_PAGEABLE:
      return "Pageable";
    case CUPTI_ACTIVITY_MEMORY_KIND_PINNED:
      return "Pinned";
    case CUPTI_ACTIVITY_MEMORY_KIND_DEVICE:
      return "Device";
    case CUPTI_ACTIVITY_MEMORY_KIND_ARRAY:
      return "Array";
    case CUPTI_ACTIVITY_MEMORY_KIND_MANAGED:
      return "Managed";
    case CUPTI_ACTIVITY_MEMORY_KIND_DEVICE_STATIC:
      return "Device Static";
    case CUPTI_ACTIVITY_MEMORY_KIND_MANAGED_STATIC:
      return "Managed Static";
    default:
      return "Unknown";
  }
}

const char* wait_kind(CUpti_ActivitySynchronizationType type) {
  switch (type) {
    case CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_EVENT_SYNCHRONIZE:
      return "Event Sync";
    case CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_STREAM_WAIT_EVENT:
      return "Stream Wait Event";
    case CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_STREAM_SYNCHRONIZE:
      return "Stream Sync";
    case CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_CONTEXT_SYNCHRONIZE:
      return "Context Sync";
    default:
      return "Unknown";
  }
}

const char* overhead_kind(CUpti_ActivityOverheadKind kind) {
  switch (kind) {
    case CUPTI_ACTIVITY_OVERHEAD_DRIVER_COMPILER:
      return "Driver Compiler";
    case CUPTI_ACTIVITY_OVERHEAD_CUPTI_BUFFER_FLUSH:
      return "Buffer Flush";
    case CUPTI_ACTIVITY_OVERHEAD_CUPTI_INSTRUMENTATION:
      return "Instrumentation";
    case CUPTI_ACTIVITY_OVERHEAD_CUPTI_RESOURCE:
      return "Resource";
    case CUPTI_ACTIVITY_OVERHEAD_RUNTIME_TRIGGERED_MODULE_LOADING:
      return "Runtime Triggered Module Loading";
    case CUPTI_ACTIVITY_OVERHEAD_LAZY_FUNCTION_LOADING:
      return "Lazy Function Loading";
    case CUPTI_ACTIVITY_OVERHEAD_COMMAND_BUFFER_FULL:
      return "Command Buffer Full";
    case CUPTI_ACTIVITY_OVERHEAD_ACTIVITY_BUFFER_REQUEST:
      return "Activity Buffer Request";
    case CUPTI_ACTIVITY_OVERHEAD_UVM_ACTIVITY_INIT:
      return "UVM Activity Init";
    default:
      return "Unknown";
  }
}

// "cudaLaunchKernel_v7000" is "cudaLaunchKernel".
std::string_view without_version(std::string_view name) {
  const size_t version = name.rfind("_v");
  const bool has_version = version != std::string_view::npos && version + 2 < name.size() &&
                           name.find_first_not_of("0123456789", version + 2) == std::string_view::npos;
  return has_version ? name.substr(0, version) : name;
}

// A name beyond what libstdc++ takes stays as it is.
std::string demangled(const char* name) {
  int status = 0;
  const std::unique_ptr<char, decltype(&std::free)> text(abi::__cxa_demangle(name, nullptr, nullptr, &status),
                                                         &std::free);
  return status == 0 && text ? text.get() : name;
}

// ---- records

std::vector<std::pair<std::string, std::string>> versions() {
  uint32_t cupti = 0;
  int runtime = 0, driver = 0;
  cuptiGetVersion(&cupti);
  cudaRuntimeGetVersion(&runtime);
  cudaDriverGetVersion(&driver);
  return {{"cupti_version", std::to_string(cupti)},
          {"cuda_runtime_version", std::to_string(runtime)},
          {"cuda_driver_version", std::to_string(driver)}};
}

trace::Launch launch_of(const CUpti_ActivityKernel10& kernel) {
  trace::Launch launch{.grid = {kernel.gridX, kernel.gridY, kernel.gridZ},
                       .block = {kernel.blockX, kernel.blockY, kernel.blockZ},
                       .registers_per_thread = kernel.registersPerThread,
                       .shared_bytes = kernel.staticSharedMemory + kernel.dynamicSharedMemory,
                       .graph_node = kernel.graphId != 0 ? kernel.graphNodeId : 0,
                       .graph = kernel.graphId};
  if (kernel.deviceId < cuda_devices().size())
    estimate_occupancy(cuda_devices()[kernel.deviceId], static_cast<size_t>(kernel.staticSharedMemory),
                       static_cast<size_t>(kernel.dynamicSharedMemory), launch);
  return launch;
}

// Turns CUPTI's records into ours. Names that CUPTI owns are valid until it is finalised.
class RecordReader {
 public:
  explicit RecordReader(DeviceRecords& out) : out_(out) {}

  void read(const Buffer& buffer) {
    CUpti_Activity* record = nullptr;
    while (cuptiActivityGetNextRecord(buffer.bytes.get(), buffer.valid, &record) == CUPTI_SUCCESS)
      add(*record);
  }

  void finish() {
    for (const size_t wait : waits_) {  // CUPTI tells their context alone
      const auto device = device_of_.find(static_cast<uint32_t>(out_.records[wait].device));
      out_.records[wait].device = device == device_of_.end() ? 0 : device->second;
    }
    if (timeless_ > 0) out_.problems.push_back({"device records without a time (left out)", timeless_});
  }

 private:
  void add(const CUpti_Activity& record) {
    switch (record.kind) {
      case CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL:
        return add_kernel(reinterpret_cast<const CUpti_ActivityKernel10&>(record));
      case CUPTI_ACTIVITY_KIND_MEMCPY: {
        const auto& copy = reinterpret_cast<const CUpti_ActivityMemcpy6&>(record);
        return add_copy(copy, EventKind::gpu_memcpy, copy_name(copy));
      }
      case CUPTI_ACTIVITY_KIND_MEMCPY2: {
        const auto& copy = reinterpret_cast<const CUpti_ActivityMemcpyPtoP4&>(record);
        return add_copy(copy, EventKind::gpu_memcpy, copy_name(copy));
      }
      case CUPTI_ACTIVITY_KIND_MEMSET: {
        const auto& set = reinterpret_cast<const CUpti_ActivityMemset4&>(record);
        return add_copy(set, EventKind::gpu_memset, fmt::format("Memset ({})", memory_kind(set.memoryKind)));
      }
      case CUPTI_ACTIVITY_KIND_RUNTIME:
        return add_call(reinterpret_cast<const CUpti_ActivityAPI&>(record), EventKind::cuda_runtime);
      case CUPTI_ACTIVITY_KIND_DRIVER:
        return add_call(reinterpret_cast<const CUpti_ActivityAPI&>(record), EventKind::cuda_driver);
      case CUPTI_ACTIVITY_KIND_SYNCHRONIZATION:
        return add_wait(reinterpret_cast<const CUpti_ActivitySynchronization2&>(record));
      case CUPTI_ACTIVITY_KIND_OVERHEAD:
        return add_overhead(reinterpret_cast<const CUpti_ActivityOverhead3&>(record));
      default:
        return;
    }
  }

  // Null where CUPTI could not tell the times. A call still running has no end: it is cut.
  DeviceRecord* add_record(EventKind kind, uint64_t start, uint64_t end, StringId name) {
    if (start == 0) {
      ++timeless_;
      return nullptr;
    }
    out_.records.push_back({.kind = kind,
                            .start = clock_ns_to_ticks(start),
                            .end = clock_ns_to_ticks(std::max(start, end)),
                            .name = name});
    return &out_.records.back();
  }

  template <class Work>
  DeviceRecord* add_work(const Work& work, EventKind kind, StringId name) {
    DeviceRecord* record = add_record(kind, work.start, work.end, name);
    if (!record) return nullptr;
    record->correlation = kFirstCorrelation + work.correlationId;
    record->device = static_cast<int32_t>(work.deviceId);
    record->lane = work.streamId;
    device_of_.emplace(work.contextId, record->device);
    return record;
  }

  void add_kernel(const CUpti_ActivityKernel10& kernel) {
    const auto [name, added] = kernel_names_.try_emplace(kernel.name);
    if (added) name->second = out_.names.intern(kernel.name ? demangled(kernel.name) : "");
    DeviceRecord* record = add_work(kernel, EventKind::kernel, name->second);
    if (!record) return;
    record->detail = static_cast<uint32_t>(out_.launches.size());
    out_.launches.push_back(launch_of(kernel));
  }

  template <class Copy>
  static std::string copy_name(const Copy& copy) {
    return fmt::format("Memcpy {} ({} -> {})", copy_direction(copy.copyKind), memory_kind(copy.srcKind),
                       memory_kind(copy.dstKind));
  }

  template <class Copy>
  void add_copy(const Copy& copy, EventKind kind, const std::string& name) {
    DeviceRecord* record = add_work(copy, kind, out_.names.intern(name));
    if (!record) return;
    record->detail = static_cast<uint32_t>(out_.copies.size());
    out_.copies.push_back({.bytes = static_cast<int64_t>(copy.bytes)});
  }

  void add_call(const CUpti_ActivityAPI& call, EventKind kind) {
    if (kind == EventKind::cuda_driver && !is_launching_driver_call(call.cbid)) return;
    DeviceRecord* record = add_record(kind, call.start, call.end, call_name(kind, call.cbid));
    if (!record) return;
    record->correlation = kFirstCorrelation + call.correlationId;
    record->lane = call.threadId;
    record->detail = call.cbid;
  }

  StringId call_name(EventKind kind, CUpti_CallbackId call) {
    const bool driver = kind == EventKind::cuda_driver;
    const auto [name, added] = call_names_[driver].try_emplace(call);
    if (!added) return name->second;
    const char* text = nullptr;
    const auto domain = driver ? CUPTI_CB_DOMAIN_DRIVER_API : CUPTI_CB_DOMAIN_RUNTIME_API;
    if (cuptiGetCallbackName(domain, call, &text) != CUPTI_SUCCESS || !text) text = "INVALID";
    return name->second = out_.names.intern(without_version(text));
  }

  void add_wait(const CUpti_ActivitySynchronization2& wait) {
    DeviceRecord* record =
        add_record(EventKind::cuda_sync, wait.start, wait.end, out_.names.intern(wait_kind(wait.type)));
    if (!record) return;
    record->correlation = kFirstCorrelation + wait.correlationId;
    record->device = static_cast<int32_t>(wait.contextId);
    record->lane = wait.streamId == CUPTI_SYNCHRONIZATION_INVALID_VALUE ? -1 : int64_t{wait.streamId};
    waits_.push_back(out_.records.size() - 1);
  }

  void add_overhead(const CUpti_ActivityOverhead3& overhead) {
    std::free(overhead.overheadData);  // ours to free
    DeviceRecord* record = add_record(EventKind::overhead, overhead.start, overhead.end,
                                      out_.names.intern(overhead_kind(overhead.overheadKind)));
    if (!record) return;
    if (overhead.objectKind == CUPTI_ACTIVITY_OBJECT_THREAD) record->lane = overhead.objectId.pt.threadId;
  }

  DeviceRecords& out_;
  std::unordered_map<const char*, StringId> kernel_names_;
  std::unordered_map<CUpti_CallbackId, StringId> call_names_[2];  // the runtime's, the driver's
  std::unordered_map<uint32_t, int32_t> device_of_;               // by context
  std::vector<size_t> waits_;                                     // whose device is a context yet
  int64_t timeless_ = 0;
};

// ---- leaving

std::thread::id finalizing_thread;
CUpti_SubscriberHandle finalizing_subscriber = nullptr;

void CUPTIAPI finalize_at_exit_of_call(void*, CUpti_CallbackDomain, CUpti_CallbackId, const void* data) {
  if (static_cast<const CUpti_CallbackData*>(data)->callbackSite != CUPTI_API_EXIT) return;
  if (std::this_thread::get_id() != finalizing_thread || !finalizing_subscriber) return;
  cuptiUnsubscribe(std::exchange(finalizing_subscriber, nullptr));
  cuptiFinalize();
}

// Takes CUPTI out of the process: with its kinds merely disabled, launches still pass through it (PyTorch
// users measured 10-20%). It may be left safely at the exit of a CUDA call, so one is made here. The next
// attach() starts from nothing, its clock included. With another subscriber in the process it is left alone.
void finalize() noexcept {
  CUpti_SubscriberHandle subscriber = nullptr;
  if (cuptiSubscribe(&subscriber, reinterpret_cast<CUpti_CallbackFunc>(&finalize_at_exit_of_call), nullptr) !=
      CUPTI_SUCCESS)
    return;
  finalizing_thread = std::this_thread::get_id();
  finalizing_subscriber = subscriber;
  cuptiEnableCallback(1, subscriber, CUPTI_CB_DOMAIN_RUNTIME_API,
                      CUPTI_RUNTIME_TRACE_CBID_cudaGetDevice_v3020);
  int device = 0;
  cudaGetDevice(&device);
  // The call was not seen: nothing is running for us and everything is flushed, which is safe as well.
  if (finalizing_subscriber) {
    cuptiUnsubscribe(std::exchange(finalizing_subscriber, nullptr));
    cuptiFinalize();
  }
}

// ---- the tracer

class CuptiTracer final : public DeviceTracer {
 public:
  void attach() override {
    if (attached_) return;
    EP_CHECK(!cuda_devices().empty(), "CUDA tells of no device");
    try {
      EP_CUPTI(cuptiSetThreadIdType(CUPTI_ACTIVITY_THREAD_ID_TYPE_SYSTEM));
      EP_CUPTI(cuptiActivityRegisterTimestampCallback(on_timestamp_requested));
      EP_CUPTI(cuptiActivityRegisterCallbacks(on_buffer_requested, on_buffer_completed));
      enable_recording();
    } catch (const Error&) {
      disable_recording();
      finalize();
      throw;
    }
    attached_ = true;
  }

  DeviceRecords take() override {
    DeviceRecords records;
    records.metadata = versions();
    for (const CudaDevice& device : cuda_devices()) records.devices.push_back(device.properties);
    if (!attached_) return records;
    if (const std::string error = synchronize_cuda_devices(); !error.empty())
      records.problems.push_back({"waiting for the device at the window's end failed: " + error});
    if (const CUptiResult result = cuptiActivityFlushAll(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED);
        result != CUPTI_SUCCESS)
      records.problems.push_back(
          {fmt::format("CUPTI's buffers could not be flushed: {}", error_text(result))});
    size_t dropped = 0;
    if (cuptiActivityGetNumDroppedRecords(nullptr, 0, &dropped) == CUPTI_SUCCESS)
      records.dropped = static_cast<int64_t>(dropped);
    std::vector<Buffer> buffers = BufferPool::instance().take_full();
    RecordReader reader(records);
    for (const Buffer& buffer : buffers) reader.read(buffer);
    reader.finish();
    BufferPool::instance().reuse(std::move(buffers));
    return records;
  }

  void detach() noexcept override {
    if (!std::exchange(attached_, false)) return;
    disable_recording();
    synchronize_cuda_devices();
    cuptiActivityFlushAll(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED);
    BufferPool::instance().reuse(BufferPool::instance().take_full());
    finalize();
  }

 private:
  bool attached_ = false;
};

}  // namespace
}  // namespace epilogue::profile

extern "C" epilogue::profile::DeviceTracer* epilogue_device_tracer() {
  static auto* const tracer = new epilogue::profile::CuptiTracer;  // the driver may call back at exit
  return tracer;
}
