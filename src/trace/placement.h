// Where events belong: the step and the op around each, or around what launched it.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "epilogue/trace.h"
#include "trace/links.h"
#include "trace/steps.h"

namespace epilogue::trace {

struct Placement {
  uint32_t step = kNoEvent;  // into the steps
  uint32_t op =
      kNoEvent;  // the innermost cpu_op around it (index into Trace::events); an op's own is its parent
};

// For each event. Device work is where its launching call is; without that call it is nowhere.
std::vector<Placement> place_events(const Trace& trace, const std::vector<uint32_t>& launches,
                                    const std::vector<Step>& steps);

// Device work that may be a step's, which none can say since the call that launched it is missing. What began
// before the first step is no step's.
int64_t count_untied(const Trace& trace, const std::vector<uint32_t>& launches,
                     const std::vector<Step>& steps);
// The same of all that begins from this moment on.
int64_t count_untied_from(int64_t ns, const Trace& trace, const std::vector<uint32_t>& launches);

// "aten::linear" and "ep::linear" are "linear"; a name without a namespace is itself.
std::string_view bare_op_name(std::string_view name);

}  // namespace epilogue::trace
