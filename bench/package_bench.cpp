// What a kernel package costs: a layer's call over the built-in one, and loading a verified package.
//   package_bench [--check] FOLDER    FOLDER is what `make packages` leaves; exit 1 with --check when it is
//   more than 200 ns and 20 ms
#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "epilogue/kernels.h"
#include "package/cache.h"
#include "package/files.h"
#include "package/load.h"
#include "package/source.h"

using namespace epilogue;

namespace {

constexpr double kCallLimitNs = 200, kLoadLimitMs = 20;

double now_ns() {
  return std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

double median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + static_cast<ptrdiff_t>(values.size() / 2), values.end());
  return values[values.size() / 2];
}

// The median over rounds of the difference within a round: what slows the machine slows both halves.
double call_cost_ns() {
  nn::GatedMlp built_in(16, 32, {.act = Act::silu, .mode = nn::Mode::tuned}), by_package = built_in;
  use_kernels(by_package, {{"GatedMlp", "epilogue/geglu@1"}}, {.lock_file = ""});
  const Tensor x = randn({1, 16}, 1);
  constexpr int kRounds = 400, kCalls = 200;
  const auto time = [&](const nn::GatedMlp& layer) {
    const double start = now_ns();
    for (int i = 0; i < kCalls; ++i) layer.forward(x);
    return (now_ns() - start) / kCalls;
  };
  std::vector<double> differences, whole;
  for (int round = 0; round < kRounds; ++round) {
    const double first = time(built_in), second = time(by_package);
    differences.push_back(second - first);
    whole.push_back(first);
  }
  fmt::print("a call of a small GatedMlp: {:.0f} ns built-in, {:+.0f} ns by the package\n", median(whole),
             median(differences));
  return median(differences);
}

// The first load, with the dynamic linker's part, and later ones, which verify everything again.
double load_cost_ms(const package::Cache& cache) {
  const auto time = [&] {
    const double start = now_ns();
    package::load_package(cache, {"epilogue/geglu", 1}, {}, {});
    return (now_ns() - start) / 1e6;
  };
  const double first = time();
  std::vector<double> later;
  for (int i = 0; i < 50; ++i) later.push_back(time());
  fmt::print("loading a verified package: {:.2f} ms the first time, {:.2f} ms again\n", first, median(later));
  return std::max(first, median(later));
}

}  // namespace

int main(int argc, char** argv) {
  const bool check = argc > 1 && std::string_view(argv[1]) == "--check";
  if (argc != (check ? 3 : 2)) {
    fmt::print(stderr, "usage: package_bench [--check] FOLDER\n");
    return 2;
  }
  std::string folder = std::filesystem::temp_directory_path() / "package_bench_XXXXXX";
  if (!mkdtemp(folder.data())) return 2;
  setenv("EPILOGUE_CACHE_DIR", folder.c_str(), 1);
  int exit_code = 0;
  try {
    package::Cache cache = package::Cache::of_user();
    package::add_from(cache, argv[argc - 1], package::Reference{"epilogue/geglu", 1}, {}, {});
    const double load_ms = load_cost_ms(cache), call_ns = call_cost_ns();
    exit_code = check && (call_ns > kCallLimitNs || load_ms > kLoadLimitMs) ? 1 : 0;
  } catch (const Error& error) {
    fmt::print(stderr, "package_bench: {}\n", error.what());
    exit_code = 2;
  }
  package::remove_tree(folder);
  return exit_code;
}
