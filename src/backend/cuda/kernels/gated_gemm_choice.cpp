// Which configuration to take when none has been timed: a model of waves and bytes. Rates are an H200's,
// measured by bench/cuda/gated_gemm_lab.cu (bench/cuda/NOTES.md); other Hoppers differ by about the same
// factor everywhere.
#include <algorithm>
#include <cmath>

#include "backend/cuda/kernels/gated_gemm.h"

namespace epilogue::cuda {
namespace {

constexpr double kSmFlops = 6.2e6;     // per microsecond and multiprocessor, wgmma from shared memory
constexpr double kMemory = 4.3e6;      // bytes per microsecond from device memory
constexpr double kTileMemory = 3.5e6;  // the same when few large tiles ask for it
constexpr double kBlockStream = 9e4;   // bytes per microsecond that a multiprocessor loads, operands together
constexpr double kLatency = 1.5;       // microseconds until a stage of weights has come from device memory
constexpr double kStart = 2.5;         // microseconds before the first byte arrives

double ceiling(double value, double unit) { return std::ceil(value / unit); }

double weight_bytes(const GatedGemmProblem& p) {
  return 2.0 * double(p.n) * double(p.k) * (p.up != nullptr ? 2 : 1);
}

// Tiles go round by round over the multiprocessors. A cooperative tile shows its whole epilogue, a ping-pong
// one only what the other warpgroup's main loop does not cover. (Half of a cooperative one's is hidden since
// version 18; with that counted, 128x144 takes the place of a skinny kernel at 300 x 768 x 3072, where the
// pair then takes 17.3 us for 14.4.)
double tile_microseconds(const GemmConfig& c, const GatedGemmProblem& p, int multiprocessors) {
  const int outputs = p.up != nullptr ? c.columns / 2 : c.columns;
  const double rounds =
      ceiling(ceiling(double(p.m), c.rows) * ceiling(double(p.n), outputs), multiprocessors);
  // Beside the other warpgroup's epilogue a step takes longer, of a narrow tile more so.
  const double slower = c.columns <= 176 ? 1.08 : c.ping_pong ? 1.03 : 1;
  const double loop = ceiling(double(p.k), 64) * 2.0 * c.rows * c.columns * 64 / kSmFlops * slower;
  const double epilogue = c.rows * outputs / (c.ping_pong ? 5000.0 : 7000.0);
  const double busy =
      c.ping_pong ? rounds * std::max(loop, (loop + epilogue) / 2) + epilogue : rounds * (loop + epilogue);
  return kStart + std::max(busy, (weight_bytes(p) + 2.0 * double(p.m) * double(p.k + p.n)) / kTileMemory);
}

// As tiles, by what was measured of it.
double swap_microseconds(const GemmConfig& c, const GatedGemmProblem& p, int multiprocessors) {
  const int outputs = p.up != nullptr ? c.columns / 2 : c.columns;
  const double rounds =
      ceiling(ceiling(double(p.n), outputs) * ceiling(double(p.m), c.rows), multiprocessors);
  const double loop = ceiling(double(p.k), 64) * 2.0 * c.rows * c.columns * 64 / kSmFlops * 1.04;
  const double epilogue = c.rows * outputs / (c.ping_pong ? 5000.0 : 10000.0);
  const double busy =
      c.ping_pong ? rounds * std::max(loop, (loop + epilogue) / 2) + epilogue : rounds * (loop + epilogue);
  return kStart + std::max(busy, weight_bytes(p) / kMemory * (c.ping_pong ? 1.25 : 1.1));
}

// Blocks stream weights. Few of them are held up by what each has on its way, and by what a multiprocessor
// loads.
double skinny_microseconds(const GemmConfig& c, const GatedGemmProblem& p, int multiprocessors) {
  const int matrices = p.up != nullptr ? 2 : 1;
  const double pieces = ceiling(double(p.m), c.rows);
  const int most = c.columns / matrices;
  const int outputs =
      c.split > 1 ? most : even_share(p.n, most, static_cast<int64_t>(multiprocessors * c.per_sm / pieces));
  const double blocks = ceiling(double(p.n), outputs) * c.split * pieces;
  // Clusters do not fill the card: 30 of four blocks each stand on 132 multiprocessors, 17 of six.
  const double room = multiprocessors * c.per_sm * (c.split > 4 ? 0.77 : c.split > 2 ? 0.88 : 1);
  const double waves = std::max(1.0, blocks / room);
  const double tail = std::ceil(waves) / waves;  // a last wave that fills few multiprocessors
  const double steps = ceiling(ceiling(double(p.k), 64), c.split), row_bytes = 128;
  const double stages_on_their_way = (c.per_sm == 1 ? 226e3 : 108e3) / row_bytes / (c.columns + c.rows);
  const double weights = steps / stages_on_their_way * kLatency;
  const double loads =
      std::ceil(blocks / multiprocessors) * steps * (outputs * matrices + c.rows) * row_bytes / kBlockStream;
  const double bytes = weight_bytes(p) / kMemory * (1 + 0.1 * (tail - 1)) * (c.per_sm == 1 ? 1 : 1.02) *
                       (c.split > 2 && waves > 1 ? 1.2 : 1);
  const double products = std::ceil(blocks / multiprocessors) * double(p.k) / c.split * 2.0 * c.rows *
                          c.columns / kSmFlops * (c.rows > 64 ? 1.2 : 1);
  const double gaps =
      c.per_sm == 1 ? std::ceil(waves) - 1 : 0;  // nobody multiplies while a block follows a block
  return kStart + std::max({bytes, products, weights * std::ceil(waves), loads}) + 2 * gaps +
         0.3 * (c.split - 1) + 0.02 * c.rows;
}

// A lane wants two or three loads in flight of each row.
double row_dot_microseconds(const GemmConfig& c, const GatedGemmProblem& p) {
  const double loads = double(p.k) / 256.0 / c.split;
  return kStart - 0.5 +
         weight_bytes(p) / (kMemory * 0.99) *
             (1 + 0.02 * std::max(0.0, loads - 3) + 0.1 * std::max(0.0, 2 - loads));
}

// Few blocks are held up by what each has on its way: 64 KB at a time.
double row_mma_microseconds(const GemmConfig& c, const GatedGemmProblem& p) {
  const double blocks = ceiling(double(p.n), c.columns);
  return kStart - 0.2 + weight_bytes(p) / std::min(kMemory * 1.01, blocks * 4.9e4);
}

}  // namespace

bool may_be_best(const GemmConfig& c, const GatedGemmProblem& p) {
  // An MLP's two products come by kernels of one kind: after one that splits the first-level cache otherwise
  // each multiprocessor drains first (1 x 4096 x 14336: 85 us by either kind, 94 and 97 mixed). Of one token
  // row_dot has the small matrices, skinny the large ones.
  constexpr int64_t small = int64_t{12} << 20;
  const bool of_mlp = p.up != nullptr || p.after_gated;
  if (of_mlp && c.kernel == GemmKernel::row_mma) return false;
  if (of_mlp && p.m == 1 && (c.kernel == GemmKernel::row_dot) != (2 * p.n * p.k <= small)) return false;
  // Few rows: tiles would compute what nobody asked for.
  const bool wide = c.kernel == GemmKernel::tile || c.kernel == GemmKernel::swap;
  if (wide && p.m <= 64) return false;
  if (c.kernel == GemmKernel::swap && c.ping_pong && p.m <= c.rows) return false;
  return wide || c.rows <= 16 || c.rows < 2 * p.m;
}

GemmConfig choose_gated_gemm(const GatedGemmProblem& problem, int multiprocessors) {
  const auto microseconds = [&](const GemmConfig& c) {
    if (c.kernel == GemmKernel::tile) return tile_microseconds(c, problem, multiprocessors);
    if (c.kernel == GemmKernel::skinny) return skinny_microseconds(c, problem, multiprocessors);
    if (c.kernel == GemmKernel::swap) return swap_microseconds(c, problem, multiprocessors);
    if (c.kernel == GemmKernel::row_mma) return row_mma_microseconds(c, problem);
    return row_dot_microseconds(c, problem);
  };
  GemmConfig best;
  double least = INFINITY;
  for (const GemmConfig& c : gated_gemm_configs()) {
    if (!takes(c, problem) || !may_be_best(c, problem)) continue;
    if (const double us = microseconds(c); us < least) least = us, best = c;
  }
  return best;
}

}  // namespace epilogue::cuda
