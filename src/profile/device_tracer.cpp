#include "profile/device_tracer.h"

#include <atomic>

#include <dlfcn.h>

#include "base/library_folder.h"
#include "profile/event.h"

namespace epilogue::profile {

std::atomic<bool> device_in_use{false};

namespace {

std::atomic<DeviceTracer*> test_tracer{nullptr};

std::string last_dl_error() {
  const char* error = dlerror();
  return error ? error : "unknown error of the dynamic linker";
}

// The module lies where this library lies. It is never unloaded: the driver holds pointers into it.
DeviceTracerOrReason load_module() {
  const std::string path = library_folder() + kDeviceTracerModule;
  void* module = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (!module) return {.reason = last_dl_error()};
  void* function = dlsym(module, kDeviceTracerFunction);
  if (!function) return {.reason = last_dl_error()};
  return {.tracer = reinterpret_cast<DeviceTracerFunction*>(function)()};
}

}  // namespace

void set_device_tracer(DeviceTracer* tracer) { test_tracer.store(tracer, std::memory_order_release); }

DeviceTracerOrReason find_device_tracer() {
  if (DeviceTracer* tracer = test_tracer.load(std::memory_order_acquire)) return {.tracer = tracer};
  if (!device_in_use.load(std::memory_order_relaxed)) return {};
  static const DeviceTracerOrReason loaded = load_module();
  return loaded;
}

}  // namespace epilogue::profile
