#include "op/op.h"

#include <array>

#include "base/check.h"

namespace epilogue {
namespace {

constexpr std::array kOpRows{
#define OP(name, cls, fewest, most) OpRow{"ep::" #name, OpClass::cls, fewest, most},
#include "op/ops.def"
#undef OP
};

constexpr std::array<const char*, 5> kActs{"none", "relu", "silu", "gelu_tanh", "gelu"};

}  // namespace

const OpRow& op_row(Op op) { return kOpRows[static_cast<size_t>(op)]; }

const char* act_name(Act act) { return kActs[static_cast<size_t>(act)]; }

void check_known(Act act) {
  EP_CHECK(static_cast<size_t>(act) < kActs.size(), "activation {} is not known", static_cast<int>(act));
}

Act act_from_name(const std::string& name) {
  for (size_t i = 0; i < kActs.size(); ++i)
    if (name == kActs[i]) return static_cast<Act>(i);
  fail("activation '{}' is not known: expected {}", name, fmt::join(kActs, ", "));
}

}  // namespace epilogue
