// The part of the CUDA runtime that the module calls. Every stream has a clock of its own, which a kernel
// moves by its time; an event is a reading of it. What CUDA forbids while a stream is being captured is
// refused here, too, and breaks the capture.
#include <algorithm>
#include <cstring>
#include <map>
#include <memory>
#include <set>
#include <utility>

#include <cuda.h>
#include <cuda_runtime_api.h>
#include <cxxabi.h>

#include <sys/mman.h>

#include "simulated_cuda/launch.h"

using simulated_cuda::Device;
using simulated_cuda::Kernel;

struct CUstream_st {
  double us = 0;
  std::string last;  // kernel
  CUgraph_st* recording = nullptr;
  bool broken = false;  // the recording
};
struct CUevent_st {
  double us = 0;
  CUstream_st* captured_on = nullptr;  // recorded into a graph there
};
struct CUgraph_st {
  std::vector<Kernel> kernels;
};
struct CUgraphExec_st {
  std::vector<Kernel> kernels;
};

namespace {

constexpr int kMultiprocessors = 132;
thread_local cudaError_t last_error = cudaSuccess;
thread_local std::vector<cudaLaunchConfig_t> pushed;

CUstream_st& stream_of(cudaStream_t stream) {
  static CUstream_st default_stream;
  return stream ? *stream : default_stream;
}

std::map<const void*, std::string>& names() {
  static auto* all = new std::map<const void*, std::string>;
  return *all;
}

std::string name_of(const void* function) {
  const std::lock_guard lock(simulated_cuda_device()->mutex);
  return names()[function];
}

std::map<void*, size_t>& blocks() {
  static auto* all = new std::map<void*, size_t>;
  return *all;
}

// "epilogue::cuda::tile_gemm<...>(epilogue::cuda::TileArguments)" without what stands around it.
std::string readable(const char* mangled) {
  int status = 0;
  const std::unique_ptr<char, decltype(&std::free)> text(
      abi::__cxa_demangle(mangled, nullptr, nullptr, &status), &std::free);
  std::string name = text ? text.get() : mangled;
  name = name.substr(0, name.rfind('('));
  if (name.starts_with("void ")) name.erase(0, 5);
  for (size_t at; (at = name.find("epilogue::cuda::")) != std::string::npos;) name.erase(at, 16);
  return name;
}

void run(CUstream_st& stream, Kernel kernel) {
  Device& device = *simulated_cuda_device();
  kernel.before = stream.last;
  stream.us += device.microseconds ? device.microseconds(kernel) : 10;
  stream.last = kernel.name;
  device.kernels.push_back(std::move(kernel));
}

std::set<CUstream_st*>& recording_streams() {
  static auto* all = new std::set<CUstream_st*>;
  return *all;
}

cudaError_t give(cudaError_t error) {
  if (error != cudaSuccess) last_error = error;
  return error;
}

// Under the device's mutex.
cudaError_t forbidden(const char* call, CUstream_st* broken, cudaError_t error) {
  if (broken && broken->recording) broken->broken = true;
  simulated_cuda_device()->forbidden.emplace_back(call);
  return give(error);
}

cudaError_t ask(const char* call, cudaEvent_t event) {
  const std::lock_guard lock(simulated_cuda_device()->mutex);
  return event->captured_on ? forbidden(call, event->captured_on, cudaErrorCapturedEvent) : cudaSuccess;
}

// Reserved but not touched, so that a large one costs nothing.
void* reserve(size_t bytes) {
  void* data =
      mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return data == MAP_FAILED ? nullptr : data;
}

CUresult encode_nothing(CUtensorMap* map, ...) {
  std::memset(map, 0, sizeof(*map));
  return CUDA_SUCCESS;
}

}  // namespace

namespace simulated_cuda {

cudaError_t launch(Kernel kernel, cudaStream_t on) {
  Device& device = *simulated_cuda_device();
  const std::lock_guard lock(device.mutex);
  if (device.fails && device.fails(kernel)) return give(cudaErrorInvalidConfiguration);
  CUstream_st& stream = stream_of(on);
  if (stream.broken) return give(cudaErrorStreamCaptureInvalidated);
  if (stream.recording)
    stream.recording->kernels.push_back(std::move(kernel));
  else
    run(stream, std::move(kernel));
  return cudaSuccess;
}

}  // namespace simulated_cuda

extern "C" {

__attribute__((visibility("default"))) Device* simulated_cuda_device() {
  static auto* device = new Device;
  return device;
}

// The device.
cudaError_t cudaGetDeviceCount(int* count) { return *count = 1, cudaSuccess; }
cudaError_t cudaGetDevice(int* index) { return *index = 0, cudaSuccess; }
cudaError_t cudaSetDevice(int) { return cudaSuccess; }
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int) {
  *properties = {};
  std::strcpy(properties->name, "simulated H200");
  properties->major = simulated_cuda_device()->major;
  properties->multiProcessorCount = kMultiprocessors;
  properties->l2CacheSize = 60 << 20;
  properties->totalGlobalMem = simulated_cuda_device()->memory;
  properties->maxThreadsPerMultiProcessor = 2048;
  properties->warpSize = 32;
  return cudaSuccess;
}
cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr what, int) {
  return *value = what == cudaDevAttrMultiProcessorCount ? kMultiprocessors : 0, cudaSuccess;
}
cudaError_t cudaDriverGetVersion(int* version) { return *version = 13000, cudaSuccess; }
cudaError_t cudaRuntimeGetVersion(int* version) { return *version = 13000, cudaSuccess; }
cudaError_t cudaDeviceSynchronize() {
  const std::lock_guard lock(simulated_cuda_device()->mutex);
  cudaError_t error = cudaSuccess;
  for (CUstream_st* stream : recording_streams())
    error = forbidden("cudaDeviceSynchronize", stream, cudaErrorStreamCaptureUnsupported);
  return error;
}
cudaError_t cudaGetLastError() { return std::exchange(last_error, cudaSuccess); }
const char* cudaGetErrorName(cudaError_t error) {
  return error == cudaSuccess ? "cudaSuccess" : "cudaErrorSimulated";
}
const char* cudaGetErrorString(cudaError_t error) {
  return error == cudaSuccess ? "no error" : "a simulated failure";
}
cudaError_t cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode*) { return cudaSuccess; }
cudaError_t cudaGetDriverEntryPointByVersion(const char*, void** function, unsigned, unsigned long long,
                                             cudaDriverEntryPointQueryResult* result) {
  *function = reinterpret_cast<void*>(&encode_nothing);
  *result = cudaDriverEntryPointSuccess;
  return cudaSuccess;
}

// Memory.
cudaError_t cudaMalloc(void** data, size_t bytes) {
  Device& device = *simulated_cuda_device();
  const std::lock_guard lock(device.mutex);
  *data = bytes <= device.memory - device.taken ? reserve(bytes) : nullptr;
  if (!*data) return give(cudaErrorMemoryAllocation);
  blocks()[*data] = bytes;
  device.taken += bytes;
  return cudaSuccess;
}
cudaError_t cudaFree(void* data) {
  Device& device = *simulated_cuda_device();
  const std::lock_guard lock(device.mutex);
  if (!data) return cudaSuccess;
  const size_t bytes = blocks().extract(data).mapped();
  munmap(data, bytes);
  device.taken -= bytes;
  return cudaSuccess;
}
cudaError_t cudaMallocHost(void** data, size_t bytes) { return cudaMalloc(data, bytes); }
cudaError_t cudaFreeHost(void* data) { return cudaFree(data); }
cudaError_t cudaMemGetInfo(size_t* free, size_t* total) {
  const Device& device = *simulated_cuda_device();
  *total = device.memory;
  return *free = device.memory - device.taken, cudaSuccess;
}
cudaError_t cudaMemset(void*, int, size_t) { return cudaSuccess; }
cudaError_t cudaMemsetAsync(void*, int, size_t, cudaStream_t) { return cudaSuccess; }
cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind, cudaStream_t) {
  std::memcpy(to, from, bytes);
  return cudaSuccess;
}
cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* attributes, const void*) {
  *attributes = {};
  attributes->type = cudaMemoryTypeUnregistered;
  return cudaSuccess;
}

// Streams and events.
cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned) {
  const std::lock_guard lock(simulated_cuda_device()->mutex);
  ++simulated_cuda_device()->streams;
  return *stream = new CUstream_st, cudaSuccess;
}
cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  const std::lock_guard lock(simulated_cuda_device()->mutex);
  if (!stream_of(stream).recording) return cudaSuccess;
  return forbidden("cudaStreamSynchronize", &stream_of(stream), cudaErrorStreamCaptureUnsupported);
}
cudaError_t cudaStreamIsCapturing(cudaStream_t stream, cudaStreamCaptureStatus* status) {
  const std::lock_guard lock(simulated_cuda_device()->mutex);
  *status = stream_of(stream).recording ? cudaStreamCaptureStatusActive : cudaStreamCaptureStatusNone;
  return cudaSuccess;
}
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned) {
  const std::lock_guard lock(simulated_cuda_device()->mutex);
  stream_of(stream).us = std::max(stream_of(stream).us, event->us);
  return cudaSuccess;
}
cudaError_t cudaEventCreate(cudaEvent_t* event) { return *event = new CUevent_st, cudaSuccess; }
cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned) { return cudaEventCreate(event); }
cudaError_t cudaEventDestroy(cudaEvent_t event) { return delete event, cudaSuccess; }
cudaError_t cudaEventQuery(cudaEvent_t event) { return ask("cudaEventQuery", event); }
cudaError_t cudaEventSynchronize(cudaEvent_t event) { return ask("cudaEventSynchronize", event); }
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  const std::lock_guard lock(simulated_cuda_device()->mutex);
  event->us = stream_of(stream).us;
  event->captured_on = stream_of(stream).recording ? &stream_of(stream) : nullptr;
  return cudaSuccess;
}
cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t from, cudaEvent_t to) {
  return *milliseconds = static_cast<float>((to->us - from->us) / 1e3), cudaSuccess;
}

// Graphs.
cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode) {
  const std::lock_guard lock(simulated_cuda_device()->mutex);
  stream_of(stream).recording = new CUgraph_st;
  recording_streams().insert(&stream_of(stream));
  return cudaSuccess;
}
cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
  const std::lock_guard lock(simulated_cuda_device()->mutex);
  *graph = std::exchange(stream_of(stream).recording, nullptr);
  recording_streams().erase(&stream_of(stream));
  int& broken_captures = simulated_cuda_device()->broken_captures;
  if (!std::exchange(stream_of(stream).broken, false) && (broken_captures == 0 || broken_captures-- == 0))
    return cudaSuccess;
  delete std::exchange(*graph, nullptr);
  return give(cudaErrorStreamCaptureInvalidated);
}
cudaError_t cudaGraphInstantiate(cudaGraphExec_t* executable, cudaGraph_t graph, unsigned long long) {
  *executable = new CUgraphExec_st{graph->kernels};
  for (Kernel& kernel : (*executable)->kernels) kernel.replayed = true;
  return cudaSuccess;
}
cudaError_t cudaGraphDestroy(cudaGraph_t graph) { return delete graph, cudaSuccess; }
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t executable) { return delete executable, cudaSuccess; }
cudaError_t cudaGraphLaunch(cudaGraphExec_t executable, cudaStream_t stream) {
  const std::lock_guard lock(simulated_cuda_device()->mutex);
  for (const Kernel& kernel : executable->kernels) run(stream_of(stream), kernel);
  return cudaSuccess;
}

// Kernels.
void** __cudaRegisterFatBinary(void*) {
  static void* handle = nullptr;
  return &handle;
}
void __cudaRegisterFatBinaryEnd(void**) {}
void __cudaUnregisterFatBinary(void**) {}
void __cudaRegisterFunction(void**, const char* function, char*, const char* name, int, uint3*, uint3*, dim3*,
                            dim3*, int*) {
  names()[function] = readable(name);
}
unsigned __cudaPushCallConfiguration(dim3 blocks, dim3 threads, size_t shared, CUstream_st* stream) {
  cudaLaunchConfig_t config{};
  config.gridDim = blocks;
  config.blockDim = threads;
  config.dynamicSmemBytes = shared;
  config.stream = stream;
  pushed.push_back(config);
  return 0;
}
cudaError_t __cudaPopCallConfiguration(dim3* blocks, dim3* threads, size_t* shared, void* stream) {
  const cudaLaunchConfig_t& config = pushed.back();
  *blocks = config.gridDim;
  *threads = config.blockDim;
  *shared = config.dynamicSmemBytes;
  *static_cast<cudaStream_t*>(stream) = config.stream;
  pushed.pop_back();
  return cudaSuccess;
}
cudaError_t __cudaGetKernel(cudaKernel_t* kernel, const void* function) {
  *kernel = reinterpret_cast<cudaKernel_t>(const_cast<void*>(function));
  return cudaSuccess;
}
cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, dim3 blocks, dim3, void**, size_t, cudaStream_t stream) {
  return simulated_cuda::launch({.name = name_of(reinterpret_cast<const void*>(kernel)), .blocks = blocks.x},
                                stream);
}
cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t* config, const void* function, void**) {
  Kernel kernel{.name = name_of(function), .blocks = config->gridDim.x};
  for (unsigned i = 0; i < config->numAttrs; ++i) {
    kernel.overlaps |= config->attrs[i].id == cudaLaunchAttributeProgrammaticStreamSerialization;
    kernel.together |= config->attrs[i].id == cudaLaunchAttributeCooperative;
  }
  return simulated_cuda::launch(std::move(kernel), config->stream);
}
cudaError_t cudaFuncSetAttribute(const void*, cudaFuncAttribute, int) { return cudaSuccess; }
cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* attributes, const void*) {
  return *attributes = {}, cudaSuccess;
}
cudaError_t cudaOccupancyMaxActiveClusters(int* clusters, const void*, const cudaLaunchConfig_t*) {
  return *clusters = 30, cudaSuccess;
}
cudaError_t cudaLibraryLoadData(cudaLibrary_t* library, const void*, cudaJitOption*, void**, unsigned,
                                cudaLibraryOption*, void**, unsigned) {
  return *library = nullptr, cudaSuccess;
}
cudaError_t cudaLibraryGetKernel(cudaKernel_t* kernel, cudaLibrary_t, const char* name) {
  const std::lock_guard lock(simulated_cuda_device()->mutex);
  static char handles[1024];
  static size_t taken = 0;
  void* handle = &handles[taken++ % sizeof(handles)];
  names()[handle] = name;
  *kernel = static_cast<cudaKernel_t>(handle);
  return cudaSuccess;
}

}  // extern "C"
