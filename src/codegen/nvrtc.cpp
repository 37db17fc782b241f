#include "codegen/nvrtc.h"

#include <array>
#include <exception>
#include <vector>

#include <dlfcn.h>

#include <fmt/format.h>

#include "base/blob_cache.h"
#include "base/check.h"
#include "base/env.h"
#include "base/library_folder.h"

namespace epilogue::codegen {
namespace {

using Program = struct OpaqueProgram*;

// The functions of libnvrtc, by their C declarations; the library is no dependency of ours.
struct Library {
  const char* missing = nullptr;
  const char* (*error_string)(int) = nullptr;
  int (*create)(Program*, const char*, const char*, int, const char* const*, const char* const*) = nullptr;
  int (*destroy)(Program*) = nullptr;
  int (*compile)(Program, int, const char* const*) = nullptr;
  int (*log_size)(Program, size_t*) = nullptr;
  int (*log)(Program, char*) = nullptr;
  int (*cubin_size)(Program, size_t*) = nullptr;
  int (*cubin)(Program, char*) = nullptr;

  Library() {
    void* handle = nullptr;
    for (const std::string& folder : {library_folder(), std::string(), std::string("/usr/local/cuda/lib64/")})
      for (const char* name : {"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so"})
        if (!handle) handle = dlopen((folder + name).c_str(), RTLD_NOW | RTLD_LOCAL);
    if (!handle) {
      missing = "libnvrtc is not on this machine";
      return;
    }
    const auto find = [&](auto& function, const char* name) {
      function = reinterpret_cast<std::decay_t<decltype(function)>>(dlsym(handle, name));
      if (!function) missing = "libnvrtc lacks a function that is needed";
    };
    find(error_string, "nvrtcGetErrorString");
    find(create, "nvrtcCreateProgram");
    find(destroy, "nvrtcDestroyProgram");
    find(compile, "nvrtcCompileProgram");
    find(log_size, "nvrtcGetProgramLogSize");
    find(log, "nvrtcGetProgramLog");
    find(cubin_size, "nvrtcGetCUBINSize");
    find(cubin, "nvrtcGetCUBIN");
  }
};

const Library& library() {
  static const auto* loaded = new Library;
  return *loaded;
}

void check(const char* call, int status) {
  EP_CHECK(status == 0, "{}: {}", call, library().error_string(status));
}

class ProgramHandle {
 public:
  ProgramHandle(const std::string& source, const std::string& name) {
    check("nvrtcCreateProgram",
          library().create(&program_, source.c_str(), name.c_str(), 0, nullptr, nullptr));
  }
  ~ProgramHandle() { library().destroy(&program_); }
  ProgramHandle(const ProgramHandle&) = delete;
  ProgramHandle& operator=(const ProgramHandle&) = delete;
  Program get() const { return program_; }

 private:
  Program program_ = nullptr;
};

std::vector<std::string> flags_for(const std::string& architecture) {
  return {"--gpu-architecture=" + architecture, "-std=c++17", "-lineinfo"};
}

}  // namespace

const char* nvrtc_missing() { return library().missing; }

std::string nvrtc_compile(const std::string& source, const std::string& name,
                          const std::string& architecture) {
  EP_CHECK(!nvrtc_missing(), "{}: {}", name, nvrtc_missing());
  const ProgramHandle program(source, name + ".cu");
  const std::vector<std::string> flags = flags_for(architecture);
  std::vector<const char*> pointers;
  for (const std::string& flag : flags) pointers.push_back(flag.c_str());
  const int status = library().compile(program.get(), static_cast<int>(pointers.size()), pointers.data());
  if (status != 0) {
    size_t size = 0;
    check("nvrtcGetProgramLogSize", library().log_size(program.get(), &size));
    std::string log(size, '\0');
    check("nvrtcGetProgramLog", library().log(program.get(), log.data()));
    fail("{} does not compile for {}: {}", name, architecture, log.c_str());
  }
  size_t size = 0;
  check("nvrtcGetCUBINSize", library().cubin_size(program.get(), &size));
  std::string code(size, '\0');
  check("nvrtcGetCUBIN", library().cubin(program.get(), code.data()));
  return code;
}

std::string nvrtc_compile_cached(const std::string& source, const std::string& name,
                                 const std::string& architecture, const std::string& platform) {
  BlobCache& cache = BlobCache::kernels();
  const std::string key =
      fmt::format("nvrtc {} {} {}\n{}", platform, fmt::join(flags_for(architecture), " "), name, source);
  if (auto kept = cache.get(key)) {
    verbose_line("compile", fmt::format("{}: from the cache", name));
    return *kept;
  }
  std::string code = nvrtc_compile(source, name, architecture);
  cache.put(key, code);
  return code;
}

void warm_up_nvrtc() noexcept {
  try {
    if (BlobCache::kernels().empty()) nvrtc_compile("__global__ void warm_up() {}", "warm_up", "sm_80");
  } catch (const std::exception&) {
    // What fails here fails again where it is needed, and is reported there.
  }
}

}  // namespace epilogue::codegen
