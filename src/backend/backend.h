// A backend allocates, copies, finds an implementation for a call and launches it.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "epilogue/device.h"
#include "epilogue/memory.h"
#include "epilogue/tensor.h"
#include "op/op.h"
#include "op/program.h"

namespace epilogue {

// One kernel to run: inputs are checked and the output is allocated.
struct KernelCall {
  Op op;
  const Attrs& attrs;
  std::span<const Tensor> inputs;
  Tensor& output;
  int64_t flops = 0;
  // Of `fused`, or the epilogue of a product, whose operands then follow its own inputs, each a matrix of the
  // output's size (strides 0: broadcast).
  const PointwiseProgram* program = nullptr;
  std::span<Tensor> outputs = {};  // of a program, `output` the first of them
};

// What ran, for the event: set by the implementation.
struct KernelRan {
  const char* name = "";  // static or interned: lives as long as the process
  int threads = 1;
  bool repeatable = true;  // false while an implementation still looks for the best way
};

// One way to run some ops. Backends keep them in an ordered list and take the first that accepts.
struct Implementation {
  const char* name;
  bool (*serves)(Op op);
  // Null when it accepts, otherwise the reason it does not, in words a user understands.
  const char* (*refuse)(const KernelCall& call);
  KernelRan (*run)(const KernelCall& call);
  bool takes_programs = false;  // only calls with one go to those that do
};

// One that the caller asked for by name (Attrs::implementation), ahead of the list.
struct AskedImplementation : Implementation {
  const char* asked_for = "";  // the name, which traces show around the kernel
  // Called when it refuses a call: throws Error, unless the list may be asked in its place.
  void (*refused)(const KernelCall& call, const char* reason) = nullptr;
  void (*ran)(const KernelCall& call) = nullptr;  // called when it has run
  bool replayable = false;  // what it launches for some tensors may be launched again for the same ones
};

// What device.h's Stream, Event and Graph stand on. Handles are the device's own; "current" is the calling
// thread's.
class DeviceQueues {
 public:
  virtual ~DeviceQueues() = default;

  virtual void* make_stream() = 0;
  virtual void destroy_stream(void* stream) = 0;
  virtual void* current_stream() = 0;
  virtual void set_current_stream(void* stream) = 0;
  virtual void synchronize_stream(void* stream) = 0;

  virtual void* make_event() = 0;
  virtual void destroy_event(void* event) = 0;
  virtual void record_event(void* event) = 0;  // on the current stream
  virtual void wait_event(void* event) = 0;    // the current stream waits
  virtual void synchronize_event(void* event) = 0;
  virtual double elapsed_us(void* from, void* to) = 0;

  virtual bool is_capturing() const = 0;  // on the calling thread
  // Records what the calling thread launches instead of running it, until end_capture gives the graph, or
  // null when `broken` (the recording is thrown away).
  virtual void begin_capture() = 0;
  virtual void* end_capture(bool broken) = 0;
  virtual void replay(void* graph) = 0;  // on the current stream
  virtual void destroy_graph(void* graph) = 0;

  virtual detail::StorageRef allocate_pinned(size_t bytes) = 0;  // host memory that copies run from at once
};

struct Refusal {
  std::string implementation;  // "" where the device has none for the op
  std::string reason;
  std::string to_string() const;  // "NAME: REASON"
};

class Backend {
 public:
  virtual ~Backend() = default;

  // A storage of at least `bytes` bytes, 64-byte aligned. Throws Error with the numbers when there is no
  // memory.
  virtual detail::StorageRef allocate(size_t bytes) = 0;
  // Device-to-device, host-to-device or the reverse; both sides contiguous. Ordered after what was launched
  // before; the host's side may be used again when it returns, unless that is pinned memory.
  virtual void copy_bytes(void* to, Device to_device, const void* from, Device from_device, size_t bytes) = 0;
  virtual std::span<const Implementation> implementations() const = 0;
  virtual void synchronize() = 0;
  virtual MemoryStats memory_stats() const = 0;
  virtual void reset_peak_memory() = 0;
  virtual void empty_cache() = 0;
  virtual DeviceInfo info() const = 0;
  // The queues of a device that has them; null where a call has ended when it returns.
  virtual DeviceQueues* queues() { return nullptr; }

  // What the graph compiler asks. Null for yes, otherwise the reason.
  // Whether `program` runs on a product's block, in one kernel with it.
  virtual const char* refuse_epilogue(Op product, const PointwiseProgram& program) const;
  // Whether one product over stacked weights is no slower than two.
  virtual const char* refuse_merged_products() const { return nullptr; }
  // Makes a program ready to run, which may take long: called from a thread of the compiler. Throws Error
  // when it cannot.
  virtual void prepare(const PointwiseProgram& program);
  virtual bool is_prepared(const PointwiseProgram&) const { return true; }

  // The first implementation that accepts; throws Error with every refusal when none does.
  // Attrs::implementation is launch's affair.
  const Implementation& find(const KernelCall& call) const;
  bool takes(const KernelCall& call) const { return first_that_accepts(call) != nullptr; }
  // Why none accepts, of each that serves the op; empty where one does.
  std::vector<Refusal> refusals(const KernelCall& call) const;
  // THE choke point: every kernel of every mode runs through here or through run_again(); its event is
  // emitted by run(), or by the device's own tracer.
  void launch(const KernelCall& call);
  // Runs a call that has run before with the same memory as it did then, asking nobody; false: it has not.
  // launch() asks for it first. Only for backends whose events do not come from run().
  virtual bool run_again(const KernelCall&) { return false; }

 private:
  void launch_asked(const AskedImplementation& asked, const KernelCall& call);

 protected:
  const Implementation* first_that_accepts(const KernelCall& call) const;
  // Runs the call and records its event.
  virtual void run(const Implementation& implementation, const KernelCall& call) = 0;
};

Backend& backend_for(Device device);  // throws Error when the device is not there, saying why
Backend& cpu_backend();
bool cuda_module_is_loaded();  // and there is a device; by any thread of the process so far

}  // namespace epilogue
