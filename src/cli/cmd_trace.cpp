#include "cli/commands.h"

namespace epilogue::cli {

void add_trace(Command app, int& exit_code) {
  const Command trace = app.add_subcommand("trace", "read any Kineto trace, PyTorch's or ours");
  trace.require_subcommand();
  add_trace_summary(trace, exit_code);
  add_trace_open(trace, exit_code);
  add_trace_gaps(trace, exit_code);
  add_trace_report(trace, exit_code);
  add_trace_explain(trace, exit_code);
  add_trace_diff(trace, exit_code);
  add_trace_expect(trace, exit_code);
}

}  // namespace epilogue::cli
