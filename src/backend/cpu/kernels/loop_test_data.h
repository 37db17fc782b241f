// For the tests of kernels that run in a StridedLoop: elements of any dtype as double, and random layouts.
#pragma once

#include <algorithm>
#include <array>
#include <cstring>
#include <numeric>
#include <random>
#include <vector>

#include "backend/cpu/kernels/strided_loop.h"
#include "base/half.h"

namespace epilogue::cpu {

inline constexpr DType kAllDTypes[] = {DType::f32, DType::bf16, DType::f16,
                                       DType::f64, DType::i32,  DType::i64};

template <class T>
T read_as(const char* at) {
  T value;
  std::memcpy(&value, at, sizeof(T));
  return value;
}

inline double read_element(DType dtype, const char* at) {
  switch (dtype) {
    case DType::f32:
      return static_cast<double>(read_as<float>(at));
    case DType::bf16:
      return static_cast<double>(f32_from_bf16(read_as<uint16_t>(at)));
    case DType::f16:
      return static_cast<double>(f32_from_f16(read_as<uint16_t>(at)));
    case DType::f64:
      return read_as<double>(at);
    case DType::i32:
      return read_as<int32_t>(at);
    case DType::i64:
      return static_cast<double>(read_as<int64_t>(at));
  }
  return 0;
}

inline void write_element(DType dtype, char* at, double value) {
  const auto write = [&](auto element) { std::memcpy(at, &element, sizeof(element)); };
  const float narrow = static_cast<float>(value);
  switch (dtype) {
    case DType::f32:
      return write(narrow);
    case DType::bf16:
      return write(bf16_from_f32(narrow));
    case DType::f16:
      return write(f16_from_f32(narrow));
    case DType::f64:
      return write(value);
    case DType::i32:
      return write(static_cast<int32_t>(value));
    case DType::i64:
      return write(static_cast<int64_t>(value));
  }
}

inline int size_of(DType dtype) {
  return dtype == DType::bf16 || dtype == DType::f16 ? 2 : dtype == DType::f32 || dtype == DType::i32 ? 4 : 8;
}

// A loop of random shape over its own memory. Each operand has its own order of dimensions, gaps between
// elements and an unaligned start; inputs broadcast along some dimensions. Sizes are small but for one.
struct RandomLoop {
  StridedLoop loop;  // as given: not yet collapsed
  std::vector<DType> dtypes;
  std::vector<std::vector<char>> memory;

  RandomLoop(std::mt19937& random, std::vector<DType> operand_dtypes) : dtypes(std::move(operand_dtypes)) {
    const auto pick = [&](int below) { return static_cast<int>(random() % static_cast<unsigned>(below)); };
    loop.dims = pick(5);
    loop.operands = static_cast<int>(dtypes.size());
    for (int d = 0; d < loop.dims; ++d) loop.sizes[d] = pick(12) == 0 ? 0 : 1 + pick(6);
    if (loop.dims > 0) loop.sizes[pick(loop.dims)] = 1 + pick(150);
    for (int o = 0; o < loop.operands; ++o) lay_out(random, o);
  }

  // Calls visit(addresses of the output's and the inputs' element) for every element, one by one.
  template <class Visit>
  void for_each_element(const Visit& visit) const {
    int64_t count = 1;
    for (int d = 0; d < loop.dims; ++d) count *= loop.sizes[d];
    for (int64_t i = 0; i < count; ++i) {
      std::array<char*, StridedLoop::kMaxOperands> at{};
      for (int o = 0; o < loop.operands; ++o) {
        at[o] = loop.operand[o].data;
        for (int64_t d = 0, rest = i; d < loop.dims; rest /= loop.sizes[d], ++d)
          at[o] += rest % loop.sizes[d] * loop.operand[o].strides[d];
      }
      visit(at);
    }
  }

 private:
  void lay_out(std::mt19937& random, int o) {
    LoopOperand& operand = loop.operand[o];
    operand.element_size = size_of(dtypes[static_cast<size_t>(o)]);
    std::vector<int> order(static_cast<size_t>(loop.dims));
    std::iota(order.begin(), order.end(), 0);
    if (random() % 2) std::shuffle(order.begin(), order.end(), random);
    int64_t extent = operand.element_size * (random() % 3 == 0 ? 2 : 1);
    for (const int d : order) {
      const bool broadcast = o > 0 && random() % 4 == 0;
      operand.strides[d] = broadcast ? 0 : extent;
      if (!broadcast) extent *= std::max<int64_t>(loop.sizes[d], 1) + (random() % 4 == 0 ? 1 : 0);
    }
    const int64_t start = operand.element_size * static_cast<int64_t>(random() % 5);
    memory.emplace_back(static_cast<size_t>(extent + start + operand.element_size));
    operand.data = memory.back().data() + start;
  }
};

}  // namespace epilogue::cpu
