// Is a configuration right? Every element against a float64 reference on fresh random data, outputs poisoned,
// guard bands around them, odd sizes, padded strides.
#pragma once

#include <algorithm>
#include <cmath>
#include <vector>

#include "backend/cuda/kernels/gated_gemm.h"
#include "backend/cuda/kernels/mlp_gemm.h"
#include "cuda/lab_memory.cuh"

namespace lab {

using namespace epilogue;

__device__ inline double reference_activation(double x, Act act) {
  switch (act) {
    case Act::relu:
      return x < 0 ? 0 : x;
    case Act::silu:
      return x / (1 + exp(-x));
    case Act::gelu_tanh:
      return 0.5 * x * (1 + tanh(0.7978845608028654 * (x + 0.044715 * x * x * x)));
    case Act::gelu:
      return 0.5 * x * erfc(-x * 0.70710678118654752);
    case Act::none:
      return x;
  }
  return x;
}

template <class T>
__device__ double rounded(double x, bool exact) {
  return exact ? static_cast<double>(static_cast<float>(T(static_cast<float>(x)))) : x;
}

// `slack` is how far the output moves when a gate or up at the edge of two values is rounded to the other
// one, as sums in f32 and in f64 may be.
template <class T>
__global__ void reference_kernel(cuda::GatedGemmProblem p, double half_unit, double* out, double* slack) {
  const int64_t column = blockIdx.x * int64_t{blockDim.x} + threadIdx.x, row = blockIdx.y;
  if (column >= p.n) return;
  const T *x = static_cast<const T*>(p.x) + row * p.x_stride,
          *g = static_cast<const T*>(p.gate) + column * p.gate_stride,
          *u = static_cast<const T*>(p.up) + (p.up ? column * p.up_stride : 0);
  double gate = 0, up = 0;
  for (int64_t i = 0; i < p.k; ++i) {
    const double v = static_cast<float>(x[i]);
    gate += v * static_cast<float>(g[i]);
    if (p.up) up += v * static_cast<float>(u[i]);
  }
  if (p.gate_bias) gate += static_cast<float>(static_cast<const T*>(p.gate_bias)[column]);
  if (p.up_bias) up += static_cast<float>(static_cast<const T*>(p.up_bias)[column]);
  const double a = reference_activation(rounded<T>(gate, p.exact), p.act);
  out[row * p.n + column] = p.up ? a * rounded<T>(up, p.exact) : a;
  const double step = 2 * half_unit * fabs(gate), factor = p.up ? up : 1;
  const double moved = fmax(fabs(reference_activation(gate + step, p.act) - a),
                            fabs(reference_activation(gate - step, p.act) - a));
  slack[row * p.n + column] = p.exact ? moved * fabs(factor) + (p.up ? fabs(a * up) * 2 * half_unit : 0) : 0;
}

struct Mismatch {
  int64_t row, column;
  double expected;
  float found;
};
struct Report {
  unsigned long long wrong, touched;  // values off, guard elements changed
  Mismatch first[6];
};

// `poison` fills what no kernel may write; row < 0 or column >= n is a guard.
template <class T>
__global__ void compare_kernel(const T* base, int64_t rows, int64_t columns, int64_t stride,
                               const double* reference, const double* slack, double relative, double absolute,
                               uint16_t poison, int guard_rows, Report* report) {
  const int64_t column = blockIdx.x * int64_t{blockDim.x} + threadIdx.x,
                row = int64_t{blockIdx.y} - guard_rows;
  if (column >= stride) return;
  const T value = base[row * stride + column];
  if (row < 0 || row >= rows || column >= columns) {
    if (reinterpret_cast<const uint16_t&>(value) != poison) atomicAdd(&report->touched, 1ull);
    return;
  }
  const double expected = reference[row * columns + column], found = static_cast<float>(value);
  if (fabs(found - expected) <= relative * fabs(expected) + absolute + slack[row * columns + column]) return;
  const auto i = atomicAdd(&report->wrong, 1ull);
  if (i < 6) report->first[i] = {row, column, expected, static_cast<float>(value)};
}

// Words that differ between two runs.
__global__ void differ_kernel(const uint16_t* a, const uint16_t* b, int64_t count,
                              unsigned long long* differ) {
  const int64_t i = blockIdx.x * int64_t{blockDim.x} + threadIdx.x;
  if (i < count && a[i] != b[i]) atomicAdd(differ, 1ull);
}

struct CheckCase {
  int64_t m, n, k;
  Act act;
  bool bias, exact, padded;
};

// Guarded, poisoned memory for an output.
struct GuardedOutput {
  static constexpr int guard_rows = 8;
  static constexpr uint16_t poison = 0xFFF7;
  GuardedOutput(int64_t rows, int64_t stride)
      : stride(stride), count((rows + 2 * guard_rows) * stride), memory(allocate(count * 2)) {
    const std::vector<uint16_t> poisoned(count, poison);
    LAB_CHECK(cudaMemcpy(memory.get(), poisoned.data(), count * 2, cudaMemcpyHostToDevice));
  }
  void* first() const { return static_cast<uint16_t*>(memory.get()) + guard_rows * stride; }
  int64_t stride, count;
  DeviceMemory memory;
};

// What a product of ours left in `out`, against float64.
template <class T>
Report compared(const cuda::GatedGemmProblem& p, const GuardedOutput& out) {
  const auto reference = allocate(p.m * p.n * 8), slack = allocate(p.m * p.n * 8),
             report = allocate(sizeof(Report));
  LAB_CHECK(cudaMemset(report.get(), 0, sizeof(Report)));
  const double half_unit = p.dtype == DType::bf16 ? 1.0 / 256 : 1.0 / 2048;
  const dim3 grid(static_cast<unsigned>((p.n + 127) / 128), static_cast<unsigned>(p.m));
  reference_kernel<T>
      <<<grid, 128>>>(p, half_unit, static_cast<double*>(reference.get()), static_cast<double*>(slack.get()));
  const dim3 all(static_cast<unsigned>((out.stride + 127) / 128),
                 static_cast<unsigned>(p.m + 2 * GuardedOutput::guard_rows));
  compare_kernel<T><<<all, 128>>>(static_cast<const T*>(out.first()), p.m, p.n, out.stride,
                                  static_cast<double*>(reference.get()), static_cast<double*>(slack.get()),
                                  half_unit * 1.01, 1e-4, GuardedOutput::poison, GuardedOutput::guard_rows,
                                  static_cast<Report*>(report.get()));
  LAB_CHECK(cudaGetLastError());
  Report r;
  LAB_CHECK(cudaMemcpy(&r, report.get(), sizeof r, cudaMemcpyDeviceToHost));
  return r;
}

inline unsigned long long differing(const GuardedOutput& a, const GuardedOutput& b) {
  const auto report = allocate(sizeof(unsigned long long));
  LAB_CHECK(cudaMemset(report.get(), 0, sizeof(unsigned long long)));
  differ_kernel<<<static_cast<unsigned>((a.count + 255) / 256), 256>>>(
      static_cast<uint16_t*>(a.memory.get()), static_cast<uint16_t*>(b.memory.get()), a.count,
      static_cast<unsigned long long*>(report.get()));
  unsigned long long count = 0;
  LAB_CHECK(cudaMemcpy(&count, report.get(), sizeof count, cudaMemcpyDeviceToHost));
  return count;
}

inline void print_mismatches(const Report& r) {
  for (unsigned i = 0; i < 4 && i < r.wrong; ++i)
    std::printf("    [%ld,%ld] expected %.6g found %.6g\n", r.first[i].row, r.first[i].column,
                r.first[i].expected, r.first[i].found);
}

template <class T>
bool check(const cuda::GemmConfig& config, const CheckCase& c, bool gated, uint64_t seed) {
  const int64_t pad = c.padded ? 8 : 0;
  cuda::GatedGemmProblem p;
  p.dtype = std::is_same_v<T, __half> ? DType::f16 : DType::bf16;
  p.act = c.act, p.exact = c.exact, p.m = c.m, p.n = c.n, p.k = c.k;
  p.x_stride = p.gate_stride = c.k + pad, p.up_stride = c.k + 2 * pad, p.out_stride = c.n + pad;
  const auto x = allocate(c.m * p.x_stride * 2), gate = allocate(c.n * p.gate_stride * 2),
             up = allocate(c.n * p.up_stride * 2), biases = allocate(c.n * 4);
  const float scale = 1 / std::sqrt(static_cast<float>(c.k));
  fill_random<T>(x.get(), c.m * p.x_stride, 1.0f, seed),
      fill_random<T>(gate.get(), c.n * p.gate_stride, 2 * scale, seed + 1);
  fill_random<T>(up.get(), c.n * p.up_stride, scale, seed + 2),
      fill_random<T>(biases.get(), 2 * c.n, 1.0f, seed + 3);
  p.x = x.get(), p.gate = gate.get(), p.up = gated ? up.get() : nullptr;
  if (c.bias) p.gate_bias = biases.get(), p.up_bias = static_cast<T*>(biases.get()) + c.n;
  const GuardedOutput out(c.m, p.out_stride), again(c.m, p.out_stride);
  p.out = out.first();
  if (const char* reason = cuda::refuse_gated_gemm(p)) return std::printf("refused: %s\n", reason), false;
  for (const GuardedOutput* to : {&out, &again}) {
    p.out = to->first();
    LAB_CHECK(cuda::launch_gated_gemm(p, config, nullptr));
    LAB_CHECK(cudaDeviceSynchronize());
  }
  const Report r = compared<T>(p, out);
  if (const auto differ = differing(out, again); differ > 0)
    return std::printf("  %llu elements differ between two runs\n", differ), false;
  if (r.wrong == 0 && r.touched == 0) return true;
  std::printf(
      "  WRONG %s %s m=%ld n=%ld k=%ld act=%d bias=%d exact=%d padded=%d: %llu of %ld off, %llu guards "
      "touched\n",
      cuda::name(config).c_str(), gated ? "gated" : "plain", c.m, c.n, c.k, static_cast<int>(c.act), c.bias,
      c.exact, c.padded, r.wrong, c.m * c.n, r.touched);
  print_mismatches(r);
  return false;
}

// The whole MLP in one kernel: hidden against float64, the output against float64 of that hidden, the same
// bits three times, counters left at zero.
template <class T>
bool check_mlp(const cuda::MlpGemmConfig& config, const CheckCase& c, int64_t dim, uint64_t seed) {
  const int64_t pad = c.padded ? 8 : 0;
  cuda::MlpGemmProblem p;
  auto& g = p.gated;
  g.dtype = std::is_same_v<T, __half> ? DType::f16 : DType::bf16;
  g.act = c.act, g.exact = c.exact, g.m = c.m, g.n = c.n, g.k = c.k;
  g.x_stride = g.gate_stride = c.k + pad, g.up_stride = c.k + 2 * pad, g.out_stride = c.n + pad;
  p.dim = dim, p.down_stride = c.n + pad, p.out_stride = dim + pad;
  const auto x = allocate(c.m * g.x_stride * 2), gate = allocate(c.n * g.gate_stride * 2),
             up = allocate(c.n * g.up_stride * 2), down = allocate(dim * p.down_stride * 2),
             biases = allocate(c.n * 4 + dim * 2);
  const float scale = 1 / std::sqrt(static_cast<float>(c.k));
  fill_random<T>(x.get(), c.m * g.x_stride, 1.0f, seed),
      fill_random<T>(gate.get(), c.n * g.gate_stride, 2 * scale, seed + 1);
  fill_random<T>(up.get(), c.n * g.up_stride, scale, seed + 2),
      fill_random<T>(biases.get(), 2 * c.n + dim, 1.0f, seed + 3);
  fill_random<T>(down.get(), dim * p.down_stride, 1 / std::sqrt(static_cast<float>(c.n)), seed + 4);
  g.x = x.get(), g.gate = gate.get(), g.up = up.get(), p.down = down.get();
  if (c.bias)
    g.gate_bias = biases.get(), g.up_bias = static_cast<T*>(biases.get()) + c.n,
    p.down_bias = static_cast<T*>(biases.get()) + 2 * c.n;
  const auto room = cuda::room_of(p, config);
  const auto counters = allocate(room.counter_bytes), sums = allocate(room.sum_bytes + 16);
  LAB_CHECK(cudaMemset(counters.get(), 0, room.counter_bytes));
  std::vector<GuardedOutput> hidden, out;
  for (int run = 0; run < 3; ++run) {
    hidden.emplace_back(c.m, g.out_stride), out.emplace_back(c.m, p.out_stride);
    LAB_CHECK(cudaMemset(sums.get(), 0xFF, room.sum_bytes + 16));
    g.out = hidden[run].first(), p.out = out[run].first();
    LAB_CHECK(cuda::launch_mlp_gemm(p, config, {counters.get(), sums.get(), true}, nullptr));
    LAB_CHECK(cudaDeviceSynchronize());
  }
  const Report first = compared<T>(g, hidden[2]);
  const Report second = compared<T>(cuda::down_product_of(p), out[2]);
  std::vector<int> left(room.counter_bytes / 4);
  LAB_CHECK(cudaMemcpy(left.data(), counters.get(), room.counter_bytes, cudaMemcpyDeviceToHost));
  const auto moved = std::count_if(left.begin(), left.end(), [](int v) { return v != 0; });
  const auto differ = differing(hidden[0], hidden[2]) + differing(out[0], out[2]) + differing(out[1], out[2]);
  if (first.wrong + first.touched + second.wrong + second.touched + differ + moved == 0) return true;
  std::printf(
      "  WRONG %s m=%ld n=%ld k=%ld dim=%ld act=%d bias=%d exact=%d padded=%d: hidden %llu off %llu guards, "
      "out %llu off %llu guards, %llu differ, %ld counters\n",
      cuda::name(config).c_str(), c.m, c.n, c.k, dim, static_cast<int>(c.act), c.bias, c.exact, c.padded,
      first.wrong, first.touched, second.wrong, second.touched, differ, static_cast<long>(moved));
  print_mismatches(first), print_mismatches(second);
  return false;
}

// For compute-sanitizer, under which a kernel runs a thousand times slower.
inline std::vector<CheckCase> small_cases(const cuda::GemmConfig& config) {
  const int64_t m = config.kernel == cuda::GemmKernel::tile ? 300 : config.rows;
  std::vector<CheckCase> cases{{m, 200, 328, Act::silu, true, false, true}};
  // More tiles than blocks; of swap, two pieces of tokens.
  if (config.kernel == cuda::GemmKernel::swap || config.kernel == cuda::GemmKernel::tile)
    cases.push_back({m + 1, 8704, 72, Act::gelu_tanh, false, false, false});
  return cases;
}

// The sizes a configuration is tried on: whole tiles, tails of each size, more tiles than blocks.
inline std::vector<CheckCase> check_cases(const cuda::GemmConfig& config) {
  const bool tile = config.kernel == cuda::GemmKernel::tile;
  const std::vector<int64_t> ms =
      tile ? std::vector<int64_t>{1, 128, 257, 1000, 2600}
           : std::vector<int64_t>{1, config.rows / 2 + 1, config.rows, config.rows + 1, 2 * config.rows + 1};
  const int64_t sizes[][2] = {{64, 64}, {192, 256},  {200, 72},   {1000, 776},
                              {8, 8},   {3072, 768}, {1024, 2048}};
  std::vector<CheckCase> cases;
  int i = 0;
  for (const int64_t m : ms)
    for (const auto& [n, k] : sizes) {
      if (!cuda::takes(config, {.m = m})) continue;
      cases.push_back({m, n, k, static_cast<Act>(i % 5), i % 2 == 1, i % 7 == 3, i % 3 == 1});
      ++i;
    }
  if (config.kernel == cuda::GemmKernel::swap)
    for (const int64_t m : {config.rows - 1, 2 * config.rows - 3, 3 * config.rows})
      cases.push_back({m, 20008, 328, Act::silu, m % 2 == 1, false, true});
  return cases;
}

}  // namespace lab
