// Builds a gated MLP, runs it once and prints the result's shape: exits 0 when it is as it should be.
#include <algorithm>
#include <cmath>
#include <cstdio>

#include <epilogue/compile.h>
#include <epilogue/nn.h>

namespace {

// Each with some of its fields: that no other is missed is the compiler's to say.
double greatest_difference(const epilogue::nn::GatedMlp& mlp, const epilogue::Tensor& x) {
  const auto forward = [&mlp](const epilogue::Tensor& in) {
    return epilogue::gated_mlp(
        in, {.gate = mlp.gate_proj.weight, .up = mlp.up_proj.weight, .down = mlp.down_proj.weight}, mlp.act);
  };
  const epilogue::CompiledFunction named = epilogue::compile(forward, {.name = "consumer"});
  const epilogue::Tensor ours = named(x).contiguous(), theirs = mlp.forward(x).contiguous();
  double greatest = 0;
  for (int64_t i = 0; i < ours.numel(); ++i)
    greatest = std::max(greatest, std::abs(double{ours.data<float>()[i]} - theirs.data<float>()[i]));
  return greatest;
}

}  // namespace

int main() {
  const epilogue::nn::GatedMlp mlp(64, 256, {.act = epilogue::Act::silu});
  const epilogue::Tensor x = epilogue::randn({2, 8, 64}, 1);
  const epilogue::Tensor y = mlp.forward(x);
  if (!(greatest_difference(mlp, x) < 1e-5)) return 1;
  std::printf("%s\n", y.sizes().to_string().c_str());
  return y.dim() == 3 && y.size(0) == 2 && y.size(1) == 8 && y.size(2) == 64 ? 0 : 1;
}
