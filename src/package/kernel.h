// A package's kernel as an implementation that a layer asks for by name.
#pragma once

#include <atomic>
#include <mutex>
#include <string>
#include <vector>

#include "backend/backend.h"
#include "epilogue/kernel_abi.h"
#include "epilogue/kernels.h"
#include "package/manifest.h"

namespace epilogue::package {

// Lives as long as the process: layers and captured graphs point to it.
class PackageKernel : public AskedImplementation {
 public:
  struct Origin {
    Reference reference;
    std::string build, variant;
    ProvidedOp op;
    DType dtype = DType::f32;
    Device device{};
    bool allow_fallback = false;
    std::string missing;  // why there is no kernel: it then refuses every call
  };
  // `kernel` is null exactly when `origin.missing` tells why.
  PackageKernel(Origin origin, const EpKernel* kernel);

  const Origin& origin() const { return origin_; }
  bool is_for(const Origin& other, const EpKernel* kernel) const;
  KernelStats stats() const;

 private:
  static const char* refuse_call(const KernelCall& call);
  static KernelRan run_call(const KernelCall& call);
  static void note_refusal(const KernelCall& call, const char* reason);
  static void note_run(const KernelCall& call);
  const char* refusal(const KernelCall& call) const;

  Origin origin_;
  const EpKernel* kernel_;
  mutable std::atomic<int64_t> calls_{0}, fallbacks_{0};
  mutable std::mutex mutex_;
  mutable std::string reason_;  // of the last fallback; guarded by mutex_
};

// The name by which the ABI knows an activation times a gate's partner, "" where it has none.
const char* abi_op_name(Act act);

// The one kernel with this origin, made at the first call and kept for ever.
const PackageKernel& package_kernel(const PackageKernel::Origin& origin, const EpKernel* kernel);
std::vector<KernelStats> all_kernel_stats();

}  // namespace epilogue::package
