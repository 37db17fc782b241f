#include "epilogue/device.h"

#include "backend/backend.h"
#include "backend/module.h"
#include "base/check.h"
#include "tensor/view.h"

namespace epilogue {
namespace {

DeviceQueues& queues_of(Device device, const char* what) {
  DeviceQueues* queues = backend_for(device).queues();
  EP_CHECK(queues, "{}: {} has no queues, a call has ended when it returns", what, device_name(device));
  return *queues;
}

}  // namespace

int device_count(DeviceType type) {
  if (type == DeviceType::cpu) return 1;
  const BackendModule* module = cuda_module();
  return module ? module->device_count : 0;
}

std::string why_no_devices(DeviceType type) {
  std::string why;
  if (type == DeviceType::cuda) cuda_module(&why);
  return why;
}

DeviceInfo device_info(Device device) { return backend_for(device).info(); }
void synchronize(Device device) { backend_for(device).synchronize(); }

Stream::Stream(Device device) : device_(device) {
  DeviceQueues& queues = queues_of(device, "Stream");
  handle_ = {queues.make_stream(), [&queues](void* stream) { queues.destroy_stream(stream); }};
}

void Stream::synchronize() const { queues_of(device_, "Stream").synchronize_stream(handle_.get()); }

StreamGuard::StreamGuard(const Stream& stream) : device_(stream.device_), kept_(stream.handle_) {
  DeviceQueues& queues = queues_of(device_, "StreamGuard");
  before_ = queues.current_stream();
  queues.set_current_stream(kept_.get());
}

StreamGuard::~StreamGuard() { queues_of(device_, "StreamGuard").set_current_stream(before_); }

Event::Event(Device device) : device_(device) {
  DeviceQueues& queues = queues_of(device, "Event");
  handle_ = {queues.make_event(), [&queues](void* event) { queues.destroy_event(event); }};
}

void Event::record() { queues_of(device_, "Event").record_event(handle_.get()); }
void Event::wait() { queues_of(device_, "Event").wait_event(handle_.get()); }
void Event::synchronize() const { queues_of(device_, "Event").synchronize_event(handle_.get()); }
double Event::elapsed_us(const Event& later) const {
  return queues_of(device_, "Event").elapsed_us(handle_.get(), later.handle_.get());
}

Graph::Graph(Device device, void* handle) : device_(device) {
  DeviceQueues& queues = queues_of(device, "Graph");
  handle_ = {handle, [&queues](void* graph) { queues.destroy_graph(graph); }};
}

Graph Graph::capture(Device device, const std::function<void()>& fn) {
  DeviceQueues& queues = queues_of(device, "Graph::capture");
  EP_CHECK(!queues.is_capturing(), "Graph::capture: a graph is being captured on this thread already");
  const Stream stream(device);  // the default stream cannot be recorded
  Event before(device);         // not the whole device's end, which a capture of another thread forbids
  before.record();
  const StreamGuard guard(stream);
  before.wait();
  fn();
  stream.synchronize();
  queues.begin_capture();
  try {
    fn();
  } catch (...) {
    queues.end_capture(true);
    throw;
  }
  return {device, queues.end_capture(false)};
}

void Graph::replay() const { queues_of(device_, "Graph::replay").replay(handle_.get()); }

Tensor empty_pinned(const Dims& sizes, DType dtype, Device device) {
  const size_t bytes = bytes_for(sizes, dtype);
  return Tensor::over(queues_of(device, "empty_pinned").allocate_pinned(bytes), dtype, sizes,
                      contiguous_strides(sizes), 0);
}

}  // namespace epilogue
