// Builds a gated MLP, runs it once and prints the result's shape: exits 0 when it is as it should be.
#include <cstdio>

#include <epilogue/nn.h>

int main() {
  const epilogue::nn::GatedMlp mlp(64, 256, {.act = epilogue::Act::silu});
  const epilogue::Tensor y = mlp.forward(epilogue::randn({2, 8, 64}, 1));
  std::printf("%s\n", y.sizes().to_string().c_str());
  return y.dim() == 3 && y.size(0) == 2 && y.size(1) == 8 && y.size(2) == 64 ? 0 : 1;
}
