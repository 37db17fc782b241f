// NVRTC, the compiler from CUDA C++ to machine code, loaded when it is first asked for. It needs no GPU.
#pragma once

#include <string>

namespace epilogue::codegen {

// Null when NVRTC can be used, otherwise why not; the same for the life of the process.
const char* nvrtc_missing();

// Machine code for `architecture` ("sm_90"). Throws Error with the compiler's own words, or when NVRTC is
// missing.
std::string nvrtc_compile(const std::string& source, const std::string& name,
                          const std::string& architecture);

// The same from the cache on disk, where it is kept by source, architecture and `platform`, the versions of
// what it runs with. NVRTC itself, which takes 5 ms to load and 0.1 to 0.2 s from a cold disk, is not asked:
// another one alone, without another runtime or driver, compiles nothing anew.
std::string nvrtc_compile_cached(const std::string& source, const std::string& name,
                                 const std::string& architecture, const std::string& platform);

// Unless kernels are kept on disk, loads NVRTC and compiles next to nothing, so that the next one is ready
// soon. From any thread.
void warm_up_nvrtc() noexcept;

}  // namespace epilogue::codegen
