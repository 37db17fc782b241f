// The state behind a CompiledFunction.
#pragma once

#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "compile/build_queue.h"
#include "compile/guards.h"
#include "compile/plan.h"
#include "compile/replay.h"
#include "epilogue/compile.h"
#include "graph/capture.h"

namespace epilogue {

// Each combination of input sizes has an instance: its captured graph and, once it is there, its plan. Graphs
// of one structure need the same kernels: the first is built in the background, the others get their plan at
// once.
struct CompiledFunction::State : std::enable_shared_from_this<CompiledFunction::State> {
  State(graph::Function f, CompileOptions o) : function(std::move(f)), options(std::move(o)) {}

  std::vector<Tensor> call(std::span<const Tensor> inputs);
  void wait_ready();
  CompileStats stats_now() const;
  std::string explain(std::span<const Tensor> inputs, const ExplainOptions& what) const;

 private:
  enum class Build : uint8_t { under_way, ready, failed };
  // A build is under way until its thread has let go of the layer too, or the queue has dropped it: it lives
  // on its own, since the state may go with that. Who has waited and drops the function has the memory back.
  class BuildsUnderWay : public std::enable_shared_from_this<BuildsUnderWay> {
   public:
    std::shared_ptr<void> begin();  // a build that ends when nobody holds this
    void wait();

   private:
    void end();

    std::mutex mutex_;
    std::condition_variable ended_;
    int count_ = 0;
  };
  struct Instance {
    compiler::Guards guards;
    graph::Graph graph;
    std::string structure;
    std::shared_ptr<const compiler::Plan> plan;   // under the mutex
    std::shared_ptr<compiler::Replay> recording;  // likewise; with CompileOptions::replay
    bool unplannable = false;                     // likewise: no plan could be made for these sizes
  };

  std::shared_ptr<Instance> find(std::span<const Tensor> inputs);  // with the mutex held
  std::shared_ptr<Instance> add(std::span<const Tensor> inputs);
  void start_build(const std::shared_ptr<Instance>& instance);  // with the mutex held
  void forget_builds_of_parent();                               // likewise
  void build(Instance& instance);
  std::shared_ptr<const compiler::Plan> make_plan(const Instance& instance);
  // The plan, made now when the instance's structure is built; null while it is not, or when none can be
  // made.
  std::shared_ptr<const compiler::Plan> plan_of(const std::shared_ptr<Instance>& instance);
  // The plan's recording, if the options ask for one and it can be recorded.
  std::shared_ptr<compiler::Replay> recording_of(const std::shared_ptr<Instance>& instance,
                                                 const std::shared_ptr<const compiler::Plan>& plan,
                                                 std::span<const Tensor> inputs);
  void count_recompile(const Instance* before, std::span<const Tensor> inputs);  // with the mutex held
  void count_failure(std::string why);                                           // likewise
  void tell_failure(const std::string& why) const;

  const graph::Function function;
  const CompileOptions options;
  compiler::StackedConstants stacked;

  mutable std::mutex mutex;
  std::vector<std::shared_ptr<Instance>> instances;  // the latest used first
  std::map<std::string, Build> structures;
  CompileStats stats;
  std::shared_ptr<BuildsUnderWay> under_way = std::make_shared<BuildsUnderWay>();
  int forks = compiler::BuildQueue::forks();  // when the above began
};

}  // namespace epilogue
