#include "backend/cpu/isa.h"

#include <atomic>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

#include <hwy/highway.h>

#include "backend/cpu/amx.h"
#include "base/check.h"
#include "base/env.h"

namespace epilogue::cpu {
namespace {

std::atomic<bool> amx_allowed{true}, avx512_bf16_allowed{true};

bool allows_amx(std::string_view name) { return name.empty() || name == "amx"; }
bool allows_avx512_bf16(std::string_view name) { return allows_amx(name) || name == "avx512_bf16"; }

bool find_avx512_bf16() {
#if defined(__x86_64__)
  unsigned a = 0, b = 0, c = 0, d = 0;
  return __get_cpuid_count(7, 1, &a, &b, &c, &d) && (a >> 5 & 1);
#else
  return false;
#endif
}

int64_t targets_up_to(std::string_view name) {
  constexpr int64_t scalar = HWY_SCALAR | HWY_EMU128;
  if (allows_avx512_bf16(name) || name == "avx512") return ~int64_t{0};
  if (name == "avx2") return scalar | HWY_AVX2;
  if (name == "scalar") return scalar;
  fail("{}: expected scalar, avx2, avx512, avx512_bf16 or amx, got '{}'", env_row(EnvVar::isa).name, name);
}

void cap_targets(std::string_view name) {
  const int64_t allowed = targets_up_to(name);
  hwy::SetSupportedTargetsForTest(0);
  const int64_t capped = (hwy::SupportedTargets() | HWY_STATIC_TARGET) & allowed;
  hwy::SetSupportedTargetsForTest(capped);
  hwy::GetChosenTarget().Update(capped);
  amx_allowed = allows_amx(name);
  avx512_bf16_allowed = allows_avx512_bf16(name);
}

}  // namespace

void apply_isa_cap() {
  static const bool applied = [] {
    cap_targets(env_text(EnvVar::isa));
    return true;
  }();
  (void)applied;
}

void set_isa_cap(std::string_view name) {
  apply_isa_cap();
  cap_targets(name);
}

bool uses_amx() {
  apply_isa_cap();
  return amx_allowed.load(std::memory_order_relaxed) && has_amx();
}

bool has_avx512_bf16() {
  static const bool there = find_avx512_bf16();
  return there;
}

bool uses_avx512_bf16() {
  apply_isa_cap();
  return has_avx512_bf16() && avx512_bf16_allowed.load(std::memory_order_relaxed) &&
         hwy::SupportedTargets() & HWY_AVX3;
}

bool splits_f32() {
  static const bool splits = env_flag(EnvVar::split_f32, true);
  return splits;
}

const char* isa_name() {
  apply_isa_cap();
  const int64_t targets = hwy::SupportedTargets();
  return targets & HWY_AVX3 ? "avx512" : targets & HWY_AVX2 ? "avx2" : "scalar";
}

}  // namespace epilogue::cpu
