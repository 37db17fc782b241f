#include "backend/cpu/isa.h"  // first: it chooses Highway's targets

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/peak.cpp"
#include <array>

#include <hwy/foreach_target.h>  // IWYU pragma: keep
#include <hwy/highway.h>

#include "backend/cpu/kernels/bf16_pairs-inl.h"

HWY_BEFORE_NAMESPACE();
namespace epilogue::cpu::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// An empty statement that may change the vector: what made it cannot be dropped, merged or moved to memory.
template <class V>
HWY_INLINE void touch(V& vector) {
#if HWY_COMPILER_CLANG && HWY_TARGET == HWY_EMU128
  asm volatile("" : "+m"(vector));  // an array there, which clang takes into no register
#else
  asm volatile("" : "+v"(vector.raw));
#endif
}

#if HWY_TARGET == HWY_SCALAR || HWY_TARGET == HWY_EMU128
// Highway's emulation works element by element; oneDNN, which multiplies here, uses the 16 bytes that every
// compiler knows.
template <class T>
struct SixteenBytes {
  typedef T Vector __attribute__((vector_size(16)));
};
template <class T>
HWY_INLINE typename SixteenBytes<T>::Vector filled(T value) {
  return typename SixteenBytes<T>::Vector{} + value;
}
template <class V>
HWY_INLINE V multiply_add(V a, V b, V c) {
  return a * b + c;
}
template <class V>
HWY_INLINE void keep(V& vector) {
  asm volatile("" : "+v"(vector));
}
#else
template <class T>
HWY_INLINE hn::Vec<hn::ScalableTag<T> > filled(T value) {
  return hn::Set(hn::ScalableTag<T>(), value);
}
template <class V>
HWY_INLINE V multiply_add(V a, V b, V c) {
  return hn::MulAdd(a, b, c);
}
template <class V>
HWY_INLINE void keep(V& vector) {
  touch(vector);
}
#endif

// Twelve independent chains: two FMA units with four cycles of latency need eight. Returns the operations of
// a round.
template <class T>
double multiply_add(int64_t rounds) {
  auto a = filled(T{0}), b = a, c = a, e = a, f = a, g = a, h = a, i = a, j = a, k = a, l = a, m = a;
  const auto x = filled(T{0.5});
  for (int64_t r = 0; r < rounds; ++r) {
    for (auto* chain : {&a, &b, &c, &e, &f, &g, &h, &i, &j, &k, &l, &m}) *chain = multiply_add(*chain, x, x);
    for (auto* chain : {&a, &b, &c, &e, &f, &g, &h, &i, &j, &k, &l, &m}) keep(*chain);
  }
  return 12 * 2 * static_cast<double>(sizeof x / sizeof(T));
}

// The same by AVX512-BF16, which multiplies two numbers in each lane.
double multiply_pairs(int64_t rounds) {
  const hn::ScalableTag<uint32_t> d;
  std::array<PairSums, 12> sums;
  sums.fill(hn::Zero(hn::ScalableTag<float>()));
  auto x = hn::Set(d, 0x3f003f00);  // 0.5 and 0.5
  for (int64_t r = 0; r < rounds; ++r) {
    touch(x);
    HWY_UNROLL(12)
    for (auto& sum : sums) sum = NativePairs::add_products(sum, x, x);
  }
  for (auto& sum : sums) touch(sum);
  return 12 * 2 * 2 * static_cast<double>(hn::Lanes(d));
}

double multiply_add_f32(int64_t rounds) { return multiply_add<float>(rounds); }
double multiply_add_f64(int64_t rounds) { return multiply_add<double>(rounds); }

}  // namespace epilogue::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>
#include <random>
#include <thread>

#include "backend/cpu/amx.h"
#include "backend/cpu/kernels/tile_pack.h"
#include "backend/cpu/packed_weight.h"
#include "backend/cpu/peak.h"
#include "base/threads.h"

#if defined(__linux__)
#include <sys/mman.h>
#endif

namespace epilogue::cpu {
namespace {

HWY_EXPORT(multiply_add_f32);
HWY_EXPORT(multiply_add_f64);
HWY_EXPORT(multiply_pairs);

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

#if defined(__x86_64__)
// Two tiles of A and two of B in bf16, signs and mantissas at random around 1: the clock follows the power
// that the multipliers draw, and zeros draw little (a core of an Emerald Rapids: 3.1 TFLOP/s on zeros, 2.4 on
// these).
struct alignas(64) RandomTiles {
  uint16_t element[4][kAmxRows * kAmxDepth];
  RandomTiles() {
    std::minstd_rand random;
    for (auto& tile : element)
      for (uint16_t& e : tile) e = static_cast<uint16_t>(0x3f80 ^ (random() >> 8 & 0x807f));
  }
};
#endif

// Four accumulators fed by two tiles of A and two of B: what a GEMM's inner loop does at best. Returns the
// operations of a round.
double multiply_tiles([[maybe_unused]] int64_t rounds) {
#if defined(__x86_64__)
  static constexpr TileShapes kFull;
  static const RandomTiles random;
  AmxTiles::configure(kFull);
  AmxTiles::zero<0>();
  AmxTiles::zero<1>();
  AmxTiles::zero<2>();
  AmxTiles::zero<3>();
  AmxTiles::load<4>(random.element[0], kAmxRowBytes);
  AmxTiles::load<5>(random.element[1], kAmxRowBytes);
  AmxTiles::load<6>(random.element[2], kAmxRowBytes);
  AmxTiles::load<7>(random.element[3], kAmxRowBytes);
  for (int64_t r = 0; r < rounds; ++r) {
    AmxTiles::multiply<0, 4, 6>();
    AmxTiles::multiply<1, 4, 7>();
    AmxTiles::multiply<2, 5, 6>();
    AmxTiles::multiply<3, 5, 7>();
  }
  AmxTiles::release();
#endif
  return 4 * 16 * 16 * 32 * 2;
}

// As many threads as have a core run `kernel` for 40 ms; the sum of what each did at its best over half a
// millisecond to one. A neighbour on the machine can only make a sample slower. `kernel(rounds)` returns the
// operations of one round.
double measure_gflops(double (*kernel)(int64_t)) {
  std::atomic<double> total{0};
  const auto cores = static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
  const auto seconds = [&](int64_t rounds) {
    const auto start = Clock::now();
    kernel(rounds);
    return seconds_since(start);
  };
  parallel_for(std::min(thread_count(), cores), 1, [&](int64_t, int64_t) {
    const auto begin = Clock::now();
    // Found by time, not given: a build without optimisation takes a hundred times as long for a round.
    int64_t rounds = 64;
    while (seconds(rounds) < 0.0005) rounds *= 2;
    double fewest = 1e9;
    do {
      fewest = std::min(fewest, seconds(rounds));
    } while (seconds_since(begin) < 0.04);
    total.fetch_add(kernel(0) * static_cast<double>(rounds) / fewest / 1e9);
  });
  return total;
}

// Fresh memory in large pages where the system gives them: faults would take longer than the copies.
std::unique_ptr<char, decltype(&std::free)> large_buffer(size_t bytes) {
  std::unique_ptr<char, decltype(&std::free)> buffer(static_cast<char*>(std::aligned_alloc(1 << 21, bytes)),
                                                     &std::free);
  if (!buffer) throw std::bad_alloc();
#if defined(__linux__)
  madvise(buffer.get(), bytes, MADV_HUGEPAGE);
#endif
  return buffer;
}

double measure_copy() {
  constexpr size_t kBytes = 64 << 20;
  const auto from = large_buffer(kBytes), to = large_buffer(kBytes);
  const int threads = thread_count();
  const auto on_parts = [&](auto work) {
    parallel_for(threads, 1, [&](int64_t begin, int64_t end) {
      const size_t first = kBytes * static_cast<size_t>(begin) / static_cast<size_t>(threads);
      const size_t last = kBytes * static_cast<size_t>(end) / static_cast<size_t>(threads);
      work(to.get() + first, from.get() + first, last - first);
    });
  };
  on_parts([](char* out, char* in, size_t n) {
    std::memset(in, 1, n);
    std::memset(out, 1, n);
  });
  double fewest = 1e9;
  for (const auto begin = Clock::now(); seconds_since(begin) < 0.03;) {
    const auto start = Clock::now();
    on_parts([](char* out, char* in, size_t n) { std::memcpy(out, in, n); });
    fewest = std::min(fewest, seconds_since(start));
  }
  return 2.0 * kBytes / fewest / 1e9;
}

}  // namespace

double peak_fma_gflops() {
  apply_isa_cap();
  static const double gflops =
      measure_gflops([](int64_t rounds) { return HWY_DYNAMIC_DISPATCH(multiply_add_f32)(rounds); });
  return gflops;
}

double peak_fma_f64_gflops() {
  apply_isa_cap();
  static const double gflops =
      measure_gflops([](int64_t rounds) { return HWY_DYNAMIC_DISPATCH(multiply_add_f64)(rounds); });
  return gflops;
}

double peak_amx_bf16_gflops() {
  static const double gflops = has_amx() ? measure_gflops(&multiply_tiles) : 0;
  return gflops;
}

double peak_avx512_bf16_gflops() {
  if (!uses_avx512_bf16()) return 0;
  static const double gflops =
      measure_gflops([](int64_t rounds) { return HWY_DYNAMIC_DISPATCH(multiply_pairs)(rounds); });
  return gflops;
}

double copy_bandwidth_gbs() {
  static const double gbs = measure_copy();
  return gbs;
}

double peak_gflops(DType dtype, int64_t rows) {
  if (dtype == DType::f64) return peak_fma_f64_gflops();
  double beyond = 0;
  // Weights that are not packed are oneDNN's, which takes bf16 to the same instructions if it knows them.
  if (dtype == DType::bf16)
    beyond = uses_amx() && (packs_weights() || describes_amx()) ? peak_amx_bf16_gflops()
                                                                : peak_avx512_bf16_gflops();
  if (packs_weights() && panel_form(dtype, rows) == PanelForm::parts)
    beyond = peak_amx_bf16_gflops() / kPartProducts;
  return std::max(beyond, peak_fma_gflops());
}

}  // namespace epilogue::cpu
#endif
