#include "trace/demangle.h"

#include <gtest/gtest.h>

namespace epilogue::trace {
namespace {

TEST(Demangle, TemplatesSubstitutionsAndLiterals) {
  EXPECT_EQ(
      demangle(
          "_ZN2at6native29vectorized_elementwise_kernelILi4ENS0_15CUDAFunctor_addIfEESt5arrayIPcLm3EEEEviT0_"
          "T1_")
          .text,
      "at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>, std::array<char*, "
      "3ul>>");
  EXPECT_EQ(
      demangle("_ZN7cutlass7Kernel2I50cutlass_80_tensorop_s1688gemm_64x64_16x6_tn_align4EEvNT_6ParamsE").text,
      "cutlass::Kernel2<cutlass_80_tensorop_s1688gemm_64x64_16x6_tn_align4>");
}

TEST(Demangle, LambdasOfLocalFunctionsKeepTheirNumbers) {
  const Demangled gelu = demangle(
      "_ZN2at6native29vectorized_elementwise_kernelILi4EZZZNS0_18GeluCUDAKernelImplERNS_"
      "18TensorIteratorBaseENS0_8GeluType"
      "EENKUlvE0_clEvENKUlvE2_clEvEUlN3c108BFloat16EE_NS_6detail5ArrayIPcLi2EEEEEviT0_T1_");
  EXPECT_TRUE(gelu.complete);
  EXPECT_EQ(
      gelu.text,
      "at::native::vectorized_elementwise_kernel<4, at::native::GeluCUDAKernelImpl(at::TensorIteratorBase&, "
      "at::native::GeluType)::{lambda()#2}::operator()() const::{lambda()#4}::operator()() "
      "const::{lambda(c10::BFloat16)#1}, at::detail::Array<char*, 2>>");
}

TEST(Demangle, AnonymousNamespacesOfNvccAreNamed) {
  EXPECT_EQ(demangle("_ZN43_GLOBAL__N__b6de9c8c_10_SoftMax_cu_9f978f6320softmax_warp_"
                     "forwardIfffLi4ELb0ELb0EEEvPT0_PKT_iiiPKbib")
                .text,
            "(anonymous namespace)::softmax_warp_forward<float, float, float, 4, false, false>");
}

TEST(Demangle, CutNameGivesWhatItHolds) {
  const Demangled cut =
      demangle("_ZN7cutlass13device_kernelINS_4gemm6kernel13GemmUniversalINS1_17GroupProblemShapeIN4cute5t");
  EXPECT_FALSE(cut.complete);
  EXPECT_EQ(cut.text,
            "cutlass::device_kernel<cutlass::gemm::kernel::GemmUniversal<cutlass::gemm::GroupProblemShape<"
            "cute::t>>>");
}

TEST(Demangle, HostileDoublingIsBounded) {
  std::string name = "_Z1fI1aIiE";  // each level names the one before twice
  for (int i = 1; i < 60; ++i) name += "1bIS" + std::string(1, static_cast<char>('0' + i % 8)) + "_S0_E";
  EXPECT_LE(demangle(name).text.size(), size_t{1} << 17);
  EXPECT_FALSE(demangle("_Z" + std::string(5000, 'P') + "i").complete);
}

TEST(Demangle, AnyNumberOfAbiTagsIsPassedOver) {
  std::string tags;
  for (int i = 0; i < 200000; ++i) tags += "B1t";
  EXPECT_EQ(demangle("_Z1f" + tags + "i").text, "f");
}

TEST(Demangle, OrdinaryNamesAreNotMangled) { EXPECT_EQ(demangle("nvjet_sm90_tst").text, ""); }

}  // namespace
}  // namespace epilogue::trace
