#include "epilogue/trace.h"

namespace epilogue::trace {

StringId StringTable::intern(std::string_view text) {
  const auto found = ids_.find(text);
  if (found != ids_.end()) return found->second;
  const auto id = static_cast<StringId>(strings_.size());
  ids_.emplace(strings_.emplace_back(text), id);
  return id;
}

const char* event_kind_name(EventKind kind) {
  switch (kind) {
    case EventKind::cpu_op:
      return "cpu_op";
    case EventKind::user_annotation:
      return "user_annotation";
    case EventKind::gpu_user_annotation:
      return "gpu_user_annotation";
    case EventKind::kernel:
      return "kernel";
    case EventKind::cpu_kernel:
      return "cpu_kernel";
    case EventKind::gpu_memcpy:
      return "gpu_memcpy";
    case EventKind::gpu_memset:
      return "gpu_memset";
    case EventKind::cuda_runtime:
      return "cuda_runtime";
    case EventKind::cuda_driver:
      return "cuda_driver";
    case EventKind::cuda_sync:
      return "cuda_sync";
    case EventKind::overhead:
      return "overhead";
    case EventKind::python_function:
      return "python_function";
    case EventKind::memory:
      return "cpu_instant_event";
    case EventKind::span:
      return "Trace";
    case EventKind::other:
      return "other";
  }
  return "other";
}

}  // namespace epilogue::trace
