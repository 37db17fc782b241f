#include "backend/cpu/amx.h"

#if defined(__x86_64__) && defined(__linux__)
#include <cpuid.h>
#include <unistd.h>

#include <sys/syscall.h>
#endif

namespace epilogue::cpu {
namespace {

#if defined(__x86_64__) && defined(__linux__)

// Linux grants the tile registers on request.
bool ask_for_amx() {
  constexpr long kRequestPermission = 0x1023, kTileData = 18;
  unsigned a = 0, b = 0, c = 0, d = 0;
  const bool there = __get_cpuid_count(7, 0, &a, &b, &c, &d) && (d >> 24 & 1) && (d >> 22 & 1);
  return there && syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
}

// The leaf that counts the palettes.
bool find_palettes() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  return __get_cpuid_count(0x1d, 0, &a, &b, &c, &d) && a > 0;
}

#else

bool ask_for_amx() { return false; }
bool find_palettes() { return false; }

#endif

}  // namespace

bool has_amx() {
  static const bool granted = ask_for_amx();
  return granted;
}

bool describes_amx() {
  static const bool found = find_palettes();
  return found;
}

}  // namespace epilogue::cpu
