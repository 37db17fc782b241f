#include "backend/module.h"

#include <atomic>

#include <dlfcn.h>

#include "base/check.h"
#include "base/env.h"
#include "base/library_folder.h"
#include "profile/event.h"

namespace epilogue {
namespace {

struct Loaded {
  const BackendModule* module = nullptr;
  std::string why;
};

std::atomic<bool> cuda_loaded{false};

Loaded load_cuda() {
  std::string path = env_text(EnvVar::cuda_module);
  if (path == "none") return {nullptr, "EPILOGUE_CUDA_MODULE is 'none'"};
  if (path.empty()) path = library_folder() + "libepilogue_cuda.so";
  void* handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!handle) return {nullptr, fmt::format("the CUDA module does not load: {}", dlerror())};
  auto entry = reinterpret_cast<BackendModuleEntry>(dlsym(handle, kBackendModuleEntry));
  if (!entry) return {nullptr, fmt::format("{} is no module of epilogue", path)};
  const BackendModule* module = entry();
  if (module->version != kBackendModuleVersion)
    return {nullptr,
            fmt::format("{} was built for another version of epilogue: it has interface {}, this library {}",
                        path, module->version, kBackendModuleVersion)};
  if (module->device_count == 0) return {nullptr, module->why_none};
  cuda_loaded = true;
  return {module, ""};
}

}  // namespace

bool cuda_module_is_loaded() { return cuda_loaded; }

const BackendModule* cuda_module(std::string* why) {
  static const Loaded loaded = load_cuda();
  if (why) *why = loaded.why;
  return loaded.module;
}

Backend& backend_for(Device device) {
  if (device.type == DeviceType::cpu) [[likely]]
    return cpu_backend();
  const BackendModule* module = cuda_module();
  EP_CHECK(module, "device {} is not there: {}", device_name(device), why_no_devices(DeviceType::cuda));
  EP_CHECK(device.index >= 0 && device.index < module->device_count,
           "device {} is not there: this machine has {} CUDA device{}", device_name(device),
           module->device_count, module->device_count == 1 ? "" : "s");
  profile::expect_device_work();
  return module->backend(device.index);
}

}  // namespace epilogue
