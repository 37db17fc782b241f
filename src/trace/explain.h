// The kernels of a whole trace explained, and why the GEMMs of one op have different names.
#pragma once

#include <string>
#include <vector>

#include "epilogue/trace.h"
#include "trace/kernel_name.h"

namespace epilogue::trace {

struct KernelUse {
  KernelName kernel;
  int64_t calls = 0;
  double total_us = 0;
  std::vector<std::string> ops;  // that launched it, each once
  GemmCall call;                 // of its first launch, where the op's inputs were recorded
};

struct KernelComparison {
  std::string op;
  size_t a = 0, b = 0;  // into TraceExplanation::kernels
  std::vector<NameDifference> differences;
};

struct TraceExplanation {
  std::vector<KernelUse> kernels;  // longest total time first: kernels, copies and memsets of both devices
  std::vector<KernelComparison> comparisons;
};

TraceExplanation explain_trace(const Trace& trace);

}  // namespace epilogue::trace
