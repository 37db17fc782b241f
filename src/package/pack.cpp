#include "package/pack.h"

#include <filesystem>
#include <set>
#include <sstream>

#include "base/check.h"
#include "package/archive.h"
#include "package/digest.h"
#include "package/files.h"
#include "package/index.h"
#include "package/toml.h"
#include "package/verify.h"

namespace epilogue::package {
namespace {

namespace fs = std::filesystem;

std::set<std::string> keep_built_variants(toml::table& table, const PackOptions& options) {
  std::set<std::string> kept;
  toml::array& variants = *table.get_as<toml::array>("variant");
  for (size_t i = variants.size(); i-- > 0;) {
    const std::string name = *variants[i].at_path("name").value<std::string>();
    if (fs::is_directory(options.folder + "/build/" + name))
      kept.insert(name);
    else
      variants.erase(variants.begin() + static_cast<ptrdiff_t>(i));
  }
  EP_CHECK(!kept.empty(), "{}/build: no variant of {} is built there", options.folder, kManifestFile);
  return kept;
}

toml::table list_files(const std::set<std::string>& variants, const PackOptions& options) {
  toml::table files;
  for (const std::string& variant : variants)
    for (const fs::directory_entry& entry :
         fs::recursive_directory_iterator(options.folder + "/build/" + variant)) {
      if (entry.is_directory() && !entry.is_symlink()) continue;
      const std::string path = fs::path(entry.path()).lexically_relative(options.folder);
      Sha256 digest;
      const uint64_t size =
          read_pieces(entry.path(), [&digest](std::string_view piece) { digest.add(piece); });
      files.insert(path, toml::table{{"size", static_cast<int64_t>(size)}, {"sha256", digest.finish()}});
    }
  return files;
}

std::string text_of(const toml::table& table) {
  std::ostringstream text;
  text << table << '\n';
  return text.str();
}

void write_folder(const PackOptions& options, const std::string& to, const std::string& text,
                  const Packed& packed, const Signature& signature) {
  remove_tree(to);
  make_folders(to);
  replace_file(to + "/" + kManifestFile, text);
  if (!packed.signed_by.empty()) replace_file(to + "/" + kSignatureFile, signature.to_text());
  for (const auto& [path, file] : packed.manifest.files) {
    make_folders(fs::path(to + "/" + path).parent_path());
    fs::copy_file(options.folder + "/" + path, to + "/" + path);
  }
  verify_files(to, read_manifest(to, "", nullptr).manifest);
}

void enter_in_index(const PackOptions& options, const Packed& packed) {
  const std::string path = options.output + "/" + kIndexFile;
  Index index;
  if (fs::exists(path)) index = parse_index(read_file(path, kMaxIndexBytes), path);
  Sha256 digest;
  const uint64_t size = read_pieces(packed.archive, [&digest](std::string_view piece) { digest.add(piece); });
  index.set({packed.manifest.reference, packed.manifest.build, fs::path(packed.archive).filename(), size,
             digest.finish()});
  replace_file(path, index.to_json());
}

Packed pack_folder(const PackOptions& options) {
  const std::string source = options.folder + "/" + kManifestFile;
  const std::string author_text = read_file(source, kMaxManifestBytes);
  parse_author_manifest(author_text, source);
  toml::table table = parse_toml(author_text, source);
  table.insert("files", list_files(keep_built_variants(table, options), options));
  const std::string hash = sha256(text_of(table));
  table.insert("build", options.build.empty() ? hash.substr(0, 12) : options.build);
  if (!options.key_file.empty()) table.insert("signed", true);
  const std::string text = text_of(table);

  Packed packed{.manifest = parse_manifest(text, source)};
  Signature signature;
  if (!options.key_file.empty()) {
    signature = sign(text, options.key_file);
    packed.signed_by = signature.key;
  }
  std::string stem = fmt::format("{}-{}-{}", packed.manifest.reference.name,
                                 packed.manifest.reference.version, packed.manifest.build);
  stem[stem.find('/')] = '-';
  packed.folder = options.output + "/" + stem;
  packed.archive = packed.folder + ".tar.gz";
  write_folder(options, packed.folder, text, packed, signature);
  write_archive(packed.archive, packed.folder, packed.manifest);
  enter_in_index(options, packed);
  return packed;
}

}  // namespace

Packed pack(const PackOptions& options) {
  try {
    return pack_folder(options);
  } catch (const fs::filesystem_error& error) {
    fail("{}: {}", options.folder, error.what());
  }
}

}  // namespace epilogue::package
