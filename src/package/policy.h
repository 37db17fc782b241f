// Whom the user trusts: the policy file.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "package/manifest.h"

namespace epilogue::package {

// A TOML file of the user's:
//   require-signature = true          # refuse packages without the signature of a key below
//   [keys]
//   epilogue = ["<32 bytes in hex>"]  # Ed25519 public keys that may sign epilogue/...
struct Policy {
  bool require_signature = false;
  std::map<std::string, std::vector<std::string>, std::less<>> keys;  // by owner

  bool trusts(std::string_view package_name, std::string_view key) const;
};

// Throws Error naming `source` on anything that is not known: a misspelt rule must not be no rule.
Policy parse_policy(std::string_view text, const std::string& source);
// From EPILOGUE_KERNELS_POLICY, or kernels.toml in ~/.config/epilogue (XDG_CONFIG_HOME where it is set), or
// without one the defaults above.
Policy user_policy();

}  // namespace epilogue::package
