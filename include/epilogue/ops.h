// The operations. Each checks its inputs (src/op/infer.cpp), then runs a kernel or joins the graph being
// captured.
#pragma once

#include <string>

#include "epilogue/tensor.h"

namespace epilogue {

enum class Act : uint8_t { none, relu, silu, gelu_tanh, gelu };

const char* act_name(Act act);               // "none", "relu", "silu", "gelu_tanh", "gelu"
Act act_from_name(const std::string& name);  // throws Error that lists the names

enum class GeluApproximate : uint8_t { none, tanh };

// x [..., in] times weight [out, in] transposed, plus bias [out] in the GEMM's epilogue: ep::t, then
// ep::addmm or ep::mm, and one kernel.
Tensor linear(const Tensor& x, const Tensor& weight, const Tensor& bias = {});

Tensor mm(const Tensor& a, const Tensor& b);                         // [m, k] x [k, n]
Tensor addmm(const Tensor& bias, const Tensor& a, const Tensor& b);  // bias broadcasts to [m, n]
Tensor bmm(const Tensor& a, const Tensor& b);                        // [b, m, k] x [b, k, n]
Tensor matmul(const Tensor& a, const Tensor& b);                     // 1-D to N-D, as in PyTorch

Tensor add(const Tensor& a, const Tensor& b);
Tensor mul(const Tensor& a, const Tensor& b);
Tensor gelu(const Tensor& x, GeluApproximate approximate = GeluApproximate::none);
Tensor silu(const Tensor& x);
Tensor relu(const Tensor& x);
Tensor gelu_mul(const Tensor& gate, const Tensor& up, GeluApproximate approximate = GeluApproximate::tanh);
Tensor silu_mul(const Tensor& gate, const Tensor& up);

// The activation by its name's value; Act::none returns x itself.
Tensor activation(const Tensor& x, Act act);
// activation(gate, act) * up, by one kernel where an op has the pair: gelu_mul and silu_mul; two otherwise.
Tensor activation_mul(const Tensor& gate, const Tensor& up, Act act);

// The weights of a gated MLP, [hidden, in] twice and [out, hidden], with a bias each or none.
struct GatedWeights {
  Tensor gate, up, down;
  Tensor gate_bias = {}, up_bias = {}, down_bias = {};
};
// activation(linear(x, gate), act) * linear(x, up): one kernel where the device has one that takes the
// problem, otherwise the products and activation_mul.
Tensor gated_linear(const Tensor& x, const GatedWeights& weights, Act act);
// linear(gated_linear(x), down), in as few kernels as the device has for it.
Tensor gated_mlp(const Tensor& x, const GatedWeights& weights, Act act);

}  // namespace epilogue
