// Constants that are several parameters laid below one another, kept until one of them is written.
#pragma once

#include <mutex>
#include <vector>

#include "graph/graph.h"

namespace epilogue::compiler {

// Any thread may ask.
class StackedConstants {
 public:
  // A contiguous tensor with all parts along the first dimension, made at the first call and again when a
  // part's version has changed. It is a parameter itself, so that backends may pack it.
  Tensor get(const graph::Parts& parts);
  int64_t made() const;

 private:
  struct Entry {
    graph::Parts parts;
    std::vector<uint64_t> versions;
    Tensor whole;
  };
  mutable std::mutex mutex_;
  std::vector<Entry> entries_;
  int64_t made_ = 0;
};

}  // namespace epilogue::compiler
