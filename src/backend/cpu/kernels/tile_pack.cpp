#include "backend/cpu/isa.h"  // first: it chooses Highway's targets

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/kernels/tile_pack.cpp"
#include <algorithm>
#include <array>
#include <cstring>

#include <hwy/foreach_target.h>  // IWYU pragma: keep

#include "backend/cpu/kernels/pointwise_functors-inl.h"
#include "backend/cpu/kernels/tile_pack.h"

HWY_BEFORE_NAMESPACE();
namespace epilogue::cpu::HWY_NAMESPACE {

// The first part is the number cut off, so that it is never larger; what is left of 24 bits then are 16, of
// which the second, rounded, takes 8.
class Parts {
 public:
  HWY_INLINE Parts() : largest_(hn::Zero(U32Tag())) {}
  // A vector of numbers, to the same place in each of three tiles.
  HWY_INLINE void put(F32x x, uint16_t* to) {
    const F32Tag d;
    const U32Tag du;
    const hn::Rebind<uint16_t, F32Tag> d16;
    const auto upper = hn::Set(du, 0xffff0000), half = hn::Set(du, 0x8000);
    const auto put_part = [&](auto bits, int64_t part) HWY_ATTR {
      hn::StoreU(hn::DemoteTo(d16, hn::BitCast(I32Tag(), hn::ShiftRight<16>(bits))), d16,
                 to + part * kAmxTileElements);
    };
    const auto bits = hn::BitCast(du, x.v);
    largest_ = hn::Max(largest_, hn::ShiftLeft<1>(bits));  // without its sign
    const auto rest = hn::Sub(x.v, hn::BitCast(d, hn::And(bits, upper)));
    const auto second = hn::And(hn::Add(hn::BitCast(du, rest), half), upper);
    put_part(bits, 0);
    put_part(second, 1);
    put_part(hn::BitCast(du, hn::Sub(rest, hn::BitCast(d, second))), 2);
  }
  HWY_INLINE bool all_finite() const {
    return hn::AllFalse(U32Tag(), hn::Gt(largest_, hn::Set(U32Tag(), 0xfeffffff)));
  }

 private:
  hn::Vec<U32Tag> largest_;
};

// The same for one tile: rounded to bf16.
struct Rounded {
  HWY_INLINE void put(F32x x, uint16_t* to) { store(x, reinterpret_cast<Bf16*>(to)); }
  HWY_INLINE bool all_finite() const { return true; }
};

// Up to 16 rows of 32 numbers, `stride` apart, into three tiles; whether all are finite.
bool split_tile(const float* from, int64_t stride, int64_t rows, uint16_t* to) {
  Parts parts;
  for (int64_t r = 0; r < rows; ++r, from += stride)
    for (int64_t i = 0; i < kAmxDepth; i += static_cast<int64_t>(hn::Lanes(F32Tag())))
      parts.put(load(from + i), to + r * kAmxDepth + i);
  return parts.all_finite();
}

template <class Function, class To>
bool gated_row(const float* gate, const float* up, int64_t columns, uint16_t* to) {
  constexpr Function function;
  std::array<float, static_cast<size_t>(kAmxDepth)> whole_gate, whole_up;
  const auto fill = [columns](const float* from, auto& whole) {
    std::fill(std::copy_n(from, columns, whole.begin()), whole.end(), 0.0f);
    return whole.data();
  };
  if (columns < kAmxDepth) {
    gate = fill(gate, whole_gate);
    up = fill(up, whole_up);
  }
  To row;
  for (int64_t i = 0; i < kAmxDepth; i += static_cast<int64_t>(hn::Lanes(F32Tag())))
    row.put(function(load(gate + i), load(up + i)), to + i);
  return row.all_finite();
}

template <class To>
GatedTileRow gated_row_of(Act act) {
  switch (act) {
    case Act::relu:
      return &gated_row<ReluMul, To>;
    case Act::silu:
      return &gated_row<SiluMul, To>;
    case Act::gelu_tanh:
      return &gated_row<GeluTanhMul, To>;
    case Act::gelu:
      return &gated_row<GeluMul, To>;
    case Act::none:
      break;
  }
  return &gated_row<Mul, To>;
}

GatedTileRow find_gated_row(Act act, PanelForm form) {
  return form == PanelForm::parts ? gated_row_of<Parts>(act) : gated_row_of<Rounded>(act);
}

}  // namespace epilogue::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace epilogue::cpu {
namespace {

HWY_EXPORT(split_tile);
HWY_EXPORT(find_gated_row);

// Rows of up to 32 numbers with zeros after them, for what reads whole tiles.
using TileOfRows = std::array<float, static_cast<size_t>(kAmxTileElements)>;
void gather(const PlainRows<float>& from, TileOfRows& to) {
  for (int64_t r = 0; r < from.rows; ++r) {
    float* row = to.data() + r * kAmxDepth;
    for (int64_t c = 0; c < from.columns; ++c)
      row[c] = from.data[r * from.row_stride + c * from.column_stride];
    std::fill(row + from.columns, row + kAmxDepth, 0.0f);
  }
}

}  // namespace

void pack_tile_panel(const PlainWeight& from, int64_t first_column, uint16_t* to) {
  const auto* data = static_cast<const uint16_t*>(from.data);
  const int64_t columns = std::min(kTilePanel, from.n - first_column);
  for (int64_t depth = 0; depth < from.k; depth += kAmxDepth, to += 2 * kAmxTileElements) {
    const int64_t deep = std::min(kAmxDepth, from.k - depth);
    if (deep < kAmxDepth || columns < kTilePanel) std::fill(to, to + 2 * kAmxTileElements, uint16_t{0});
    for (int64_t c = 0; c < columns; ++c) {
      const uint16_t* element = data + (first_column + c) * from.n_stride + depth * from.k_stride;
      uint16_t* pair = to + c / kAmxColumns * kAmxTileElements + c % kAmxColumns * 2;
      for (int64_t i = 0; i < deep; ++i) pair[i / 2 * kAmxDepth + i % 2] = element[i * from.k_stride];
    }
  }
}

void rows_to_tiles(const PlainRows<uint16_t>& from, uint16_t* to, int64_t stride) {
  for (int64_t r = 0; r < from.rows; ++r) {
    const uint16_t* row = from.data + r * from.row_stride;
    for (int64_t c = 0; c < stride; c += kAmxDepth) {
      uint16_t* tile_row = to + tile_offset(r, c, stride);
      const int64_t count = std::clamp<int64_t>(from.columns - c, 0, kAmxDepth);
      if (from.column_stride == 1 && count == kAmxDepth) {
        std::memcpy(tile_row, row + c, kAmxRowBytes);
        continue;
      }
      for (int64_t i = 0; i < count; ++i) tile_row[i] = row[(c + i) * from.column_stride];
      std::fill(tile_row + count, tile_row + kAmxDepth, uint16_t{0});
    }
  }
}

GatedTileRow gated_tile_row(Act act, PanelForm form) {
  apply_isa_cap();
  return HWY_DYNAMIC_DISPATCH(find_gated_row)(act, form);
}

bool rows_to_parts(const PlainRows<float>& from, uint16_t* to, int64_t stride) {
  apply_isa_cap();
  const auto split = HWY_DYNAMIC_DISPATCH(split_tile);
  bool finite = true;
  for (int64_t r = 0; r < from.rows; r += kAmxRows) {
    const int64_t rows = std::min(kAmxRows, from.rows - r);
    for (int64_t c = 0; c < from.columns; c += kAmxDepth) {
      const int64_t count = std::min(kAmxDepth, from.columns - c);
      const float* data = from.data + r * from.row_stride + c * from.column_stride;
      uint16_t* tiles = to + kParts * tile_offset(r, c, stride);
      if (from.column_stride == 1 && count == kAmxDepth) {
        finite &= split(data, from.row_stride, rows, tiles);
        continue;
      }
      TileOfRows gathered;
      gather({data, rows, count, from.row_stride, from.column_stride}, gathered);
      finite &= split(gathered.data(), kAmxDepth, rows, tiles);
    }
  }
  return finite;
}

bool pack_part_panel(const PlainWeight& from, int64_t first_column, uint16_t* to) {
  apply_isa_cap();
  const auto split = HWY_DYNAMIC_DISPATCH(split_tile);
  const auto* data = static_cast<const float*>(from.data);
  bool finite = true;
  for (int64_t depth = 0; depth < from.k; depth += kAmxDepth, to += kParts * 2 * kAmxTileElements)
    for (int64_t tile = 0; tile < 2; ++tile) {
      const int64_t first = first_column + tile * kAmxColumns;
      const int64_t columns = std::clamp<int64_t>(from.n - first, 0, kAmxColumns);
      TileOfRows gathered{};
      gather({data + first * from.n_stride + depth * from.k_stride, columns,
              std::min(kAmxDepth, from.k - depth), from.n_stride, from.k_stride},
             gathered);
      std::array<uint16_t, static_cast<size_t>(kParts * kAmxTileElements)> parts;
      finite &= split(gathered.data(), kAmxDepth, kAmxRows, parts.data());
      for (int64_t part = 0; part < kParts; ++part) {
        const uint16_t* rows = parts.data() + part * kAmxTileElements;
        uint16_t* pairs = to + (part * 2 + tile) * kAmxTileElements;
        for (int64_t c = 0; c < kAmxColumns; ++c)
          for (int64_t i = 0; i < kAmxDepth; i += 2)
            std::memcpy(pairs + i * kAmxColumns + c * 2, rows + c * kAmxDepth + i, 2 * sizeof(uint16_t));
      }
    }
  return finite;
}

}  // namespace epilogue::cpu
#endif
