// Our layers for a program in another language that measures them in turns with its own: a C interface over
// graphs that replay the layer. bench/peers/cuda_vs_torch.py loads it.
#include <algorithm>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "epilogue/compile.h"
#include "epilogue/device.h"
#include "epilogue/nn.h"

namespace {

using namespace epilogue;
using Clock = std::chrono::steady_clock;

const Device kDevice{DeviceType::cuda, 0};

double us_since(Clock::time_point start) {
  return std::chrono::duration<double, std::micro>(Clock::now() - start).count();
}

// One call for each of the sets that the caller rotates past the cache, and the graph of them all.
struct Replays {
  std::vector<std::function<Tensor()>> calls;
  std::optional<Graph> graph;
  Event from{kDevice}, to{kDevice};
  double first_call_us = 0, calls_of_graph = 1;

  void each() const {
    for (const auto& call : calls) call();
  }
  // Calls until what is timed and built in the background has settled, then records the graph.
  void settle(int turns, double seconds) {
    synchronize(kDevice);
    const auto begin = Clock::now();
    calls[0]();
    synchronize(kDevice);
    first_call_us = us_since(begin);
    do {
      each();
      synchronize(kDevice);
    } while (us_since(begin) < seconds * 1e6);
    graph.emplace(Graph::capture(kDevice, [this, turns] {
      for (int i = 0; i < turns; ++i) each();
    }));
    calls_of_graph = turns * static_cast<double>(calls.size());
  }
};

thread_local std::string why;

template <class Body>
auto guarded(Body&& body) -> decltype(body()) {
  try {
    return body();
  } catch (const std::exception& error) {
    why = error.what();
    return {};
  }
}

}  // namespace

extern "C" {

const char* layer_replays_error() { return why.c_str(); }

// The layer, in one of its modes.
void* layer_replays_make(const char* mode, const char* act, int64_t m, int64_t dim, int64_t hidden, int sets,
                         int turns, double warm_seconds) {
  return guarded([&]() -> void* {
    auto made = std::make_unique<Replays>();
    const TensorOptions options{DType::bf16, kDevice};
    for (int i = 0; i < sets; ++i) {
      const uint64_t seed = 10 * static_cast<uint64_t>(i) + 1;
      const nn::MlpOptions mlp{
          .act = act_from_name(act), .mode = nn::mode_from_name(mode), .tensor = options, .seed = seed};
      made->calls.push_back([layer = std::make_shared<nn::GatedMlp>(dim, hidden, mlp),
                             x = randn({m, dim}, seed + 5, options)] { return layer->forward(x); });
    }
    made->settle(turns, warm_seconds);
    return made.release();
  });
}

// gelu_tanh(gate) * up alone, of [m, n]: what the compiler makes of the two ops (`compiled`), or the kernel
// of mode tuned.
void* layer_replays_make_pointwise(const char* mode, int64_t m, int64_t n, int sets, int turns,
                                   double warm_seconds) {
  return guarded([&]() -> void* {
    auto made = std::make_unique<Replays>();
    const bool compiled = nn::mode_from_name(mode) == nn::Mode::compiled;
    const CompiledFunction function = compile([](std::span<const Tensor> in) {
      return std::vector{mul(gelu(in[0], GeluApproximate::tanh), in[1])};
    });
    for (int i = 0; i < sets; ++i) {
      const std::vector<Tensor> in{randn({m, n}, 2 * static_cast<uint64_t>(i), {DType::bf16, kDevice}),
                                   randn({m, n}, 2 * static_cast<uint64_t>(i) + 1, {DType::bf16, kDevice})};
      made->calls.push_back(
          [=] { return compiled ? function(in).front() : activation_mul(in[0], in[1], Act::gelu_tanh); });
    }
    made->calls[0]();
    function.wait_ready();
    made->settle(turns, warm_seconds);
    return made.release();
  });
}

// GPU time of one call, from `count` replays of all layers.
double layer_replays_us(void* handle, int count) {
  return guarded([&] {
    auto& replays = *static_cast<Replays*>(handle);
    replays.graph->replay();  // the one before was another program's: not timed
    replays.from.record();
    for (int i = 0; i < count; ++i) replays.graph->replay();
    replays.to.record();
    replays.to.synchronize();
    return replays.from.elapsed_us(replays.to) / count / replays.calls_of_graph;
  });
}

// Median of a call and its synchronisation, as the caller sees it.
double layer_replays_wall_us(void* handle, int calls) {
  return guarded([&] {
    const auto& replays = *static_cast<Replays*>(handle);
    std::vector<double> us;
    for (int i = 0; i < calls; ++i) {
      const auto start = Clock::now();
      replays.calls[static_cast<size_t>(i) % replays.calls.size()]();
      synchronize(kDevice);
      us.push_back(us_since(start));
    }
    std::nth_element(us.begin(), us.begin() + calls / 2, us.end());
    return us[static_cast<size_t>(calls) / 2];
  });
}

double layer_replays_first_call_us(void* handle) { return static_cast<Replays*>(handle)->first_call_us; }

void layer_replays_free(void* handle) { delete static_cast<Replays*>(handle); }
}
