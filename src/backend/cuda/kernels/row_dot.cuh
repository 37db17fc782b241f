// One token and small weights: each output is a dot product, computed by whole warps straight from memory, 16
// bytes a lane. It starts sooner than kernels that wait for the copy engine (1 x 768 x 3072, both kernels:
// 6.5 us, 7.6 by skinny_gemm), which read large weights faster (1 x 4096 x 14336: 88.0 and 84.8).
#pragma once

#include "backend/cuda/kernels/gemm_epilogue.cuh"

namespace epilogue::cuda {

// Of row_dot and row_mma.
struct RowArguments {
  const void *x, *gate, *up;  // without a gate, `gate` is the weight
  EpilogueArguments epilogue;
  void* out;
  int64_t x_stride, gate_stride, up_stride, out_stride;
  int m, n, k;
  bool weights_settled;  // no kernel that may still run writes the weights
};

// A block computes `outputs` columns; `parts` warps share the K of each.
template <class Element, bool is_gated, int parts_of_k>
struct RowDotShape {
  using T = Element;
  static constexpr bool gated = is_gated;
  static constexpr int parts = parts_of_k, warps = 8, outputs = warps / parts;
  static constexpr int rows = gated ? 2 : 1;
  static constexpr int unroll = gated ? 4 : 8;  // 16-byte loads in flight per lane and row
  static constexpr int threads = 32 * warps;
};

namespace row_dot {

__device__ __forceinline__ uint4 load_weight(const uint4* p) {
  uint4 v;
  asm volatile("ld.global.nc.L1::no_allocate.L2::256B.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
               : "l"(p));
  return v;
}
template <class T>
__device__ __forceinline__ float dot(uint4 a, uint4 b, float sum) {
  const uint32_t x[4] = {a.x, a.y, a.z, a.w}, y[4] = {b.x, b.y, b.z, b.w};
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const float2 p = sm90::unpack(x[i], T{}), q = sm90::unpack(y[i], T{});
    sum = fmaf(p.x, q.x, sum), sum = fmaf(p.y, q.y, sum);
  }
  return sum;
}

// Loads `unroll` pieces of each row, 32 lanes x 8 values apart. Beyond `end` they are zeros.
template <class S>
__device__ __forceinline__ void load(uint4 (&w)[S::rows][S::unroll], const uint4* const (&row)[S::rows],
                                     int at, int end) {
#pragma unroll
  for (int r = 0; r < S::rows; ++r) {
#pragma unroll
    for (int i = 0; i < S::unroll; ++i)
      w[r][i] = at + 32 * i < end ? load_weight(row[r] + at + 32 * i) : make_uint4(0, 0, 0, 0);
  }
}

template <class S>
__device__ __forceinline__ void accumulate(const RowArguments& a, const uint4 (&w)[S::rows][S::unroll],
                                           int at, int end, float (&sum)[S::rows]) {
#pragma unroll
  for (int i = 0; i < S::unroll; ++i) {
    if (at + 32 * i >= end) break;
    const uint4 x = static_cast<const uint4*>(a.x)[at + 32 * i];
#pragma unroll
    for (int r = 0; r < S::rows; ++r) sum[r] = dot<typename S::T>(w[r][i], x, sum[r]);
  }
}

}  // namespace row_dot

// `up` is not read when there is no gate.
template <class S>
__device__ __forceinline__ void write_row_output(const RowArguments& a, int token, int column, float gate,
                                                 float up) {
  using T = typename S::T;
  if (token >= a.m || column >= a.n) return;
  const EpilogueArguments& e = a.epilogue;
  const int even = column & ~1;
  const float2 gate_bias = bias_pair<T>(e.gate_bias, even),
               up_bias = bias_pair<T>(S::gated ? e.up_bias : nullptr, even);
  const float g = column & 1 ? gate_bias.y : gate_bias.x, u = column & 1 ? up_bias.y : up_bias.x;
  with_activation(e.act, [&]<Act act>() {
    const float2 o = finished<T, act, S::gated>(make_float2(gate, 0.f), make_float2(up, 0.f),
                                                make_float2(g, 0.f), make_float2(u, 0.f), e.exact);
    static_cast<T*>(a.out)[token * a.out_stride + column] = T(o.x);
  });
}

template <class S>
__global__ __launch_bounds__(S::threads) void row_dot_gemm(const __grid_constant__ RowArguments a) {
  __shared__ float partial[S::warps][S::rows];
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, part = warp % S::parts;
  const int column = blockIdx.x * S::outputs + warp / S::parts, row_index = min(column, a.n - 1);
  const uint4* row[S::rows];
  row[0] = reinterpret_cast<const uint4*>(static_cast<const uint16_t*>(a.gate) + row_index * a.gate_stride);
  if constexpr (S::gated)
    row[1] = reinterpret_cast<const uint4*>(static_cast<const uint16_t*>(a.up) + row_index * a.up_stride);
  const int pieces = a.k / 8, share = (pieces + S::parts - 1) / S::parts;
  const int end = min(pieces, (part + 1) * share);
  int at = part * share + lane;

  uint4 w[S::rows][S::unroll];
  float sum[S::rows] = {};
  if (a.weights_settled) row_dot::load<S>(w, row, at, end);
  sm90::wait_for_previous_kernel();
  if (!a.weights_settled) row_dot::load<S>(w, row, at, end);
  for (;;) {
    row_dot::accumulate<S>(a, w, at, end, sum);
    at += 32 * S::unroll;
    if (at - lane >= end) break;
    row_dot::load<S>(w, row, at, end);
  }
  sm90::let_next_kernel_start();
#pragma unroll
  for (int r = 0; r < S::rows; ++r) {
#pragma unroll
    for (int offset = 16; offset > 0; offset /= 2) sum[r] += __shfl_xor_sync(~0u, sum[r], offset);
    if (lane == 0) partial[warp][r] = sum[r];
  }
  __syncthreads();
  const int output = threadIdx.x;
  if (output >= S::outputs) return;
  float total[2] = {0.f, 0.f};
  for (int p = 0; p < S::parts; ++p) {
#pragma unroll
    for (int r = 0; r < S::rows; ++r) total[r] += partial[output * S::parts + p][r];
  }
  write_row_output<S>(a, 0, blockIdx.x * S::outputs + output, total[0], total[1]);
}

}  // namespace epilogue::cuda
