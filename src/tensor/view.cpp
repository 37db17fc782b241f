#include "tensor/view.h"

#include <algorithm>

#include "base/check.h"

namespace epilogue {
namespace {

int normalize_dim(const char* op, int64_t dim, int64_t dims) {
  EP_CHECK(dim >= -dims && dim < dims, "{}: dimension {} is out of range for {} dimensions", op, dim, dims);
  return static_cast<int>(dim < 0 ? dim + dims : dim);
}

}  // namespace

int64_t numel_of(const Dims& sizes) {
  int64_t count = 1;
  bool empty = false;
  for (const int64_t size : sizes) {
    EP_CHECK(size >= 0, "a size is negative: {}", sizes.to_string());
    empty |= size == 0;
    // An empty dimension counts as 1: the strides of the others must fit too.
    EP_CHECK(!__builtin_mul_overflow(count, std::max<int64_t>(size, 1), &count),
             "sizes {} have more elements than 64 bits count", sizes.to_string());
  }
  return empty ? 0 : count;
}

size_t bytes_for(const Dims& sizes, DType dtype) {
  int64_t bytes = 0;
  EP_CHECK(!__builtin_mul_overflow(numel_of(sizes), static_cast<int64_t>(dtype_size(dtype)), &bytes),
           "sizes {} of {} take more bytes than 64 bits count", sizes.to_string(), dtype_name(dtype));
  return static_cast<size_t>(bytes);
}

bool is_contiguous(const Dims& sizes, const Dims& strides) {
  int64_t expected = 1;
  bool contiguous = true;
  for (int d = sizes.size() - 1; d >= 0; --d) {
    if (sizes[d] == 0) return true;
    if (sizes[d] != 1 && strides[d] != expected) contiguous = false;
    expected *= sizes[d];
  }
  return contiguous;
}

Layout view_transpose(const Layout& in, int64_t dim0, int64_t dim1) {
  if (in.sizes.empty() && dim0 >= -1 && dim0 <= 0 && dim1 >= -1 && dim1 <= 0)
    return in;  // as PyTorch, for a scalar
  const int a = normalize_dim("transpose", dim0, in.sizes.size());
  const int b = normalize_dim("transpose", dim1, in.sizes.size());
  Layout out = in;
  std::swap(out.sizes[a], out.sizes[b]);
  std::swap(out.strides[a], out.strides[b]);
  return out;
}

Layout view_t(const Layout& in) {
  EP_CHECK(in.sizes.size() <= 2, "t: expected at most 2 dimensions, got {}; use transpose or permute",
           in.sizes.to_string());
  return in.sizes.size() < 2 ? in : view_transpose(in, 0, 1);
}

Layout view_permute(const Layout& in, const Dims& order) {
  EP_CHECK(order.size() == in.sizes.size(), "permute: {} has {} dimensions, the order {} names {}",
           in.sizes.to_string(), in.sizes.size(), order.to_string(), order.size());
  Layout out = in;
  unsigned seen = 0;
  for (int d = 0; d < order.size(); ++d) {
    const int from = normalize_dim("permute", order[d], in.sizes.size());
    EP_CHECK(!(seen >> from & 1U), "permute: the order {} names dimension {} twice", order.to_string(), from);
    seen |= 1U << from;
    out.sizes[d] = in.sizes[from];
    out.strides[d] = in.strides[from];
  }
  return out;
}

Dims resolve_sizes(const char* op, const Dims& sizes, int64_t numel) {
  Dims resolved = sizes;
  int64_t known = 1;
  int unknown = -1;
  for (int d = 0; d < sizes.size(); ++d) {
    EP_CHECK(sizes[d] >= -1, "{}: size {} in {} is negative", op, sizes[d], sizes.to_string());
    if (sizes[d] == -1) {
      EP_CHECK(unknown < 0, "{}: only one size may be -1, got {}", op, sizes.to_string());
      unknown = d;
    } else {
      EP_CHECK(!__builtin_mul_overflow(known, sizes[d], &known),
               "{}: sizes {} have more elements than 64 bits count", op, sizes.to_string());
    }
  }
  if (unknown >= 0) {
    EP_CHECK(known > 0 && numel % known == 0, "{}: {} elements do not divide into {}", op, numel,
             sizes.to_string());
    resolved[unknown] = numel / known;
  } else {
    EP_CHECK(known == numel, "{}: {} elements do not fit sizes {}", op, numel, sizes.to_string());
  }
  return resolved;
}

// Walks the old dimensions from the last, in runs that are contiguous among themselves; each run must be
// filled exactly by a group of new dimensions.
bool view_strides(const Layout& in, const Dims& sizes, Dims& strides) {
  strides = contiguous_strides(sizes);
  if (numel_of(sizes) == 0 || in.sizes.empty()) return true;
  int next = sizes.size() - 1;
  int64_t run_stride = in.strides.back(), run = 1, filled = 1;
  for (int d = in.sizes.size() - 1; d >= 0; --d) {
    run *= in.sizes[d];
    const bool run_ends = d == 0 || (in.sizes[d - 1] != 1 && in.strides[d - 1] != run * run_stride);
    if (!run_ends) continue;
    while (next >= 0 && (filled < run || sizes[next] == 1)) {
      strides[next] = filled * run_stride;
      filled *= sizes[next--];
    }
    if (filled != run) return false;
    if (d > 0) {
      run_stride = in.strides[d - 1];
      run = filled = 1;
    }
  }
  return next < 0;
}

Layout view_view(const Layout& in, const Dims& sizes) {
  Layout out{resolve_sizes("view", sizes, numel_of(in.sizes)), {}, in.offset};
  EP_CHECK(view_strides(in, out.sizes, out.strides),
           "view: sizes {} with strides {} cannot be seen as {} without moving data, since a new dimension "
           "would span "
           "old ones that are not contiguous; use reshape, which copies",
           in.sizes.to_string(), in.strides.to_string(), out.sizes.to_string());
  return out;
}

Layout view_slice(const Layout& in, int64_t dim, int64_t start, int64_t end, int64_t step) {
  const int d = normalize_dim("slice", dim, in.sizes.size());
  EP_CHECK(step > 0, "slice: step must be positive, got {}", step);
  const int64_t size = in.sizes[d];
  const auto clamp = [size](int64_t index) {
    if (index < 0) index = std::max<int64_t>(index, -size) + size;
    return std::min(index, size);
  };
  start = clamp(start);
  end = std::max(clamp(end), start);
  Layout out = in;
  out.sizes[d] = (end - start) / step + ((end - start) % step != 0);
  if (out.sizes[d] > 0) out.offset += start * in.strides[d];
  if (out.sizes[d] > 1) out.strides[d] = in.strides[d] * step;
  return out;
}

Layout view_select(const Layout& in, int64_t dim, int64_t index) {
  EP_CHECK(!in.sizes.empty(), "select: a tensor without dimensions has nothing to select");
  const int d = normalize_dim("select", dim, in.sizes.size());
  EP_CHECK(index >= -in.sizes[d] && index < in.sizes[d],
           "select: index {} is out of range for size {} at dimension {}", index, in.sizes[d], d);
  Layout out = in;
  out.offset += (index < 0 ? index + in.sizes[d] : index) * in.strides[d];
  out.sizes.erase(d);
  out.strides.erase(d);
  return out;
}

Layout view_squeeze(const Layout& in) {
  Layout out{{}, {}, in.offset};
  for (int d = 0; d < in.sizes.size(); ++d) {
    if (in.sizes[d] == 1) continue;
    out.sizes.push_back(in.sizes[d]);
    out.strides.push_back(in.strides[d]);
  }
  return out;
}

Layout view_squeeze(const Layout& in, int64_t dim) {
  if (in.sizes.empty() && (dim == 0 || dim == -1)) return in;
  const int d = normalize_dim("squeeze", dim, in.sizes.size());
  Layout out = in;
  if (in.sizes[d] == 1) {
    out.sizes.erase(d);
    out.strides.erase(d);
  }
  return out;
}

Layout view_unsqueeze(const Layout& in, int64_t dim) {
  const int d = normalize_dim("unsqueeze", dim, in.sizes.size() + 1);
  Layout out = in;
  out.strides.insert(d, d < in.sizes.size() ? in.sizes[d] * in.strides[d] : 1);
  out.sizes.insert(d, 1);
  return out;
}

Layout view_expand(const Layout& in, const Dims& sizes) {
  const int lead = sizes.size() - in.sizes.size();
  EP_CHECK(lead >= 0, "expand: {} has more dimensions than the target {}", in.sizes.to_string(),
           sizes.to_string());
  Layout out{sizes, sizes, in.offset};
  for (int d = 0; d < sizes.size(); ++d) {
    const int64_t old = d < lead ? 1 : in.sizes[d - lead];
    if (d >= lead && sizes[d] == -1) out.sizes[d] = old;
    EP_CHECK(out.sizes[d] >= 0 && (old == 1 || old == out.sizes[d]),
             "expand: {} does not expand to {}: only sizes of 1 grow", in.sizes.to_string(),
             sizes.to_string());
    out.strides[d] = d < lead || (old == 1 && out.sizes[d] != 1) ? 0 : in.strides[d - lead];
  }
  numel_of(out.sizes);  // throws when nothing could count them
  return out;
}

Layout view_as_strided(const Dims& sizes, const Dims& strides, int64_t offset, int64_t storage_elements) {
  EP_CHECK(sizes.size() == strides.size(), "as_strided: sizes {} and strides {} differ in length",
           sizes.to_string(), strides.to_string());
  EP_CHECK(offset >= 0, "as_strided: offset {} is negative", offset);
  int64_t last = offset;
  for (int d = 0; d < sizes.size(); ++d) {
    EP_CHECK(strides[d] >= 0, "as_strided: stride {} is negative", strides[d]);
    int64_t span = 0;
    const bool fits = sizes[d] == 0 || (!__builtin_mul_overflow(sizes[d] - 1, strides[d], &span) &&
                                        !__builtin_add_overflow(last, span, &last));
    EP_CHECK(fits, "as_strided: sizes {} with strides {} reach past 64 bits", sizes.to_string(),
             strides.to_string());
  }
  EP_CHECK(numel_of(sizes) == 0 || last < storage_elements,
           "as_strided: sizes {} with strides {} from offset {} reach element {}, the storage holds {}",
           sizes.to_string(), strides.to_string(), offset, last, storage_elements);
  return {sizes, strides, offset};
}

}  // namespace epilogue
