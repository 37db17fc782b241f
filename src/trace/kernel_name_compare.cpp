// Why a library runs differently named kernels for one op: the reasons known for each field that differs.
#include <cmath>

#include <fmt/format.h>

#include "trace/kernel_name_parse.h"

namespace epilogue::trace {
namespace {

int bytes_of(std::string_view type) {
  if (type == "f64" || type == "cf32") return 8;
  if (type == "f32" || type == "tf32" || type == "s32") return 4;
  if (type == "f16" || type == "bf16") return 2;
  if (type == "e4m3" || type == "e5m2" || type == "s8" || type == "u8") return 1;
  return 0;
}

// What a kernel's K steps in flight hold in shared memory; 0 when the name does not tell.
int64_t stage_bytes(const KernelName& kernel) {
  const std::vector<int> tile = sizes_of(kernel.value(NameField::tile));
  const std::string& stages = kernel.value(NameField::stages);
  if (tile.size() != 3 || !is_number(stages) || stages.size() > 3) return 0;
  return int64_t{tile[0] + tile[1]} * tile[2] * bytes_of(kernel.value(NameField::a)) * std::stoi(stages);
}

int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

// Output tiles of a row-major M x N result. NVIDIA's libraries are column-major: their M is our N. Ours are
// rows x columns, and a gated kernel's columns are gate's and up's together.
int64_t tile_count(const KernelName& kernel, const GemmCall& call) {
  const std::vector<int> tile = sizes_of(kernel.value(NameField::tile));
  if (tile.size() < 2 || tile[0] <= 0 || tile[1] <= 0 || call.m <= 0 || call.n <= 0) return 0;
  if (kernel.value(NameField::family) != "epilogue-cuda")
    return ceil_div(call.n, tile[0]) * ceil_div(call.m, tile[1]);
  const bool gated = kernel.value(NameField::runs) == "gated_gemm";
  return ceil_div(call.m, tile[0]) * ceil_div(call.n, gated && tile[1] > 1 ? tile[1] / 2 : tile[1]);
}

std::string waves_sentence(const KernelName& own, const KernelName& other, const GemmCall& call) {
  const std::vector<int> tile = sizes_of(own.value(NameField::tile)),
                         else_tile = sizes_of(other.value(NameField::tile));
  const int64_t tiles = tile_count(own, call), else_tiles = tile_count(other, call);
  if (tiles == 0 || else_tiles == 0 || call.multiprocessors <= 0) return {};
  const auto filled = [&](int64_t count) {
    return 100.0 * static_cast<double>(count) /
           static_cast<double>(ceil_div(count, call.multiprocessors) * call.multiprocessors);
  };
  const double sms = call.multiprocessors;
  return fmt::format(
      "{}x{}x{}: {}x{} makes {} tiles, {:.2f} waves over {} SMs, {:.0f}% filled; {}x{} would make {}, "
      "{:.2f} waves, {:.0f}% filled.",
      call.m, call.n, call.k, tile[0], tile[1], tiles, static_cast<double>(tiles) / sms, call.multiprocessors,
      filled(tiles), else_tile[0], else_tile[1], else_tiles, static_cast<double>(else_tiles) / sms,
      filled(else_tiles));
}

std::string stages_reason(const KernelName& a, const KernelName& b) {
  std::string why = "Stages follow from the tile: as many K steps as shared memory holds.";
  if (const int64_t bytes_a = stage_bytes(a), bytes_b = stage_bytes(b); bytes_a > 0 && bytes_b > 0)
    why += fmt::format(" Here {} KiB and {} KiB of it.", bytes_a / 1024, bytes_b / 1024);
  return why;
}

std::string reason(NameField field, const KernelName& a, const KernelName& b) {
  switch (field) {
    case NameField::family:
      return "Kernels of another generation: the GPU, the library's version or the element type differs, or "
             "sizes and "
             "alignment fit no kernel of the newer family.";
    case NameField::arch:
      return "Built for another architecture: another GPU, or the library has no newer kernel for this case "
             "and runs an "
             "older one, which the GPU still executes.";
    case NameField::tile:
      return "The library picks the tile that leaves the fewest multiprocessors idle in the last wave, so "
             "another M or "
             "N gives another tile; a short side takes a narrow tile.";
    case NameField::runs:
      return "One is made for a special shape, which the other does not have.";
    case NameField::stages:
      return stages_reason(a, b);
    case NameField::cluster:
      return "Blocks of a cluster share loads along the side that has many tiles; that side differs.";
    case NameField::split_k:
      return "Few output tiles and a long K: K is split so that more multiprocessors work, and the parts are "
             "summed "
             "afterwards.";
    case NameField::alignment:
      return "A pointer or a leading dimension is not a multiple of the wider access, so elements are read "
             "in narrower "
             "ones.";
    case NameField::layout:
      return "An operand comes with other strides: a transposed view is read in place.";
    case NameField::epilogue:
      return "One does more before it writes its result: a bias or an activation that otherwise costs a "
             "kernel.";
    case NameField::schedule:
      return "The roles of warps differ: pingpong favours small tiles, cooperative large ones.";
    case NameField::instruction:
      return "Another matrix instruction: the architecture or the element type differs.";
    default:
      return "The element types differ: this is another computation, not another choice for the same one.";
  }
}

bool is_gemm(const KernelName& kernel) {
  return kernel.value(NameField::op) == "GEMM" || kernel.value(NameField::op) == "GEMV";
}

}  // namespace

std::vector<NameDifference> compare_kernels(const KernelName& a, const KernelName& b, const GemmCall& call_a,
                                            const GemmCall& call_b) {
  std::vector<NameDifference> differences;
  if (!is_gemm(a) || !is_gemm(b)) return differences;
  constexpr NameField kOrder[] = {
      NameField::family,    NameField::runs,        NameField::arch,     NameField::a,
      NameField::b,         NameField::accumulator, NameField::d,        NameField::tile,
      NameField::split_k,   NameField::stages,      NameField::cluster,  NameField::schedule,
      NameField::alignment, NameField::layout,      NameField::epilogue, NameField::instruction,
  };
  for (NameField field : kOrder) {
    const FieldValue &va = a[field], &vb = b[field];
    const bool may_be_absent =
        field == NameField::split_k || field == NameField::epilogue || field == NameField::runs;
    if (va.value == vb.value || ((va.value.empty() || vb.value.empty()) && !may_be_absent)) continue;
    const auto shown = [](const FieldValue& v) { return v.value.empty() ? std::string("none") : v.value; };
    // The reasons are how such libraries are known to choose; no name states them.
    differences.push_back(
        {name_field_name(field), shown(va), shown(vb), reason(field, a, b), Certainty::convention});
    if (field != NameField::tile) continue;
    const std::string own = waves_sentence(a, b, call_a), other = waves_sentence(b, a, call_b);
    if (!own.empty() && !other.empty())
      differences.push_back({"waves", own, other,
                             "Counted from the calls' shapes and the GPU's multiprocessors.",
                             Certainty::convention});
  }
  return differences;
}

}  // namespace epilogue::trace
