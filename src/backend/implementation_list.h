// What the backends' implementation lists are written with.
#pragma once

#include "backend/backend.h"

namespace epilogue {

template <OpClass kClass>
bool serves_class(Op op) {
  return op_row(op).op_class == kClass;
}

inline const char* never_refuses(const KernelCall&) { return nullptr; }

}  // namespace epilogue
