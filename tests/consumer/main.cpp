// Builds a gated MLP and runs it once: exits 0 when the result has the shape it should.
#include <epilogue/nn.h>

int main() {
  const epilogue::nn::GatedMlp mlp(64, 256, {.act = epilogue::Act::silu});
  const epilogue::Tensor y = mlp.forward(epilogue::randn({2, 8, 64}, 1));
  return y.dim() == 3 && y.size(0) == 2 && y.size(1) == 8 && y.size(2) == 64 ? 0 : 1;
}
