// What calling a layer costs on top of the kernel: a linear layer of 1x32x64 against oneDNN's own execution
// of it.
#include <oneapi/dnnl/dnnl.hpp>

#include <benchmark/benchmark.h>

#include "base/threads.h"
#include "epilogue/nn.h"

namespace epilogue {
namespace {

void LinearForward(benchmark::State& state) {
  const nn::Linear layer(32, 64);
  const Tensor x = randn({1, 32}, 1);
  for (auto _ : state) benchmark::DoNotOptimize(layer.forward(x));
}
BENCHMARK(LinearForward);

// The same product as oneDNN's documentation writes it: packed weights, a bias, one execute.
void OneDnnExecute(benchmark::State& state) {
  using dnnl::memory;
  dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  dnnl::stream stream(engine);
  const auto type = memory::data_type::f32;
  const dnnl::matmul::primitive_desc desc({{{1, 32}, type, memory::format_tag::ab},
                                           {{32, 64}, type, memory::format_tag::any},
                                           {{1, 64}, type, memory::format_tag::ab},
                                           {{1, 64}, type, memory::format_tag::ab}},
                                          engine);
  const dnnl::matmul matmul(desc);
  memory a(desc.src_desc(), engine), b(desc.weights_desc(), engine), bias(desc.bias_desc(), engine),
      c(desc.dst_desc(), engine);
  for (auto _ : state) {
    matmul.execute(stream,
                   {{DNNL_ARG_SRC, a}, {DNNL_ARG_WEIGHTS, b}, {DNNL_ARG_BIAS, bias}, {DNNL_ARG_DST, c}});
    stream.wait();
  }
}
BENCHMARK(OneDnnExecute);

}  // namespace
}  // namespace epilogue
