// Threads: the library shares one OpenMP pool with oneDNN, so the two never compete for cores.
#pragma once

#include <cstdint>

namespace epilogue {

inline constexpr int kMostThreads = 1024;

int core_count();  // the cores this process may use
// set_thread_count(), EPILOGUE_THREADS, or what OpenMP would take when this is first asked, which are
// OMP_NUM_THREADS or the cores; 1 in a child of fork() whose parent ran parallel_for
// on several, as the threads stay with the parent.
int thread_count();
void set_thread_count(int count);

// A non-owning reference to a callable, for lambdas without an allocation.
template <class... Arguments>
class FunctionView {
 public:
  template <class F>
  FunctionView(const F& f)  // NOLINT: implicit by design
      : object_(&f), call_([](const void* o, Arguments... a) { (*static_cast<const F*>(o))(a...); }) {}
  void operator()(Arguments... a) const { call_(object_, a...); }

 private:
  const void* object_;
  void (*call_)(const void*, Arguments...);
};
using RangeFunction = FunctionView<int64_t, int64_t>;       // begin, end
using ShareFunction = FunctionView<int, int64_t, int64_t>;  // thread, begin, end
using ThreadFunction = FunctionView<int>;

// Calls body(begin, end) over [0, count) in pieces of about `grain` or more, on up to thread_count() threads,
// and returns how many threads that were. Runs inline when one piece suffices or when already inside a
// parallel_for. The first exception of a piece is rethrown here.
int parallel_for(int64_t count, int64_t grain, RangeFunction body);

// The same on so many threads in pieces of `piece`: each thread first takes its own share of [0, count), the
// same one every time, so that it may find in its caches what it needs; then what others have left of theirs.
// body(thread, begin, end) is told the thread's number below `threads`, for memory of its own; ended(thread)
// follows its last one, if it had any, unless that threw.
int parallel_shares(
    int64_t count, int64_t piece, int threads, ShareFunction body, ThreadFunction ended = [](int) {});

}  // namespace epilogue
