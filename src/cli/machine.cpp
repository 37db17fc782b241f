#include "cli/machine.h"

#include <fstream>
#include <type_traits>
#include <vector>

#include <unistd.h>

#include <fmt/format.h>

#include "backend/cpu/cpu_info.h"
#include "backend/cpu/isa.h"
#include "backend/cpu/packed_weight.h"
#include "base/cache_dir.h"
#include "base/check.h"
#include "base/env.h"
#include "base/format.h"
#include "base/threads.h"
#include "compile/pass.h"
#include "epilogue/device.h"
#include "package/policy.h"

namespace epilogue::cli {
namespace {

std::string cpu_model() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);)
    if (line.starts_with("model name")) return line.substr(line.find(':') + 2);
  return "unknown";
}

int64_t memory_bytes() { return int64_t{sysconf(_SC_PHYS_PAGES)} * sysconf(_SC_PAGESIZE); }

// A line for each CUDA device, or why there is none.
std::vector<std::string> cuda_devices() {
  const int count = device_count(DeviceType::cuda);
  if (count == 0) return {"not here: " + why_no_devices(DeviceType::cuda)};
  std::vector<std::string> lines;
  for (int i = 0; i < count; ++i) {
    const DeviceInfo info = device_info({DeviceType::cuda, static_cast<int8_t>(i)});
    std::string line = fmt::format("{}, {} multiprocessors, {}, compute capability {}", info.name,
                                   info.processors, format_bytes(info.memory_bytes), info.capability);
    for (const auto& [name, version] : info.libraries) line += fmt::format(", {} {}", name, version);
    lines.push_back(line);
  }
  return lines;
}

// Reads a variable as the library does, which throws Error where it is wrong.
void read_as_the_library(EnvVar var) {
  switch (var) {
    case EnvVar::verbose:
      EP_CHECK(wrong_verbose_topics().empty(), "{}", wrong_verbose_topics());
      return;
    case EnvVar::threads:
      thread_count();
      return;
    case EnvVar::isa:
      cpu::apply_isa_cap();
      return;
    case EnvVar::pack_weights:
    case EnvVar::split_f32:
    case EnvVar::tf32:
    case EnvVar::replay:
      env_flag(var, true);
      return;
    case EnvVar::cache_mb:
      env_megabytes(var, 0);
      return;
    case EnvVar::disable_passes:
      compiler::check_pass_names({});
      return;
    case EnvVar::kernels_policy:
      package::user_policy();
      return;
    case EnvVar::cache_dir:
    case EnvVar::cuda_module:  // whether it loads stands beside "cuda"
    case EnvVar::count:
      return;
  }
}

// "" where nothing is.
std::string what_is_wrong(EnvVar var) try {
  if (!env_text(var).empty()) read_as_the_library(var);
  return "";
} catch (const Error& error) {
  return error.what();
}

std::string without_name(std::string text, EnvVar var) {
  const std::string prefix = fmt::format("{}: ", env_row(var).name);
  return text.starts_with(prefix) ? text.substr(prefix.size()) : text;
}

std::string env_value(EnvVar var) {
  const std::string value = env_text(var), wrong = what_is_wrong(var);
  if (value.empty()) return fmt::format("not set: {}", env_row(var).meaning);
  return wrong.empty() ? value : fmt::format("{} (wrong: {})", value, without_name(wrong, var));
}

std::vector<EnvVar> all_variables() {
  std::vector<EnvVar> all;
  for (size_t i = 0; i < static_cast<size_t>(EnvVar::count); ++i) all.push_back(static_cast<EnvVar>(i));
  return all;
}

// "EPILOGUE_THREADS: expected a whole number, got 'many'" of each variable that is wrong.
std::vector<std::string> wrong_variables() {
  std::vector<std::string> texts;
  for (const EnvVar var : all_variables())
    if (const std::string wrong = what_is_wrong(var); !wrong.empty())
      texts.push_back(fmt::format("{}: {}", env_row(var).name, without_name(wrong, var)));
  return texts;
}

// {"EPILOGUE_THREADS":"4",...}: those that are set.
std::string variables_json() {
  std::vector<std::string> fields;
  for (const EnvVar var : all_variables())
    if (const std::string value = env_text(var); !value.empty())
      fields.push_back(fmt::format("{}:{}", json_quote(env_row(var).name), json_quote(value)));
  return fmt::format("{{{}}}", fmt::join(fields, ","));
}

// A fact that a wrong variable leaves open: what would run with it is an error.
template <class Fact>
std::string fact_text(Fact fact) try {
  return fmt::format("{}", fact());
} catch (const Error& error) {
  return fmt::format("not known: {}", error.what());
}
template <class Fact>
std::string fact_json(Fact fact) try {
  if constexpr (std::is_arithmetic_v<decltype(fact())>)
    return fmt::format("{}", fact());
  else
    return json_quote(fact());
} catch (const Error&) {
  return "null";
}

std::string f32_products() {
  const std::string by = fmt::format("by {}", cpu::isa_name());
  if (!cpu::uses_amx() || !cpu::splits_f32() || !cpu::packs_weights()) return by;
  return fmt::format("{}; from {} rows by AMX, each number as three of bf16", by, cpu::kSplitRows);
}

std::string bf16_products() {
  if (cpu::uses_amx()) return "by AMX";
  return cpu::uses_avx512_bf16() ? "by AVX512-BF16" : "in f32, rounded once";
}

}  // namespace

std::string machine_json() {
  return fmt::format(
      R"({{"epilogue":"{}","cpu":{},"cores":{},"memory_bytes":{},"threads":{},"isa":{},"onednn":"{}","onednn_isa":{},"native_bf16":{},"amx":{},"cuda":{},"cache":{},"variables":{},"wrong":{}}})",
      EPILOGUE_VERSION, json_quote(cpu_model()), core_count(), memory_bytes(), fact_json(thread_count),
      fact_json(cpu::isa_name), cpu::onednn_version(), fact_json(cpu::onednn_isa),
      fact_json(cpu::has_native_bf16), fact_json(cpu::uses_amx), json_quote(cuda_devices().front()),
      cache_dir().empty() ? "null" : json_quote(cache_dir()), variables_json(),
      json_quoted_list(wrong_variables()));
}

std::string machine_text() {
  TextTable table({{"what", false}, {"value", false}});
  table.add_row({"epilogue", EPILOGUE_VERSION});
  table.add_row({"processor", cpu_model()});
  table.add_row({"cores", std::to_string(core_count())});
  table.add_row({"memory", format_bytes(memory_bytes())});
  table.add_row({"threads", fact_text(thread_count)});
  table.add_row({"pointwise kernels", fact_text(cpu::isa_name)});
  table.add_row({"oneDNN", fmt::format("{}, {}", cpu::onednn_version(), fact_text(cpu::onednn_isa))});
  table.add_row({"f32 products", fact_text(f32_products)});
  table.add_row({"bf16 products", fact_text(bf16_products)});
  for (const std::string& line : cuda_devices()) table.add_row({"cuda", line});
  const std::string cache = cache_dir();
  table.add_row({"cache", cache.empty() ? "none: there is no home folder" : cache});
  for (const EnvVar var : all_variables()) table.add_row({env_row(var).name, env_value(var)});
  return table.to_string();
}

}  // namespace epilogue::cli
