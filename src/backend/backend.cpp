#include "backend/backend.h"

#include <fmt/format.h>

#include "base/check.h"
#include "base/env.h"
#include "profile/event.h"

namespace epilogue {
namespace {

std::string describe(const KernelCall& call) {
  std::string text = op_row(call.op).name;
  if (call.program) text += fmt::format(" with {}", call.program->name);
  for (const Tensor& input : call.inputs)
    text += fmt::format(" {} {}", dtype_name(input.dtype()), input.sizes().to_string());
  return text;
}

bool serves(const Implementation& implementation, const KernelCall& call) {
  return implementation.serves(call.op) && implementation.takes_programs == (call.program != nullptr);
}

}  // namespace

const char* Backend::refuse_epilogue(Op, const PointwiseProgram&) const {
  return "this device's products take no program as their epilogue";
}

void Backend::prepare(const PointwiseProgram&) {}

const Implementation* Backend::first_that_accepts(const KernelCall& call) const {
  static const bool tell = verbose("dispatch");
  for (const Implementation& implementation : implementations()) {
    if (!serves(implementation, call)) continue;
    const char* reason = implementation.refuse(call);
    if (tell) [[unlikely]]
      verbose_line("dispatch", fmt::format("{}: {} {}{}", describe(call), implementation.name,
                                           reason ? "refuses: " : "accepts", reason ? reason : ""));
    if (!reason) return &implementation;
  }
  return nullptr;
}

std::string Refusal::to_string() const {
  return implementation.empty() ? reason : fmt::format("{}: {}", implementation, reason);
}

std::vector<Refusal> Backend::refusals(const KernelCall& call) const {
  std::vector<Refusal> found;
  for (const Implementation& implementation : implementations()) {
    if (!serves(implementation, call)) continue;
    const char* reason = implementation.refuse(call);
    if (!reason) return {};
    found.push_back({implementation.name, reason});
  }
  if (found.empty()) found.push_back({"", "this device has none"});
  return found;
}

const Implementation& Backend::find(const KernelCall& call) const {
  if (const Implementation* found = first_that_accepts(call)) return *found;
  std::string told = describe(call);
  for (const Refusal& refusal : refusals(call)) told += "; " + refusal.to_string();
  fail("no implementation takes {}", told);
}

// An op's event of its own tells in the trace, on any device, for whom the kernel below it runs.
void Backend::launch_asked(const AskedImplementation& asked, const KernelCall& call) {
  const char* reason = asked.refuse(call);
  if (!reason) {
    const profile::Scope scope(trace::EventKind::cpu_op, asked.asked_for);
    run(asked, call);
    asked.ran(call);
    return;
  }
  verbose_line("dispatch", fmt::format("{}: {} refuses: {}", describe(call), asked.asked_for, reason));
  asked.refused(call, reason);
  const profile::Scope scope(trace::EventKind::cpu_op, "");
  if (scope.slot()) profile::set_name(scope.slot(), fmt::format("{} not used: {}", asked.asked_for, reason));
  run(find(call), call);
}

void Backend::launch(const KernelCall& call) {
  if (call.attrs.implementation) [[unlikely]]
    launch_asked(*call.attrs.implementation, call);
  else if (!run_again(call))
    run(find(call), call);
}

}  // namespace epilogue
