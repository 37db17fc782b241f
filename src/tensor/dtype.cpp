#include <algorithm>
#include <array>
#include <charconv>
#include <string_view>

#include "base/check.h"
#include "epilogue/tensor.h"

namespace epilogue {
namespace {

struct DTypeRow {
  DType dtype;
  const char* name;
  std::array<std::string_view, 3> others;  // as PyTorch's users write it
  size_t size;
  bool floating;

  bool is_called(std::string_view given) const {
    return given == name || (!given.empty() && std::ranges::find(others, given) != others.end());
  }
};

constexpr std::array<DTypeRow, 6> kRows{{
    {DType::f32, "f32", {"float32", "fp32", "float"}, 4, true},
    {DType::bf16, "bf16", {"bfloat16"}, 2, true},
    {DType::f16, "f16", {"float16", "fp16", "half"}, 2, true},
    {DType::f64, "f64", {"float64", "fp64", "double"}, 8, true},
    {DType::i32, "i32", {"int32", "int"}, 4, false},
    {DType::i64, "i64", {"int64", "long"}, 8, false},
}};

const DTypeRow& row(DType dtype) { return kRows[static_cast<size_t>(dtype)]; }

std::string names(bool floating_alone) {
  std::string names;
  for (const DTypeRow& r : kRows)
    if (r.floating || !floating_alone) names += (names.empty() ? "" : ", ") + std::string(r.name);
  return names;
}

}  // namespace

size_t dtype_size(DType dtype) { return row(dtype).size; }
const char* dtype_name(DType dtype) { return row(dtype).name; }
bool dtype_is_floating(DType dtype) { return row(dtype).floating; }

std::string floating_dtype_names() { return names(true); }

DType dtype_from_name(const std::string& name) {
  for (const DTypeRow& r : kRows)
    if (r.is_called(name)) return r.dtype;
  fail("dtype '{}' is not known: expected {}", name, names(false));
}

DType floating_dtype_from_name(const std::string& name) {
  for (const DTypeRow& r : kRows)
    if (r.is_called(name) && r.floating) return r.dtype;
  fail("dtype '{}' is not known here: expected {}", name, floating_dtype_names());
}

std::string device_name(Device device) {
  return device.type == DeviceType::cpu ? "cpu" : fmt::format("cuda:{}", static_cast<int>(device.index));
}

Device device_from_name(const std::string& name) {
  if (name == "cpu") return {};
  if (name == "cuda") return {DeviceType::cuda, 0};
  int index = -1;
  if (name.starts_with("cuda:")) {
    const auto [end, error] = std::from_chars(name.data() + 5, name.data() + name.size(), index);
    if (error != std::errc{} || end != name.data() + name.size() || index > 127) index = -1;
  }
  EP_CHECK(index >= 0, "device '{}' is not known: expected cpu, cuda or cuda:N", name);
  return {DeviceType::cuda, static_cast<int8_t>(index)};
}

}  // namespace epilogue
