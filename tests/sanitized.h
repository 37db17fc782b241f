// A sanitizer makes tests slow and finds what it finds in few rounds: random tests run fewer under one.
#pragma once

namespace epilogue {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool kSanitized = true;
#else
inline constexpr bool kSanitized = false;
#endif

}  // namespace epilogue
