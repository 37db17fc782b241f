// Tensors made from nothing: empty, full, arange, randn.
#include <array>
#include <cmath>
#include <numbers>

#include "backend/backend.h"
#include "base/check.h"
#include "base/threads.h"
#include "op/dispatch.h"
#include "tensor/view.h"

namespace epilogue {
namespace {

// Philox 4x32-10 (Salmon et al., 2011): four random words from a counter and a key.
std::array<uint32_t, 4> philox(uint64_t counter, uint64_t seed) {
  std::array<uint32_t, 4> x{static_cast<uint32_t>(counter), static_cast<uint32_t>(counter >> 32), 0, 0};
  auto key0 = static_cast<uint32_t>(seed), key1 = static_cast<uint32_t>(seed >> 32);
  for (int round = 0; round < 10; ++round) {
    const uint64_t product0 = uint64_t{0xD2511F53} * x[0], product1 = uint64_t{0xCD9E8D57} * x[2];
    x = {static_cast<uint32_t>(product1 >> 32) ^ x[1] ^ key0, static_cast<uint32_t>(product1),
         static_cast<uint32_t>(product0 >> 32) ^ x[3] ^ key1, static_cast<uint32_t>(product0)};
    key0 += 0x9E3779B9;
    key1 += 0xBB67AE85;
  }
  return x;
}

// Four normal numbers by Box and Muller, two from each pair of words.
std::array<float, 4> normals(uint64_t counter, uint64_t seed) {
  const auto words = philox(counter, seed);
  std::array<float, 4> values{};
  for (size_t pair = 0; pair < 2; ++pair) {
    const float uniform = (static_cast<float>(words[2 * pair] >> 8) + 1.0F) * 0x1p-24F;  // (0, 1]
    const float angle = static_cast<float>(words[2 * pair + 1] >> 8) * (0x1p-23F * std::numbers::pi_v<float>);
    const float radius = std::sqrt(-2.0F * std::log(uniform));
    values[2 * pair] = radius * std::cos(angle);
    values[2 * pair + 1] = radius * std::sin(angle);
  }
  return values;
}

}  // namespace

Tensor empty(const Dims& sizes, TensorOptions options) {
  return Tensor::over(backend_for(options.device).allocate(bytes_for(sizes, options.dtype)), options.dtype,
                      sizes, contiguous_strides(sizes), 0);
}

Tensor full(const Dims& sizes, double value, TensorOptions options) {
  const Tensor made = empty(sizes, options);
  return dispatch(Op::fill_, std::span(&made, 1), {.value = value});
}

Tensor zeros(const Dims& sizes, TensorOptions options) { return full(sizes, 0, options); }
Tensor ones(const Dims& sizes, TensorOptions options) { return full(sizes, 1, options); }

Tensor arange(int64_t count, TensorOptions options) {
  EP_CHECK(count >= 0, "arange: count {} is negative", count);
  Tensor numbers = empty({count}, {DType::i64});
  auto* data = numbers.mutable_data<int64_t>();
  for (int64_t i = 0; i < count; ++i) data[i] = i;
  return numbers.to(options.dtype).to(options.device);
}

Tensor randn(const Dims& sizes, uint64_t seed, TensorOptions options) {
  EP_CHECK(dtype_is_floating(options.dtype), "randn: expected a floating dtype, got {}",
           dtype_name(options.dtype));
  Tensor numbers = empty(sizes, {DType::f32});
  auto* data = numbers.mutable_data<float>();
  const int64_t count = numbers.numel();
  parallel_for((count + 3) / 4, 4096, [&](int64_t begin, int64_t end) {
    for (int64_t quad = begin; quad < end; ++quad) {
      const auto values = normals(static_cast<uint64_t>(quad), seed);
      for (int64_t i = 0; i < 4 && 4 * quad + i < count; ++i)
        data[4 * quad + i] = values[static_cast<size_t>(i)];
    }
  });
  return numbers.to(options.dtype).to(options.device);
}

}  // namespace epilogue
