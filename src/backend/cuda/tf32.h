// Whether products of f32 may round their operands to tf32.
#pragma once

#include "base/env.h"

namespace epilogue::cuda {

inline bool allow_tf32() {
  static const bool allowed = env_flag(EnvVar::tf32, false);
  return allowed;
}

}  // namespace epilogue::cuda
