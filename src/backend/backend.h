// A backend allocates, copies, finds an implementation for a call and launches it.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "epilogue/memory.h"
#include "epilogue/tensor.h"
#include "op/op.h"

namespace epilogue {

// One kernel to run: inputs are checked and the output is allocated.
struct KernelCall {
  Op op;
  const Attrs& attrs;
  std::span<const Tensor> inputs;
  Tensor& output;
  int64_t flops = 0;
};

// What ran, for the event: set by the implementation.
struct KernelRan {
  const char* name = "";  // static or interned: lives as long as the process
  int threads = 1;
};

// One way to run some ops. Backends keep them in an ordered list and take the first that accepts.
struct Implementation {
  const char* name;
  bool (*serves)(Op op);
  // Null when it accepts, otherwise the reason it does not, in words a user understands.
  const char* (*refuse)(const KernelCall& call);
  KernelRan (*run)(const KernelCall& call);
};

class Backend {
 public:
  virtual ~Backend() = default;

  // A storage of at least `bytes` bytes, 64-byte aligned. Throws Error with the numbers when there is no
  // memory.
  virtual detail::StorageRef allocate(size_t bytes) = 0;
  // Device-to-device, host-to-device or the reverse; both sides contiguous.
  virtual void copy_bytes(void* to, Device to_device, const void* from, Device from_device, size_t bytes) = 0;
  virtual std::span<const Implementation> implementations() const = 0;
  virtual void synchronize() = 0;
  virtual MemoryStats memory_stats() const = 0;
  virtual void reset_peak_memory() = 0;
  virtual void empty_cache() = 0;

  // The first implementation that accepts; throws Error with every refusal when none does.
  const Implementation& find(const KernelCall& call) const;
  // THE choke point: every kernel of every mode runs through here, and its event is emitted by run().
  void launch(const KernelCall& call);

 protected:
  // Runs the call and records its event.
  virtual void run(const Implementation& implementation, const KernelCall& call) = 0;
};

Backend& backend_for(Device device);  // throws Error when the device is not there, saying why

}  // namespace epilogue
