// Timing on a device with queues: three times of the same call, over inputs and weights that rotate past the
// cache.
#pragma once

#include "cli/measure.h"
#include "cli/problem.h"

namespace epilogue::cli {

// Of one call, in microseconds.
struct DeviceTiming {
  Timing graph;   // the device's time alone: calls captured in one graph and replayed, no launch in the way
  Timing stream;  // queued one behind the other: the larger of the device's time and the host's
  Timing wall;    // a call and its synchronisation, as one who waits for the answer sees it
  int sets = 1;   // layers and inputs that were rotated
};

DeviceTiming measure_on_device(const Problem& problem, nn::Mode mode, double min_seconds);

// Measured once in a process: a product of 8192^3 random numbers, and a copy of 2 GiB counted as read and
// written.
double device_gflops(Device device, DType dtype);
double device_copy_gbs(Device device);

}  // namespace epilogue::cli
