// Tensors of a checkpoint as Hugging Face saves it: one safetensors file, or several and an index.
#include <filesystem>
#include <set>

#include "base/file.h"
#include "epilogue/safetensors.h"
#include "io/checkpoint_index.h"
#include "io/json.h"
#include "io/safetensors_header.h"

namespace epilogue {
namespace {

namespace fs = std::filesystem;
using safetensors::CheckpointIndex;
using safetensors::in_quotes;

constexpr const char* kSingle = "model.safetensors";
constexpr const char* kIndex = "model.safetensors.index.json";

// A link that leads nowhere is there, too: loading it tells what is wrong.
bool is_named(const fs::path& file) {
  std::error_code ignored;
  return fs::symlink_status(file, ignored).type() != fs::file_type::not_found;
}

// A folder may hold both: transformers takes the single file then, too.
std::string file_of(const std::string& path) {
  std::error_code ignored;
  if (!fs::is_directory(path, ignored)) return path;
  for (const char* name : {kSingle, kIndex})
    if (const fs::path file = fs::path(path) / name; is_named(file)) return file.string();
  fail("{}: the folder holds neither {} nor {}", path, kSingle, kIndex);
}

CheckpointIndex read_index(const std::string& path) {
  constexpr const char* expected = "the index of a checkpoint";
  std::error_code ignored;
  const fs::file_status status = fs::status(path, ignored);
  EP_CHECK(!fs::exists(status) || fs::is_regular_file(status) || fs::is_directory(status),
           "{}: is no regular file, expected {}", path, expected);
  EP_CHECK(!fs::is_regular_file(status) || fs::file_size(path, ignored) <= safetensors::kMaxHeaderBytes,
           "{}: is larger than {} bytes, the most that {} may have", path, safetensors::kMaxHeaderBytes,
           expected);
  const std::string text = read_file(path, expected);
  try {
    return safetensors::parse_checkpoint_index(text);
  } catch (const Error& error) {
    fail("{}: {}", path, error.what());
  }
}

void take(Checkpoint& checkpoint, const std::string& name, const std::string& file, SafetensorsFile& loaded) {
  if (const auto unread = loaded.unread.find(name); unread != loaded.unread.end())
    fail("{}: {}", file, safetensors::no_such_dtype("tensor " + in_quotes(name), unread->second));
  if (const auto found = loaded.tensors.find(name); found != loaded.tensors.end())
    checkpoint.tensors.emplace(name, std::move(found->second));
}

Checkpoint load_sharded(const std::string& path, std::span<const std::string> names) {
  const CheckpointIndex index = read_index(path);
  std::map<std::string, std::set<std::string>> wanted;  // of each shard
  for (const std::string& name : names)
    if (const auto found = index.find(name); found != index.end()) wanted[found->second].insert(name);
  Checkpoint checkpoint{.path = path, .tensors = {}};
  for (const auto& [shard, held] : wanted) {
    const std::string file = (fs::path(path).parent_path() / shard).string();
    EP_CHECK(is_named(file), "{}: its file {}, which holds tensor {}, is not beside it", path,
             in_quotes(shard), in_quotes(*held.begin()));
    SafetensorsFile loaded = load_safetensors(file);
    for (const std::string& name : held) {
      EP_CHECK(loaded.tensors.contains(name) || loaded.unread.contains(name),
               "{}: no tensor {}, though {} says that it is there", file, in_quotes(name), path);
      take(checkpoint, name, file, loaded);
    }
  }
  return checkpoint;
}

}  // namespace

Checkpoint load_checkpoint(const std::string& path, std::span<const std::string> names) {
  const std::string file = file_of(path);
  if (file.ends_with(".json")) return load_sharded(file, names);
  SafetensorsFile loaded = load_safetensors(file);
  Checkpoint checkpoint{.path = file, .tensors = {}};
  for (const std::string& name : names) take(checkpoint, name, file, loaded);
  return checkpoint;
}

}  // namespace epilogue
