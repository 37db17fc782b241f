// SHA-256 and Ed25519, by OpenSSL.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace epilogue::package {

std::string hex(std::span<const uint8_t> bytes);  // lower case
// Whether `text` is `bytes` bytes in lower-case hex: the only spelling there is, so that a changed letter
// shows.
bool is_hex(std::string_view text, size_t bytes);

class Sha256 {
 public:
  Sha256();
  ~Sha256();
  void add(std::string_view bytes);
  std::string finish();  // in hex; once

 private:
  struct State;
  std::unique_ptr<State> state_;
};
std::string sha256(std::string_view bytes);

// What package.sig holds: "ed25519 KEY SIGNATURE\n" in hex, the signature over the bytes of package.toml.
struct Signature {
  std::string key;        // the public key's 32 bytes in hex
  std::string signature;  // 64 bytes in hex
  std::string to_text() const;
};
// Throws Error naming `source` when it has another form.
Signature parse_signature(std::string_view text, const std::string& source);
bool signature_holds(const Signature& signature, std::string_view message);

// Signs with the Ed25519 private key of a PEM file. Throws Error naming the file.
Signature sign(std::string_view message, const std::string& key_file);

}  // namespace epilogue::package
