// Which kernels of one trace became which of the other.
#pragma once

#include "trace/diff.h"

namespace epilogue::trace {

// Fills Diff::fusions, gone and added from its rows. A claim needs evidence: the op that launched the old
// kernel is the new one's, or is named by the new kernel or its op, and as many of each are gone as came.
void find_fusions(Diff& diff);

}  // namespace epilogue::trace
