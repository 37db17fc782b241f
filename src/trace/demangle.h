// The readable form of a mangled C++ name, as much as a kernel's name needs.
#pragma once

#include <string>
#include <string_view>

namespace epilogue::trace {

struct Demangled {
  std::string text;  // "at::native::reduce_kernel<512, 1, ...>": up to the parameters; empty when not mangled
  bool complete = true;  // false: cut short, or beyond the grammar or the size that is read
};

// Reads Itanium-mangled names ("_ZN..."). abi::__cxa_demangle is not used: libstdc++'s refuses names beyond
// 1,024 characters, which is what CUTLASS's have, fails on names a profiler cut, and may expand a short
// hostile name without bound. Here output and work are bounded, and a name that ends early gives what it
// holds.
Demangled demangle(std::string_view mangled);

}  // namespace epilogue::trace
