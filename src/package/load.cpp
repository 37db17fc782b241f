#include "package/load.h"

#include <map>
#include <mutex>
#include <optional>

#include <dlfcn.h>

#include <sys/mman.h>

#include "base/check.h"
#include "package/dlpack.h"
#include "package/files.h"
#include "package/lock_file.h"
#include "package/resolve.h"

namespace epilogue::package {
namespace {

using Entry = const EpPackage* (*)(uint32_t);

// From memory, so that nobody can change the file between its hash and its loading. The descriptor stays
// open: the dynamic linker knows libraries by their path, and /proc/self/fd/N must not come to mean another
// one.
void* open_library(const std::string& bytes, const std::string& path) {
  FileDescriptor memory(memfd_create(path.substr(path.find_last_of('/') + 1).c_str(), MFD_CLOEXEC));
  EP_CHECK(memory, "{}: there is no memory to load it from: {}", path, system_error());
  write_all(memory.get(), bytes, path);
  void* handle = dlopen(fmt::format("/proc/self/fd/{}", memory.get()).c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!handle) {
    const char* reason = dlerror();
    fail("{}: it cannot be loaded: {}", path, reason ? reason : "the system gives no reason");
  }
  memory.release();
  return handle;
}

const EpPackage* shake_hands(void* handle, const Manifest& manifest, const Variant& variant,
                             const std::string& path) {
  const auto entry = reinterpret_cast<Entry>(dlsym(handle, "ep_kernel_package"));
  EP_CHECK(entry, "{}: it does not export ep_kernel_package", path);
  const EpPackage* package = entry(EP_KERNEL_ABI_VERSION);
  EP_CHECK(package, "{}: it refuses to work with ABI {}", path, EP_KERNEL_ABI_VERSION);
  EP_CHECK(package->abi_version <= EP_KERNEL_ABI_VERSION && package->abi_version == variant.abi,
           "{}: it speaks ABI {}, its manifest tells {} and this Epilogue has {}", path, package->abi_version,
           variant.abi, EP_KERNEL_ABI_VERSION);
  EP_CHECK(package->name && package->name == manifest.reference.name &&
               package->version == manifest.reference.version,
           "{}: it calls itself {}@{}, its manifest {}", path, package->name ? package->name : "",
           package->version, manifest.reference.to_string());
  for (uint64_t i = 0; i < package->kernel_count; ++i)
    EP_CHECK(package->kernels[i].op && package->kernels[i].run, "{}: its kernel {} has no op or no function",
             path, i);
  return package;
}

// What is loaded, by the manifest's digest and the variant's name; libraries are never unloaded.
const EpPackage* library_of(const KnownManifest& known, const Variant& variant, const std::string& bytes,
                            const std::string& path) {
  static std::mutex mutex;
  static auto* loaded = new std::map<std::string, const EpPackage*>;
  const std::lock_guard lock(mutex);
  const EpPackage*& package = (*loaded)[known.digest + variant.name];
  if (!package) package = shake_hands(open_library(bytes, path), known.manifest, variant, path);
  return package;
}

}  // namespace

const EpKernel* Loaded::kernel(std::string_view op, DType dtype) const {
  const DLDataType wanted = dl_type(dtype);
  for (uint64_t i = 0; i < package->kernel_count; ++i) {
    const EpKernel& kernel = package->kernels[i];
    if (kernel.op == op && kernel.dtype.code == wanted.code && kernel.dtype.bits == wanted.bits)
      return &kernel;
  }
  return nullptr;
}

namespace {

// Null where there is no lock file.
const LockedPackage* locked_in(const std::optional<LockFile>& lock, const Reference& reference) {
  if (!lock) return nullptr;
  const LockedPackage* locked = lock->find(reference);
  EP_CHECK(locked, "{}: it does not pin {}; pin it with: epilogue kernels lock {}", lock->path,
           reference.to_string(), reference.to_string());
  return locked;
}

}  // namespace

Installed find_package(const Cache& cache, const Reference& reference, const std::string& lock_file) {
  const auto lock = read_lock(lock_file);
  const LockedPackage* locked = locked_in(lock, reference);
  return cache.find(reference, locked ? locked->digest : "");
}

Loaded load_package(const Cache& cache, const Reference& reference, const Policy& policy,
                    const LoadOptions& options) {
  const auto lock = read_lock(options.lock_file);
  const LockedPackage* locked = locked_in(lock, reference);
  const Installed installed = cache.find(reference, locked ? locked->digest : "");
  Loaded loaded{.known = read_manifest(installed, &policy)};
  const Manifest& manifest = loaded.known.manifest;
  if (locked) check_locked(*locked, manifest, lock->path);
  const Variant& variant = choose_variant(manifest, this_machine(options.device));
  const std::string library = variant.folder() + variant.library;
  const std::string bytes = verify_files(installed.folder, manifest, library);
  loaded.package = library_of(loaded.known, variant, bytes, installed.folder + "/" + library);
  loaded.variant = &variant;
  return loaded;
}

}  // namespace epilogue::package
