#include "trace/kernel_name.h"

#include <fstream>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "test_data.h"

namespace epilogue::trace {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

struct Row {
  std::string name, expected, source;
};

std::vector<Row> rows() {
  std::ifstream file(test_data("kernel_names.tsv"));
  std::vector<Row> found;
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with('#')) continue;
    const size_t first = line.find('\t'), second = line.find('\t', first + 1);
    found.push_back(
        {line.substr(0, first), line.substr(first + 1, second - first - 1), line.substr(second + 1)});
  }
  return found;
}

NameField field_of(const std::string& name) {
  for (size_t i = 0; i < kNameFields; ++i)
    if (name == name_field_name(static_cast<NameField>(i))) return static_cast<NameField>(i);
  ADD_FAILURE() << "no field " << name;
  return NameField::family;
}

// One expectation of the data file: "tile=64x64" stated, "tile~64x64" convention, "tile?" unknown.
void check(const KernelName& kernel, const std::string& expectation) {
  const size_t at = expectation.find_first_of("=~?");
  ASSERT_NE(at, std::string::npos) << expectation;
  const NameField field = field_of(expectation.substr(0, at));
  std::string value = expectation.substr(at + 1);
  Certainty certainty = expectation[at] == '=' ? Certainty::stated : Certainty::convention;
  if (expectation[at] == '?') {
    certainty = Certainty::unknown;
    value = field == NameField::family ? "unknown" : "";
  }
  EXPECT_EQ(kernel.value(field), value) << kernel.name << "\n  " << expectation;
  EXPECT_STREQ(certainty_name(kernel[field].certainty), certainty_name(certainty))
      << kernel.name << "\n  " << expectation;
}

TEST(KernelName, OnlyWhatAReaderWouldLookForIsMissed) {
  const auto missed = [](const char* name) {
    std::vector<std::string> names;
    for (const NameField field : missing_fields(explain_kernel(name)))
      names.emplace_back(name_field_name(field));
    return names;
  };
  EXPECT_THAT(missed("pointwise_mul_avx512_f32"), IsEmpty());
  EXPECT_THAT(missed("nvjet_sm90_tst_192x128_64x5_1x2_h_bz_coopB_TNT"), IsEmpty());
  EXPECT_THAT(missed("triton_poi_fused__unsafe_view_gelu_mul_0"), ElementsAre("a", "d"));
  EXPECT_THAT(missed("onednn_brgemm_avx512_f32"), ElementsAre("layout", "tile"));
  EXPECT_THAT(missed("Memset (Device)"), IsEmpty());
  EXPECT_THAT(missed("Memcpy HtoD (Pageable -> Device)"), IsEmpty());
  EXPECT_THAT(missed("my_kernel"), ElementsAre("op"));
}

TEST(KernelName, EveryNameOfTheDataFileIsExplainedAsExpected) {
  const std::vector<Row> all = rows();
  ASSERT_GE(all.size(), 120u);
  for (const Row& row : all) {
    const KernelName kernel = explain_kernel(row.name);
    for (size_t start = 0; start < row.expected.size();) {
      const size_t end = std::min(row.expected.find('|', start), row.expected.size());
      check(kernel, row.expected.substr(start, end - start));
      start = end + 1;
    }
  }
}

TEST(KernelName, DataFileHoldsTheTracesAndSixtyFurtherNamesWithTheirSources) {
  size_t traces = 0, ours = 0, further = 0;
  std::set<std::string> names;
  for (const Row& row : rows()) {
    EXPECT_TRUE(names.insert(row.name).second) << "twice: " << row.name;
    EXPECT_GE(row.source.size(), 8u) << row.name;
    ++(row.source.starts_with("tests/data/traces") ? traces
       : row.source.starts_with("ours")            ? ours
                                                   : further);
  }
  EXPECT_EQ(traces, 15u);
  EXPECT_GE(further, 60u);
}

TEST(KernelName, UnknownNamesSayUnknownAndNothingElse) {
  for (const char* name :
       {"", "kernel", "gemm", "cutlass_", "cutlass3x_sm90", "nvjet", "ampere_", "triton_poi", "epilogue",
        "onednn_", "void foo<float>(int)", "_Z", "_ZN", "<", "(", "at", "my_s16816gemm_f16_128x128"}) {
    const KernelName kernel = explain_kernel(name);
    EXPECT_EQ(kernel.value(NameField::family), "unknown") << name;
    EXPECT_TRUE(kernel.features.empty()) << name;
    for (size_t i = 0; i < kNameFields; ++i) {
      const auto field = static_cast<NameField>(i);
      EXPECT_EQ(kernel[field].certainty, Certainty::unknown) << name << ": " << name_field_name(field);
      EXPECT_EQ(kernel.value(field), field == NameField::family ? "unknown" : "")
          << name << ": " << name_field_name(field);
    }
  }
}

TEST(KernelName, WordsWithoutAKnownMeaningAreListedAsSuch) {
  const KernelName kernel = explain_kernel("nvjet_sm90_tst_256x128_64x4_1x2_h_bz_coopA_TNT");
  std::vector<std::string> unknown;
  for (const FieldValue& feature : kernel.features)
    if (feature.certainty == Certainty::unknown) unknown.push_back(feature.value);
  EXPECT_EQ(unknown, (std::vector<std::string>{"h", "bz", "coopA"}));
}

TEST(KernelName, OpOfOurNamesIsStatedOnlyByAKnownWord) {
  EXPECT_EQ(explain_kernel("epilogue_gelu_mul_bf16").value(NameField::op), "pointwise");
  EXPECT_EQ(explain_kernel("epilogue_softmax_bf16").value(NameField::op), "");
  EXPECT_EQ(explain_kernel("ep_fused_rope_0").value(NameField::op), "");
}

TEST(KernelName, OurProductsTellTheirEpilogue) {
  const KernelName kernel = explain_kernel("panel_gemm_avx512_f32_gelu_tanh_mul");
  EXPECT_EQ(kernel.value(NameField::epilogue), "gelu_tanh_mul");
  EXPECT_EQ(kernel[NameField::epilogue].token, "gelu_tanh_mul");
  EXPECT_TRUE(kernel.features.empty());
  EXPECT_EQ(explain_kernel("panel_gemm_amx_bf16_relu").value(NameField::epilogue), "relu");
  const KernelName parts = explain_kernel("panel_gemm_amx_f32_bf16x3_gelu_tanh");
  EXPECT_EQ(parts.value(NameField::a), "f32");
  EXPECT_EQ(parts.value(NameField::epilogue), "gelu_tanh");
  EXPECT_EQ(parts.features.at(0).value, "each number as 3 of bf16");
  EXPECT_EQ(explain_kernel("gemm_reference_f64").value(NameField::op), "GEMM");
}

TEST(KernelName, NvjetsMmaNamesHaveTheirOwnOrder) {
  const KernelName kernel = explain_kernel("nvjet_sm121_hsh_mma_128x208x64_2_32x104x64_tmaAB_bz_NNNN");
  EXPECT_EQ(kernel.value(NameField::tile), "128x208x64");
  EXPECT_EQ(kernel.value(NameField::stages), "2");
  EXPECT_EQ(kernel.value(NameField::cluster), "");
  EXPECT_EQ(kernel.value(NameField::layout), "nn");
  EXPECT_EQ(kernel.value(NameField::arch), "sm121");
  EXPECT_EQ(kernel.features.at(1).value, "inner tile 32x104x64");
}

TEST(KernelName, ANamedArithmeticIsTheOnlyOne) {
  const auto said = [](const char* name) {
    std::string all;
    for (const FieldValue& feature : explain_kernel(name).features) all += feature.value + "; ";
    return all;
  };
  const std::string named = said("cutlass_80_tensorop_s1688bf16gemm_128x128_16x4_nn_align4");
  EXPECT_THAT(named, HasSubstr("rounded to bf16"));
  EXPECT_THAT(named, testing::Not(HasSubstr("tf32")));
  EXPECT_THAT(said("ampere_s1688gemm_128x128_ldg4_stages_32x1_tn"), HasSubstr("tf32 arithmetic"));
}

TEST(KernelName, AnEpilogueOfTwoWordsKeepsBoth) {
  for (const char* name : {"sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64_warpgroupsize1x1x1_"
                           "bias_f16_relu_execute_"
                           "segment_k_off_kernel__5x_cublas",
                           "nvjet_sm90_tst_64x8_64x16_1x2_h_bz_bias_relu_TNT"}) {
    const FieldValue epilogue = explain_kernel(name)[NameField::epilogue];
    EXPECT_EQ(epilogue.value, "bias, relu") << name;
    EXPECT_EQ(epilogue.token, "bias, relu") << name;
  }
}

TEST(KernelName, WhatOnlyItsAuthorsHabitTellsIsConvention) {
  const auto certainty = [](const char* name, NameField field) {
    return explain_kernel(name)[field].certainty;
  };
  EXPECT_EQ(certainty("ampere_sgemm_32x32_sliced1x4_tn", NameField::arch), Certainty::convention);
  EXPECT_EQ(certainty("_geglu_tanh_forward_kernel", NameField::op), Certainty::convention);
  EXPECT_EQ(certainty("triton_for_fused_add_0", NameField::op), Certainty::convention);
  EXPECT_EQ(certainty("triton_poi_fused_add_0", NameField::op), Certainty::stated);
}

TEST(ShortName, DoesNotCutACodePoint) {
  const std::string brief = short_name(std::string(92, 'k') + "\xC2\xB5" + std::string(20, 'k'));
  EXPECT_EQ(brief, std::string(92, 'k') + "...");
}

TEST(KernelName, TokensAreTheirPlaceInTheName) {
  const KernelName kernel =
      explain_kernel("cutlass_80_wmma_tensorop_bf16_s161616gemm_bf16_32x32_32x1_tn_align8");
  EXPECT_EQ(kernel[NameField::accumulator].token, "s161616gemm");
  EXPECT_EQ(kernel[NameField::tile].token, "32x32_32x1");
  EXPECT_EQ(kernel[NameField::alignment].token, "align8");
}

TEST(KernelName, NcclNamesWarnThatTheyMayRunSomethingElse) {
  const KernelName kernel =
      explain_kernel("ncclDevKernel_AllGather_RING_LL(ncclDevKernelArgsStorage<4096ul>)");
  ASSERT_FALSE(kernel.features.empty());
  EXPECT_THAT(kernel.features.back().value, HasSubstr("may run another"));
}

TEST(ShortName, IsReadable) {
  EXPECT_EQ(short_name("nvjet_sm90_tst_64x8_64x16_1x2_h_bz_bias_TNT"), "gemm 64x8x64 bf16 tn bias");
  EXPECT_EQ(short_name("void at::native::vectorized_elementwise_kernel<8, "
                       "at::native::GeluCUDAKernelImpl(at::TensorIteratorBase&, "
                       "at::native::GeluType)::{lambda()#1}::operator()() const::{lambda()#4}::operator()() "
                       "const::{lambda(c10::BFloat16)#1}, std::array<char*, 2ul> >(int)"),
            "vectorized_elementwise GeluCUDAKernelImpl<tanh>");
  EXPECT_EQ(short_name("Memset (Device)"), "Memset (Device)");
  EXPECT_EQ(short_name("triton_poi_fused__unsafe_view_gelu_mul_0"),
            "triton_poi_fused__unsafe_view_gelu_mul_0");
  EXPECT_EQ(short_name("void vllm::rms_norm_kernel<c10::BFloat16>(c10::BFloat16*)"), "vllm::rms_norm_kernel");
  EXPECT_EQ(short_name("ncclDevKernel_AllReduce_Sum_f32_RING_LL"), "nccl AllReduce f32");
  EXPECT_LE(short_name(std::string(5000, 'x')).size(), 96u);
}

TEST(CompareKernels, TileAndStagesDifferBecauseOfWavesAndSharedMemory) {
  const KernelName up = explain_kernel("nvjet_sm90_tst_256x128_64x4_1x2_h_bz_coopA_TNT");
  const KernelName down = explain_kernel("nvjet_sm90_tst_192x128_64x5_1x2_h_bz_coopB_TNT");
  const std::vector<NameDifference> found =
      compare_kernels(up, down, {.m = 8192, .n = 3072, .k = 768, .multiprocessors = 132},
                      {.m = 8192, .n = 768, .k = 3072, .multiprocessors = 132});
  ASSERT_EQ(found.size(), 3u);
  EXPECT_EQ(found[0].field, "tile");
  EXPECT_EQ(found[0].a, "256x128x64");
  EXPECT_EQ(found[1].field, "waves");
  EXPECT_THAT(
      found[1].b,
      HasSubstr("192x128 makes 256 tiles, 1.94 waves over 132 SMs, 97% filled; 256x128 would make 192, "
                "1.45 waves, 73% filled"));
  EXPECT_EQ(found[2].field, "stages");
  EXPECT_THAT(found[2].why, HasSubstr("192 KiB and 200 KiB"));
}

TEST(CompareKernels, AlignmentSplitKEpilogueAndFamilyHaveTheirReasons) {
  const KernelName wide = explain_kernel("cutlass_80_tensorop_bf16_s16816gemm_bf16_128x64_64x3_tn_align8");
  const KernelName narrow = explain_kernel("cutlass_80_tensorop_bf16_s16816gemm_bf16_128x64_64x3_tn_align2");
  const auto aligned = compare_kernels(wide, narrow);
  ASSERT_EQ(aligned.size(), 1u);
  EXPECT_EQ(aligned[0].field, "alignment");
  EXPECT_EQ(aligned[0].certainty, Certainty::convention);
  const auto split = compare_kernels(explain_kernel("nvjet_tst_64x8_64x16_4x1_v_bz_TNT"),
                                     explain_kernel("nvjet_tst_64x8_64x16_4x1_v_bz_splitK_bias_TNT"));
  ASSERT_EQ(split.size(), 2u);
  EXPECT_EQ(split[0].field, "split_k");
  EXPECT_EQ(split[0].a, "none");
  EXPECT_EQ(split[1].field, "epilogue");
  EXPECT_EQ(compare_kernels(wide, explain_kernel("nvjet_tst_64x8_64x16_4x1_v_bz_TNT"))[0].field, "family");
}

TEST(CompareKernels, NothingToSayAboutEqualNamesOrOtherOps) {
  const KernelName gemm = explain_kernel("nvjet_tst_64x8_64x16_4x1_v_bz_TNT");
  EXPECT_TRUE(compare_kernels(gemm, gemm).empty());
  EXPECT_TRUE(compare_kernels(gemm, explain_kernel("Memset (Device)")).empty());
}

}  // namespace
}  // namespace epilogue::trace
