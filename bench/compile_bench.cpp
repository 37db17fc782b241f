// What compile() costs a call besides its kernels, and how soon a plan is there.
#include <chrono>
#include <span>
#include <vector>

#include <benchmark/benchmark.h>

#include "compile/guards.h"
#include "compile/pass.h"
#include "epilogue/compile.h"
#include "epilogue/nn.h"
#include "epilogue/ops.h"
#include "graph/capture.h"

namespace epilogue {
namespace {

void guards_of_a_gated_mlp(benchmark::State& state) {
  const nn::GatedMlp layer(64, 96);
  const std::vector<const Tensor*> watched{&layer.gate_proj.weight, &layer.gate_proj.bias,
                                           &layer.up_proj.weight,   &layer.up_proj.bias,
                                           &layer.down_proj.weight, &layer.down_proj.bias};
  const std::vector<Tensor> inputs{randn({4, 16, 64}, 1)};
  const compiler::Guards guards(inputs, watched, false);
  for (auto _ : state) benchmark::DoNotOptimize(guards.hold(inputs, watched));
}
BENCHMARK(guards_of_a_gated_mlp);

// A call that runs no kernel at all: guards, the lock, the plan's bookkeeping.
void call_without_kernels(benchmark::State& state) {
  const CompiledFunction f = compile([](const Tensor& x) { return x.t(); });
  const Tensor x = randn({4, 16}, 1);
  f(x);
  f.wait_ready();
  for (auto _ : state) benchmark::DoNotOptimize(f(x));
}
BENCHMARK(call_without_kernels);

void capture_of_a_gated_mlp(benchmark::State& state) {
  const nn::GatedMlp layer(64, 96);
  const graph::Function forward = [&](std::span<const Tensor> in) {
    return std::vector{layer.forward(in[0])};
  };
  const std::vector<Tensor> inputs{randn({4, 16, 64}, 1)};
  for (auto _ : state) benchmark::DoNotOptimize(graph::capture(forward, inputs));
}
BENCHMARK(capture_of_a_gated_mlp);

void passes_over_a_gated_mlp(benchmark::State& state) {
  const nn::GatedMlp layer(64, 96);
  const graph::Function forward = [&](std::span<const Tensor> in) {
    return std::vector{layer.forward(in[0])};
  };
  const graph::Graph captured = graph::capture(forward, std::vector{randn({4, 16, 64}, 1)});
  for (auto _ : state) {
    graph::Graph graph = captured;
    benchmark::DoNotOptimize(compiler::run_passes(graph, {}));
  }
}
BENCHMARK(passes_over_a_gated_mlp);

// gelu_tanh(a) * b as one stage; bench/peers/cpu_pointwise_vs_torch.py is torch.compile's side. ready_us:
// from the first call to the stage's being there.
void fused_geglu(benchmark::State& state) {
  const CompiledFunction f = compile(
      [](std::span<const Tensor> in) { return std::vector{mul(gelu(in[0], GeluApproximate::tanh), in[1])}; });
  const DType dtype = state.range(1) == 16 ? DType::bf16 : DType::f32;
  const std::vector<Tensor> in{randn({state.range(0), 3072}, 1, {dtype}),
                               randn({state.range(0), 3072}, 2, {dtype})};
  const std::vector<Tensor> first{in[0].slice(0, 0, 1), in[1].slice(0, 0, 1)};
  mul(gelu(first[0], GeluApproximate::tanh), first[1]);
  const auto start = std::chrono::steady_clock::now();
  f(first);
  f.wait_ready();
  state.counters["ready_us"] =
      std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - start).count();
  for (int i = 0; i < 3; ++i) f(in);
  for (auto _ : state) benchmark::DoNotOptimize(f(in));
}
BENCHMARK(fused_geglu)->ArgNames({"rows", "bits"})->ArgsProduct({{128, 8192}, {32, 16}})->UseRealTime();

}  // namespace
}  // namespace epilogue
