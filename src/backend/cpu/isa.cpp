#include "backend/cpu/isa.h"

#include <hwy/highway.h>

#include "base/check.h"
#include "base/env.h"

namespace epilogue::cpu {
namespace {

int64_t targets_up_to(std::string_view name) {
  constexpr int64_t scalar = HWY_SCALAR | HWY_EMU128;
  if (name.empty() || name == "avx512") return ~int64_t{0};
  if (name == "avx2") return scalar | HWY_AVX2;
  if (name == "scalar") return scalar;
  fail("{}: expected scalar, avx2 or avx512, got '{}'", env_row(EnvVar::isa).name, name);
}

void cap_targets(std::string_view name) {
  const int64_t allowed = targets_up_to(name);
  hwy::SetSupportedTargetsForTest(0);
  const int64_t capped = (hwy::SupportedTargets() | HWY_STATIC_TARGET) & allowed;
  hwy::SetSupportedTargetsForTest(capped);
  hwy::GetChosenTarget().Update(capped);
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

const char* isa_name() {
  apply_isa_cap();
  const int64_t targets = hwy::SupportedTargets();
  return targets & HWY_AVX3 ? "avx512" : targets & HWY_AVX2 ? "avx2" : "scalar";
}

}  // namespace epilogue::cpu
