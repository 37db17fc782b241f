// The program's commands: one cmd_*.cpp each. A command adds itself to its parent, and when it was chosen
// sets exit_code: 0 done, 1 a check failed, 2 bad usage or input. Result text goes to stdout, everything else
// to stderr.
#pragma once

#include "cli/command_line.h"

namespace epilogue::cli {

void add_profile(Command app, int& exit_code);
void add_bench(Command app, int& exit_code);
void add_verify(Command app, int& exit_code);
void add_graph(Command app, int& exit_code);
void add_cache(Command app, int& exit_code);
void add_info(Command app, int& exit_code);
void add_trace(Command app, int& exit_code);
void add_kernels(Command app, int& exit_code);

// Below `trace`; added by cmd_trace.cpp.
void add_trace_explain(Command trace, int& exit_code);
void add_trace_summary(Command trace, int& exit_code);
void add_trace_open(Command trace, int& exit_code);
void add_trace_gaps(Command trace, int& exit_code);
void add_trace_report(Command trace, int& exit_code);
void add_trace_diff(Command trace, int& exit_code);
void add_trace_expect(Command trace, int& exit_code);

// Below `kernels`; added by cmd_kernels.cpp.
void add_kernels_add(Command kernels);
void add_kernels_pack(Command kernels);
void add_kernels_test(Command kernels, int& exit_code);

}  // namespace epilogue::cli
