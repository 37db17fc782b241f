#include "package/policy.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "base/check.h"
#include "base/env.h"
#include "package/digest.h"
#include "package/files.h"
#include "package/toml.h"

namespace epilogue::package {
namespace {

std::string default_file() {
  if (const char* xdg = std::getenv("XDG_CONFIG_HOME"); xdg && *xdg)
    return std::string(xdg) + "/epilogue/kernels.toml";
  if (const char* home = std::getenv("HOME"); home && *home)
    return std::string(home) + "/.config/epilogue/kernels.toml";
  return "";
}

}  // namespace

bool Policy::trusts(std::string_view package_name, std::string_view key) const {
  const auto found = keys.find(package_name.substr(0, package_name.find('/')));
  return found != keys.end() && std::ranges::find(found->second, key) != found->second.end();
}

Policy parse_policy(std::string_view text, const std::string& source) {
  const toml::table table = parse_toml(text, source);
  const TomlTable root(table, source);
  root.allow({"require-signature", "keys"});
  Policy policy{.require_signature = root.flag("require-signature", false)};
  if (!root.has("keys")) return policy;
  const TomlTable keys(root.table("keys"), source + ": [keys]");
  for (const auto& [owner, node] : root.table("keys")) {
    if (!is_package_name(std::string(owner.str()) + "/x"))
      keys.refuse("expected the owner of packages, the part of their name before '/'");
    std::vector<std::string> trusted = keys.texts(owner.str());
    if (!std::ranges::all_of(trusted, [](const std::string& key) { return is_hex(key, 32); }))
      keys.refuse("{}: expected Ed25519 public keys as 64 digits of lower-case hex", owner.str());
    policy.keys.emplace(owner.str(), std::move(trusted));
  }
  return policy;
}

Policy user_policy() {
  std::string file = env_text(EnvVar::kernels_policy);
  const bool named = !file.empty();
  if (!named) file = default_file();
  std::error_code error;
  if (!named && (file.empty() || !std::filesystem::exists(file, error))) return {};
  return parse_policy(read_file(std::filesystem::weakly_canonical(file, error), kMaxManifestBytes), file);
}

}  // namespace epilogue::package
