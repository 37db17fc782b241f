// The Hopper kernels alone: are they right, and how fast beside cuBLASLt?
//   gated_gemm_lab list                            the configurations, one "KERNEL ID NAME" a line
//   gated_gemm_lab check KERNEL ID [bf16|f16]      one configuration against float64; exits 1 when wrong
//   gated_gemm_lab list-mlp                        those of the whole MLP in one kernel, one "ID PARTS NAME" a line
//   gated_gemm_lab check-mlp ID PARTS [bf16|f16]   one of them, likewise
//   gated_gemm_lab streams ID PARTS                two of them at once
//   gated_gemm_lab time M DIM HIDDEN ACT FILE [KERNEL:ID ...]           all configurations but those named;
//                                                                       appends JSON lines
//   gated_gemm_lab turns M DIM HIDDEN ACT FILE SECONDS GATED+DOWN ...   these, in turns: see turns()
//   gated_gemm_lab one M DIM HIDDEN gated|plain KERNEL:ID               three launches for a profiler
//   gated_gemm_lab ceilings                        copy and read bandwidth, TFLOP/s of cuBLASLt at 8192^3
// A configuration per process lets a script put a timeout around each, so that a hang costs one line of the
// table.
#include <array>
#include <chrono>
#include <numeric>
#include <random>
#include <string>

#include "cuda/lab_check.cuh"
#include "cuda/lab_timing.cuh"

namespace lab {
namespace {

constexpr double kFlops = 782e12, kBytes = 4.25e12;  // H200, measured: 8192^3 on random data, large copy

struct Shape {
  int64_t m, dim, hidden;
  Act act;
};

// One copy of everything an MLP call touches; gate and up are halves of one buffer, so that cuBLASLt can take
// them stacked.
struct BufferSet {
  DeviceMemory x, gate_up, down, h, stacked, y;
};

BufferSet make_set(const Shape& s, uint64_t seed) {
  BufferSet b{allocate(s.m * s.dim * 2),        allocate(2 * s.hidden * s.dim * 2),
              allocate(s.hidden * s.dim * 2),   allocate(s.m * s.hidden * 2),
              allocate(2 * s.m * s.hidden * 2), allocate(s.m * s.dim * 2)};
  using T = __nv_bfloat16;
  fill_random<T>(b.x.get(), s.m * s.dim, std::getenv("LAB_ZEROS") ? 0 : 1, seed);
  fill_random<T>(b.gate_up.get(), 2 * s.hidden * s.dim, 1 / std::sqrt(float(s.dim)), seed + 1);
  fill_random<T>(b.down.get(), s.hidden * s.dim, 1 / std::sqrt(float(s.hidden)), seed + 2);
  fill_random<T>(b.h.get(), s.m * s.hidden, std::getenv("LAB_ZEROS") ? 0 : 0.5f, seed + 3);
  return b;
}

cuda::GatedGemmProblem gated_problem(const Shape& s, const BufferSet& b) {
  cuda::GatedGemmProblem p;
  p.act = s.act, p.m = s.m, p.n = s.hidden, p.k = s.dim;
  p.x = b.x.get(), p.gate = b.gate_up.get(),
  p.up = static_cast<uint16_t*>(b.gate_up.get()) + s.hidden * s.dim;
  p.out = b.h.get(), p.x_stride = p.gate_stride = p.up_stride = s.dim, p.out_stride = s.hidden;
  return p;
}
cuda::GatedGemmProblem down_problem(const Shape& s, const BufferSet& b) {
  cuda::GatedGemmProblem p;
  p.m = s.m, p.n = s.dim, p.k = s.hidden, p.x = b.h.get(), p.gate = b.down.get(), p.out = b.y.get();
  p.x_stride = p.gate_stride = s.hidden, p.out_stride = s.dim;
  return p;
}

cuda::MlpGemmProblem mlp_problem(const Shape& s, const BufferSet& b) {
  cuda::MlpGemmProblem p;
  p.gated = gated_problem(s, b);
  p.dim = s.dim, p.down = b.down.get(), p.out = b.y.get(), p.down_stride = s.hidden, p.out_stride = s.dim;
  return p;
}

// Also with parts that no shape gains by.
cuda::MlpGemmConfig mlp_config(int id, int parts) {
  cuda::MlpGemmConfig config;
  for (const auto& c : cuda::mlp_gemm_configs())
    if (c.id == id) config = c;
  config.parts = static_cast<int16_t>(parts);
  return config;
}

struct Timed {
  std::string name;
  double us = 0;
  double ghz = 0;
  cuda::GemmConfig config;
  int algorithm = -1;  // of cuBLASLt; -1: ours
  cuda::Overlap overlap = cuda::Overlap::none;
  bool stacked = false;
};

class ShapeBench {
 public:
  ShapeBench(const Shape& s, std::FILE* json) : s_(s), json_(json) {
    const double set_bytes = 2.0 * (3.0 * s.dim * s.hidden + 2.0 * s.m * s.dim + s.m * s.hidden);
    const int count = std::clamp(static_cast<int>(240e6 / set_bytes) + 1, 2, 40);
    for (int i = 0; i < count; ++i) sets_.push_back(make_set(s, 100 * i + 7));
    LAB_CHECK(cudaMemset(counters_.get(), 0, counter_bytes_));
    LAB_CHECK(cudaDeviceSynchronize());
    const double flops = 6.0 * s.m * s.dim * s.hidden;
    floor_us_ = std::max(flops / kFlops,
                         (6.0 * s.dim * s.hidden + 4.0 * s.m * s.dim + 4.0 * s.m * s.hidden) / kBytes) *
                1e6;
  }

  // Candidates in turns, each for 20 ms or more: the card's clock follows the power drawn in the last tens of
  // milliseconds, so that only neighbours in time, on a card that stays busy, are comparable. A candidate is
  // "GATED+DOWN", either may be left out; each is "ID" of our tile kernels, "kID" of our skinny ones, "wID"
  // of the swapped ones, "dID" of row_dot or "mID" of row_mma, with letters after it (o: loads weights before
  // the kernel before has ended, l: only starts before that, s: gate and up stacked in one plain product), or
  // "cN", cuBLAS's way N. "bIDxPARTS" is the whole MLP in one kernel (c: launched cooperatively).
  void turns(double seconds, const std::vector<std::string>& names) {
    stacked_product_ = std::make_unique<CublasProduct>(s_.m, 2 * s_.hidden, s_.dim);
    down_product_ = std::make_unique<CublasProduct>(s_.m, s_.dim, s_.hidden);
    struct Candidate {
      std::string name;
      cudaGraphExec_t graph;
      int launches;
      std::vector<double> us, ghz;
    };
    std::vector<Candidate> all;
    for (const std::string& name : names) {
      const size_t plus = name.find('+');
      const Timed gated = parsed(name.substr(0, plus)),
                  down = plus == std::string::npos ? Timed{""} : parsed(name.substr(plus + 1));
      const int launches = rounds_of_sets();
      const auto graph = timer_.capture(launches, [&](int i) {
        const BufferSet& b = sets_[i % sets_.size()];
        if (name[0] == 'b') return launch_whole(name, b);
        const cudaError_t e = gated.name.empty() ? cudaSuccess : launch_gated(gated, b);
        return e != cudaSuccess || down.name.empty() ? e : launch_down(down, b);
      });
      if (graph == nullptr) std::printf("%s cannot run\n", name.c_str());
      if (graph != nullptr) all.push_back({name, graph, launches, {}, {}});
    }
    const auto begin = std::chrono::steady_clock::now();
    std::vector<size_t> order(all.size());
    std::iota(order.begin(), order.end(), size_t{0});
    std::mt19937 random(1);
    const auto over = [&] {
      return std::chrono::steady_clock::now() - begin > std::chrono::duration<double>(seconds);
    };
    for (int round = 0; round < 4 || !over(); ++round) {
      for (const size_t i : order) {
        Candidate& c = all[i];
        const double us = timer_.replay(c.graph) / c.launches;
        if (round > 0) c.us.push_back(us), c.ghz.push_back(timer_.gigahertz());
      }
      std::shuffle(order.begin(), order.end(), random);  // what ran before decides the clock too
    }
    std::printf("%ld,%ld,%ld floor %.1f, %zu rounds, first is the scale\n", s_.m, s_.dim, s_.hidden,
                floor_us_, all[0].us.size());
    for (const Candidate& c : all) {
      std::vector<double> ratios;
      for (size_t i = 0; i < c.us.size(); ++i) ratios.push_back(c.us[i] / all[0].us[i]);
      std::printf("  %-28s %9.2f us  %.3f  %.2f GHz\n", c.name.c_str(), median(c.us), median(ratios),
                  median(c.ghz));
      std::fprintf(json_,
                   "{\"m\":%ld,\"dim\":%ld,\"hidden\":%ld,\"what\":\"turns\",\"name\":\"%s\",\"us\":%.3f,"
                   "\"ratio\":%.4f}\n",
                   s_.m, s_.dim, s_.hidden, c.name.c_str(), median(c.us), median(ratios));
    }
  }

  void run(const std::vector<std::string>& skipped) {
    stacked_product_ = std::make_unique<CublasProduct>(s_.m, 2 * s_.hidden, s_.dim);
    down_product_ = std::make_unique<CublasProduct>(s_.m, s_.dim, s_.hidden);
    warm_up();
    const auto stacked =
        time_lt("gate_up", CublasProduct(s_.m, 2 * s_.hidden, s_.dim), [](const BufferSet& b) {
          return std::array<void*, 3>{b.x.get(), b.gate_up.get(), b.stacked.get()};
        });
    const auto down = time_lt("down", CublasProduct(s_.m, s_.dim, s_.hidden), [](const BufferSet& b) {
      return std::array<void*, 3>{b.h.get(), b.down.get(), b.y.get()};
    });
    const double scale = stacked[0].us + down[0].us;
    const auto gated = time_ours("gated", gated_problem, skipped),
               plain = time_ours("plain", down_problem, skipped);
    std::printf("%ld,%ld,%ld floor %.1f G %.1f (%.1f+%.1f; best of 8 %.1f+%.1f)\n", s_.m, s_.dim, s_.hidden,
                floor_us_, scale, stacked[0].us, down[0].us, best(stacked).us, best(down).us);
    print_best("gated", gated), print_best("down ", plain);
    // Pairs in one graph, and the scale as a pair, in turns: clocks follow the power drawn, so what is
    // measured minutes apart is not comparable.
    struct Pair {
      Timed gated, down;
      bool overlapped;
      std::vector<double> us, ghz;
    };
    std::vector<Pair> pairs;
    for (const Timed& g : few(gated)) {
      pairs.push_back({g, best(down), false, {}, {}});
      for (const Timed& d : few(plain))
        for (const bool overlapped : {false, true}) pairs.push_back({g, d, overlapped, {}, {}});
    }
    Timed first_gate{"cublas"}, first_down{"cublas"};
    first_gate.algorithm = first_down.algorithm = 0;
    std::vector<double> scales, scale_ghz;
    for (int round = 0; round < (s_.m <= 64 ? 3 : 5); ++round) {
      scales.push_back(time_mlp(first_gate, first_down, false).us);
      scale_ghz.push_back(timer_.gigahertz());
      for (Pair& p : pairs) {
        p.us.push_back(time_mlp(p.gated, p.down, p.overlapped).us);
        p.ghz.push_back(timer_.gigahertz());
      }
    }
    std::sort(pairs.begin(), pairs.end(),
              [](const Pair& x, const Pair& y) { return median(x.us) < median(y.us); });
    const double pair_scale = median(scales);
    std::printf("  G as a pair %.1f at %.2f GHz\n", pair_scale, median(scale_ghz));
    for (size_t i = 0; i < pairs.size() && i < 8; ++i)
      std::printf("  MLP %.1f us = %.3f G at %.2f GHz: %s + %s%s\n", median(pairs[i].us),
                  median(pairs[i].us) / pair_scale, median(pairs[i].ghz), pairs[i].gated.name.c_str(),
                  pairs[i].down.name.c_str(), pairs[i].overlapped ? ", overlapped" : "");
  }

 private:
  int launches(double us) const {
    const int count = static_cast<int>(sets_.size());
    return std::max(1, static_cast<int>(std::min(1500.0 / us, 400.0)) / count) * count;
  }
  int replays() const { return floor_us_ > 500 ? 5 : 9; }

  int rounds_of_sets() const {
    const int count = static_cast<int>(sets_.size());
    return std::max(1, static_cast<int>(20e3 / (1.1 * floor_us_)) / count) * count;
  }

  // "bIDxPARTS", with letters as of parsed().
  cudaError_t launch_whole(const std::string& name, const BufferSet& b) {
    int id = 0, parts = 1;
    std::sscanf(name.c_str(), "b%dx%d", &id, &parts);
    cuda::MlpGemmProblem p = mlp_problem(s_, b);
    p.gated.overlap = parsed(name).overlap;
    const cuda::MlpGemmConfig config = mlp_config(id, parts);
    const auto room = cuda::room_of(p, config);
    if (room.counter_bytes > counter_bytes_ || room.sum_bytes > sum_bytes_) return cudaErrorMemoryAllocation;
    return cuda::launch_mlp_gemm(
        p, config, {counters_.get(), sums_.get(), name.find('c') != std::string::npos}, timer_.stream());
  }

  void warm_up() {
    CublasProduct product(s_.m, 2 * s_.hidden, s_.dim);
    const BufferSet& b = sets_[0];
    for (int i = 0; i < static_cast<int>(3e5 / std::max(20.0, floor_us_)); ++i)
      LAB_CHECK(product.run(0, b.x.get(), b.gate_up.get(), b.stacked.get(), timer_.stream()));
    LAB_CHECK(cudaStreamSynchronize(timer_.stream()));
  }

  template <class Operands>
  std::vector<Timed> time_lt(const char* what, CublasProduct&& product, Operands operands) {
    std::vector<Timed> all;
    for (int a = 0; a < product.algorithms(); ++a) {
      Timed t{a == 0 ? "cublas" : "cublasLt " + std::to_string(a - 1)};
      t.algorithm = a;
      t.us = timer_.microseconds(launches(floor_us_ / 2), replays(), [&](int i) {
        const auto o = operands(sets_[i % sets_.size()]);
        return product.run(a, o[0], o[1], o[2], timer_.stream());
      });
      record(what, t);
      if (t.us > 0) all.push_back(t);
    }
    return all;
  }

  template <class Problem>
  std::vector<Timed> time_ours(const char* what, Problem problem, const std::vector<std::string>& skipped) {
    std::vector<Timed> all;
    for (const auto& config : cuda::gated_gemm_configs()) {
      const std::string key =
          std::to_string(static_cast<int>(config.kernel)) + ":" + std::to_string(config.id);
      if (!cuda::takes(config, problem(s_, sets_[0])) || std::count(skipped.begin(), skipped.end(), key))
        continue;
      if (config.kernel != cuda::GemmKernel::tile && s_.m * 16 < config.rows) continue;
      if (config.kernel == cuda::GemmKernel::tile && s_.m <= 64) continue;
      for (const cuda::Overlap overlap : {cuda::Overlap::none, cuda::Overlap::launch}) {
        if (overlap != cuda::Overlap::none && floor_us_ > 100) continue;
        Timed t{cuda::name(config) + (overlap == cuda::Overlap::none ? "" : " overlapped")};
        t.config = config;
        t.us = timer_.microseconds(launches(floor_us_ / 2), replays(), [&](int i) {
          auto p = problem(s_, sets_[i % sets_.size()]);
          p.overlap = overlap;
          return cuda::launch_gated_gemm(p, config, timer_.stream());
        });
        t.ghz = timer_.gigahertz();
        record(what, t);
        if (t.us > 0) all.push_back(t);
      }
    }
    std::sort(all.begin(), all.end(), [](const Timed& a, const Timed& b) { return a.us < b.us; });
    return all;
  }

  static Timed parsed(const std::string& text) {
    Timed t{text};
    if (text.empty()) return t;
    if (text[0] == 'c') return t.algorithm = std::atoi(text.c_str() + 1), t;
    const cuda::GemmKernel kernel = text[0] == 'k'   ? cuda::GemmKernel::skinny
                                    : text[0] == 'w' ? cuda::GemmKernel::swap
                                    : text[0] == 'd' ? cuda::GemmKernel::row_dot
                                    : text[0] == 'm' ? cuda::GemmKernel::row_mma
                                                     : cuda::GemmKernel::tile;
    const int id = std::atoi(text.c_str() + (kernel != cuda::GemmKernel::tile));
    for (const auto& c : cuda::gated_gemm_configs())
      if (c.kernel == kernel && c.id == id) t.config = c;
    t.stacked = text.find('s') != std::string::npos;
    if (text.find('o') != std::string::npos) t.overlap = cuda::Overlap::weights;
    if (text.find('l') != std::string::npos) t.overlap = cuda::Overlap::launch;
    return t;
  }
  cudaError_t launch_gated(const Timed& t, const BufferSet& b) {
    if (t.algorithm >= 0) {
      return stacked_product_->run(t.algorithm, b.x.get(), b.gate_up.get(), b.stacked.get(), timer_.stream());
    }
    auto p = gated_problem(s_, b);
    p.overlap = t.overlap;
    if (t.stacked) p.up = nullptr, p.act = Act::none, p.n *= 2, p.out = b.stacked.get(), p.out_stride = p.n;
    return cuda::launch_gated_gemm(p, t.config, timer_.stream());
  }
  cudaError_t launch_down(const Timed& t, const BufferSet& b) {
    if (t.algorithm >= 0) {
      return down_product_->run(t.algorithm, b.h.get(), b.down.get(), b.y.get(), timer_.stream());
    }
    auto p = down_problem(s_, b);
    p.overlap = t.overlap;
    return cuda::launch_gated_gemm(p, t.config, timer_.stream());
  }

  Timed time_mlp(const Timed& gated, const Timed& down, bool overlapped) {
    Timed t{gated.name + " + " + down.name + (overlapped ? ", overlapped" : "")};
    t.us = timer_.microseconds(launches(floor_us_), s_.m <= 64 ? 5 : 3, [&](int i) {
      const BufferSet& b = sets_[i % sets_.size()];
      Timed first = gated, second = down;
      first.overlap = overlapped ? cuda::Overlap::launch : cuda::Overlap::none;
      second.overlap = overlapped ? cuda::Overlap::weights : cuda::Overlap::none;
      const cudaError_t e = launch_gated(first, b);
      return e != cudaSuccess ? e : launch_down(second, b);
    });
    record("mlp", t);
    return t;
  }

  static Timed best(const std::vector<Timed>& all) {
    return all.empty() ? Timed{"none"}
                       : *std::min_element(all.begin(), all.end(),
                                           [](const Timed& a, const Timed& b) { return a.us < b.us; });
  }
  // The quickest few different configurations.
  std::vector<Timed> few(const std::vector<Timed>& all) const {
    std::vector<Timed> some;
    for (const Timed& t : all) {
      const bool known = std::any_of(some.begin(), some.end(), [&](const Timed& o) {
        return o.config.kernel == t.config.kernel && o.config.id == t.config.id;
      });
      if (!known && some.size() < (s_.m <= 64 ? 6 : 3)) some.push_back(t);
    }
    return some;
  }
  static void print_best(const char* what, const std::vector<Timed>& all) {
    std::printf("  %s", what);
    std::vector<std::string> shown;
    for (const Timed& t : all) {
      const std::string key =
          std::to_string(static_cast<int>(t.config.kernel)) + ":" + std::to_string(t.config.id);
      if (std::count(shown.begin(), shown.end(), key) || shown.size() > 13) continue;
      shown.push_back(key);
      std::printf(" | %s %.1f (%.2f GHz)", t.name.c_str(), t.us, t.ghz);
    }
    std::printf("\n");
  }
  void record(const char* what, const Timed& t) const {
    std::fprintf(json_,
                 "{\"m\":%ld,\"dim\":%ld,\"hidden\":%ld,\"what\":\"%s\",\"name\":\"%s\",\"us\":%.3f}\n", s_.m,
                 s_.dim, s_.hidden, what, t.name.c_str(), t.us);
    std::fflush(json_);
  }

  Shape s_;
  std::FILE* json_;
  Timer timer_;
  std::vector<BufferSet> sets_;
  std::unique_ptr<CublasProduct> stacked_product_, down_product_;
  double floor_us_ = 0;
  static constexpr size_t counter_bytes_ = size_t{1} << 20, sum_bytes_ = size_t{1} << 30;
  DeviceMemory counters_ = allocate(counter_bytes_), sums_ = allocate(sum_bytes_);
};

__global__ void read_kernel(const uint4* data, int64_t count, uint4* sink) {
  uint4 sum = make_uint4(0, 0, 0, 0);
  const int64_t stride = int64_t{gridDim.x} * blockDim.x;
  for (int64_t i = blockIdx.x * int64_t{blockDim.x} + threadIdx.x; i < count; i += 8 * stride) {
    uint4 v[8];
#pragma unroll
    for (int j = 0; j < 8; ++j) v[j] = i + j * stride < count ? __ldcs(data + i + j * stride) : sum;
#pragma unroll
    for (int j = 0; j < 8; ++j) sum.x ^= v[j].x, sum.y ^= v[j].y, sum.z ^= v[j].z, sum.w ^= v[j].w;
  }
  if (sum.x == 0x12345678 && sum.y == 0x9abcdef0) *sink = sum;
}

int ceilings() {
  constexpr int64_t bytes = int64_t{2} << 30;
  const auto a = allocate(bytes), b = allocate(bytes);
  fill_random<__nv_bfloat16>(a.get(), bytes / 2, 1, 1);
  Timer timer;
  for (int i = 0; i < 30; ++i)
    LAB_CHECK(cudaMemcpyAsync(b.get(), a.get(), bytes, cudaMemcpyDeviceToDevice, timer.stream()));
  const double copy = timer.microseconds(4, 7, [&](int) {
    return cudaMemcpyAsync(b.get(), a.get(), bytes, cudaMemcpyDeviceToDevice, timer.stream());
  });
  const double read = timer.microseconds(4, 7, [&](int) {
    read_kernel<<<132 * 8, 256, 0, timer.stream()>>>(static_cast<uint4*>(a.get()), bytes / 16,
                                                     static_cast<uint4*>(b.get()));
    return cudaGetLastError();
  });
  CublasProduct product(8192, 8192, 8192);
  const double gemm = timer.microseconds(40, 5, [&](int) {
    return product.run(0, a.get(), static_cast<uint16_t*>(a.get()) + (int64_t{1} << 27), b.get(),
                       timer.stream());
  });
  for (const int64_t part : {int64_t{235} << 20, int64_t{117} << 20, int64_t{16} << 20}) {
    const int pieces = static_cast<int>(std::min(bytes / part, int64_t{60}));
    const double us = timer.microseconds(pieces, 7, [&](int i) {
      read_kernel<<<132 * 8, 256, 0, timer.stream()>>>(static_cast<uint4*>(a.get()) + i * (part / 16),
                                                       part / 16, static_cast<uint4*>(b.get()));
      return cudaGetLastError();
    });
    std::printf("read of %ld MiB: %.1f us = %.3f TB/s\n", part >> 20, us, 1e-6 * part / us);
  }
  std::printf("copy %.3f TB/s, read %.3f TB/s, cublasLt 8192^3 %.0f TFLOP/s\n", 2e-6 * bytes / copy,
              1e-6 * bytes / read, 2e-6 * 8192.0 * 8192 * 8192 / gemm);
  return 0;
}

template <class T>
int check_config(const cuda::GemmConfig& config, const std::vector<CheckCase>& cases) {
  int wrong = 0, count = 0;
  for (const bool gated : {true, false})
    for (const auto& c : cases) {
      if (gated && config.kernel == cuda::GemmKernel::row_mma) continue;  // it has no gate
      ++count, wrong += wrong < 4 && !check<T>(config, c, gated, 1000 + count);
    }
  std::printf("%s %s: %d of %d cases wrong\n", wrong ? "FAIL" : "ok  ", cuda::name(config).c_str(), wrong,
              count);
  return wrong > 0;
}

template <class T>
int check_mlp_config(const cuda::MlpGemmConfig& config, bool small) {
  struct Sizes {
    int64_t m, hidden, dim;
  };
  std::vector<Sizes> all{{300, 1096, 328}};
  if (!small)
    all = {{1, 64, 64},      {128, 512, 256},    {257, 1000, 776},  {1000, 3072, 768},  {8, 8, 8},
           {64, 4096, 1024}, {1024, 4096, 1024}, {300, 5632, 2048}, {2600, 2048, 1032}, {130, 14336, 520}};
  int wrong = 0, i = 0;
  for (const Sizes& s : all) {
    if (config.parts > (s.hidden + 63) / 64) continue;
    ++i, wrong += wrong < 4 && !check_mlp<T>(config,
                                             {s.m, s.hidden, s.dim, static_cast<Act>(i % 5), i % 2 == 1,
                                              i % 5 == 3, i % 3 == 1},
                                             s.dim + (i % 4 == 3 ? 72 : 0), 77 * i);
  }
  std::printf("%s %s: %d of %d cases wrong\n", wrong ? "FAIL" : "ok  ", cuda::name(config).c_str(), wrong, i);
  return wrong > 0;
}

// The whole MLP on two streams at once, whose blocks then compete for the multiprocessors: does it end, and
// with the bits of a run alone?
int run_streams(int id, int parts) {
  const Shape shape{1024, 1024, 4096, Act::silu};
  struct Side {
    BufferSet set;
    DeviceMemory counters, sums;
    cudaStream_t stream;
  };
  const cuda::MlpGemmConfig config = mlp_config(id, parts);
  const auto problem = [&](const BufferSet& b) {
    cuda::MlpGemmProblem p = mlp_problem(shape, b);
    p.gated.overlap = cuda::Overlap::weights;
    return p;
  };
  std::vector<Side> sides;
  for (int i = 0; i < 2; ++i) {
    Side side{make_set(shape, 5), allocate(1 << 16), allocate(size_t{64} << 20), nullptr};
    LAB_CHECK(cudaMemset(side.counters.get(), 0, 1 << 16));
    LAB_CHECK(cudaStreamCreateWithFlags(&side.stream, cudaStreamNonBlocking));
    sides.push_back(std::move(side));
  }
  const size_t count = shape.m * shape.dim;
  std::vector<uint16_t> alone(count), beside(count);
  LAB_CHECK(cudaDeviceSynchronize());
  LAB_CHECK(cuda::launch_mlp_gemm(problem(sides[0].set), config,
                                  {sides[0].counters.get(), sides[0].sums.get(), true}, sides[0].stream));
  LAB_CHECK(cudaDeviceSynchronize());
  LAB_CHECK(cudaMemcpy(alone.data(), sides[0].set.y.get(), 2 * count, cudaMemcpyDeviceToHost));
  for (int i = 0; i < 2000; ++i)
    for (Side& side : sides)
      LAB_CHECK(cuda::launch_mlp_gemm(problem(side.set), config,
                                      {side.counters.get(), side.sums.get(), &side != &sides[0]},
                                      side.stream));
  LAB_CHECK(cudaDeviceSynchronize());
  bool same = true;
  for (const Side& side : sides) {
    LAB_CHECK(cudaMemcpy(beside.data(), side.set.y.get(), 2 * count, cudaMemcpyDeviceToHost));
    same = same && alone == beside;
  }
  std::printf("%s %s on two streams\n", same ? "ok  " : "FAIL", cuda::name(config).c_str());
  return same ? 0 : 1;
}

int run_one(char** argv) {
  const Shape shape{std::atol(argv[2]), std::atol(argv[3]), std::atol(argv[4]), Act::silu};
  const BufferSet b = make_set(shape, 1);
  int kernel = 0, id = 0;
  std::sscanf(argv[6], "%d:%d", &kernel, &id);
  for (const auto& c : cuda::gated_gemm_configs()) {
    if (static_cast<int>(c.kernel) != kernel || c.id != id) continue;
    const auto p = std::string(argv[5]) == "gated" ? gated_problem(shape, b) : down_problem(shape, b);
    for (int i = 0; i < 3; ++i) LAB_CHECK(cuda::launch_gated_gemm(p, c, nullptr));
    LAB_CHECK(cudaDeviceSynchronize());
    std::printf("ran %s\n", cuda::name(c).c_str());
  }
  return 0;
}

int main_of(int argc, char** argv) {
  const std::string mode = argc > 1 ? argv[1] : "";
  if (mode == "ceilings") return ceilings();
  if (mode == "list") {
    for (const auto& c : cuda::gated_gemm_configs())
      std::printf("%d %d %s\n", static_cast<int>(c.kernel), c.id, cuda::name(c).c_str());
    return 0;
  }
  if (mode == "list-mlp") {
    for (const auto& c : cuda::mlp_gemm_configs())
      std::printf("%d %d %s\n", c.id, c.parts, cuda::name(c).c_str());
    return 0;
  }
  if ((mode == "check" || mode == "check-small") && argc >= 4) {
    for (const auto& c : cuda::gated_gemm_configs()) {
      if (static_cast<int>(c.kernel) != std::atoi(argv[2]) || c.id != std::atoi(argv[3])) continue;
      const auto cases = mode == "check" ? check_cases(c) : small_cases(c);
      return argc > 4 && std::string(argv[4]) == "f16" ? check_config<__half>(c, cases)
                                                       : check_config<__nv_bfloat16>(c, cases);
    }
  }
  if ((mode == "check-mlp" || mode == "check-mlp-small") && argc >= 4) {
    const auto config = mlp_config(std::atoi(argv[2]), std::atoi(argv[3]));
    return argc > 4 && std::string(argv[4]) == "f16"
               ? check_mlp_config<__half>(config, mode == "check-mlp-small")
               : check_mlp_config<__nv_bfloat16>(config, mode == "check-mlp-small");
  }
  if (mode == "streams" && argc >= 4) return run_streams(std::atoi(argv[2]), std::atoi(argv[3]));
  if (mode == "one" && argc >= 7) return run_one(argv);
  if ((mode == "time" && argc >= 7) || (mode == "turns" && argc >= 9)) {
    const std::string act = argv[5];
    const Shape shape{std::atol(argv[2]), std::atol(argv[3]), std::atol(argv[4]),
                      act == "silu"   ? Act::silu
                      : act == "gelu" ? Act::gelu
                                      : Act::gelu_tanh};
    std::FILE* json = std::fopen(argv[6], "a");
    if (json == nullptr) return 2;
    ShapeBench bench(shape, json);
    if (mode == "turns")
      bench.turns(std::atof(argv[7]), std::vector<std::string>(argv + 8, argv + argc));
    else
      bench.run(std::vector<std::string>(argv + 7, argv + argc));
    std::fclose(json);
    return 0;
  }
  std::printf("usage: see the head of gated_gemm_lab.cu\n");
  return 2;
}

}  // namespace
}  // namespace lab

int main(int argc, char** argv) { return lab::main_of(argc, argv); }
