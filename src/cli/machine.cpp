#include "cli/machine.h"

#include <fstream>
#include <vector>

#include <fmt/format.h>

#include "backend/cpu/cpu_info.h"
#include "backend/cpu/isa.h"
#include "base/cache_dir.h"
#include "base/env.h"
#include "base/format.h"
#include "base/threads.h"
#include "epilogue/device.h"

namespace epilogue::cli {
namespace {

std::string cpu_model() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);)
    if (line.starts_with("model name")) return line.substr(line.find(':') + 2);
  return "unknown";
}

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

}  // namespace

std::string machine_json() {
  return fmt::format(
      R"({{"epilogue":"{}","cpu":{},"cores":{},"threads":{},"isa":"{}","onednn":"{}","onednn_isa":"{}","native_bf16":{},"amx":{},"cuda":{}}})",
      EPILOGUE_VERSION, json_quote(cpu_model()), core_count(), thread_count(), cpu::isa_name(),
      cpu::onednn_version(), cpu::onednn_isa(), cpu::has_native_bf16(), cpu::uses_amx(),
      json_quote(cuda_devices().front()));
}

std::string machine_text() {
  TextTable table({{"what", false}, {"value", false}});
  table.add_row({"epilogue", EPILOGUE_VERSION});
  table.add_row({"processor", cpu_model()});
  table.add_row({"cores", std::to_string(core_count())});
  table.add_row({"threads", std::to_string(thread_count())});
  table.add_row({"pointwise kernels", cpu::isa_name()});
  table.add_row({"oneDNN", fmt::format("{}, {}", cpu::onednn_version(), cpu::onednn_isa())});
  table.add_row({"bf16 products", cpu::uses_amx()          ? "by AMX, in our own tiles"
                                  : cpu::has_native_bf16() ? "by the processor, through oneDNN"
                                                           : "in f32, rounded once"});
  for (const std::string& line : cuda_devices()) table.add_row({"cuda", line});
  const std::string cache = cache_dir();
  table.add_row({"cache", cache.empty() ? "none: there is no home folder" : cache});
  for (size_t i = 0; i < static_cast<size_t>(EnvVar::count); ++i) {
    const EnvRow& row = env_row(static_cast<EnvVar>(i));
    const std::string value = env_text(static_cast<EnvVar>(i));
    table.add_row({row.name, value.empty() ? fmt::format("not set: {}", row.meaning) : value});
  }
  return table.to_string();
}

}  // namespace epilogue::cli
