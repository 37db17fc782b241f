// Which of a trace's launches equals one: equal ones are kept once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "epilogue/trace.h"

namespace epilogue::trace {

class LaunchIndex {
 public:
  // The index of an equal launch, or of the one added.
  uint32_t index_of(const Launch& launch, std::vector<Launch>& launches) {
    const auto [at, added] = indices_.try_emplace(launch, static_cast<uint32_t>(launches.size()));
    if (added) launches.push_back(launch);
    return at->second;
  }

 private:
  struct Hash {
    size_t operator()(const Launch& launch) const {  // of the whole numbers, which lie first
      return std::hash<std::string_view>{}(
          {reinterpret_cast<const char*>(&launch), offsetof(Launch, occupancy_percent)});
    }
  };
  static_assert(offsetof(Launch, occupancy_percent) == 11 * sizeof(int32_t), "no padding is hashed");
  std::unordered_map<Launch, uint32_t, Hash> indices_;
};

}  // namespace epilogue::trace
