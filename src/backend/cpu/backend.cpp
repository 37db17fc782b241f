// The CPU backend: its allocator, its ordered implementation list, and the event of every kernel it runs.
#include "backend/backend.h"

#include <array>
#include <cstring>

#include <fmt/format.h>

#include "backend/cpu/allocator.h"
#include "backend/cpu/isa.h"
#include "backend/cpu/kernels/copy.h"
#include "backend/cpu/kernels/gated.h"
#include "backend/cpu/kernels/gemm.h"
#include "backend/cpu/kernels/gemm_epilogue.h"
#include "backend/cpu/kernels/pointwise.h"
#include "backend/cpu/kernels/program.h"
#include "backend/implementation_list.h"
#include "base/threads.h"
#include "profile/event.h"

namespace epilogue {
namespace cpu {
namespace {

constexpr std::array kImplementations{
    Implementation{"gemm_no_inner", serves_class<OpClass::gemm>, refuse_gemm_no_inner, run_gemm_no_inner},
    Implementation{"gemm_panels", serves_class<OpClass::gemm>, refuse_gemm_panels, run_gemm_panels},
    Implementation{"gemm_onednn", serves_class<OpClass::gemm>, refuse_gemm_onednn, run_gemm_onednn},
    Implementation{"gemm_reference", serves_class<OpClass::gemm>, refuse_gemm_reference, run_gemm_reference},
    Implementation{"gated_panels", serves_class<OpClass::gated>, refuse_gated, run_gated},
    Implementation{"pointwise", serves_class<OpClass::pointwise>, never_refuses, run_pointwise},
    Implementation{"fill", [](Op op) { return op == Op::fill_; }, never_refuses, run_fill},
    Implementation{"copy", serves_class<OpClass::copy>, never_refuses, run_copy},
    Implementation{"gemm_panel_blocks", serves_class<OpClass::gemm>, refuse_gemm_panel_blocks,
                   run_gemm_panel_blocks, true},
    Implementation{"gemm_post_ops", serves_class<OpClass::gemm>, refuse_gemm_post_ops, run_gemm_post_ops,
                   true},
    Implementation{"gemm_row_blocks", serves_class<OpClass::gemm>, refuse_gemm_row_blocks,
                   run_gemm_row_blocks, true},
    Implementation{"program", serves_class<OpClass::fused>, never_refuses, run_program, true},
};

int64_t bytes_touched(const KernelCall& call) {
  auto bytes = static_cast<int64_t>(call.output.nbytes());
  for (size_t i = 1; i < call.outputs.size(); ++i) bytes += static_cast<int64_t>(call.outputs[i].nbytes());
  for (const Tensor& input : call.inputs) bytes += static_cast<int64_t>(input.nbytes());
  return bytes;
}

class CpuBackend final : public Backend {
 public:
  detail::StorageRef allocate(size_t bytes) override { return Allocator::instance().allocate(bytes); }
  void copy_bytes(void* to, Device, const void* from, Device, size_t bytes) override {
    std::memcpy(to, from, bytes);
  }
  std::span<const Implementation> implementations() const override { return kImplementations; }
  void synchronize() override {}  // every kernel has ended when launch returns
  MemoryStats memory_stats() const override { return Allocator::instance().stats(); }
  void reset_peak_memory() override { Allocator::instance().reset_peak(); }
  void empty_cache() override { Allocator::instance().empty_cache(); }
  DeviceInfo info() const override;
  const char* refuse_epilogue(Op, const PointwiseProgram& program) const override {
    return program.compute == DType::f32 ? nullptr : "only products in f32, bf16 and f16 take a program";
  }
  const char* refuse_merged_products() const override {
    return "the gate of one goes into the epilogue of the other, which is no slower on a CPU";
  }

 protected:
  void run(const Implementation& implementation, const KernelCall& call) override {
    const profile::Scope scope(trace::EventKind::cpu_kernel, implementation.name);
    const KernelRan ran = implementation.run(call);
    if (scope.slot()) [[unlikely]] {
      profile::set_name(scope.slot(), ran.name);
      profile::set_work(scope.slot(), call.flops, bytes_touched(call), ran.threads);
    }
  }
};

DeviceInfo CpuBackend::info() const {
  return {.name = fmt::format("CPU, {}", isa_name()), .processors = core_count()};
}

}  // namespace
}  // namespace cpu

Backend& cpu_backend() {
  static auto* cpu = new cpu::CpuBackend;  // outlives the tensors of static objects
  return *cpu;
}

}  // namespace epilogue
