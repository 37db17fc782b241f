// base/threads.h without OpenMP, which clang would need another package for: a finding is the same in every
// run.
#include "base/threads.h"

namespace epilogue {

int thread_count() { return 1; }

int parallel_for(int64_t count, int64_t, RangeFunction body) {
  if (count > 0) body(0, count);
  return 1;
}

}  // namespace epilogue
