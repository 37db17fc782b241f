// The CUDA backend: its ordered implementation list, its queues, and the module's entry.
#include <array>
#include <map>

#include <dlfcn.h>

#include "backend/cuda/check.h"
#include "backend/cuda/device.h"
#include "backend/cuda/gated.h"
#include "backend/cuda/gemm.h"
#include "backend/cuda/kernels/elementwise.h"
#include "backend/cuda/launch_memo.h"
#include "backend/cuda/program.h"
#include "backend/implementation_list.h"
#include "backend/module.h"
#include "base/check.h"
#include "base/env.h"
#include "profile/event.h"

namespace epilogue::cuda {
namespace {

constexpr std::array kImplementations{
    Implementation{"gated_mlp_sm90", [](Op op) { return op == Op::gated_mlp; }, refuse_gated_mlp,
                   run_gated_mlp},
    Implementation{"gated_gemm_sm90", [](Op op) { return op == Op::gated_linear; }, refuse_gated_linear,
                   run_gated_linear},
    Implementation{"gemm_cublaslt", serves_class<OpClass::gemm>, refuse_gemm_cublaslt, run_gemm_cublaslt},
    Implementation{"gemm_reference", serves_class<OpClass::gemm>, never_refuses, run_gemm_reference},
    Implementation{"pointwise", serves_class<OpClass::pointwise>, never_refuses, run_pointwise},
    Implementation{"fill", [](Op op) { return op == Op::fill_; }, never_refuses, run_fill},
    Implementation{"copy", serves_class<OpClass::copy>, never_refuses, run_copy},
    Implementation{"gemm_cublaslt_epilogue", serves_class<OpClass::gemm>, refuse_gemm_cublaslt,
                   run_gemm_cublaslt, true},
    Implementation{"gemm_reference_epilogue", serves_class<OpClass::gemm>, refuse_reference_epilogue,
                   run_reference_epilogue, true},
    Implementation{"program", serves_class<OpClass::fused>, refuse_program, run_program, true},
};

class CudaBackend final : public Backend, public DeviceQueues {
 public:
  explicit CudaBackend(int index) : device_(cuda_device(index)) {}

  detail::StorageRef allocate(size_t bytes) override { return device_.allocate(bytes); }
  void copy_bytes(void* to, Device to_device, const void* from, Device from_device, size_t bytes) override;
  std::span<const Implementation> implementations() const override { return kImplementations; }
  bool run_again(const KernelCall& call) override;
  void synchronize() override;
  MemoryStats memory_stats() const override { return device_.allocator().stats(); }
  void reset_peak_memory() override { device_.allocator().reset_peak(); }
  void empty_cache() override;
  DeviceInfo info() const override { return device_.info(); }
  DeviceQueues* queues() override { return this; }
  const char* refuse_epilogue(Op, const PointwiseProgram& program) const override {
    const bool f64 = program.compute == DType::f64;
    return !f64 && epilogue_activation(program) != Act::none
               ? nullptr
               : "cuBLASLt's epilogues are relu and gelu_tanh alone";
  }
  void prepare(const PointwiseProgram& program) override {
    if (epilogue_activation(program) == Act::none) prepare_program(program, device_.index());
  }
  bool is_prepared(const PointwiseProgram& program) const override {
    return epilogue_activation(program) != Act::none || is_program_prepared(program, device_.index());
  }

  void* make_stream() override {
    device_.make_current();
    return device_.streams().take();
  }
  void destroy_stream(void* stream) override {
    device_.streams().give_back(static_cast<cudaStream_t>(stream));
  }
  void* current_stream() override { return device_.stream(); }
  void set_current_stream(void* stream) override { device_.set_stream(static_cast<cudaStream_t>(stream)); }
  void synchronize_stream(void* stream) override;
  void* make_event() override;
  void destroy_event(void* event) override { cudaEventDestroy(static_cast<cudaEvent_t>(event)); }
  void record_event(void* event) override;
  void wait_event(void* event) override;
  void synchronize_event(void* event) override;
  double elapsed_us(void* from, void* to) override;
  bool is_capturing() const override { return device_.capture(); }
  void begin_capture() override;
  void* end_capture(bool broken) override;
  void replay(void* graph) override;
  void destroy_graph(void* graph) override;
  detail::StorageRef allocate_pinned(size_t bytes) override;

 protected:
  void run(const Implementation& implementation, const KernelCall& call) override;

 private:
  bool replays() const;
  void note_uses(const KernelCall& call);
  CudaDevice& device_;
};

LaunchMemo& memo_of(CudaDevice& device) {
  static thread_local std::map<int, LaunchMemo> memos;
  return memos.try_emplace(device.index(), device).first->second;
}

bool CudaBackend::replays() const {
  static const bool wanted = env_flag(EnvVar::replay, true);
  return wanted && !device_.capture();
}

// What makes an implementation take a call is in the call's signature, so none is asked again; but where
// dispatch is to be told, all are.
bool CudaBackend::run_again(const KernelCall& call) {
  static const bool tells = verbose("dispatch");
  if (tells || !replays() || call.attrs.implementation) return false;
  device_.make_current();
  try {
    if (!memo_of(device_).replay(call)) return false;
  } catch (const Error& error) {
    fail("{}: {}", op_row(call.op).name, error.what());
  }
  note_uses(call);
  device_.launch_is_over();
  return true;
}

namespace {

// Also where a call fails after its first kernel, which then is the stream's last one.
struct LaunchEnd {
  CudaDevice& device;
  ~LaunchEnd() { device.launch_is_over(); }
};

}  // namespace

// The kernel's event comes from the driver (profile/cupti.cpp), which sees what the libraries launch too.
void CudaBackend::run(const Implementation& implementation, const KernelCall& call) {
  device_.make_current();
  note_uses(call);
  try {
    const LaunchEnd end{device_};
    const AskedImplementation* asked = call.attrs.implementation;
    if (!replays() || (asked && !asked->replayable))
      implementation.run(call);
    else
      memo_of(device_).run(implementation, call);
  } catch (const Error& error) {
    fail("{} by {}: {}", op_row(call.op).name, implementation.name, error.what());
  }
}

void CudaBackend::note_uses(const KernelCall& call) {
  const cudaStream_t stream = device_.stream();
  Capture* recording = device_.capture();
  const auto note = [&](const Storage* storage) {
    device_.allocator().use_on(storage, stream);
    if (!recording || device_.allocator().pool_of(storage) == recording->pool) return;
    auto* shared = const_cast<Storage*>(storage);
    shared->references.fetch_add(1, std::memory_order_relaxed);
    recording->kept.emplace_back(shared);
  };
  for (const Tensor& input : call.inputs) note(input.storage());
  note(call.output.storage());
  for (size_t i = 1; i < call.outputs.size(); ++i) note(call.outputs[i].storage());
}

void CudaBackend::copy_bytes(void* to, Device to_device, const void* from, Device, size_t bytes) {
  device_.make_current();
  EP_CHECK(!device_.capture() || to_device.type == DeviceType::cuda,
           "a value was read while a graph was being captured; read it after replay()");
  EP_CUDA(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, device_.stream()));
  if (to_device.type == DeviceType::cuda) return;  // pageable sources are staged before the call returns
  cudaPointerAttributes host{};
  EP_CUDA(cudaPointerGetAttributes(&host, to));
  if (host.type == cudaMemoryTypeUnregistered) synchronize_stream(device_.stream());
}

void CudaBackend::synchronize() { device_.synchronize(); }

void CudaBackend::empty_cache() {
  device_.make_current();
  device_.allocator().empty_cache();
}

void CudaBackend::synchronize_stream(void* stream) {
  const OutsideCapture outside;  // which may be another library's, that forbids it to all threads
  EP_CUDA(cudaStreamSynchronize(static_cast<cudaStream_t>(stream)));
}

void* CudaBackend::make_event() {
  device_.make_current();
  cudaEvent_t event = nullptr;
  EP_CUDA(cudaEventCreate(&event));
  return event;
}

void CudaBackend::record_event(void* event) {
  device_.make_current();
  EP_CUDA(cudaEventRecord(static_cast<cudaEvent_t>(event), device_.stream()));
}

void CudaBackend::wait_event(void* event) {
  device_.make_current();
  EP_CUDA(cudaStreamWaitEvent(device_.stream(), static_cast<cudaEvent_t>(event), 0));
}

void CudaBackend::synchronize_event(void* event) {
  const OutsideCapture outside;
  EP_CUDA(cudaEventSynchronize(static_cast<cudaEvent_t>(event)));
}

double CudaBackend::elapsed_us(void* from, void* to) {
  float milliseconds = 0;
  EP_CUDA(cudaEventElapsedTime(&milliseconds, static_cast<cudaEvent_t>(from), static_cast<cudaEvent_t>(to)));
  return static_cast<double>(milliseconds) * 1e3;
}

void CudaBackend::begin_capture() {
  auto capture = std::make_unique<Capture>();
  capture->stream = device_.stream();
  device_.begin_capture(std::move(capture));
}

void* CudaBackend::end_capture(bool broken) {
  auto graph = std::make_unique<ReplayableGraph>();
  {
    const std::unique_ptr<Capture> capture(device_.capture());
    graph->capture = std::move(*capture);
  }
  cudaGraph_t recorded = nullptr;
  cudaError_t error = cudaStreamEndCapture(graph->capture.stream, &recorded);
  device_.end_capture();
  if (error == cudaSuccess && !broken) error = cudaGraphInstantiate(&graph->exec, recorded, 0);
  if (recorded) cudaGraphDestroy(recorded);
  if (broken || error != cudaSuccess) {
    cudaGetLastError();
    destroy_graph(graph.release());
    if (broken) return nullptr;
    check_cuda("cudaStreamEndCapture", error);
  }
  return graph.release();
}

void CudaBackend::replay(void* graph) {
  device_.make_current();
  EP_CUDA(cudaGraphLaunch(static_cast<ReplayableGraph*>(graph)->exec, device_.stream()));
  device_.launch_is_over();
}

void CudaBackend::destroy_graph(void* handle) {
  auto free = [this, graph = static_cast<ReplayableGraph*>(handle)] {
    const std::unique_ptr<ReplayableGraph> owned(graph);
    if (graph->exec) cudaGraphExecDestroy(graph->exec);
    Pool* pool = graph->capture.pool;
    graph->capture = {};
    device_.allocator().retire_pool(pool);
  };
  if (static_cast<ReplayableGraph*>(handle)->exec)
    device_.when_idle(std::move(free));  // a replay may be under way on any stream
  else
    free();
}

detail::StorageRef CudaBackend::allocate_pinned(size_t bytes) {
  device_.make_current();
  void* data = nullptr;
  EP_CUDA(cudaMallocHost(&data, bytes > 0 ? bytes : 1));
  return storage_over(data, bytes, {}, [](void* host) {
    cudaPointerAttributes of{};
    if (cudaPointerGetAttributes(&of, host) != cudaSuccess) return;    // the process ends
    cuda_device(of.device).when_idle([host] { cudaFreeHost(host); });  // a copy may still be under way
  });
}

BackendModule describe_module() {
  BackendModule module{.version = kBackendModuleVersion,
                       .device_count = 0,
                       .why_none = "",
                       .backend = [](int index) -> Backend& {
                         static std::array<std::once_flag, 64> once;
                         static std::array<CudaBackend*, 64> backends{};
                         const auto at = static_cast<size_t>(index);
                         std::call_once(once[at], [&] { backends[at] = new CudaBackend(index); });
                         return *backends[at];
                       }};
  const cudaError_t error = cudaGetDeviceCount(&module.device_count);
  if (error != cudaSuccess) {
    module.device_count = 0;
    // The runtime calls a driver that is not there too old.
    void* driver = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL);
    module.why_none =
        driver ? fmt::format("cudaGetDeviceCount: {}, {}", cudaGetErrorName(error), cudaGetErrorString(error))
               : "there is no NVIDIA driver on this machine (libcuda.so.1)";
    if (driver) dlclose(driver);
  } else if (module.device_count == 0) {
    module.why_none = "the driver shows no CUDA device";
  }
  module.device_count = std::min(module.device_count, 64);
  return module;
}

}  // namespace
}  // namespace epilogue::cuda

extern "C" __attribute__((visibility("default"))) const epilogue::BackendModule* epilogue_backend_module() {
  static const epilogue::BackendModule module = epilogue::cuda::describe_module();
  return &module;
}
