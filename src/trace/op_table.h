// The op table: one row per op, range, runtime call and kernel, as torch.profiler's key_averages() makes it.
#pragma once

#include <string_view>

#include "epilogue/profiler.h"
#include "epilogue/trace.h"

namespace epilogue::trace {

struct OpTableOptions {
  bool group_by_shape = false;
  bool with_flops = false;
};

// Rows in the order of their first event. The rules are PyTorch's:
// - On a host thread an event is a child of the innermost one around it; self time excludes children. Runtime
// calls
//   without an External id have no parent. An only child of its parent's name is folded into it.
// - A kernel's or copy's time belongs to the op of the same External id, its own or else its launching
// call's, and to the ops around that one. It
// also has
//   a row of its own, as have the device's ranges, which count towards no total.
// - Memory events belong to the innermost event around them on their thread, or to the row "[memory]".
// - ProfilerStep#N share the row ProfilerStep*. python_function, cuda_sync and span events have no row.
// A cpu_kernel is its op's own doing: no row, no effect on self time; its flops and bytes go to that op,
// unless the op's shapes tell the flops.
KeyAverages key_averages(const Trace& trace, const OpTableOptions& options = {});

// What mm, addmm, bmm, baddbmm and _scaled_mm (after the "::") compute, from Input Dims; 0 for all other ops:
// linear and matmul call these. 0 also where the sizes are too large to be true.
int64_t op_flops(std::string_view name, std::string_view dims);

}  // namespace epilogue::trace
