// How work is shared among threads: the memory that is asked for before covers what each of them gets.
#include "backend/cpu/kernels/panel_layer.h"

#include <mutex>
#include <random>
#include <set>
#include <vector>

#include <gtest/gtest.h>

namespace epilogue::cpu {
namespace {

int64_t pick(std::mt19937& random, int64_t from, int64_t to) {
  return std::uniform_int_distribution<int64_t>(from, to)(random);
}

// Its shape alone counts.
PanelWeight weight_of(PanelForm form, int64_t n) {
  PanelWeight weight;
  weight.form = form;
  weight.n = n;
  weight.k = 64;
  return weight;
}

class Shares : public testing::TestWithParam<PanelForm> {
 protected:
  ~Shares() override { set_thread_count(before_); }

  void check_memory(const ThreadRows& shares, int threads) {
    EXPECT_EQ(shares.all_rows(), shares.row_of(threads));
    for (int thread = 0; thread < threads; ++thread) {
      EXPECT_GE(shares.row_of(thread + 1) - shares.row_of(thread), shares.longest());
      EXPECT_EQ(shares.row_of(thread) % (GetParam() == PanelForm::vectors ? 1 : kAmxRows), 0);
    }
  }

  const int before_ = thread_count();
};

TEST_P(Shares, OfColumnsCoverEachOfThemOnceInTheRoomTheyAskFor) {
  std::mt19937 random(3);
  for (int round = 0; round < 200; ++round) {
    const int64_t rows = pick(random, 1, round % 2 ? 40 : 700), n = pick(random, 1, 2000);
    const int threads = static_cast<int>(pick(random, 1, 5));
    set_thread_count(threads);
    const PanelWeight weight = weight_of(GetParam(), n);
    const ColumnShares shares(rows, weight, threads);
    check_memory(shares, threads);
    const int64_t width = weight.shape().columns, panels = (n + width - 1) / width;
    std::mutex mutex;
    std::vector<int> seen(static_cast<size_t>(rows * panels));
    const int used = shares.run([&](int thread, Span part, Span columns) {
      const std::lock_guard lock(mutex);
      ASSERT_LT(thread, threads);
      ASSERT_LE(part.size(), shares.longest());
      ASSERT_LE(columns.size(), shares.widest());
      ASSERT_EQ(columns.begin % width, 0);
      ASSERT_TRUE(columns.end % width == 0 || columns.end == n);
      for (int64_t r = part.begin; r < part.end; ++r)
        for (int64_t c = columns.begin; c < columns.end; c += width)
          ++seen[static_cast<size_t>(r * panels + c / width)];
    });
    EXPECT_LE(used, threads);
    ASSERT_EQ(std::set(seen.begin(), seen.end()), std::set{1}) << rows << " x " << n << ", " << threads;
  }
}

TEST_P(Shares, OfRowsCoverEachOfThemOnceInTheRoomTheyAskFor) {
  std::mt19937 random(4);
  for (int round = 0; round < 200; ++round) {
    const int64_t rows = pick(random, 1, 5000), most = pick(random, 1, 130);  // less than a tile, too
    const int threads = static_cast<int>(pick(random, 1, 5));
    set_thread_count(threads);
    const RowShares shares(rows, most, weight_of(GetParam(), 64), threads);
    EXPECT_LE(shares.longest(), most);
    check_memory(shares, threads);
    std::mutex mutex;
    std::vector<int> seen(static_cast<size_t>(rows));
    shares.run([&](int thread, const auto& next) {
      for (Span span = next(); span.size() > 0; span = next()) {
        const std::lock_guard lock(mutex);
        ASSERT_LT(thread, threads);
        ASSERT_LE(span.size(), shares.longest());
        for (int64_t r = span.begin; r < span.end; ++r) ++seen[static_cast<size_t>(r)];
      }
    });
    ASSERT_EQ(std::set(seen.begin(), seen.end()), std::set{1}) << rows << " by " << most << ", " << threads;
  }
}

INSTANTIATE_TEST_SUITE_P(Each, Shares,
                         testing::Values(PanelForm::vectors, PanelForm::tiles, PanelForm::parts),
                         [](const auto& form) {
                           return form.param == PanelForm::vectors ? "vectors"
                                  : form.param == PanelForm::tiles ? "tiles"
                                                                   : "parts";
                         });

}  // namespace
}  // namespace epilogue::cpu
