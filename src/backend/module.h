// A backend that is loaded at run time, if this machine can run it: what the module and the library agree on.
#pragma once

#include <string>

#include "backend/backend.h"

namespace epilogue {

// Raised with every change of backend.h, and of what it includes, that a module sees.
inline constexpr int kBackendModuleVersion = 5;

struct BackendModule {
  int version;                     // kBackendModuleVersion of the headers it was built with
  int device_count;                // 0: see `why_none`
  std::string why_none;            // the driver's own words
  Backend& (*backend)(int index);  // makes it at the first call
};

// The one symbol a module exports, as extern "C" const BackendModule* epilogue_backend_module(). Never
// throws; the same at every call.
using BackendModuleEntry = const BackendModule* (*)();
inline constexpr const char* kBackendModuleEntry = "epilogue_backend_module";

// The CUDA module, loaded at the first call. Null with the reason in `why` when it cannot be had.
const BackendModule* cuda_module(std::string* why = nullptr);

}  // namespace epilogue
