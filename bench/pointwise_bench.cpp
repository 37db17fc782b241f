// Pointwise and copy kernels, outputs allocated beforehand: 1e9 bytes read and written a second, and that as
// a share of the copy bandwidth measured in the same process (above 1 where the data stays in a cache).
#include <string>
#include <vector>

#include <benchmark/benchmark.h>

#include "backend/cpu/kernels/copy.h"
#include "backend/cpu/kernels/pointwise.h"
#include "backend/cpu/peak.h"

namespace epilogue::cpu {
namespace {

struct Case {
  const char* name;
  Op op;
  int inputs;
  bool transposed = false;
};

void measure(benchmark::State& state, const Case& c, const Dims& sizes, DType dtype) {
  Attrs attrs;
  attrs.approximate = GeluApproximate::tanh;
  std::vector<Tensor> inputs;
  for (int i = 0; i < c.inputs; ++i)
    inputs.push_back(randn(sizes, static_cast<uint64_t>(i + 1), {.dtype = dtype}));
  if (c.transposed) inputs[0] = inputs[0].t();
  Tensor output = zeros(inputs[0].sizes(), {.dtype = dtype});
  const KernelCall call{c.op, attrs, inputs, output};
  const bool pointwise = c.op != Op::to;
  for (auto _ : state) {
    const KernelRan ran = pointwise ? run_pointwise(call) : run_copy(call);
    benchmark::DoNotOptimize(ran.threads);
    benchmark::ClobberMemory();
  }
  const double gigabytes = static_cast<double>(output.nbytes()) * (c.inputs + 1) / 1e9;
  using benchmark::Counter;
  state.counters["GB/s"] = Counter(gigabytes, Counter::kIsIterationInvariantRate);
  state.counters["of_copy"] = Counter(gigabytes / copy_bandwidth_gbs(), Counter::kIsIterationInvariantRate);
}

void add_all() {
  const Case cases[] = {{"gelu_tanh", Op::gelu, 1},
                        {"mul", Op::mul, 2},
                        {"gelu_mul", Op::gelu_mul, 2},
                        {"copy", Op::to, 1},
                        {"transpose", Op::to, 1, true}};
  for (const Case& c : cases)
    for (const DType dtype : {DType::f32, DType::bf16})
      for (const Dims& sizes : {Dims{8, 8}, Dims{128, 3072}, Dims{8192, 3072}}) {
        const std::string name = std::string(c.name) + "/" + dtype_name(dtype) + "/" +
                                 std::to_string(sizes[0]) + "x" + std::to_string(sizes[1]);
        benchmark::RegisterBenchmark(name.c_str(), [c, sizes, dtype](benchmark::State& state) {
          measure(state, c, sizes, dtype);
        })->UseRealTime();
      }
}

}  // namespace
}  // namespace epilogue::cpu

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  epilogue::cpu::add_all();
  benchmark::RunSpecifiedBenchmarks();
}
