// How the library reports a wrong input: EP_CHECK(cond, "mm: expected ..., got {}", x) throws
// epilogue::Error.
#pragma once

#include <utility>

#include <fmt/format.h>

#include "epilogue/error.h"

namespace epilogue {

template <class... Args>
[[noreturn]] void fail(fmt::format_string<Args...> format, Args&&... args) {
  throw Error(fmt::format(format, std::forward<Args>(args)...));
}

}  // namespace epilogue

// The message is formatted only on failure.
#define EP_CHECK(condition, ...)     \
  do {                               \
    if (!(condition)) [[unlikely]]   \
      ::epilogue::fail(__VA_ARGS__); \
  } while (false)
