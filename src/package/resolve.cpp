#include "package/resolve.h"

#include <algorithm>
#include <array>
#include <charconv>

#include <sys/utsname.h>

#include "backend/backend.h"
#include "backend/cpu/isa.h"
#include "base/check.h"
#include "epilogue/kernel_abi.h"

namespace epilogue::package {
namespace {

constexpr std::array<std::string_view, 3> kInstructionSets{"scalar", "avx2", "avx512"};

int rank_of(std::string_view isa) {
  return static_cast<int>(std::ranges::find(kInstructionSets, isa) - kInstructionSets.begin());
}

std::string lower(std::string text) {
  std::ranges::transform(text, text.begin(),
                         [](char c) { return c >= 'A' && c <= 'Z' ? c + ('a' - 'A') : c; });
  return text;
}

// "9.0" gives 90, "13.0" as a version's major 13.
int64_t digits_of(std::string_view text, bool major_alone) {
  std::string digits;
  for (const char c : text) {
    if (c == '.' && major_alone) break;
    if (c >= '0' && c <= '9') digits += c;
  }
  int64_t value = 0;
  std::from_chars(digits.data(), digits.data() + digits.size(), value);
  return value;
}

// Machine code for capability X.Y runs on X.Z with Z not below Y.
int64_t nearest_arch(const Variant& variant, int64_t capability) {
  int64_t best = 0;
  for (const int64_t arch : variant.archs)
    if (arch / 10 == capability / 10 && arch <= capability) best = std::max(best, arch);
  return best;
}

// "" when it fits.
std::string refusal(const Variant& variant, const Machine& machine) {
  if (variant.abi > machine.abi)
    return fmt::format("its ABI {} is newer than this Epilogue's {}", variant.abi, machine.abi);
  if (variant.system != machine.system)
    return fmt::format("it is for {}, this is {}", variant.system, machine.system);
  if (variant.arch != machine.arch)
    return fmt::format("it is for {}, this is {}", variant.arch, machine.arch);
  const bool cuda = machine.device.type == DeviceType::cuda;
  if (variant.backend != (cuda ? "cuda" : "cpu"))
    return fmt::format("it is for {}, the device is {}", variant.backend, device_name(machine.device));
  if (!cuda)
    return rank_of(variant.isa) <= rank_of(machine.isa)
               ? ""
               : fmt::format("it needs {}, this processor (or EPILOGUE_ISA) allows {}", variant.isa,
                             machine.isa);
  if (variant.cuda > machine.cuda)
    return fmt::format("it was built with CUDA {}, the driver runs CUDA {}", variant.cuda, machine.cuda);
  if (nearest_arch(variant, machine.capability) == 0)
    return fmt::format("it has code for {}, the device is {}", fmt::join(variant.archs, ", "),
                       machine.capability);
  return "";
}

int64_t rank(const Variant& variant, const Machine& machine) {
  if (variant.backend == "cpu") return rank_of(variant.isa);
  return nearest_arch(variant, machine.capability) * 1000 + variant.cuda;
}

std::string merit(const Variant& variant, const Machine& machine) {
  if (variant.backend == "cpu")
    return fmt::format("{} is the highest of the package that this processor (or EPILOGUE_ISA) allows",
                       variant.isa);
  return fmt::format("its code for {}, built with CUDA {}, is the nearest to this device's {}",
                     nearest_arch(variant, machine.capability), variant.cuda, machine.capability);
}

}  // namespace

const char* verdict_name(Verdict verdict) {
  return verdict == Verdict::taken ? "taken" : verdict == Verdict::refused ? "refused" : "passed over";
}

Machine this_machine(Device device) {
  utsname name{};
  EP_CHECK(uname(&name) == 0, "the system does not tell what it is");
  Machine machine{.system = lower(name.sysname),
                  .arch = name.machine,
                  .abi = EP_KERNEL_ABI_VERSION,
                  .device = device,
                  .isa = cpu::isa_name()};
  if (device.type == DeviceType::cpu) return machine;
  const DeviceInfo info = backend_for(device).info();
  machine.capability = digits_of(info.capability, false);
  for (const auto& [library, version] : info.libraries)
    if (library == "driver") machine.cuda = digits_of(version, true);
  return machine;
}

std::vector<Choice> resolve(const Manifest& manifest, const Machine& machine) {
  std::vector<Choice> choices;
  Choice* best = nullptr;
  choices.reserve(manifest.variants.size());
  for (const Variant& variant : manifest.variants) {
    std::string reason = refusal(variant, machine);
    const bool fits = reason.empty();
    choices.push_back({&variant, fits ? Verdict::passed_over : Verdict::refused, std::move(reason)});
    if (fits && (!best || rank(variant, machine) > rank(*best->variant, machine))) best = &choices.back();
  }
  if (!best) return choices;
  for (Choice& choice : choices)
    if (choice.verdict == Verdict::passed_over)
      choice.reason = fmt::format("{} is better here", best->variant->name);
  best->verdict = Verdict::taken;
  best->reason = merit(*best->variant, machine);
  return choices;
}

const Variant& choose_variant(const Manifest& manifest, const Machine& machine) {
  std::vector<std::string> reasons;
  for (const Choice& choice : resolve(manifest, machine)) {
    if (choice.taken()) return *choice.variant;
    reasons.push_back(choice.variant->name + ": " + choice.reason);
  }
  fail("kernel package {}: no variant for {} on this machine; {}", manifest.reference.to_string(),
       device_name(machine.device), fmt::join(reasons, "; "));
}

}  // namespace epilogue::package
