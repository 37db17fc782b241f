// Which variant of a package runs on this machine, and why the others do not.
#pragma once

#include <string>
#include <vector>

#include "epilogue/tensor.h"
#include "package/manifest.h"

namespace epilogue::package {

// What matters of a machine and the device asked for.
struct Machine {
  std::string system, arch;
  uint32_t abi = 0;
  Device device{};
  std::string isa;         // the instruction set CPU kernels may use: "avx512"
  int64_t cuda = 0;        // the highest CUDA major the driver runs
  int64_t capability = 0;  // 90 for a compute capability of 9.0
};

Machine this_machine(Device device);  // throws Error when the device is not there

enum class Verdict : uint8_t { taken, passed_over, refused };  // passed over: it fits, but another is better
const char* verdict_name(Verdict verdict);                     // "passed over"

struct Choice {
  const Variant* variant;
  Verdict verdict;
  std::string reason;  // one clause, to be read after the verdict and "because"
  bool taken() const { return verdict == Verdict::taken; }
};

// Every variant in the manifest's order, at most one of them taken: of those that fit, the one that says most
// about the machine (the highest instruction set, the nearest compute capability).
std::vector<Choice> resolve(const Manifest& manifest, const Machine& machine);

// The one taken. Throws Error with every refusal when there is none.
const Variant& choose_variant(const Manifest& manifest, const Machine& machine);

}  // namespace epilogue::package
