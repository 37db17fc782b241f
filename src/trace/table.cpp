// PyTorch's table, to the column: torch/autograd/profiler_util.py, _build_table.
#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

#include <fmt/format.h>

#include "base/check.h"
#include "base/format.h"
#include "epilogue/profiler.h"

namespace epilogue {
namespace {

constexpr size_t kNameWidth = 55, kShapesWidth = 80, kColumnWidth = 12;

double per_call(double total, int64_t calls) { return calls ? total / static_cast<double>(calls) : 0; }

struct SortKey {
  const char* name;  // PyTorch's, with "device" for "cuda"
  double (*value)(const OpStats&);
};
constexpr std::array kSortKeys{
    SortKey{"self_cpu_time_total", [](const OpStats& row) { return row.self_cpu_us; }},
    SortKey{"cpu_time_total", [](const OpStats& row) { return row.cpu_total_us; }},
    SortKey{"cpu_time", [](const OpStats& row) { return per_call(row.cpu_total_us, row.calls); }},
    SortKey{"self_device_time_total", [](const OpStats& row) { return row.self_device_us; }},
    SortKey{"device_time_total", [](const OpStats& row) { return row.device_total_us; }},
    SortKey{"device_time", [](const OpStats& row) { return per_call(row.device_total_us, row.calls); }},
    SortKey{"cpu_memory_usage", [](const OpStats& row) { return static_cast<double>(row.cpu_memory); }},
    SortKey{"self_cpu_memory_usage",
            [](const OpStats& row) { return static_cast<double>(row.self_cpu_memory); }},
    SortKey{"device_memory_usage", [](const OpStats& row) { return static_cast<double>(row.device_memory); }},
    SortKey{"self_device_memory_usage",
            [](const OpStats& row) { return static_cast<double>(row.self_device_memory); }},
    SortKey{"count", [](const OpStats& row) { return static_cast<double>(row.calls); }},
    SortKey{"flops", [](const OpStats& row) { return static_cast<double>(row.flops); }},
};

const SortKey& sort_key(const std::string& name) {
  std::string key = name;
  if (const size_t cuda = key.find("cuda"); cuda != std::string::npos) key.replace(cuda, 4, "device");
  std::string known;
  for (const SortKey& row : kSortKeys) {
    if (key == row.name) return row;
    known += (known.empty() ? "" : ", ") + std::string(row.name);
  }
  fail("sort key '{}' is not known, expected one of: {}", name, known);
}

std::vector<const OpStats*> sorted_rows(const KeyAverages& averages, const std::string& sort_by) {
  const SortKey& key = sort_key(sort_by);
  std::vector<std::pair<double, const OpStats*>> keyed;
  for (const OpStats& row : averages.rows) keyed.emplace_back(key.value(row), &row);
  std::stable_sort(keyed.begin(), keyed.end(),
                   [](const auto& a, const auto& b) { return a.first > b.first; });
  std::vector<const OpStats*> rows;
  for (const auto& [value, row] : keyed) rows.push_back(row);
  return rows;
}

std::string share(double part, double whole) {
  return whole == 0 ? "NaN" : fmt::format("{:.2f}%", part * 100 / whole);
}

// FLOPs in the unit that the smallest count needs.
struct FlopsUnit {
  double scale = 1;
  const char* name = "FLOPs";
};
FlopsUnit flops_unit(const std::vector<OpStats>& rows) {
  constexpr std::array<const char*, 6> kNames{"FLOPs", "KFLOPs", "MFLOPs", "GFLOPs", "TFLOPs", "PFLOPs"};
  int64_t least = INT64_MAX;
  for (const OpStats& row : rows)
    if (row.flops > 0) least = std::min(least, row.flops);
  const int power = std::clamp(static_cast<int>(std::log10(static_cast<double>(least)) / 3), 0, 5);
  return {std::pow(10, -3 * power), kNames[static_cast<size_t>(power)]};
}

std::string dropped_line(int64_t dropped) {
  return dropped > 0 ? fmt::format("Dropped events: {} (the buffers were full)\n", dropped) : "";
}

struct Totals {
  double cpu_us = 0, device_us = 0;
};

class TableText {
 public:
  TableText(const KeyAverages& averages, const TableOptions& options)
      : averages_(averages), options_(options), rows_(sorted_rows(averages, options.sort_by)) {
    for (const OpStats* row : rows_) {
      totals_.cpu_us += row->self_cpu_us;
      if (row->is_kernel && !row->is_annotation) totals_.device_us += row->self_device_us;
      has_device_memory_ |= averages.has_memory && row->self_device_memory > 0;
      name_width_ = std::max(name_width_, row->name.size() + 4);
      shapes_width_ = std::max(shapes_width_, row->shapes.size() + 4);
    }
    name_width_ = std::min(name_width_, kNameWidth);
    shapes_width_ = std::min(shapes_width_, kShapesWidth);
    if (averages.has_flops) unit_ = flops_unit(averages.rows);
  }

  std::string text() {
    const std::vector<std::string> titles = this->titles();
    std::string rule;
    for (size_t c = 0; c < titles.size(); ++c) rule += std::string(width(c), '-') + "  ";
    rule += '\n';
    std::string text = rule + line(titles) + rule;
    const size_t shown = options_.rows < 0 ? rows_.size() : static_cast<size_t>(options_.rows);
    for (size_t r = 0; r < std::min(shown, rows_.size()); ++r) text += line(cells(*rows_[r]));
    text += rule + "Self CPU time total: " + format_us(totals_.cpu_us) + '\n';
    if (averages_.has_device) text += "Self CUDA time total: " + format_us(totals_.device_us) + '\n';
    return text + dropped_line(averages_.dropped);
  }

 private:
  std::vector<std::string> titles() {
    std::vector<std::string> titles{"Name",        "Self CPU %", "Self CPU",
                                    "CPU total %", "CPU total",  "CPU time avg"};
    const auto add = [&](std::initializer_list<std::string> more) {
      titles.insert(titles.end(), more.begin(), more.end());
    };
    if (averages_.has_device) add({"Self CUDA", "Self CUDA %", "CUDA total", "CUDA time avg"});
    if (averages_.has_memory) add({"CPU Mem", "Self CPU Mem"});
    if (has_device_memory_) add({"CUDA Mem", "Self CUDA Mem"});
    add({"# of Calls"});
    if (averages_.has_shapes) {
      shapes_column_ = titles.size();
      add({"Input Shapes"});
    }
    if (averages_.has_flops) add({std::string("Total ") + unit_.name, "GFLOP/s"});
    if (averages_.has_flops && options_.peak_gflops > 0) add({"% of peak"});
    return titles;
  }

  std::vector<std::string> cells(const OpStats& row) const {
    std::string name = one_line(row.name);
    if (name.size() >= kNameWidth - 3) name = name.substr(0, kNameWidth - 3) + "...";
    std::vector<std::string> cells{name,
                                   share(row.self_cpu_us, totals_.cpu_us),
                                   format_us(row.self_cpu_us),
                                   share(row.cpu_total_us, totals_.cpu_us),
                                   format_us(row.cpu_total_us),
                                   format_us(per_call(row.cpu_total_us, row.calls))};
    const auto add = [&](std::initializer_list<std::string> more) {
      cells.insert(cells.end(), more.begin(), more.end());
    };
    if (averages_.has_device)
      add({format_us(row.self_device_us), share(row.self_device_us, totals_.device_us),
           format_us(row.device_total_us), format_us(per_call(row.device_total_us, row.calls))});
    if (averages_.has_memory)
      add({format_bytes_as_pytorch(row.cpu_memory), format_bytes_as_pytorch(row.self_cpu_memory)});
    if (has_device_memory_)
      add({format_bytes_as_pytorch(row.device_memory), format_bytes_as_pytorch(row.self_device_memory)});
    add({fmt::format("{}", row.calls)});
    if (averages_.has_shapes) add({row.shapes.substr(0, shapes_width_)});
    if (averages_.has_flops) add_flops(row, cells);
    return cells;
  }

  void add_flops(const OpStats& row, std::vector<std::string>& cells) const {
    const double us = row.device_total_us > 0 ? row.device_total_us : row.cpu_total_us;
    const bool known = row.flops > 0 && us > 0;
    const double rate = known ? static_cast<double>(row.flops) / us / 1e3 : 0;
    cells.push_back(row.flops > 0 ? fmt::format("{:8.3f}", static_cast<double>(row.flops) * unit_.scale)
                                  : "--");
    cells.push_back(known ? fmt::format("{:.1f}", rate) : "--");
    if (options_.peak_gflops > 0) cells.push_back(known ? share(rate, options_.peak_gflops) : "--");
  }

  size_t width(size_t column) const {
    if (column == 0) return name_width_;
    return averages_.has_shapes && column == shapes_column_ ? shapes_width_ : kColumnWidth;
  }

  std::string line(const std::vector<std::string>& cells) const {
    std::string text;
    for (size_t c = 0; c < cells.size(); ++c) text += fmt::format("{:>{}}  ", cells[c], width(c));
    return text + '\n';
  }

  const KeyAverages& averages_;
  const TableOptions& options_;
  std::vector<const OpStats*> rows_;
  Totals totals_;
  bool has_device_memory_ = false;
  size_t name_width_ = 0, shapes_width_ = 0, shapes_column_ = 0;
  FlopsUnit unit_;
};

}  // namespace

std::string KeyAverages::table(const TableOptions& options) const {
  return rows.empty() ? dropped_line(dropped) : TableText(*this, options).text();
}

}  // namespace epilogue
