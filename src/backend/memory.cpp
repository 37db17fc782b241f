#include "epilogue/memory.h"

#include <fmt/format.h>

#include "backend/backend.h"
#include "base/format.h"

namespace epilogue {

MemoryStats memory_stats(Device device) { return backend_for(device).memory_stats(); }
void reset_peak_memory(Device device) { backend_for(device).reset_peak_memory(); }
void empty_cache(Device device) { backend_for(device).empty_cache(); }

std::string memory_summary(Device device) {
  const MemoryStats stats = memory_stats(device);
  TextTable table({{"memory of " + device_name(device), false}, {"now"}, {"peak"}, {"total"}});
  table.add_row({"allocated", format_bytes(stats.allocated), format_bytes(stats.peak_allocated), ""});
  table.add_row({"  packed weights", format_bytes(stats.packed_weights), "", ""});
  table.add_row({"reserved", format_bytes(stats.reserved), format_bytes(stats.peak_reserved), ""});
  if (device.type == DeviceType::cuda) {
    const auto share = stats.reserved > 0 ? 100.0 * static_cast<double>(stats.inactive_split) /
                                                static_cast<double>(stats.reserved)
                                          : 0.0;
    table.add_row({"  active", format_bytes(stats.active), "", ""});
    table.add_row({"  inactive split", format_bytes(stats.inactive_split), "", ""});
    table.add_row({"fragmentation", fmt::format("{:.1f}%", share), "", ""});
    table.add_row({"retries", "", "", std::to_string(stats.retries)});
    table.add_row({"out of memory", "", "", std::to_string(stats.out_of_memory)});
  }
  table.add_row({"allocations", std::to_string(stats.allocations - stats.frees), "",
                 std::to_string(stats.allocations)});
  return table.to_string();
}

}  // namespace epilogue
