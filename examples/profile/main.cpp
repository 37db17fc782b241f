// A function of ops as it is written and as compile() runs it, each under the profiler: two tables to
// compare, and the traces eager.json.gz and compiled.json.gz for `epilogue trace diff`.
#include <cstdio>
#include <functional>
#include <string>

#include <epilogue/compile.h>
#include <epilogue/nn.h>
#include <epilogue/profiler.h>

using epilogue::Tensor;

static void profile(const std::string& name, const std::function<Tensor(const Tensor&)>& forward) {
  const Tensor x = epilogue::randn({256, 512}, /*seed=*/1);
  epilogue::Profiler profiler(
      {.schedule = epilogue::Schedule{.wait = 1, .warmup = 1, .active = 3, .repeat = 1}, .with_flops = true});
  profiler.start();
  for (int step = 0; step < 5; ++step) {
    {
      const epilogue::Range range("forward");
      forward(x);
    }
    profiler.step();
  }
  profiler.stop();
  std::printf("%s\n%s\n", name.c_str(), profiler.key_averages().table().c_str());
  profiler.export_chrome_trace(name + ".json.gz");
}

int main() {
  const epilogue::nn::Linear gate(512, 1024), up(512, 1024);
  const auto forward = [&](const Tensor& x) { return mul(silu(gate.forward(x)), up.forward(x)); };
  profile("eager", forward);

  // The layers are const: where a weight may be replaced by another tensor, CompileOptions::watch names it.
  const epilogue::CompiledFunction compiled = epilogue::compile(forward);
  compiled(epilogue::randn({1, 512}, /*seed=*/1));  // answers op by op; any number of rows starts the build
  compiled.wait_ready();
  profile("compiled", [&](const Tensor& x) { return compiled(x); });
}
