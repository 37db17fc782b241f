#include <filesystem>
#include <memory>
#include <string>

#include <fmt/format.h>

#include "base/check.h"
#include "base/format.h"
#include "cli/commands.h"
#include "cli/output.h"
#include "trace/explain.h"
#include "trace/print.h"

namespace epilogue::cli {
namespace {

using trace::FieldValue;
using trace::KernelName;
using trace::NameField;

struct Options {
  std::string what;
  std::string format = "table";
};

template <class Visit>
void for_each_field(const KernelName& kernel, Visit visit) {
  for (size_t i = 0; i < trace::kNameFields; ++i) visit(static_cast<NameField>(i), kernel.fields[i]);
}

std::string explanation_table(const KernelName& kernel) {
  TextTable table({{"field", false}, {"value", false}, {"certainty", false}, {"in the name", false}});
  for_each_field(kernel, [&](NameField field, const FieldValue& value) {
    if (!value.value.empty())
      table.add_row({name_field_name(field), value.value, certainty_name(value.certainty), value.token});
  });
  for (const FieldValue& feature : kernel.features)
    table.add_row({"feature", feature.value, certainty_name(feature.certainty), feature.token});
  std::vector<const char*> missing;
  for (const NameField field : missing_fields(kernel)) missing.push_back(name_field_name(field));
  return table.to_string() + (missing.empty() ? "" : fmt::format("not told: {}\n", fmt::join(missing, ", ")));
}

std::string json_value(const FieldValue& value) {
  return value.value.empty() ? "null" : json_quote(value.value);
}

bool is_dtype(NameField field) { return field >= NameField::a && field <= NameField::d; }

// The keys of one kernel, without the braces around them.
std::string explanation_json(const KernelName& kernel) {
  std::string fields, dtypes, features, certainty, tokens;
  const auto add = [](std::string& to, const std::string& key, const std::string& value) {
    to += fmt::format("{}{}:{}", to.empty() ? "" : ",", json_quote(key), value);
  };
  for_each_field(kernel, [&](NameField field, const FieldValue& value) {
    add(is_dtype(field) ? dtypes : fields, name_field_name(field), json_value(value));
    add(certainty, name_field_name(field), json_quote(certainty_name(value.certainty)));
    if (!value.token.empty()) add(tokens, name_field_name(field), json_quote(value.token));
  });
  for (const FieldValue& feature : kernel.features)
    features += fmt::format("{}{}", features.empty() ? "" : ",", json_quote(feature.value));
  return fmt::format(
      R"("name":{},"short":{},{},"dtypes":{{{}}},"features":[{}],"certainty":{{{}}},"tokens":{{{}}})",
      json_quote(kernel.name), json_quote(short_name(kernel)), fields, dtypes, features, certainty, tokens);
}

std::string differences_json(const trace::TraceExplanation& all, const trace::KernelComparison& comparison) {
  std::string rows;
  for (const trace::NameDifference& d : comparison.differences)
    rows += fmt::format(R"({}{{"field":{},"a":{},"b":{},"why":{},"certainty":{}}})", rows.empty() ? "" : ",",
                        json_quote(d.field), json_quote(d.a), json_quote(d.b), json_quote(d.why),
                        json_quote(certainty_name(d.certainty)));
  return fmt::format(R"({{"op":{},"a":{},"b":{},"differences":[{}]}})", json_quote(comparison.op),
                     json_quote(all.kernels[comparison.a].kernel.name),
                     json_quote(all.kernels[comparison.b].kernel.name), rows);
}

void print_trace_json(const std::string& file, const trace::TraceExplanation& all) {
  std::string kernels, comparisons;
  for (const trace::KernelUse& use : all.kernels) {
    std::string ops;
    for (const std::string& op : use.ops) ops += fmt::format("{}{}", ops.empty() ? "" : ",", json_quote(op));
    kernels += fmt::format(R"({}{{{},"calls":{},"total_us":{:.3f},"ops":[{}]}})", kernels.empty() ? "" : ",",
                           explanation_json(use.kernel), use.calls, use.total_us, ops);
  }
  for (const trace::KernelComparison& comparison : all.comparisons)
    comparisons += fmt::format("{}{}", comparisons.empty() ? "" : ",", differences_json(all, comparison));
  fmt::print("{{\"file\":{},\"kernels\":[{}],\"comparisons\":[{}]}}\n", json_quote(file), kernels,
             comparisons);
}

std::string comparison_text(const trace::TraceExplanation& all, const trace::KernelComparison& comparison) {
  std::string text =
      fmt::format("\n{} runs two GEMMs:\n  a  {}\n  b  {}\n", comparison.op,
                  all.kernels[comparison.a].kernel.name, all.kernels[comparison.b].kernel.name);
  if (comparison.differences.empty()) text += "  They differ in nothing that is known.\n";
  for (const trace::NameDifference& d : comparison.differences) {
    if (d.field == "waves")
      text += fmt::format("  waves ({})\n    a  {}\n    b  {}\n", certainty_name(d.certainty), d.a, d.b);
    else
      text += fmt::format("  {}: a {}, b {} ({})\n    {}\n", d.field, d.a, d.b, certainty_name(d.certainty),
                          d.why);
  }
  return text;
}

void print_trace_table(const std::string& file, const trace::TraceExplanation& all) {
  if (all.kernels.empty()) print_text(fmt::format("{}: no kernels to explain\n", file));
  for (const trace::KernelUse& use : all.kernels) {
    const std::string calls = trace::counted(use.calls, "call");
    print_text(fmt::format("{}\n{}, {}", use.kernel.name, calls, format_us(use.total_us)));
    for (const std::string& op : use.ops) print_text(fmt::format(", {}", op));
    print_text(fmt::format("\n{}\n", explanation_table(use.kernel)));
  }
  for (const trace::KernelComparison& comparison : all.comparisons)
    print_text(comparison_text(all, comparison));
}

// A kernel's name may be longer than any file's. What is called as traces are is taken for one, be it there
// or not.
bool names_trace(const std::string& what) {
  std::error_code error;
  const std::filesystem::file_status status = std::filesystem::status(what, error);
  return what == "-" || what.ends_with(".json") || what.ends_with(".json.gz") ||
         (exists(status) && !is_directory(status));
}

void run(const Options& options) {
  const bool json = options.format == "json";
  if (names_trace(options.what)) {
    const trace::Trace read = trace::read_trace(options.what);
    const trace::TraceExplanation all = trace::explain_trace(read);
    print_problems(read);
    return json ? print_trace_json(options.what, all) : print_trace_table(options.what, all);
  }
  const KernelName kernel = trace::explain_kernel(options.what);
  if (!kernel.known())
    tell(fmt::format("{}: no file of that name; it was read as a kernel's name", options.what));
  if (json)
    fmt::print("{{{}}}\n", explanation_json(kernel));
  else
    print_text(explanation_table(kernel));
}

}  // namespace

void add_trace_explain(Command trace, int&) {
  const Command command =
      trace.add_subcommand("explain", "a kernel's name, or every kernel of a trace, taken apart");
  auto options = std::make_shared<Options>();
  command.add_option("kernel", options->what, "a kernel's name; a trace where a file has that name")
      .required()
      .not_empty();
  add_format_option(command, options->format);
  command.callback([options] { run(*options); });
}

}  // namespace epilogue::cli
