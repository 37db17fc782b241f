#include "package/cache.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "base/cache_dir.h"
#include "base/check.h"
#include "package/archive.h"
#include "package/digest.h"
#include "package/files.h"
#include "package/verify.h"

namespace epilogue::package {
namespace {

namespace fs = std::filesystem;

// A folder below `parent` for as long as the object lives. The lock beside it tells others that its owner
// lives; folders without an owner were left by a crash and go.
class Scratch {
 public:
  explicit Scratch(const std::string& parent) {
    make_folders(parent);
    const FileLock guard = FileLock::wait(parent + "/guard");  // until the lock below is held
    remove_abandoned(parent);
    path_ = parent + "/XXXXXX";
    EP_CHECK(mkdtemp(path_.data()), "{}: no folder can be made in it", parent);
    lock_ = FileLock::wait(lock_file(path_));
  }
  ~Scratch() {
    remove_tree(path_);
    remove_tree(lock_file(path_));
  }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  const std::string& path() const { return path_; }

 private:
  static std::string lock_file(const std::string& path) { return path + ".lock"; }

  static void remove_abandoned(const std::string& parent) {
    for (const fs::directory_entry& entry : fs::directory_iterator(parent)) {
      const std::string name = entry.path();
      if (!name.ends_with(".lock")) continue;
      const FileLock lock = FileLock::try_now(name);
      if (!lock.held()) continue;
      remove_tree(name.substr(0, name.size() - 5));
      remove_tree(name);
    }
  }

  std::string path_;
  FileLock lock_;
};

void copy_package(const std::string& from, const std::string& to) {
  const KnownManifest known = read_manifest(from, "", nullptr);
  std::vector<std::string> paths{kManifestFile};
  if (known.manifest.is_signed) paths.emplace_back(kSignatureFile);
  for (const auto& [path, file] : known.manifest.files) paths.push_back(path);
  for (const std::string& path : paths) {
    const fs::path target = fs::path(to) / path;
    make_folders(target.parent_path());
    NewFile file(target);
    read_pieces(from + "/" + path, [&file](std::string_view piece) { file.append(piece); });
    file.finish();
  }
}

bool is_whole(const std::string& folder, const std::string& digest) {
  try {
    verify_files(folder, read_manifest(folder, digest, nullptr).manifest);
    return true;
  } catch (const Error&) {
    return false;
  }
}

// None where there is no such folder. One that cannot be read is not taken for an empty one.
std::vector<std::string> folders_in(const std::string& path) {
  std::vector<std::string> names;
  std::error_code error, ignored;
  for (const fs::directory_entry& entry : fs::directory_iterator(path, error))
    if (entry.is_directory(ignored)) names.push_back(entry.path().filename());
  EP_CHECK(!error || error == std::errc::no_such_file_or_directory, "{}: cannot be read: {}", path,
           error.message());
  std::ranges::sort(names);
  return names;
}

}  // namespace

KnownManifest read_manifest(const Installed& installed, const Policy* policy) {
  KnownManifest known = read_manifest(installed.folder, installed.digest, policy);
  const Reference& found = known.manifest.reference;
  EP_CHECK(found == installed.reference, "{}/{}: it is {}, expected {}", installed.folder, kManifestFile,
           found.to_string(), installed.reference.to_string());
  return known;
}

Cache::Cache(std::string root) : root_(std::move(root)) {}

Cache Cache::of_user() {
  const std::string root = cache_dir();
  EP_CHECK(!root.empty(), "there is no folder for kernel packages: set EPILOGUE_CACHE_DIR or HOME");
  return Cache(root + "/packages");
}

std::string Cache::version_folder(const Reference& reference) const {
  return fmt::format("{}/added/{}/{}", root_, reference.name, reference.version);
}

Added Cache::add(const std::string& source, const Reference& expected, const Policy& policy) {
  try {
    return unpack_and_put(source, expected, policy);
  } catch (const fs::filesystem_error& error) {
    fail("{}: {}", source, error.what());
  }
}

Added Cache::unpack_and_put(const std::string& source, const Reference& expected, const Policy& policy) {
  const Scratch scratch(root_ + "/unpacking");
  const std::string unpacked =
      scratch.path() + "/package";  // others may read it: mkdtemp's folder is its owner's
  make_folders(unpacked);
  if (fs::is_directory(source))
    copy_package(source, unpacked);
  else
    unpack_archive(source, unpacked);
  try {
    KnownManifest known = read_manifest(unpacked, "", &policy);
    const Reference& found = known.manifest.reference;
    EP_CHECK((expected.name.empty() || expected.name == found.name) &&
                 (expected.version == 0 || expected.version == found.version),
             "it is {}, expected {}", found.to_string(), expected.to_string());
    verify_files(unpacked, known.manifest);
    sync_tree(unpacked);
    const Installed installed = put(unpacked, found, known.digest);
    return {installed, std::move(known)};
  } catch (const Error& error) {  // in the source's words: the unpacked file is gone when the user reads this
    std::string what = error.what();
    if (what.starts_with(unpacked + "/")) what.erase(0, unpacked.size() + 1);
    fail("{}: {}", source, what);
  }
}

Installed Cache::put(const std::string& unpacked, const Reference& reference, const std::string& digest) {
  const std::string parent = version_folder(reference), target = parent + "/" + digest;
  const FileLock lock = FileLock::wait(root_ + "/lock");
  make_folders(parent);
  if (!is_whole(target, digest)) {
    if (fs::exists(target)) {
      const Scratch damaged(root_ + "/unpacking");
      fs::rename(target, damaged.path() + "/package");
    }
    std::error_code error;
    fs::rename(unpacked, target, error);
    EP_CHECK(!error, "{}: the package cannot be put there: {}", target, error.message());
    sync_folder(parent);
  }
  replace_file(parent + "/selected", digest + "\n");
  return {reference, digest, target, true};
}

std::string Cache::selected_digest(const Reference& reference) const {
  const std::string folder = version_folder(reference);
  std::error_code error;
  if (fs::exists(folder + "/selected", error)) {
    std::string digest = read_file(folder + "/selected", 1024);
    if (digest.ends_with('\n')) digest.pop_back();
    if (is_hex(digest, 32) && fs::exists(folder + "/" + digest, error)) return digest;
  }
  // A crash between putting the first build there and selecting it leaves no doubt which one is meant.
  const std::vector<std::string> builds = folders_in(folder);
  return builds.size() == 1 && is_hex(builds[0], 32) ? builds[0] : "";
}

std::vector<Installed> Cache::list() const {
  std::vector<Installed> all;
  const std::string packages = root_ + "/added";
  for (const std::string& owner : folders_in(packages))
    for (const std::string& name : folders_in(packages + "/" + owner))
      for (const std::string& version : folders_in(packages + "/" + owner + "/" + name)) {
        Reference reference;
        try {
          reference = parse_reference(owner + "/" + name + "@" + version);
        } catch (const Error&) {
          continue;  // nothing that add() has made
        }
        const std::string selected = selected_digest(reference);
        for (const std::string& digest : folders_in(version_folder(reference)))
          if (is_hex(digest, 32))
            all.push_back({reference, digest, version_folder(reference) + "/" + digest, digest == selected});
      }
  return all;
}

Installed Cache::find(const Reference& reference, const std::string& digest) const {
  const std::string selected = selected_digest(reference), wanted = digest.empty() ? selected : digest;
  std::error_code error;
  const std::string folder = version_folder(reference) + "/" + wanted;
  if (!wanted.empty() && fs::is_directory(folder, error))
    return {reference, wanted, folder, wanted == selected};
  EP_CHECK(digest.empty(), "kernel package {} with package.toml {} is not in the cache {}; add that build",
           reference.to_string(), digest, root_);
  fail("kernel package {} is not in the cache {}; add it with: epilogue kernels add SOURCE {}",
       reference.to_string(), root_, reference.to_string());
}

void Cache::remove(const Reference& reference) {
  const std::string folder = version_folder(reference);
  std::error_code error;
  const auto check_there = [&] {
    EP_CHECK(fs::exists(folder, error), "kernel package {} is not in the cache {}", reference.to_string(),
             root_);
  };
  check_there();
  const Scratch removed(root_ + "/unpacking");
  const FileLock lock = FileLock::wait(root_ + "/lock");
  check_there();  // another process may have been quicker
  fs::rename(folder, removed.path() + "/package", error);
  EP_CHECK(!error, "{}: it cannot be removed: {}", folder, error.message());
}

}  // namespace epilogue::package
