// A strided loop turned into calls of a row kernel over elements that lie side by side, on as many threads as
// the size deserves.
#pragma once

#include <cstdint>

#include "backend/strided_loop.h"

namespace epilogue::cpu {

// out[i] = f(a[i], b[i]) for n elements; kernels of one input ignore b. Any n, aligned to the element alone.
using RowKernel = void (*)(void* out, const void* a, const void* b, int64_t n);

// Returns how many threads ran. The result does not depend on it.
int run_rows(const StridedLoop& loop, RowKernel kernel);

}  // namespace epilogue::cpu
