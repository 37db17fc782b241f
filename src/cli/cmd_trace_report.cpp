#include <memory>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "cli/commands.h"
#include "cli/output.h"
#include "epilogue/trace.h"
#include "trace/report.h"

namespace epilogue::cli {

void add_trace_report(Command trace, int&) {
  struct Arguments {
    std::vector<std::string> files;
    std::string output = "report.html";
  };
  auto arguments = std::make_shared<Arguments>();
  const Command report =
      trace.add_subcommand("report", "one HTML page: lanes, tables, several traces compared");
  report.add_option("FILE", arguments->files, "the traces, .json or .json.gz").required();
  report.add_option("-o,--output", arguments->output, "the page to write, FILE.html; - is standard output")
      .show_default();
  report.callback([arguments] {
    const bool to_stdout = arguments->output == "-";
    check_no_input(arguments->output, arguments->files);
    if (!to_stdout) check_page_name("--output", arguments->output);
    std::vector<trace::Trace> traces;
    for (const std::string& file : arguments->files) traces.push_back(trace::read_trace(file));
    std::vector<const trace::Trace*> pointers;
    for (const trace::Trace& one : traces) {
      print_problems(one);
      pointers.push_back(&one);
    }
    if (to_stdout) {
      fmt::print("{}", trace::render_report(pointers));
    } else {
      trace::write_report(pointers, arguments->output);
      fmt::print("{}\n", arguments->output);
    }
  });
}

}  // namespace epilogue::cli
