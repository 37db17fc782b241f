// The package's own test, without Epilogue: calls its kernel as Epilogue would and compares with the formula
// in double.
#include <cmath>
#include <cstdio>
#include <vector>

#include <epilogue/kernel_abi.h>

namespace {

void parallel_for(int64_t count, int64_t grain, void (*body)(void*, int64_t, int64_t), void* context) {
  for (int64_t begin = 0; begin < count; begin += grain)
    body(context, begin, begin + grain < count ? begin + grain : count);
}

DLTensor tensor_over(std::vector<float>& data, int64_t* shape, int64_t* strides) {
  return {data.data(), {kDLCPU, 0}, 2, {kDLFloat, 32, 1}, shape, strides, 0};
}

double largest_error(const EpKernel& kernel, int64_t rows, int64_t columns) {
  int64_t shape[] = {rows, columns}, strides[] = {columns, 1};
  const size_t count = static_cast<size_t>(rows * columns);
  std::vector<float> gate(count), up(count), out(count, NAN);
  for (size_t i = 0; i < count; ++i) {
    gate[i] = 20.0f * static_cast<float>(i) / static_cast<float>(count) - 10.0f;
    up[i] = static_cast<float>(i % 7) - 3.0f;
  }
  const DLTensor inputs[] = {tensor_over(gate, shape, strides), tensor_over(up, shape, strides)};
  DLTensor output = tensor_over(out, shape, strides);
  char error[256] = "";
  const EpHost host = {EP_KERNEL_ABI_VERSION, parallel_for};
  const EpCall call = {&host, inputs, &output, 2, 1, nullptr, nullptr, 0, error, sizeof error};
  if (kernel.run(&call) != EP_OK) return NAN;
  double worst = 0;
  for (size_t i = 0; i < count; ++i) {
    const double expected = gate[i] / (1.0 + std::exp(-static_cast<double>(gate[i]))) * up[i];
    const double off = std::abs(out[i] - expected) / (std::abs(expected) + 1e-3);
    if (!(off <= worst)) worst = off;
  }
  return worst;
}

}  // namespace

int main() {
  const EpPackage* package = ep_kernel_package(EP_KERNEL_ABI_VERSION);
  if (!package || ep_kernel_package(0)) return std::printf("the handshake fails\n"), 1;
  for (const int64_t columns : {1, 7, 4096, 5001}) {
    const double off = largest_error(package->kernels[0], 3, columns);
    if (!(off < 1e-6)) return std::printf("3x%lld: off by %g\n", static_cast<long long>(columns), off), 1;
  }
  std::printf("silu_mul: passed\n");
  return 0;
}
