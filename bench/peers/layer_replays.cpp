// Our layers for a program in another language that measures them in turns with its own: a C interface over
// graphs that replay the layer. bench/peers/cuda_vs_torch.py loads it.
#include <algorithm>
#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "epilogue/device.h"
#include "epilogue/nn.h"

namespace {

using namespace epilogue;
using Clock = std::chrono::steady_clock;

const Device kDevice{DeviceType::cuda, 0};

double us_since(Clock::time_point start) {
  return std::chrono::duration<double, std::micro>(Clock::now() - start).count();
}

// As many layers, with an input each, as the caller takes of its own to rotate past the cache.
struct Replays {
  std::vector<std::unique_ptr<nn::GatedMlp>> layers;
  std::vector<Tensor> inputs;
  std::optional<Graph> graph;
  Event from{kDevice}, to{kDevice};
  double first_call_us = 0;

  Tensor call(size_t i) const { return layers[i]->forward(inputs[i]); }
  void each() const {
    for (size_t i = 0; i < layers.size(); ++i) call(i);
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

// Makes the layers, calls them until what is timed and built in the background is settled, records the graph.
void* layer_replays_make(const char* mode, const char* act, int64_t m, int64_t dim, int64_t hidden, int sets,
                         double warm_seconds) {
  return guarded([&]() -> void* {
    auto made = std::make_unique<Replays>();
    const TensorOptions options{DType::bf16, kDevice};
    for (int i = 0; i < sets; ++i) {
      const uint64_t seed = 10 * static_cast<uint64_t>(i) + 1;
      made->layers.push_back(std::make_unique<nn::GatedMlp>(
          dim, hidden,
          nn::MlpOptions{
              .act = act_from_name(act), .mode = nn::mode_from_name(mode), .tensor = options, .seed = seed}));
      made->inputs.push_back(randn({m, dim}, seed + 5, options));
    }
    synchronize(kDevice);
    const auto begin = Clock::now();
    made->call(0);
    synchronize(kDevice);
    made->first_call_us = us_since(begin);
    do {
      made->each();
      synchronize(kDevice);
    } while (us_since(begin) < warm_seconds * 1e6);
    made->graph.emplace(Graph::capture(kDevice, [&] { made->each(); }));
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
    return replays.from.elapsed_us(replays.to) / count / static_cast<double>(replays.layers.size());
  });
}

// Median of a call and its synchronisation, as the caller sees it.
double layer_replays_wall_us(void* handle, int calls) {
  return guarded([&] {
    const auto& replays = *static_cast<Replays*>(handle);
    std::vector<double> us;
    for (int i = 0; i < calls; ++i) {
      const auto start = Clock::now();
      replays.call(static_cast<size_t>(i) % replays.layers.size());
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
