#include "package/kernel.h"

#include <algorithm>
#include <array>
#include <memory>

#include "base/check.h"
#include "base/intern.h"
#include "base/threads.h"
#include "package/dlpack.h"
#include "tensor/storage.h"

namespace epilogue::package {
namespace {

constexpr size_t kErrorBytes = 256;

thread_local int threads_used = 1;

void host_parallel_for(int64_t count, int64_t grain, void (*body)(void*, int64_t, int64_t), void* context) {
  const int used = parallel_for(count, grain, [&](int64_t begin, int64_t end) { body(context, begin, end); });
  threads_used = std::max(threads_used, used);
}

constexpr EpHost kHost{EP_KERNEL_ABI_VERSION, host_parallel_for};

// An EpCall and what it points to.
struct AbiCall {
  std::array<DLTensor, 2> inputs;
  DLTensor output;
  char error[kErrorBytes];
  EpCall call;

  AbiCall(const KernelCall& from, void* output_data)
      : inputs{dl_tensor(from.inputs[0], const_cast<void*>(from.inputs[0].data())),
               dl_tensor(from.inputs[1], const_cast<void*>(from.inputs[1].data()))},
        output(dl_tensor(from.output, output_data)),
        call{.host = &kHost,
             .inputs = inputs.data(),
             .outputs = &output,
             .input_count = 2,
             .output_count = 1,
             .stream = nullptr,
             .workspace = nullptr,
             .workspace_bytes = 0,
             .error = error,
             .error_bytes = kErrorBytes} {
    error[0] = '\0';
    if (from.output.device().type != DeviceType::cpu)
      call.stream = backend_for(from.output.device()).queues()->current_stream();
  }

  // What the kernel wrote, as one line.
  std::string error_text() {
    error[kErrorBytes - 1] = '\0';
    std::string text = error;
    std::ranges::replace_if(
        text, [](char c) { return c < ' ' || c > 126; }, ' ');
    return text.empty() ? "it gives no reason" : text;
  }
};

bool serves_act_mul(Op op) { return op == Op::gelu_mul || op == Op::silu_mul; }

const char* op_name_of(const KernelCall& call) {
  if (call.op == Op::silu_mul) return abi_op_name(Act::silu);
  return abi_op_name(call.attrs.approximate == GeluApproximate::tanh ? Act::gelu_tanh : Act::gelu);
}

std::string clean_name(const EpKernel* kernel) {
  std::string name = kernel && kernel->name ? std::string(kernel->name).substr(0, 200) : "";
  std::ranges::replace_if(
      name, [](char c) { return c < ' ' || c > 126; }, '?');
  return name.empty() ? "kernel" : name;
}

// Keeps the text of a refusal until this thread's next one.
const char* keep_text(std::string text) {
  thread_local std::string kept;
  kept = std::move(text);
  return kept.c_str();
}

}  // namespace

const char* abi_op_name(Act act) {
  switch (act) {
    case Act::gelu_tanh:
      return "gelu_tanh_mul";
    case Act::gelu:
      return "gelu_mul";
    case Act::silu:
      return "silu_mul";
    case Act::none:
    case Act::relu:
      break;
  }
  return "";
}

PackageKernel::PackageKernel(Origin origin, const EpKernel* kernel)
    : origin_(std::move(origin)), kernel_(kernel) {
  name = intern(fmt::format("{} [{}]", clean_name(kernel), origin_.reference.to_string()));
  serves = serves_act_mul;
  refuse = refuse_call;
  run = run_call;
  refused = note_refusal;
  ran = note_run;
  replayable = kernel && !kernel->prepare;  // a workspace belongs to one run
  asked_for = intern(origin_.reference.to_string());
}

bool PackageKernel::is_for(const Origin& other, const EpKernel* kernel) const {
  return kernel_ == kernel && origin_.reference == other.reference && origin_.build == other.build &&
         origin_.variant == other.variant && origin_.op.name == other.op.name &&
         origin_.dtype == other.dtype && origin_.device == other.device &&
         origin_.allow_fallback == other.allow_fallback && origin_.missing == other.missing;
}

KernelStats PackageKernel::stats() const {
  const std::lock_guard lock(mutex_);
  return {origin_.reference.to_string(),      origin_.build, origin_.variant,   origin_.op.name,
          kernel_ ? clean_name(kernel_) : "", calls_.load(), fallbacks_.load(), reason_};
}

// The manifest's limits are ours to keep: the kernel may rely on them.
const char* PackageKernel::refusal(const KernelCall& call) const {
  if (!kernel_) return origin_.missing.c_str();
  const Tensor& out = call.output;
  if (out.device() != origin_.device)
    return keep_text(fmt::format("it was loaded for {}, the call is on {}", device_name(origin_.device),
                                 device_name(out.device())));
  if (origin_.op.name != op_name_of(call))
    return keep_text(fmt::format("it is {}, the layer asks for {}", origin_.op.name, op_name_of(call)));
  if (out.dtype() != origin_.dtype)
    return keep_text(fmt::format("it was loaded for {}, the call has {}", dtype_name(origin_.dtype),
                                 dtype_name(out.dtype())));
  if (out.numel() > origin_.op.max_elements)
    return keep_text(
        fmt::format("it takes at most {} elements, the call has {}", origin_.op.max_elements, out.numel()));
  for (const Tensor& input : call.inputs)
    if (input.sizes() != out.sizes() || !input.is_contiguous())
      return "it takes contiguous tensors of one shape";
  return nullptr;
}

const char* PackageKernel::refuse_call(const KernelCall& call) {
  const auto& self = static_cast<const PackageKernel&>(*call.attrs.implementation);
  if (const char* reason = self.refusal(call)) return reason;
  if (!self.kernel_->prepare) return nullptr;
  AbiCall abi(call, const_cast<void*>(call.output.data()));
  uint64_t bytes = 0;
  return self.kernel_->prepare(&abi.call, &bytes) == EP_OK ? nullptr : keep_text(abi.error_text());
}

KernelRan PackageKernel::run_call(const KernelCall& call) {
  const auto& self = static_cast<const PackageKernel&>(*call.attrs.implementation);
  AbiCall abi(call, call.output.mutable_data());
  detail::StorageRef workspace;
  if (self.kernel_->prepare) {
    uint64_t bytes = 0;
    self.kernel_->prepare(&abi.call, &bytes);
    if (bytes > 0) {
      workspace = backend_for(call.output.device()).allocate(bytes);
      abi.call.workspace = workspace.get()->data;
      abi.call.workspace_bytes = bytes;
    }
  }
  threads_used = 1;
  const int32_t status = self.kernel_->run(&abi.call);
  EP_CHECK(status == EP_OK, "kernel package {} ({}): {} failed: {}", self.origin_.reference.to_string(),
           self.origin_.variant, self.origin_.op.name, abi.error_text());
  return {self.name, threads_used};
}

void PackageKernel::note_run(const KernelCall& call) {
  static_cast<const PackageKernel&>(*call.attrs.implementation)
      .calls_.fetch_add(1, std::memory_order_relaxed);
}

void PackageKernel::note_refusal(const KernelCall& call, const char* reason) {
  const auto& self = static_cast<const PackageKernel&>(*call.attrs.implementation);
  EP_CHECK(self.origin_.allow_fallback, "kernel package {} cannot run {}: {}",
           self.origin_.reference.to_string(), op_row(call.op).name, reason);
  self.fallbacks_.fetch_add(1, std::memory_order_relaxed);
  const std::lock_guard lock(self.mutex_);
  self.reason_ = reason;
}

namespace {

struct Registry {
  std::mutex mutex;
  std::vector<std::unique_ptr<PackageKernel>> kernels;
};

Registry& registry() {
  static auto* all = new Registry;  // outlives the layers of static objects
  return *all;
}

}  // namespace

const PackageKernel& package_kernel(const PackageKernel::Origin& origin, const EpKernel* kernel) {
  const std::lock_guard lock(registry().mutex);
  for (const auto& known : registry().kernels)
    if (known->is_for(origin, kernel)) return *known;
  registry().kernels.push_back(std::make_unique<PackageKernel>(origin, kernel));
  return *registry().kernels.back();
}

std::vector<KernelStats> all_kernel_stats() {
  const std::lock_guard lock(registry().mutex);
  std::vector<KernelStats> all;
  for (const auto& kernel : registry().kernels) all.push_back(kernel->stats());
  return all;
}

}  // namespace epilogue::package
