// Pointwise ops, copies and fills on CUDA: any shape, any strides, any alignment.
#pragma once

#include "backend/backend.h"

namespace epilogue::cuda {

KernelRan run_pointwise(const KernelCall& call);
KernelRan run_copy(const KernelCall& call);
KernelRan run_fill(const KernelCall& call);

}  // namespace epilogue::cuda
