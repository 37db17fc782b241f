// Captures what a function of our ops does as a graph, without running a kernel.
#pragma once

#include <functional>
#include <span>
#include <unordered_map>
#include <vector>

#include "graph/graph.h"
#include "op/dispatch.h"

namespace epilogue::graph {

using Function = std::function<std::vector<Tensor>(std::span<const Tensor>)>;

struct CaptureOptions {
  // The leading dimensions of every input (all but the last of each) become distinct primes with names, so
  // that a text tells them apart from sizes that the function or its parameters bring along.
  bool symbols = false;
};

// Calls `function` once, on this thread, with stand-ins for the inputs. Tensors that are not among them
// become constants by identity. Throws what the function throws; Error when it reads a value or writes in
// place.
Graph capture(const Function& function, std::span<const Tensor> inputs, const CaptureOptions& options = {});

}  // namespace epilogue::graph
