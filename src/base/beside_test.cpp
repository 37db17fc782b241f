#include "base/beside.h"

#include <thread>

#include <gtest/gtest.h>

namespace epilogue {
namespace {

TEST(Beside, TheThreadThatAskedJoinsItWhenItEnds) {
  std::atomic<bool> told = false;
  std::thread([&] {
    run_beside([&](const std::atomic<bool>& ending) {
      while (!ending) std::this_thread::yield();
      told = true;
    });
  }).join();
  EXPECT_TRUE(told);
}

}  // namespace
}  // namespace epilogue
