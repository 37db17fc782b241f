#include "package/manifest.h"

#include <algorithm>
#include <set>

#include "base/check.h"
#include "package/digest.h"
#include "package/toml.h"

namespace epilogue::package {
namespace {

// What a message may quote of a file from elsewhere.
constexpr size_t kMaxText = 500;

std::string plain_text(const TomlTable& table, std::string_view key, std::string otherwise) {
  std::string text = table.text(key, std::move(otherwise));
  if (text.size() > kMaxText || !std::ranges::all_of(text, [](char c) { return c >= ' ' && c < 127; }))
    table.refuse("'{}': expected one line of at most {} ASCII characters", key, kMaxText);
  return text;
}

std::string word(const TomlTable& table, std::string_view key) {
  std::string text = table.text(key);
  if (!is_plain_word(text))
    table.refuse("'{}': expected a word of at most 64 letters, digits, '-', '_' and '.'", key);
  return text;
}

std::vector<std::string> words(const TomlTable& table, std::string_view key) {
  std::vector<std::string> found = table.texts(key);
  if (!std::ranges::all_of(found, is_plain_word))
    table.refuse("'{}': expected words of at most 64 letters, digits, '-', '_' and '.'", key);
  return found;
}

std::string one_of(const TomlTable& table, std::string_view key,
                   std::initializer_list<std::string_view> values) {
  std::string text = word(table, key);
  if (std::ranges::find(values, text) == values.end())
    table.refuse("'{}': expected {}, got '{}'", key, fmt::join(values, ", "), text);
  return text;
}

ProvidedOp read_op(const TomlTable& table) {
  table.allow({"name", "dtypes", "max-elements"});
  ProvidedOp op{.name = word(table, "name")};
  for (const std::string& dtype : words(table, "dtypes")) {
    try {
      op.dtypes.push_back(dtype_from_name(dtype));
    } catch (const Error& error) {
      table.refuse("{}", error.what());
    }
  }
  if (table.has("max-elements")) op.max_elements = table.number("max-elements", 1, INT64_MAX);
  return op;
}

ProvidedLayer read_layer(const TomlTable& table, const Manifest& manifest) {
  table.allow({"name", "ops"});
  ProvidedLayer layer{word(table, "name"), words(table, "ops")};
  for (const std::string& op : layer.ops)
    if (!manifest.op(op)) table.refuse("'{}' is no [[op]] of this package", op);
  return layer;
}

void read_cuda(const TomlTable& table, Variant& variant) {
  variant.cuda = table.number("cuda", 1, 1000);
  variant.archs = table.numbers("archs");
  for (const int64_t arch : variant.archs)
    if (arch < 10 || arch > 9999) table.refuse("'archs': expected numbers like 90, got {}", arch);
}

Variant read_variant(const TomlTable& table) {
  table.allow({"name", "system", "arch", "backend", "isa", "cuda", "archs", "abi", "library"});
  Variant variant{.name = word(table, "name"),
                  .system = word(table, "system"),
                  .arch = word(table, "arch"),
                  .backend = one_of(table, "backend", {"cpu", "cuda"}),
                  .abi = static_cast<uint32_t>(table.number("abi", 1, UINT32_MAX)),
                  .library = word(table, "library")};
  if (variant.backend == "cuda")
    read_cuda(table, variant);
  else
    variant.isa = one_of(table, "isa", {"scalar", "avx2", "avx512"});
  return variant;
}

PackageFile read_package_file(const TomlTable& table) {
  table.allow({"size", "sha256"});
  PackageFile file{static_cast<uint64_t>(table.number("size", 0, INT64_MAX)), table.text("sha256")};
  if (!is_hex(file.sha256, 32)) table.refuse("'sha256': expected 64 digits of lower-case hex");
  return file;
}

void read_files(const TomlTable& root, Manifest& manifest) {
  const TomlTable files(root.table("files"), root.where());
  uint64_t bytes = 0;
  for (const auto& [key, node] : root.table("files")) {
    const std::string path(key.str()), problem = path_problem(path);
    if (!problem.empty()) root.refuse("[files] names a path that is refused: {}", problem);
    if (!path.starts_with("build/") && path.find('/') != path.npos)
      root.refuse("[files] '{}': expected a path below build/ or a file beside package.toml", path);
    if (path == kManifestFile || path == kSignatureFile) root.refuse("[files] must not name '{}'", path);
    const PackageFile file = read_package_file(
        TomlTable(files.table(key.str()), fmt::format("{}: [files] '{}'", root.where(), path)));
    if (file.size > kMaxPackageBytes - bytes)
      root.refuse("[files] '{}': the files take more than the {} bytes a package may", path,
                  kMaxPackageBytes);
    bytes += file.size;
    manifest.files.emplace(path, file);
  }
  if (manifest.files.size() > kMaxPackageFiles)
    root.refuse("[files]: {} files are more than the {} a package may have", manifest.files.size(),
                kMaxPackageFiles);
  for (const Variant& variant : manifest.variants)
    if (!manifest.files.contains(variant.folder() + variant.library))
      root.refuse("variant '{}': its library {}{} is not among [files]", variant.name, variant.folder(),
                  variant.library);
}

template <class Things>
void check_distinct(const TomlTable& root, const char* what, const Things& things) {
  std::set<std::string_view> names;
  for (const auto& thing : things)
    if (!names.insert(thing.name).second) root.refuse("{} '{}' is there twice", what, thing.name);
}

Manifest read(std::string_view text, const std::string& source, bool packed) {
  EP_CHECK(text.size() <= kMaxManifestBytes, "{}: {} bytes are more than the {} a manifest may have", source,
           text.size(), kMaxManifestBytes);
  const toml::table table = parse_toml(text, source);
  const TomlTable root(table, source);
  root.allow(
      {"name", "version", "build", "license", "description", "signed", "op", "layer", "variant", "files"});
  Manifest manifest;
  manifest.reference = {root.text("name"), static_cast<uint32_t>(root.number("version", 1, UINT32_MAX))};
  if (!is_package_name(manifest.reference.name))
    root.refuse("'name': expected OWNER/NAME of lower-case letters, digits, '-', '_' and '.'");
  manifest.license = plain_text(root, "license", "");
  if (manifest.license.empty()) root.refuse("'license' is missing");
  manifest.description = plain_text(root, "description", "");
  for (const TomlTable& op : root.tables("op")) manifest.ops.push_back(read_op(op));
  for (const TomlTable& layer : root.tables("layer")) manifest.layers.push_back(read_layer(layer, manifest));
  for (const TomlTable& variant : root.tables("variant")) manifest.variants.push_back(read_variant(variant));
  if (manifest.ops.empty()) root.refuse("it has no [[op]]");
  if (manifest.variants.empty()) root.refuse("it has no [[variant]]");
  check_distinct(root, "op", manifest.ops);
  check_distinct(root, "layer", manifest.layers);
  check_distinct(root, "variant", manifest.variants);
  if (!packed) {
    for (const std::string_view key : {"build", "signed", "files"})
      if (root.has(key)) root.refuse("'{}' is written by kernels pack, not by hand", key);
    return manifest;
  }
  if (!root.has("build"))
    root.refuse(
        "'build' is missing: what an author wrote is packed before it is added, by epilogue kernels pack");
  manifest.build = word(root, "build");
  manifest.is_signed = root.flag("signed", false);
  read_files(root, manifest);
  return manifest;
}

}  // namespace

uint64_t Manifest::unpacked_bytes() const {
  uint64_t bytes = 0;
  for (const auto& [path, file] : files) bytes += file.size;
  return bytes;
}

std::vector<std::string> Manifest::variant_names() const {
  std::vector<std::string> names;
  for (const Variant& variant : variants) names.push_back(variant.name);
  return names;
}

const ProvidedOp* Manifest::op(std::string_view name) const {
  const auto found = std::ranges::find(ops, name, &ProvidedOp::name);
  return found == ops.end() ? nullptr : &*found;
}

const ProvidedLayer* Manifest::layer(std::string_view name) const {
  const auto found = std::ranges::find(layers, name, &ProvidedLayer::name);
  return found == layers.end() ? nullptr : &*found;
}

Manifest parse_manifest(std::string_view text, const std::string& source) { return read(text, source, true); }
Manifest parse_author_manifest(std::string_view text, const std::string& source) {
  return read(text, source, false);
}

}  // namespace epilogue::package
