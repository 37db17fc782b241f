#include "trace/placement.h"

namespace epilogue::trace {

std::vector<Placement> place_events(const Trace& trace, const std::vector<uint32_t>& launches,
                                    const std::vector<Step>& steps) {
  std::vector<Placement> places(trace.events.size());
  StepSearch search(steps);
  std::vector<std::vector<uint32_t>> open(trace.tracks.size());  // the ops around, per thread
  for (uint32_t i = 0; i < trace.events.size(); ++i) {
    const Event& event = trace.events[i];
    if (is_device_work(event.kind)) continue;
    places[i].step = search.at(event.start_ns);
    auto& around = open[event.track];
    while (!around.empty() && trace.events[around.back()].end_ns() <= event.start_ns) around.pop_back();
    if (!around.empty()) places[i].op = around.back();
    if (event.kind == EventKind::cpu_op) around.push_back(i);
  }
  for (uint32_t i = 0; i < trace.events.size(); ++i)
    if (launches[i] != kNoEvent) places[i] = places[launches[i]];
  return places;
}

int64_t count_untied(const Trace& trace, const std::vector<uint32_t>& launches,
                     const std::vector<Step>& steps) {
  return steps.empty() ? 0 : count_untied_from(steps.front().start_ns, trace, launches);
}

int64_t count_untied_from(int64_t ns, const Trace& trace, const std::vector<uint32_t>& launches) {
  int64_t untied = 0;
  for (size_t i = 0; i < trace.events.size(); ++i)
    untied +=
        is_device_work(trace.events[i].kind) && launches[i] == kNoEvent && trace.events[i].start_ns >= ns;
  return untied;
}

std::string_view bare_op_name(std::string_view name) {
  const size_t colons = name.find("::");
  // Only a plain namespace in front: "void at::native::..." stays whole.
  if (colons == std::string_view::npos ||
      name.substr(0, colons).find_first_of(" <(#") != std::string_view::npos)
    return name;
  return name.substr(colons + 2);
}

}  // namespace epilogue::trace
