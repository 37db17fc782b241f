// Work beside the calling thread that nobody waits for until that thread ends.
#pragma once

#include <atomic>
#include <functional>

namespace epilogue {

// Runs `work`, which must not throw, on a thread of its own; not at all where no thread is to be had. The
// calling thread, the main one as a rule, joins it when it ends, and `ending` tells `work` so. What a thread
// has of its own goes before the objects of the program, so that `work` may use those of the libraries that
// it loads.
void run_beside(std::function<void(const std::atomic<bool>& ending)> work);

}  // namespace epilogue
