// A device that computes nothing: the CUDA module's own code, linked to a runtime and a cuBLASLt that take
// its calls, keep its memory in the host's and give each kernel the time that a test says. What the module
// decides (which kernel, by one launch or two, when it is timed, what is replayed) can so be tested where no
// GPU is.
#pragma once

#include <functional>
#include <mutex>
#include <string>
#include <vector>

namespace simulated_cuda {

struct Kernel {
  std::string name;    // without its namespace and arguments; "cublaslt N" for the Nth algorithm
  std::string before;  // the one before it on its stream; "" where that was something else
  unsigned blocks = 0;
  bool overlaps = false;  // it may begin before that one has ended
  bool together = false;  // all blocks at once (a cooperative launch)
  bool replayed = false;  // by a graph
};

struct Device {
  std::mutex mutex;
  std::function<double(const Kernel&)> microseconds;  // 10 for each when empty
  std::function<bool(const Kernel&)> fails;           // a launch that the device refuses
  std::vector<Kernel> kernels;                        // that ran, oldest first
  int major = 9;                                      // of its compute capability
  int algorithms = 3;                                 // that cuBLASLt knows for each product
  size_t memory = size_t{140} << 30, taken = 0;       // bytes
  int streams = 0;                                    // that were made
  int broken_captures = 0;                            // so many more end in an error
  // Calls that CUDA forbids while a stream is being captured, which break the capture:
  // "cudaDeviceSynchronize".
  std::vector<std::string> forbidden;
};

}  // namespace simulated_cuda

// The module exports it beside its own entry.
extern "C" simulated_cuda::Device* simulated_cuda_device();
