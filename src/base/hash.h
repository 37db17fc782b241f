// FNV-1a, for names of files and to notice damage: it holds nobody off, as package/ does by SHA-256.
#pragma once

#include <cstdint>
#include <string_view>

namespace epilogue {

constexpr uint64_t hash_of(std::string_view text, uint64_t seed = 0xcbf29ce484222325) {
  uint64_t hash = seed;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  return hash ^ (hash >> 31);
}

}  // namespace epilogue
