#include "backend/cpu/onednn.h"

#include <array>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include <omp.h>

#include <fmt/format.h>

#include "backend/cpu/allocator.h"
#include "backend/cpu/amx.h"
#include "backend/cpu/cpu_info.h"
#include "backend/cpu/isa.h"
#include "base/check.h"
#include "base/intern.h"
#include "base/threads.h"
#include "tensor/storage.h"

namespace epilogue::cpu {
namespace {

using dnnl::memory;

dnnl::engine& engine() {
  static dnnl::engine cpu = [] {
    const std::string_view isa = isa_name();
    if (isa == "avx512" && has_avx512_bf16() && !uses_avx512_bf16())
      dnnl::set_max_cpu_isa(dnnl::cpu_isa::avx512_core);
    else if (isa == "avx512" && has_amx() && !(uses_amx() && describes_amx()))
      dnnl::set_max_cpu_isa(dnnl::cpu_isa::avx512_core_bf16);
    if (isa == "avx2") dnnl::set_max_cpu_isa(dnnl::cpu_isa::avx2);
    if (isa == "scalar") dnnl::set_max_cpu_isa(dnnl::cpu_isa::sse41);  // the least oneDNN knows
    return dnnl::engine(dnnl::engine::kind::cpu, 0);
  }();
  return cpu;
}

dnnl::stream& stream() {
  thread_local dnnl::stream of_thread(engine());
  return of_thread;
}

memory::data_type type_of(DType dtype) {
  return dtype == DType::bf16 ? memory::data_type::bf16 : memory::data_type::f32;
}

// oneDNN asks OpenMP how many threads it may plan for; inside a parallel region the answer is not the one
// that holds.
class PlannedThreads {
 public:
  explicit PlannedThreads(int threads) : before_(omp_get_max_threads()) { omp_set_num_threads(threads); }
  ~PlannedThreads() { omp_set_num_threads(before_); }
  PlannedThreads(const PlannedThreads&) = delete;
  PlannedThreads& operator=(const PlannedThreads&) = delete;

 private:
  int before_;
};

struct Layouts {
  std::mutex mutex;
  std::vector<std::pair<std::array<int64_t, 3>, int32_t>> ids;  // n, k, dtype
  std::vector<std::pair<memory::desc, DType>> descs;
};

Layouts& layouts() {
  static auto* all = new Layouts;
  return *all;
}

std::pair<memory::desc, DType> layout(int32_t id) {
  const std::lock_guard lock(layouts().mutex);
  return layouts().descs[static_cast<size_t>(id)];
}

// What its kernels run that do not say it themselves: the engine's cap, which is not ours where that is
// scalar.
const char* effective_isa() {
  engine();
  switch (dnnl::get_effective_cpu_isa()) {
    case dnnl::cpu_isa::sse41:
      return "sse41";
    case dnnl::cpu_isa::avx:
      return "avx";
    case dnnl::cpu_isa::avx2:
    case dnnl::cpu_isa::avx2_vnni:
      return "avx2";
    default:
      return "avx512";
  }
}

// oneDNN says "brg:avx512_core" or "gemm:jit"; a trace says onednn_brgemm_avx512_f32.
const char* kernel_name(std::string_view info, DType dtype) {
  const auto has = [info](std::string_view word) { return info.find(word) != std::string_view::npos; };
  const char* kind = has("brg") ? "brgemm" : has("gemm") ? "gemm" : "ref";
  const char* isa = has("amx")                ? "amx"
                    : has("avx512_core_bf16") ? "avx512_bf16"
                    : has("avx512")           ? "avx512"
                                              : effective_isa();
  return intern(fmt::format("onednn_{}_{}_{}", kind, isa, dtype_name(dtype)));
}

// One for a thread, which runs one product at a time, as large as the largest so far needed.
void* scratch_of_thread(size_t bytes) {
  thread_local detail::StorageRef scratch;
  thread_local size_t size = 0;
  if (bytes > size) {
    size = 0;
    scratch = {};
    scratch = Allocator::instance().allocate(bytes);
    size = bytes;
  }
  return bytes > 0 ? scratch.get()->data : nullptr;
}

struct KeyHash {
  size_t operator()(const MatmulKey& key) const {
    uint64_t hash = 0xcbf29ce484222325;
    for (const int64_t part :
         {key.m, key.n, key.k, key.a_row, key.a_column, key.b_row, key.b_column, key.bias_rows,
          key.bias_columns, int64_t{key.packed_layout}, int64_t{key.threads}, static_cast<int64_t>(key.dtype),
          static_cast<int64_t>(key.bias)})
      hash = (hash ^ static_cast<uint64_t>(part)) * 0x100000001b3;
    for (const PostOp& op : key.post)
      hash = (hash ^ static_cast<uint64_t>(op.kind) ^ static_cast<uint64_t>(op.dtype) << 8) * 0x100000001b3;
    return hash ^ (hash >> 29);
  }
};

}  // namespace

Matmul& Matmul::get(const MatmulKey& key) {
  constexpr size_t kMost = 512;  // new sizes keep coming; oneDNN's own cache makes a second creation cheap
  thread_local std::unordered_map<MatmulKey, Matmul, KeyHash> cache;
  if (const auto found = cache.find(key); found != cache.end()) return found->second;
  if (cache.size() >= kMost) cache.clear();
  return cache.try_emplace(key, key).first->second;
}

Matmul::Matmul(const MatmulKey& key) : threads_(key.threads) {
  const PlannedThreads planned(key.threads);
  const auto type = type_of(key.dtype);
  const memory::desc a({key.m, key.k}, type, memory::dims{key.a_row, key.a_column});
  const memory::desc b = key.packed_layout >= 0
                             ? layout(key.packed_layout).first
                             : memory::desc({key.k, key.n}, type, memory::dims{key.b_row, key.b_column});
  const memory::desc c({key.m, key.n}, type, memory::format_tag::ab);
  const memory::desc bias(
      {key.bias == BiasKind::row ? 1 : key.bias_rows, key.bias == BiasKind::row ? key.n : key.bias_columns},
      type, memory::format_tag::ab);
  dnnl::primitive_attr attr;
  attr.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  dnnl::post_ops ops;
  if (key.bias == BiasKind::broadcast) {
    ops.append_binary(dnnl::algorithm::binary_add, bias);
    bias_argument_ = DNNL_ARG_ATTR_MULTIPLE_POST_OP(0) | DNNL_ARG_SRC_1;
  } else if (key.bias == BiasKind::row) {
    bias_argument_ = DNNL_ARG_BIAS;
  }
  for (size_t i = 0; i < kMaxPostOps; ++i) {
    const PostOp& op = key.post[i];
    if (op.kind == PostOp::Kind::none) break;
    const memory::desc matrix({op.one_row ? 1 : key.m, key.n}, type_of(op.dtype), memory::format_tag::ab);
    operand_arguments_[i] = DNNL_ARG_ATTR_MULTIPLE_POST_OP(ops.len()) | DNNL_ARG_SRC_1;
    ops.append_binary(
        op.kind == PostOp::Kind::add ? dnnl::algorithm::binary_add : dnnl::algorithm::binary_mul, matrix);
    operands_[i] = memory(matrix, engine(), nullptr);
  }
  attr.set_post_ops(ops);
  const auto desc =
      key.bias == BiasKind::row ? dnnl::matmul::desc(a, b, bias, c) : dnnl::matmul::desc(a, b, c);
  const dnnl::matmul::primitive_desc made(desc, attr, engine());
  primitive_ = dnnl::matmul(made);
  a_ = memory(a, engine(), nullptr);
  b_ = memory(b, engine(), nullptr);
  c_ = memory(c, engine(), nullptr);
  if (bias_argument_) bias_ = memory(bias, engine(), nullptr);
  scratch_bytes_ = made.scratchpad_desc().get_size();
  scratchpad_ = memory(made.scratchpad_desc(), engine(), nullptr);
  name_ = kernel_name(made.impl_info_str(), key.dtype);
}

void Matmul::execute(const void* a, const void* b, const void* bias, void* c,
                     std::span<const void* const> operands) {
  const PlannedThreads planned(threads_);  // some implementations ask again
  std::array<dnnl_exec_arg_t, 5 + kMaxPostOps> arguments;
  int count = 0;
  // oneDNN's handles are not const; it writes c and the scratchpad alone.
  const auto pass = [&](int argument, const memory& handle, const void* data) {
    dnnl_memory_set_data_handle_v2(handle.get(), const_cast<void*>(data), stream().get());
    arguments[static_cast<size_t>(count++)] = {argument, handle.get()};
  };
  pass(DNNL_ARG_SRC, a_, a);
  pass(DNNL_ARG_WEIGHTS, b_, b);
  pass(DNNL_ARG_DST, c_, c);
  if (bias_argument_) pass(bias_argument_, bias_, bias);
  for (size_t i = 0; i < operands.size(); ++i)
    if (operand_arguments_[i]) pass(operand_arguments_[i], operands_[i], operands[i]);
  pass(DNNL_ARG_SCRATCHPAD, scratchpad_, scratch_of_thread(scratch_bytes_));
  const dnnl_status_t status =
      dnnl_primitive_execute(primitive_.get(), stream().get(), count, arguments.data());
  EP_CHECK(status == dnnl_success, "oneDNN could not run a matrix product: status {}",
           static_cast<int>(status));
}

int32_t packed_layout_for(int64_t n, int64_t k, DType dtype) {
  constexpr int64_t kTypicalRows = 256;  // the layout depends on n and k, hardly on m
  const std::array<int64_t, 3> key{n, k, static_cast<int64_t>(dtype)};
  const std::lock_guard lock(layouts().mutex);
  for (const auto& [known, id] : layouts().ids)
    if (known == key) return id;
  const PlannedThreads planned(1);
  const auto type = type_of(dtype);
  const dnnl::matmul::primitive_desc wish({{{kTypicalRows, k}, type, memory::format_tag::ab},
                                           {{k, n}, type, memory::format_tag::any},
                                           {{kTypicalRows, n}, type, memory::format_tag::ab}},
                                          engine());
  const memory::desc wanted = wish.weights_desc();
  const bool plain = wanted.data.format_desc.blocking.inner_nblks == 0;
  const auto id = plain ? -1 : static_cast<int32_t>(layouts().descs.size());
  if (!plain) layouts().descs.emplace_back(wanted, dtype);
  layouts().ids.emplace_back(key, id);
  return id;
}

size_t packed_bytes(int32_t id) { return layout(id).first.get_size(); }

void pack(int32_t id, const void* from, int64_t row_stride, int64_t column_stride, void* to) {
  const PlannedThreads planned(thread_count());
  const auto [desc, dtype] = layout(id);
  const memory::desc plain(desc.dims(), type_of(dtype), memory::dims{row_stride, column_stride});
  memory source(plain, engine(), const_cast<void*>(from)), target(desc, engine(), to);
  dnnl::reorder(source, target).execute(stream(), source, target);
  stream().wait();
}

bool has_emulated_bf16() {
  engine();
  const auto isa = dnnl::get_effective_cpu_isa();
  return has_native_bf16() || isa == dnnl::cpu_isa::avx512_core || isa == dnnl::cpu_isa::avx512_core_vnni;
}

bool has_native_bf16() {
  engine();
  const auto isa = dnnl::get_effective_cpu_isa();
  return isa == dnnl::cpu_isa::avx512_core_bf16 || isa == dnnl::cpu_isa::avx512_core_amx;
}

std::string onednn_version() {
  const dnnl_version_t* v = dnnl_version();
  return fmt::format("{}.{}.{}", v->major, v->minor, v->patch);
}

std::string onednn_isa() {
  engine();
  switch (dnnl::get_effective_cpu_isa()) {
    case dnnl::cpu_isa::avx512_core_amx:
      return "AMX";
    case dnnl::cpu_isa::avx512_core_bf16:
      return "AVX-512 with bf16";
    case dnnl::cpu_isa::avx512_core_vnni:
    case dnnl::cpu_isa::avx512_core:
      return "AVX-512";
    case dnnl::cpu_isa::avx2_vnni:
    case dnnl::cpu_isa::avx2:
      return "AVX2";
    case dnnl::cpu_isa::avx:
      return "AVX";
    default:
      return "SSE4.1";
  }
}

}  // namespace epilogue::cpu
