#include "trace/window.h"

#include <filesystem>

#include <gtest/gtest.h>

#include "test_data.h"
#include "trace/read.h"

namespace epilogue::trace {
namespace {

Trace read(const std::string& path, size_t window_bytes) {
  return read_trace(*open_source(path), path, window_bytes);
}

TEST(ReaderWindow, SizeDoesNotChangeWhatIsRead) {
  int files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(test_data("traces"))) {
    if (entry.path().extension() != ".gz") continue;
    const std::string path = entry.path().string();
    const Trace whole = read(path, size_t{1} << 20);
    for (const size_t window_bytes : {100, 1000, 4096}) {
      const Trace pieces = read(path, window_bytes);
      ASSERT_EQ(whole.events.size(), pieces.events.size()) << path << " in windows of " << window_bytes;
      EXPECT_EQ(whole.problems.size(), pieces.problems.size());
      EXPECT_EQ(whole.metadata, pieces.metadata);
      for (size_t i = 0; i < whole.events.size(); ++i) {
        const Event &a = whole.events[i], &b = pieces.events[i];
        ASSERT_TRUE(a.start_ns == b.start_ns && a.duration_ns == b.duration_ns && a.detail == b.detail &&
                    a.correlation == b.correlation && whole.name(a) == pieces.name(b))
            << path << ", event " << i;
      }
    }
    ++files;
  }
  EXPECT_EQ(files, 7);
}

}  // namespace
}  // namespace epilogue::trace
