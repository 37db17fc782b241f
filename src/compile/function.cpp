#include "compile/function.h"

#include <algorithm>
#include <chrono>
#include <mutex>

#include <fmt/format.h>

#include "backend/backend.h"
#include "base/beside.h"
#include "base/check.h"
#include "base/env.h"
#include "codegen/nvrtc.h"
#include "compile/pass.h"
#include "profile/event.h"

namespace epilogue {
namespace {

constexpr size_t kMostInstances = 256;  // combinations of sizes; beyond them the one least used goes
constexpr size_t kMostReasons = 32;

void keep_last(std::vector<std::string>& texts, std::string text) {
  if (texts.size() == kMostReasons) texts.erase(texts.begin());
  texts.push_back(std::move(text));
}

void add_times(std::vector<PassTime>& times, const std::vector<compiler::PassReport>& reports) {
  if (times.empty())
    for (const compiler::PassReport& report : reports) times.push_back({report.name});
  for (size_t i = 0; i < reports.size(); ++i) {
    times[i].runs += !reports[i].off;
    times[i].total_us += reports[i].us;
  }
}

// The compiler of kernels takes long to load from a cold disk. Once a program has asked for CUDA's devices,
// its first compile() begins that, beside what it does until the first call; where kernels were kept on disk
// it will hardly be needed.
void load_compiler_ahead() {
  static std::once_flag once;
  if (cuda_module_is_loaded())
    std::call_once(once, run_beside, [](const std::atomic<bool>&) { codegen::warm_up_nvrtc(); });
}

}  // namespace

using Plan = compiler::Plan;

std::shared_ptr<CompiledFunction::State::Instance> CompiledFunction::State::find(
    std::span<const Tensor> inputs) {
  const auto holds = [&](const auto& instance) { return instance->guards.hold(inputs, options.watch); };
  const auto found = std::ranges::find_if(instances, holds);
  if (found == instances.end()) return nullptr;
  std::rotate(instances.begin(), found, found + 1);
  return instances.front();
}

std::vector<Tensor> CompiledFunction::State::call(std::span<const Tensor> inputs) {
  if (is_recording()) return function(inputs);  // part of another function's graph
  std::shared_ptr<Instance> instance;
  std::shared_ptr<const Plan> plan;
  {
    const profile::Scope event(trace::EventKind::overhead, "ep::guards");
    const std::lock_guard lock(mutex);
    ++stats.calls;
    instance = find(inputs);
    if (instance) plan = instance->plan;
  }
  if (!instance) instance = add(inputs);
  if (!plan) plan = plan_of(instance);
  const profile::OpScope event(options.name.c_str(), inputs);
  if (plan && options.replay)
    if (const auto recording = recording_of(instance, plan, inputs)) return recording->run(inputs);
  if (plan) return plan->run(inputs);
  {
    const std::lock_guard lock(mutex);
    ++stats.eager_calls;
  }
  return run_eagerly(instance->graph, inputs);
}

std::shared_ptr<CompiledFunction::State::Instance> CompiledFunction::State::add(
    std::span<const Tensor> inputs) {
  const profile::Scope event(trace::EventKind::overhead, "ep::capture");
  graph::Graph graph = graph::capture(function, inputs);
  const bool exact = graph.absolute_offsets;
  std::string text = structure(graph);
  auto instance = std::make_shared<Instance>(Instance{compiler::Guards(inputs, options.watch, exact),
                                                      std::move(graph), std::move(text), nullptr, nullptr});
  std::vector<std::shared_ptr<Instance>> forgotten;  // their tensors' deleters may call this function
  const std::lock_guard lock(mutex);
  if (auto other = find(inputs)) return other;  // another thread was quicker
  if (verbose("guards") && !instances.empty()) {
    const std::string what = instances.front()->guards.what_changed(inputs, options.watch);
    verbose_line("guards", fmt::format("{}: not called with such inputs before: {}", options.name,
                                       what.empty() ? "other sizes" : what));
  }
  forget_builds_of_parent();
  if (!structures.contains(instance->structure)) {
    count_recompile(instances.empty() ? nullptr : instances.front().get(), inputs);
    start_build(instance);
  }
  // No call will find those of tensors that were replaced, which they keep alive.
  const auto replaced = std::stable_partition(instances.begin(), instances.end(), [&](const auto& kept) {
    return kept->guards.same_watched(options.watch);
  });
  std::move(replaced, instances.end(), std::back_inserter(forgotten));
  instances.erase(replaced, instances.end());
  if (instances.size() >= kMostInstances) {
    forgotten.push_back(std::move(instances.back()));
    instances.pop_back();
  }
  instances.insert(instances.begin(), instance);
  return instance;
}

void CompiledFunction::State::count_recompile(const Instance* before, std::span<const Tensor> inputs) {
  if (!before) return;
  std::string why = before->guards.what_changed(inputs, options.watch);
  if (why.empty()) {
    why = "the function took another path for sizes";
    for (const Tensor& input : inputs) why.append(" ").append(input.sizes().to_string());
  }
  ++stats.recompiles;
  verbose_line("recompiles", fmt::format("{}: {}", options.name, why));
  keep_last(stats.reasons, std::move(why));
}

void CompiledFunction::State::tell_failure(const std::string& why) const {
  verbose_line("compile", fmt::format("{}: stays eager: {}", options.name, why));
}

void CompiledFunction::State::count_failure(std::string why) {
  ++stats.failed_builds;
  keep_last(stats.failures, std::move(why));
}

void CompiledFunction::State::start_build(const std::shared_ptr<Instance>& instance) {
  structures[instance->structure] = Build::under_way;
  const bool added = compiler::BuildQueue::instance().add(
      [build = under_way->begin(), self = shared_from_this(), what = instance]() mutable {
        self->build(*what);
        what.reset();
        self.reset();
        build.reset();
      });
  if (!added) structures.erase(instance->structure);  // the next call tries again
}

// In a child of fork() what was being built is built in the parent alone.
void CompiledFunction::State::forget_builds_of_parent() {
  if (forks == compiler::BuildQueue::forks()) return;
  forks = compiler::BuildQueue::forks();
  under_way = std::make_shared<BuildsUnderWay>();
  std::erase_if(structures, [](const auto& structure) { return structure.second == Build::under_way; });
}

void CompiledFunction::State::wait_ready() {
  std::shared_ptr<BuildsUnderWay> builds;
  {
    const std::lock_guard lock(mutex);
    forget_builds_of_parent();
    builds = under_way;
  }
  builds->wait();
}

std::shared_ptr<const Plan> CompiledFunction::State::make_plan(const Instance& instance) {
  graph::Graph graph = instance.graph;
  compiler::PassesResult passes = compiler::run_passes(graph, options);
  auto plan = std::make_shared<const Plan>(std::move(graph), std::move(passes.buffers), stacked);
  const std::lock_guard lock(mutex);
  add_times(stats.passes, passes.reports);
  stats.peak_bytes = plan->buffers().peak;
  stats.unplanned_bytes = plan->buffers().unplanned;
  ++stats.shapes;
  return plan;
}

void CompiledFunction::State::build(Instance& instance) {
  const auto start = std::chrono::steady_clock::now();
  std::shared_ptr<const Plan> plan;
  std::string failure;
  {
    const profile::Scope event(trace::EventKind::overhead, "ep::build");
    try {
      plan = make_plan(instance);
      plan->prepare();
    } catch (const std::exception& error) {
      plan = nullptr;
      failure = error.what();
    }
  }
  const std::chrono::duration<double, std::micro> took = std::chrono::steady_clock::now() - start;
  if (plan)
    verbose_line("compile", fmt::format("{}: built in {:.0f} us", options.name, took.count()));
  else
    tell_failure(failure);
  const std::lock_guard lock(mutex);
  structures[instance.structure] = plan ? Build::ready : Build::failed;
  instance.plan = plan;
  if (plan)
    ++stats.builds;
  else
    count_failure(std::move(failure));
  stats.last_build_us = took.count();
}

std::shared_ptr<const Plan> CompiledFunction::State::plan_of(const std::shared_ptr<Instance>& instance) {
  {
    const std::lock_guard lock(mutex);
    forget_builds_of_parent();
    if (!structures.contains(instance->structure)) start_build(instance);
    const auto built = structures.find(instance->structure);
    const bool ready = built != structures.end() && built->second == Build::ready;
    if (instance->plan || instance->unplannable || !ready) return instance->plan;
  }
  std::shared_ptr<const Plan> plan;
  std::string failure;
  try {
    const profile::Scope event(trace::EventKind::overhead, "ep::plan");
    plan = make_plan(*instance);
  } catch (const std::exception& error) {
    failure = error.what();
    tell_failure(failure);
  }
  const std::lock_guard lock(mutex);
  if (!plan) {  // of this shape alone: the graph runs op by op
    instance->unplannable = true;
    count_failure(std::move(failure));
    return nullptr;
  }
  if (plan->is_prepared()) return instance->plan = plan;
  // These sizes need kernels that the others did not.
  if (structures[instance->structure] == Build::ready) {
    ++stats.recompiles;
    keep_last(stats.reasons, "sizes that need other kernels");
    start_build(instance);
  }
  return nullptr;
}

std::shared_ptr<compiler::Replay> CompiledFunction::State::recording_of(
    const std::shared_ptr<Instance>& instance, const std::shared_ptr<const Plan>& plan,
    std::span<const Tensor> inputs) {
  if (!compiler::Replay::fits(*plan, inputs)) return nullptr;
  const std::lock_guard lock(mutex);
  if (!instance->recording) instance->recording = std::make_shared<compiler::Replay>(plan);
  return instance->recording;
}

std::shared_ptr<void> CompiledFunction::State::BuildsUnderWay::begin() {
  const std::lock_guard lock(mutex_);
  ++count_;
  return {nullptr, [all = shared_from_this()](void*) { all->end(); }};
}

void CompiledFunction::State::BuildsUnderWay::end() {
  const std::lock_guard lock(mutex_);
  --count_;
  ended_.notify_all();
}

void CompiledFunction::State::BuildsUnderWay::wait() {
  std::unique_lock lock(mutex_);
  ended_.wait(lock, [this] { return count_ == 0; });
}

CompileStats CompiledFunction::State::stats_now() const {
  const std::lock_guard lock(mutex);
  return stats;
}

std::vector<Tensor> CompiledFunction::operator()(std::span<const Tensor> inputs) const {
  EP_CHECK(state_, "an empty CompiledFunction was called");
  return state_->call(inputs);
}

Tensor CompiledFunction::operator()(const Tensor& x) const {
  std::vector<Tensor> results = (*this)(std::span(&x, 1));
  EP_CHECK(results.size() == 1, "compile: the function gives {} tensors, one was expected", results.size());
  return std::move(results[0]);
}

void CompiledFunction::wait_ready() const {
  if (state_) state_->wait_ready();
}

CompileStats CompiledFunction::stats() const { return state_ ? state_->stats_now() : CompileStats{}; }

std::string CompiledFunction::explain(std::span<const Tensor> inputs, ExplainOptions options) const {
  EP_CHECK(state_, "an empty CompiledFunction has nothing to explain");
  return state_->explain(inputs, options);
}

CompiledFunction compile(std::function<std::vector<Tensor>(std::span<const Tensor>)> function,
                         CompileOptions options) {
  compiler::check_pass_names(options);
  EP_CHECK(std::ranges::find(options.watch, nullptr) == options.watch.end(),
           "compile: watch has a null pointer, expected the places of tensors");
  load_compiler_ahead();
  return CompiledFunction(std::make_shared<CompiledFunction::State>(std::move(function), std::move(options)));
}

CompiledFunction compile(std::function<Tensor(const Tensor&)> function, CompileOptions options) {
  return compile(
      [f = std::move(function)](std::span<const Tensor> inputs) {
        EP_CHECK(inputs.size() == 1, "compile: the function takes one tensor, got {}", inputs.size());
        return std::vector<Tensor>{f(inputs[0])};
      },
      std::move(options));
}

}  // namespace epilogue
