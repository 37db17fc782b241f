// Constants that are several parameters laid below one another, kept until one of them is written.
#pragma once

#include <memory>
#include <mutex>
#include <vector>

#include "graph/graph.h"

namespace epilogue::compiler {

// Any thread may ask.
class StackedConstant {
 public:
  explicit StackedConstant(graph::Parts parts) : parts_(std::move(parts)) {}

  // A contiguous tensor with all parts along the first dimension, made at the first call and again when a
  // part's version has changed. It is a parameter itself, so that backends may pack it.
  Tensor get();
  int64_t made() const;  // how often
  const graph::Parts& parts() const { return parts_; }

 private:
  const graph::Parts parts_;
  mutable std::mutex mutex_;
  std::vector<uint64_t> versions_;
  Tensor whole_;
  int64_t made_ = 0;
};

// Those of one function: its plans share them, and each goes with the last plan that reads it.
class StackedConstants {
 public:
  std::shared_ptr<StackedConstant> of(const graph::Parts& parts);

 private:
  std::mutex mutex_;
  std::vector<std::weak_ptr<StackedConstant>> known_;
};

}  // namespace epilogue::compiler
