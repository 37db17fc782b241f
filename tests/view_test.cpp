#include "tensor/view.h"

#include <numeric>
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include "epilogue/ops.h"
#include "tensor/storage.h"

namespace epilogue {
namespace {

Tensor numbered(const Dims& sizes) { return arange(numel_of(sizes)).view(sizes); }

// The naive indexer: a tensor as the list of its elements in row-major order.
struct Naive {
  Dims sizes;
  std::vector<float> values;

  static Naive of(const Tensor& tensor) {
    Naive naive{tensor.sizes(), {}};
    std::vector<int64_t> index(static_cast<size_t>(tensor.dim()), 0);
    for (int64_t i = 0; i < tensor.numel(); ++i) {
      int64_t rest = i, at = 0;
      for (int d = tensor.dim() - 1; d >= 0; --d) {
        at += rest % tensor.size(d) * tensor.stride(d);
        rest /= tensor.size(d);
      }
      naive.values.push_back(tensor.data<float>()[at]);
    }
    return naive;
  }

  float at(const std::vector<int64_t>& index) const {
    int64_t flat = 0;
    for (int d = 0; d < sizes.size(); ++d) flat = flat * sizes[d] + index[static_cast<size_t>(d)];
    return values[static_cast<size_t>(flat)];
  }

  // The tensor of `to` sizes whose element at an index is this one's at from(index).
  template <class From>
  Naive gather(const Dims& to, From from) const {
    Naive out{to, {}};
    const int64_t count = numel_of(to);
    for (int64_t i = 0; i < count; ++i) {
      std::vector<int64_t> index(static_cast<size_t>(to.size()));
      int64_t rest = i;
      for (int d = to.size() - 1; d >= 0; --d) {
        index[static_cast<size_t>(d)] = rest % to[d];
        rest /= to[d];
      }
      out.values.push_back(at(from(index)));
    }
    return out;
  }
};

class ViewChain {
 public:
  explicit ViewChain(uint32_t seed) : random_(seed) {}

  void run() {
    Dims sizes;
    for (int d = pick(0, 4); d > 0; --d) sizes.push_back(pick(0, 9) == 0 ? pick(0, 1) : pick(1, 5));
    tensor_ = numbered(sizes);
    const Storage* storage = tensor_.storage();
    naive_ = Naive::of(tensor_);
    for (int step = pick(1, 6); step > 0; --step) {
      apply(pick(0, 8));
      ASSERT_EQ(tensor_.storage(), storage) << "a view moved data";
      ASSERT_EQ(tensor_.sizes(), naive_.sizes);
      ASSERT_EQ(Naive::of(tensor_).values, naive_.values) << what_;
    }
    const Tensor copied = tensor_.contiguous();
    ASSERT_TRUE(copied.is_contiguous());
    ASSERT_EQ(Naive::of(copied).values, naive_.values);
  }

 private:
  int pick(int low, int high) { return std::uniform_int_distribution<int>(low, high)(random_); }

  void apply(int which) {
    const int dims = tensor_.dim();
    if (dims == 0 && which != 4 && which != 5) return;
    const int d = dims > 0 ? pick(0, dims - 1) : 0;
    const auto at = static_cast<size_t>(d);
    Dims sizes = tensor_.sizes();
    switch (which) {
      case 0: {
        what_ += " transpose";
        const int e = pick(0, dims - 1);
        std::swap(sizes[d], sizes[e]);
        naive_ = naive_.gather(sizes, [=](auto index) {
          std::swap(index[at], index[static_cast<size_t>(e)]);
          return index;
        });
        tensor_ = tensor_.transpose(d, e - dims);
        break;
      }
      case 1: {
        what_ += " permute";
        Dims order = sizes;
        std::iota(order.begin(), order.end(), 0);
        std::shuffle(order.begin(), order.end(), random_);
        for (int i = 0; i < dims; ++i) sizes[i] = tensor_.size(static_cast<int>(order[i]));
        naive_ = naive_.gather(sizes, [=](auto index) {
          auto from = index;
          for (int i = 0; i < dims; ++i) from[static_cast<size_t>(order[i])] = index[static_cast<size_t>(i)];
          return from;
        });
        tensor_ = tensor_.permute(order);
        break;
      }
      case 2: {
        what_ += " slice";
        const auto size = static_cast<int>(sizes[d]);
        const int start = pick(0, size), end = pick(0, size), step = pick(1, 3);
        sizes[d] = end > start ? (end - start + step - 1) / step : 0;
        naive_ = naive_.gather(sizes, [=](auto index) {
          index[at] = start + index[at] * step;
          return index;
        });
        tensor_ = tensor_.slice(d, start, end, step);
        break;
      }
      case 3: {
        if (sizes[d] == 0) return;
        what_ += " select";
        const int chosen = pick(0, static_cast<int>(sizes[d]) - 1);
        sizes.erase(d);
        naive_ = naive_.gather(sizes, [=](auto index) {
          index.insert(index.begin() + d, chosen);
          return index;
        });
        tensor_ = tensor_.select(d, chosen);
        break;
      }
      case 4: {
        if (dims >= kMaxDims) return;
        what_ += " unsqueeze";
        const int where = pick(0, dims);
        naive_.sizes.insert(where, 1);
        tensor_ = tensor_.unsqueeze(where);
        break;
      }
      case 5: {
        what_ += " squeeze";
        Dims left;
        for (const int64_t size : sizes)
          if (size != 1) left.push_back(size);
        naive_.sizes = left;
        tensor_ = tensor_.squeeze();
        break;
      }
      case 6: {
        if (sizes[d] != 1) return;
        what_ += " expand";
        sizes[d] = pick(0, 3);
        naive_ = naive_.gather(sizes, [=](auto index) {
          index[at] = 0;
          return index;
        });
        tensor_ = tensor_.expand(sizes);
        break;
      }
      case 7: {
        what_ += " view";
        const Dims flat{tensor_.numel()};
        Dims strides;
        if (!view_strides({tensor_.sizes(), tensor_.strides(), 0}, flat, strides)) {
          EXPECT_THROW(tensor_.view(flat), Error);
          return;
        }
        naive_.sizes = flat;
        tensor_ = tensor_.view({-1});
        break;
      }
      default: {
        what_ += " as_strided";
        tensor_ = tensor_.as_strided(tensor_.sizes(), tensor_.strides(), tensor_.offset());
      }
    }
  }

  std::mt19937 random_;
  Tensor tensor_;
  Naive naive_;
  std::string what_;
};

TEST(View, TenThousandRandomChainsAgreeWithNaiveIndexing) {
  for (uint32_t seed = 0; seed < 10000; ++seed) {
    ViewChain(seed).run();
    ASSERT_FALSE(HasFatalFailure()) << "seed " << seed;
  }
}

TEST(View, SharesStorageAndMovesNoByte) {
  const Tensor x = numbered({4, 6});
  const std::vector<float> before(x.data<float>(), x.data<float>() + 24);
  for (const Tensor& view : {x.t(), x.view({2, 12}), x.slice(1, 1, 5, 2), x.select(0, 2), x.unsqueeze(1),
                             x.expand({3, 4, 6}), x.permute({1, 0}), x.as_strided({2, 2}, {6, 1}, 7)}) {
    EXPECT_TRUE(view.shares_storage_with(x));
  }
  EXPECT_EQ(x.t().data(), x.data());
  EXPECT_EQ(x.version(), numbered({4, 6}).version());
  EXPECT_EQ(std::vector<float>(x.data<float>(), x.data<float>() + 24), before);
}

TEST(View, ImpossibleViewSaysWhyAndNamesReshape) {
  const Tensor x = numbered({3, 4}).t();
  try {
    x.view({12});
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("use reshape"), std::string::npos) << error.what();
    EXPECT_NE(std::string(error.what()).find("[4, 3]"), std::string::npos) << error.what();
  }
  EXPECT_EQ(Naive::of(x.reshape({12})).values, Naive::of(x).values);
}

TEST(View, WrongArgumentsAreErrors) {
  const Tensor x = numbered({2, 3});
  EXPECT_THROW(x.view({4}), Error);
  EXPECT_THROW(x.view({-1, -1}), Error);
  EXPECT_THROW(x.transpose(0, 2), Error);
  EXPECT_THROW(x.permute({0, 0}), Error);
  EXPECT_THROW(x.permute({0}), Error);
  EXPECT_THROW(x.slice(0, 0, 2, 0), Error);
  EXPECT_THROW(x.select(0, 2), Error);
  EXPECT_THROW(x.expand({2, 4}), Error);
  EXPECT_THROW(x.as_strided({2, 3}, {3, 1}, 1), Error);
  EXPECT_THROW(x.as_strided({2}, {-1}, 1), Error);
  EXPECT_THROW(numbered({2, 3, 4}).t(), Error);
  EXPECT_THROW(empty({1, 1, 1, 1, 1, 1, 1, 1, 1}), Error);
  EXPECT_THROW(empty({INT64_MAX, 4}), Error);
  EXPECT_THROW(empty({-1}), Error);
  EXPECT_THROW(empty({0, INT64_MAX, 4}), Error);
  EXPECT_THROW(numbered({1, 1}).expand({int64_t{1} << 62, 8}), Error);
}

TEST(View, SizesThatNo64BitsCountAreRefusedBesideAnEmptyOneToo) {
  constexpr int64_t kLarge = int64_t{1} << 40;
  EXPECT_THROW(zeros({0}).view({0, kLarge, kLarge}), Error);
  EXPECT_THROW(contiguous_strides({2, kLarge, kLarge}), Error);
  EXPECT_THROW(bytes_for({kLarge, kLarge >> 18}, DType::f32), Error);
  EXPECT_EQ(bytes_for({kLarge, 2}, DType::bf16), size_t{1} << 42);
}

TEST(View, SliceClampsLikePython) {
  const Tensor x = numbered({5});
  EXPECT_EQ(x.slice(0, -2, 100).sizes(), (Dims{2}));
  EXPECT_EQ(x.slice(0, -100, 2).sizes(), (Dims{2}));
  EXPECT_EQ(x.slice(0, 3, 1).sizes(), (Dims{0}));
  EXPECT_EQ(x.slice(0, 7, 9).sizes(), (Dims{0}));
}

TEST(Storage, MutableDataRaisesTheVersion) {
  Tensor x = numbered({3});
  const uint64_t before = x.version();
  x.mutable_data<float>()[0] = 5;
  EXPECT_GT(x.version(), before);
  EXPECT_THROW(x.data<double>(), Error);
}

TEST(Storage, FromBlobRunsItsDeleterOnceAfterTheLastView) {
  std::vector<float> memory{1, 2, 3, 4};
  int deleted = 0;
  {
    Tensor view;
    {
      const Tensor blob = from_blob(memory.data(), {2, 2}, {}, [&](void*) { ++deleted; });
      view = blob.t();
    }
    EXPECT_EQ(deleted, 0);
    EXPECT_EQ(view.select(0, 1).select(0, 0).item(), 2);
  }
  EXPECT_EQ(deleted, 1);
  EXPECT_THROW(from_blob(nullptr, {1}), Error);
  EXPECT_EQ(from_blob(nullptr, {0}).numel(), 0);
}

TEST(Storage, KeepsWhatWasMadeOfItsPartsUpToFourTimesItsBytes) {
  const Tensor whole = zeros({1000});
  Storage& storage = *whole.storage();
  const auto keep = [&](int64_t key, size_t bytes) {
    storage.keep_derived({{key}, storage.version, bytes, std::make_shared<int>()});
  };
  for (int64_t key = 0; key < 400; ++key) keep(key, 40);
  EXPECT_TRUE(storage.find_derived({0})) << "400 parts of 40 bytes are four times 4000";
  keep(400, 80);
  EXPECT_FALSE(storage.find_derived({0}));
  EXPECT_FALSE(storage.find_derived({1}));
  EXPECT_TRUE(storage.find_derived({2}));
  for (int64_t key = 500; key < 520; ++key) keep(key, 16000);
  EXPECT_FALSE(storage.find_derived({503}));
  EXPECT_TRUE(storage.find_derived({504})) << "sixteen stay, whatever they take";
}

}  // namespace
}  // namespace epilogue
