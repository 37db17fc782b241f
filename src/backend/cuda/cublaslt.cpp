#include "backend/cuda/cublaslt.h"

#include "backend/cuda/check.h"
#include "base/check.h"

namespace epilogue::cuda {
namespace {

constexpr size_t kWorkspaceLimit = size_t{32} << 20;

cudaDataType_t data_type(DType dtype) {
  switch (dtype) {
    case DType::bf16:
      return CUDA_R_16BF;
    case DType::f16:
      return CUDA_R_16F;
    case DType::f64:
      return CUDA_R_64F;
    default:
      return CUDA_R_32F;
  }
}

cublasComputeType_t compute_type(const GemmKey& key) {
  if (key.dtype == DType::f64) return CUBLAS_COMPUTE_64F;
  return key.tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;
}

cublasLtEpilogue_t epilogue_of(const GemmKey& key) {
  const bool bias = key.bias == GemmBias::row;
  switch (key.act) {
    case Act::relu:
      return bias ? CUBLASLT_EPILOGUE_RELU_BIAS : CUBLASLT_EPILOGUE_RELU;
    case Act::gelu_tanh:
      return bias ? CUBLASLT_EPILOGUE_GELU_BIAS : CUBLASLT_EPILOGUE_GELU;
    default:
      return bias ? CUBLASLT_EPILOGUE_BIAS : CUBLASLT_EPILOGUE_DEFAULT;
  }
}

template <class T>
void set(cublasLtMatmulDesc_t product, cublasLtMatmulDescAttributes_t what, const T& value) {
  EP_CUDA(cublasLtMatmulDescSetAttribute(product, what, &value, sizeof(value)));
}

cublasLtMatrixLayout_t make_layout(const GemmKey& key, int64_t rows, int64_t columns, int64_t ld,
                                   int64_t batch_stride) {
  cublasLtMatrixLayout_t layout = nullptr;
  EP_CUDA(cublasLtMatrixLayoutCreate(&layout, data_type(key.dtype), static_cast<uint64_t>(rows),
                                     static_cast<uint64_t>(columns), ld));
  if (key.batch > 1) {
    const auto count = static_cast<int32_t>(key.batch);
    EP_CUDA(
        cublasLtMatrixLayoutSetAttribute(layout, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &count, sizeof(count)));
    EP_CUDA(cublasLtMatrixLayoutSetAttribute(layout, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET,
                                             &batch_stride, sizeof(batch_stride)));
  }
  return layout;
}

}  // namespace

GemmPlan::GemmPlan(const GemmKey& key) : key_(key) {
  const bool f64 = key.dtype == DType::f64;
  EP_CUDA(cublasLtMatmulDescCreate(&product_, compute_type(key), f64 ? CUDA_R_64F : CUDA_R_32F));
  // Our second operand [k, n] comes first, as n rows by k columns after its operation.
  set(product_, CUBLASLT_MATMUL_DESC_TRANSA, key.b_columns ? CUBLAS_OP_T : CUBLAS_OP_N);
  set(product_, CUBLASLT_MATMUL_DESC_TRANSB, key.a_columns ? CUBLAS_OP_T : CUBLAS_OP_N);
  set(product_, CUBLASLT_MATMUL_DESC_EPILOGUE, epilogue_of(key));
  if (key.bias == GemmBias::row) set(product_, CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, data_type(key.dtype));
  first_ = key.b_columns ? make_layout(key, key.k, key.n, key.b_ld, key.b_stride)
                         : make_layout(key, key.n, key.k, key.b_ld, key.b_stride);
  second_ = key.a_columns ? make_layout(key, key.m, key.k, key.a_ld, key.a_stride)
                          : make_layout(key, key.k, key.m, key.a_ld, key.a_stride);
  result_ = make_layout(key, key.n, key.m, key.n, key.m * key.n);
  if (key.bias == GemmBias::matrix) added_ = make_layout(key, key.n, key.m, key.bias_ld, 0);
}

GemmPlan::~GemmPlan() {
  for (cublasLtMatrixLayout_t layout : {first_, second_, added_, result_})
    if (layout) cublasLtMatrixLayoutDestroy(layout);
  if (product_) cublasLtMatmulDescDestroy(product_);
}

std::vector<cublasLtMatmulAlgo_t> GemmPlan::candidates(CudaDevice& device, int most) const {
  cublasLtMatmulPreference_t preference = nullptr;
  EP_CUDA(cublasLtMatmulPreferenceCreate(&preference));
  const auto prefer = [&](cublasLtMatmulPreferenceAttributes_t what, auto value) {
    EP_CUDA(cublasLtMatmulPreferenceSetAttribute(preference, what, &value, sizeof(value)));
  };
  prefer(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, kWorkspaceLimit);
  // Parts of a split sum are added in f32: in the output's type each would be rounded (twice the error was
  // seen at bf16 300x65x129).
  prefer(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, uint32_t{CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE});
  for (const auto what :
       {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES})
    prefer(what, uint32_t{key_.alignment});
  std::vector<cublasLtMatmulHeuristicResult_t> results(static_cast<size_t>(most));
  int found = 0;
  const cublasStatus_t status =
      cublasLtMatmulAlgoGetHeuristic(device.cublaslt(), product_, first_, second_, added_ ? added_ : result_,
                                     result_, preference, most, results.data(), &found);
  cublasLtMatmulPreferenceDestroy(preference);
  if (status != CUBLAS_STATUS_NOT_SUPPORTED) check_cuda("cublasLtMatmulAlgoGetHeuristic", status);
  std::vector<cublasLtMatmulAlgo_t> algos;
  for (int i = 0; i < found; ++i)
    if (results[static_cast<size_t>(i)].state == CUBLAS_STATUS_SUCCESS)
      algos.push_back(results[static_cast<size_t>(i)].algo);
  EP_CHECK(!algos.empty(), "cuBLASLt has no algorithm for {}", key_.to_string());
  return algos;
}

cublasStatus_t GemmPlan::run(CudaDevice& device, const GemmProblem& problem,
                             const cublasLtMatmulAlgo_t& algo) const {
  if (key_.bias == GemmBias::row) set(product_, CUBLASLT_MATMUL_DESC_BIAS_POINTER, problem.bias);
  const Workspace workspace = device.workspace();
  const bool f64 = key_.dtype == DType::f64, adds = key_.bias == GemmBias::matrix;
  const double one64 = 1, beta64 = adds ? 1 : 0;
  const float one32 = 1, beta32 = adds ? 1 : 0;
  return cublasLtMatmul(
      device.cublaslt(), product_, f64 ? static_cast<const void*>(&one64) : &one32, problem.b, first_,
      problem.a, second_, f64 ? static_cast<const void*>(&beta64) : &beta32, adds ? problem.bias : problem.c,
      added_ ? added_ : result_, problem.c, result_, &algo, workspace.data, workspace.bytes, device.stream());
}

}  // namespace epilogue::cuda
