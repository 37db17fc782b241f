#include "codegen/cuda_source.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "codegen/nvrtc.h"
#include "sanitized.h"

namespace epilogue::codegen {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

PointwiseProgram gated(DType dtype, Op act = Op::gelu) {
  PointwiseProgram program;
  program.compute = program_compute_type(dtype);
  program.inputs = {{dtype, 0, 0}, {dtype, 1, 0}};
  program.steps = {{.op = act, .approximate = GeluApproximate::tanh, .a = 0},
                   {.op = Op::mul, .a = 2, .b = 1}};
  program.outputs = {{3, dtype}};
  finish_program(program, 0);
  return program;
}

TEST(CudaSource, SaysWhatItComputesInTheWordsOfTheFormulas) {
  const std::string source = cuda_source(gated(DType::bf16));
  EXPECT_THAT(
      source,
      AllOf(HasSubstr("void __launch_bounds__(256) ep_fused_gelu_mul_0(const RowsArguments arguments)"),
            HasSubstr("const Computed v2 = gelu_tanh(v0) * v1;"), HasSubstr("using Computed = Quick;"),
            HasSubstr("EPILOGUE_FN T gelu_tanh(T x)"), HasSubstr("constexpr int kWidth = 8"),
            HasSubstr("ep_fused_gelu_mul_0_strided")));
  EXPECT_EQ(source.find("#include"), std::string::npos);
  EXPECT_THAT(cuda_source(gated(DType::f32)),
              AllOf(HasSubstr("using Computed = float;"), HasSubstr("kWidth = 4")));
}

// Every step in every dtype, several results, a rounding in between.
std::vector<PointwiseProgram> all_programs() {
  std::vector<PointwiseProgram> programs;
  for (const DType dtype : {DType::f32, DType::bf16, DType::f16, DType::f64}) {
    for (const Op act : {Op::gelu, Op::silu, Op::relu}) programs.push_back(gated(dtype, act));
    PointwiseProgram many = gated(dtype);
    many.steps.push_back({.op = Op::gelu, .a = 2});
    many.steps.push_back({.op = Op::silu_mul, .a = 3, .b = 0});
    many.outputs.push_back({3, dtype});
    many.outputs.push_back({4, dtype});
    finish_program(many, 1);
    programs.push_back(many);
  }
  for (const DType dtype : {DType::i32, DType::i64}) {
    PointwiseProgram sum;
    sum.compute = dtype;
    sum.inputs = {{dtype, 0, 0}, {dtype, 1, 0}};
    sum.steps = {{.op = Op::add, .a = 0, .b = 1}, {.op = Op::mul, .a = 2, .b = 1}};
    sum.outputs = {{3, dtype}};
    finish_program(sum, 0);
    programs.push_back(sum);
  }
  PointwiseProgram mixed;
  mixed.inputs = {{DType::f32, 0, 0}, {DType::bf16, 1, 0}};
  mixed.steps = {{.op = Op::add, .a = 0, .b = 1},
                 {.op = Op::to, .dtype = DType::bf16, .a = 2},
                 {.op = Op::to, .dtype = DType::f32, .a = 3},
                 {.op = Op::to, .dtype = DType::f16, .a = 4}};
  mixed.outputs = {{5, DType::f16}, {2, DType::f32}};
  finish_program(mixed, 0);
  programs.push_back(mixed);
  return programs;
}

TEST(CudaSource, CompilesForEveryDtypeAndStep) {
  if (nvrtc_missing()) GTEST_SKIP() << nvrtc_missing();
  std::vector<const char*> architectures{"sm_90"};
  if (!kSanitized) architectures.push_back("sm_80");  // the compiler is not what a sanitizer is for
  for (const PointwiseProgram& program : all_programs())
    for (const char* architecture : architectures)
      for (const CudaKernel kernel : kCudaKernels) {
        const std::string name = cuda_kernel_name(program, kernel);
        const std::string cubin = nvrtc_compile(cuda_source(program, kernel), name, architecture);
        EXPECT_TRUE(
            cubin.starts_with("\x7f"
                              "ELF"))
            << program.to_string();
        EXPECT_NE(cubin.find(name), std::string::npos);
      }
}

TEST(CudaSource, AnErrorCarriesTheCompilersWords) {
  if (nvrtc_missing()) GTEST_SKIP() << nvrtc_missing();
  try {
    nvrtc_compile("__global__ void k() { undeclared(); }", "k", "sm_90");
    FAIL() << "it compiled";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), AllOf(HasSubstr("k does not compile for sm_90"), HasSubstr("undeclared")));
  }
}

ProgramLoop loop_of(std::array<int64_t, 2> sizes, std::array<int64_t, 2> in0, std::array<int64_t, 2> in1) {
  ProgramLoop loop;
  loop.dims = 2;
  loop.outputs = 1;
  loop.operands = 3;
  loop.sizes = {sizes[0], sizes[1]};
  for (auto& operand : loop.operand) operand = {reinterpret_cast<char*>(4096), 4, {4, sizes[0] * 4}};
  loop.operand[1].strides = {in0[0], in0[1]};
  loop.operand[2].strides = {in1[0], in1[1]};
  loop.collapse();
  return loop;
}

TEST(CudaSource, RowsTakeWholeRowsHalvesOfRowsAndBroadcasts) {
  const PointwiseProgram program = gated(DType::f32);
  RowsArguments arguments;
  ASSERT_TRUE(rows_arguments(program, loop_of({12, 5}, {4, 48}, {4, 48}), arguments));  // contiguous: one row
  EXPECT_EQ(arguments.row_vectors, 0u);
  EXPECT_EQ(arguments.vectors, 15);
  ASSERT_TRUE(
      rows_arguments(program, loop_of({12, 5}, {4, 96}, {4, 96}), arguments));  // halves of a wider one
  EXPECT_EQ(arguments.row_vectors, 3u);
  EXPECT_EQ(arguments.row[1], 96);
  ASSERT_TRUE(rows_arguments(program, loop_of({12, 5}, {4, 48}, {4, 0}), arguments));  // a row for all
  EXPECT_EQ(arguments.row[2], 0);
  ASSERT_TRUE(rows_arguments(program, loop_of({12, 5}, {4, 48}, {0, 4}), arguments));  // a column for all
  EXPECT_EQ(arguments.inner[2], 0);
  EXPECT_FALSE(
      rows_arguments(program, loop_of({13, 5}, {4, 52}, {4, 0}), arguments));  // rows end within a vector
  EXPECT_FALSE(rows_arguments(program, loop_of({12, 5}, {20, 4}, {4, 48}), arguments));  // transposed
  ProgramLoop odd = loop_of({12, 5}, {4, 48}, {4, 48});
  odd.operand[1].data += 4;
  EXPECT_FALSE(rows_arguments(program, odd, arguments));
}

}  // namespace
}  // namespace epilogue::codegen
