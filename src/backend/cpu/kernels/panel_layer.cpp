#include "backend/cpu/kernels/panel_layer.h"

#include <cstring>

#include <fmt/format.h>

#include "backend/cpu/allocator.h"
#include "backend/cpu/isa.h"
#include "backend/cpu/kernels/copy.h"
#include "backend/cpu/kernels/tile_product.h"
#include "base/check.h"
#include "base/intern.h"
#include "tensor/storage.h"

namespace epilogue::cpu {

RowBuffer::RowBuffer(int64_t rows, int64_t columns)
    : storage(Allocator::instance().allocate(static_cast<size_t>(rows * columns) * sizeof(float))) {
  data = static_cast<float*>(storage.get()->data);
  stride = columns;
}

LeftBuffer::LeftBuffer(int64_t rows, int64_t columns, const PanelWeight& weight) {
  element_bytes = weight.row_element_bytes();
  stride = round_up(columns, weight.shape().depth_step);
  in_tiles = weight.in_tiles();
  const int64_t bytes = weight.whole_rows(rows) * stride * element_bytes;
  storage = Allocator::instance().allocate(static_cast<size_t>(bytes));
  data = storage.get()->data;
}

bool InputRows::readable() const {
  if (weight.form == PanelForm::parts) return false;
  return dtype == weight.row_dtype() && width % weight.shape().depth_step == 0 &&
         (column_stride == 1 || width == 1);
}

LeftBuffer InputRows::buffer(int64_t rows, Reader reader) const {
  const bool packs = weight.in_tiles() && reader == Reader::one_thread;
  return packs || !readable() ? LeftBuffer(rows, width, weight) : LeftBuffer();
}

LeftRows InputRows::read(Span rows, const LeftRows& copy) const {
  const LeftRows given{const_cast<void*>(data), static_cast<int64_t>(dtype_size(dtype)), row_stride};
  void* from = given.at(rows.begin);
  if (!copy.data) return given.from_row(rows.begin);
  if (copy.in_tiles) {
    constexpr int64_t kWorthAThread = 1 << 15;  // elements
    const int64_t tiles = (rows.size() + kAmxRows - 1) / kAmxRows;
    parallel_for(tiles, kWorthAThread / (kAmxRows * copy.stride) + 1, [&](int64_t begin, int64_t end) {
      const Span some{begin * kAmxRows, std::min(end * kAmxRows, rows.size())};
      const auto plain = [&]<class Element>(const Element* first) -> PlainRows<Element> {
        return {first + some.begin * row_stride, some.size(), width, row_stride, column_stride};
      };
      auto* to = static_cast<uint16_t*>(copy.at(some.begin));
      if (weight.form == PanelForm::tiles)
        rows_to_tiles(plain(static_cast<const uint16_t*>(from)), to, copy.stride);
      else if (!rows_to_parts(plain(static_cast<const float*>(from)), to, copy.stride))
        *not_finite = true;
    });
    return copy;
  }
  const Tensor as_given = from_blob(from, {rows.size(), width}, {dtype}, {}, {row_stride, column_stride});
  Tensor read = from_blob(copy.data, {rows.size(), width}, {DType::f32}, {}, {copy.stride, 1});
  const Attrs none;
  run_copy({Op::to, none, std::span(&as_given, 1), read});
  return copy;
}

OutputRows::OutputRows(void* rows, DType type, int64_t columns) : data(rows), dtype(type), width(columns) {
  if (needs_copy()) narrow = copy_kernel(DType::f32, dtype).row;
}

Rows OutputRows::place(int64_t row, int64_t column, const Rows& copy) const {
  return needs_copy() ? copy : Rows{static_cast<float*>(at(row, column)), width};
}

void OutputRows::store(Span rows, Span columns, const Rows& from) const {
  if (!needs_copy()) return;
  if (columns.size() == width && from.stride == width)
    return narrow(at(rows.begin, 0), from.data, nullptr, rows.size() * width);
  for (int64_t r = 0; r < rows.size(); ++r)
    narrow(at(rows.begin + r, columns.begin), from.at(r), nullptr, columns.size());
}

PanelLayer::PanelLayer(PanelForm panel_form, const WeightView& weight, const Tensor* bias_given) {
  dtype = weight.tensor->dtype();
  form = panel_form;
  EP_CHECK(form == PanelForm::vectors || dtype == row_dtype(), "a weight of {} has no such panels",
           dtype_name(dtype));
  kept = weight_in_panels(weight, form);
  panels = kept->data();
  n = weight.n;
  k = weight.k;
  if (!bias_given) return;
  bias = static_cast<const float*>(bias_given->data());
  if (dtype == DType::f32) return;
  bias_copy = RowBuffer(1, n);
  copy_kernel(dtype, DType::f32).row(bias_copy.data, bias_given->data(), nullptr, n);
  bias = bias_copy.data;
}

const char* PanelLayer::arithmetic() const {
  if (form == PanelForm::tiles) return tile_unit() == TileUnit::amx ? "amx_bf16" : "avx512_bf16";
  if (form == PanelForm::parts) return "amx_f32_bf16x3";
  thread_local const char *isa = nullptr, *last = nullptr;
  thread_local DType stored = DType::f32;
  if (isa != isa_name() || stored != dtype) {
    isa = isa_name();
    stored = dtype;
    last = intern(fmt::format("{}_f32{}{}", isa, dtype == DType::f32 ? "" : "_from_",
                              dtype == DType::f32 ? "" : dtype_name(dtype)));
  }
  return last;
}

const char* refuse_panels(DType dtype) {
  if (dtype == DType::f64) return "its kernel computes in f32 only";
  const PanelForm form = panel_form(dtype, 1);
  if (panel_shape(form).lanes < 8) return "without AVX2 oneDNN's SSE4.1 is quicker";
  return packs_weights() ? nullptr : "weights are not to be packed";
}

void multiply_part(const LeftRows& x, int64_t rows, const PanelLayer& layer, Span depth, Span columns,
                   const Rows& to, const void* next, const Aside* aside) {
  if (depth.begin == 0 && layer.bias)
    for (int64_t r = 0; r < rows; ++r)
      std::memcpy(to.at(r), layer.bias + columns.begin, static_cast<size_t>(columns.size()) * sizeof(float));
  multiply_panels({.rows = x.data,
                   .row_stride = x.stride,
                   .row_count = rows,
                   .rows_in_tiles = x.in_tiles,
                   .weight = layer,
                   .depth = depth,
                   .columns = columns,
                   .c = to.data,
                   .c_stride = to.stride,
                   .accumulate = depth.begin > 0 || layer.bias,
                   .next = next,
                   .aside = aside});
}

void multiply_columns(const LeftRows& x, int64_t rows, const PanelLayer& layer, Span columns, const Rows& to,
                      const void* next, const Aside* aside) {
  const PanelShape shape = layer.shape();
  const int64_t steps = (layer.k + shape.depth_step - 1) / shape.depth_step;
  const int64_t parts = (layer.k + shape.depth - 1) / shape.depth;
  for (int64_t i = 0; i < parts; ++i) {
    const Span some = Span{0, steps}.share(i, parts);
    const Span depth{some.begin * shape.depth_step, std::min(some.end * shape.depth_step, layer.k)};
    multiply_part(x.from_column(depth.begin), rows, layer, depth, columns, to,
                  depth.end < layer.k ? layer.at(columns.begin, depth.end) : next, i == 0 ? aside : nullptr);
  }
}

void multiply_into(const LeftRows& x, Span rows, const PanelLayer& layer, Span columns, const OutputRows& y,
                   const Rows& copy) {
  const Rows to = y.place(rows.begin, columns.begin, copy);
  multiply_columns(x, rows.size(), layer, columns, to, layer.at(columns.end < layer.n ? columns.end : 0, 0));
  y.store(rows, columns, to);
}

namespace {

int64_t panels_of(const PanelWeight& weight) {
  const int64_t columns = weight.shape().columns;
  return (weight.n + columns - 1) / columns;
}

// Into how many parts rows are cut so that so many panels, each with every part, keep all threads busy to the
// end.
int64_t row_parts(int64_t rows, int64_t panels, const PanelShape& shape, int threads) {
  // A thread's share in panels of all rows, were there so many parts.
  const auto share = [&](int64_t parts) {
    return static_cast<double>((panels * parts + threads - 1) / threads) / static_cast<double>(parts);
  };
  constexpr double kWorthIt = 0.95;  // a smaller part reads as much of the weight for fewer rows
  int64_t best = (rows + shape.part_rows - 1) / shape.part_rows;
  for (int64_t parts = best + 1; parts <= threads && rows / parts >= shape.tile_rows; ++parts)
    if (share(parts) < kWorthIt * share(best)) best = parts;
  return best;
}

}  // namespace

ColumnShares::ColumnShares(int64_t rows, const PanelWeight& weight, int threads)
    : ColumnShares(rows, weight, threads, panels_of(weight),
                   row_parts(rows, panels_of(weight), weight.shape(), threads)) {}

ColumnShares::ColumnShares(int64_t rows, const PanelWeight& weight, int threads, int64_t panels,
                           int64_t parts)
    : ThreadRows(threads, std::min(round_up((rows + parts - 1) / parts, weight.shape().tile_rows), rows),
                 weight),
      shape_(weight.shape()),
      rows_(rows),
      columns_(weight.n),
      panels_(panels),
      parts_(parts) {
  // In small parts of a thread's share, so that one which was disturbed is not waited for long. Where rows
  // are few all is over before it would matter, and several panels are read at once. Of f32 in parts a few
  // panels pass by each part of the depth while its rows are in L2, which holds no more of them (two cores of
  // an Emerald Rapids, 128 and 256 rows of 768/3072: 7% less).
  const int64_t share = (parts * panels + threads - 1) / threads;
  const bool rows_pass = weight.form == PanelForm::parts && weight.k > shape_.depth;
  const int64_t part = rows_pass ? share / 2 : share / 32;
  piece_ = rows > shape_.tile_rows ? std::clamp<int64_t>(part, 1, 4) : share;
}

int multiply_by_columns(const LeftRows& x, int64_t rows, const PanelLayer& layer, const OutputRows& y,
                        int threads) {
  const ColumnShares shares(rows, layer, threads);
  const RowBuffer copies = y.buffer(shares.all_rows(), shares.widest());
  return shares.run([&](int thread, Span part, Span columns) {
    const Rows copy{copies.at(shares.row_of(thread)), columns.size()};  // as dense as can be
    multiply_into(x.from_row(part.begin), part, layer, columns, y, copy);
  });
}

int64_t rows_of_block(const PanelLayer& layer) {
  constexpr int64_t kCopyBytes = 4 << 20;
  const PanelShape shape = layer.shape();
  const int64_t most = kCopyBytes / (layer.row_element_bytes() * layer.k) / shape.tile_rows * shape.tile_rows;
  return std::clamp(most, shape.tile_rows, shape.block_rows);
}

RowShares::RowShares(int64_t rows, int64_t most, const PanelWeight& weight, int threads)
    : RowShares(rows, most, (rows + most * threads - 1) / (most * threads), weight, threads) {}

// `each`: spans of a thread, were they all as long as can be.
RowShares::RowShares(int64_t rows, int64_t most, int64_t each, const PanelWeight& weight, int threads)
    : ThreadRows(threads, each > 2 && threads > 1 ? most : (rows + each * threads - 1) / (each * threads),
                 weight),
      rows_(rows),
      tile_(weight.shape().tile_rows) {
  least_ = each > 2 && threads > 1 ? std::min({4 * tile_, std::max(most / 2, tile_), longest()}) : longest();
}

int64_t RowShares::end_of(int64_t begin) const {
  const int64_t left = rows_ - begin;
  return begin + std::min(left, std::clamp(left / (2 * threads_) / tile_ * tile_, least_, longest()));
}

}  // namespace epilogue::cpu
