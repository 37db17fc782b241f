// The program's commands: one cmd_*.cpp each. A command adds itself to its parent, and when it was chosen
// sets exit_code: 0 done, 1 a check failed, 2 bad usage or input. Result text goes to stdout, everything else
// to stderr.
#pragma once

#include <CLI/CLI.hpp>

namespace epilogue::cli {

void add_profile(CLI::App& app, int& exit_code);
void add_bench(CLI::App& app, int& exit_code);
void add_verify(CLI::App& app, int& exit_code);
void add_graph(CLI::App& app, int& exit_code);
void add_cache(CLI::App& app, int& exit_code);
void add_info(CLI::App& app, int& exit_code);
void add_trace(CLI::App& app, int& exit_code);
void add_kernels(CLI::App& app, int& exit_code);

// Below `trace`; added by cmd_trace.cpp.
void add_trace_explain(CLI::App& trace, int& exit_code);
void add_trace_summary(CLI::App& trace, int& exit_code);
void add_trace_open(CLI::App& trace, int& exit_code);
void add_trace_gaps(CLI::App& trace, int& exit_code);
void add_trace_report(CLI::App& trace, int& exit_code);
void add_trace_diff(CLI::App& trace, int& exit_code);
void add_trace_expect(CLI::App& trace, int& exit_code);

// Below `kernels`; added by cmd_kernels.cpp.
void add_kernels_add(CLI::App& kernels);
void add_kernels_pack(CLI::App& kernels);
void add_kernels_test(CLI::App& kernels, int& exit_code);

}  // namespace epilogue::cli
