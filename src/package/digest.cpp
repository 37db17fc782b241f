#include "package/digest.h"

#include <cstdio>
#include <vector>

#include <openssl/evp.h>
#include <openssl/pem.h>

#include "base/check.h"
#include "base/file.h"

namespace epilogue::package {

struct FreeOpenssl {
  void operator()(EVP_MD_CTX* context) const { EVP_MD_CTX_free(context); }
  void operator()(EVP_PKEY* key) const { EVP_PKEY_free(key); }
  void operator()(std::FILE* file) const { std::fclose(file); }
};
using Context = std::unique_ptr<EVP_MD_CTX, FreeOpenssl>;
using Key = std::unique_ptr<EVP_PKEY, FreeOpenssl>;

namespace {

constexpr size_t kKeyBytes = 32, kSignatureBytes = 64;

const unsigned char* bytes_of(std::string_view text) {
  return reinterpret_cast<const unsigned char*>(text.data());
}

std::vector<uint8_t> from_hex(std::string_view text) {
  const auto digit = [](char c) { return static_cast<uint8_t>(c <= '9' ? c - '0' : c - 'a' + 10); };
  std::vector<uint8_t> bytes(text.size() / 2);
  for (size_t i = 0; i < bytes.size(); ++i)
    bytes[i] = static_cast<uint8_t>(digit(text[2 * i]) << 4 | digit(text[2 * i + 1]));
  return bytes;
}

}  // namespace

std::string hex(std::span<const uint8_t> bytes) {
  std::string text;
  for (const uint8_t byte : bytes) {
    text += "0123456789abcdef"[byte >> 4];
    text += "0123456789abcdef"[byte & 15];
  }
  return text;
}

bool is_hex(std::string_view text, size_t bytes) {
  return text.size() == 2 * bytes && text.find_first_not_of("0123456789abcdef") == text.npos;
}

struct Sha256::State {
  Context context{EVP_MD_CTX_new()};
};

Sha256::Sha256() : state_(new State) {
  EP_CHECK(state_->context && EVP_DigestInit_ex(state_->context.get(), EVP_sha256(), nullptr) == 1,
           "OpenSSL offers no SHA-256 here");
}

Sha256::~Sha256() = default;

void Sha256::add(std::string_view bytes) {
  EP_CHECK(EVP_DigestUpdate(state_->context.get(), bytes.data(), bytes.size()) == 1, "SHA-256 failed");
}

std::string Sha256::finish() {
  std::array<uint8_t, 32> digest;
  EP_CHECK(EVP_DigestFinal_ex(state_->context.get(), digest.data(), nullptr) == 1, "SHA-256 failed");
  return hex(digest);
}

std::string sha256(std::string_view bytes) {
  Sha256 digest;
  digest.add(bytes);
  return digest.finish();
}

std::string Signature::to_text() const { return fmt::format("ed25519 {} {}\n", key, signature); }

Signature parse_signature(std::string_view text, const std::string& source) {
  constexpr std::string_view kKind = "ed25519 ";
  constexpr size_t kKeyAt = kKind.size(), kSignatureAt = kKeyAt + 2 * kKeyBytes + 1;
  Signature found;
  if (text.size() == kSignatureAt + 2 * kSignatureBytes + 1)
    found = {std::string(text.substr(kKeyAt, 2 * kKeyBytes)),
             std::string(text.substr(kSignatureAt, 2 * kSignatureBytes))};
  EP_CHECK(
      is_hex(found.key, kKeyBytes) && is_hex(found.signature, kSignatureBytes) && found.to_text() == text,
      "{}: expected 'ed25519 KEY SIGNATURE' in lower-case hex", source);
  return found;
}

bool signature_holds(const Signature& signature, std::string_view message) {
  if (!is_hex(signature.key, kKeyBytes) || !is_hex(signature.signature, kSignatureBytes)) return false;
  const auto raw_key = from_hex(signature.key), raw = from_hex(signature.signature);
  const Key key(EVP_PKEY_new_raw_public_key(EVP_PKEY_ED25519, nullptr, raw_key.data(), raw_key.size()));
  const Context context(EVP_MD_CTX_new());
  return key && context && EVP_DigestVerifyInit(context.get(), nullptr, nullptr, nullptr, key.get()) == 1 &&
         EVP_DigestVerify(context.get(), raw.data(), raw.size(), bytes_of(message), message.size()) == 1;
}

Signature sign(std::string_view message, const std::string& key_file) {
  const std::unique_ptr<std::FILE, FreeOpenssl> file(std::fopen(key_file.c_str(), "r"));
  EP_CHECK(file, "{}: cannot open: {}", key_file, system_error());
  const auto no_password = [](char*, int, int, void*) { return 0; };  // OpenSSL would ask the terminal
  const Key key(PEM_read_PrivateKey(file.get(), nullptr, no_password, nullptr));
  EP_CHECK(key && EVP_PKEY_id(key.get()) == EVP_PKEY_ED25519,
           "{}: expected an Ed25519 private key in PEM without a password, as openssl genpkey -algorithm "
           "ed25519 writes",
           key_file);
  std::array<uint8_t, kKeyBytes> raw_key;
  std::array<uint8_t, kSignatureBytes> raw;
  size_t key_size = raw_key.size(), size = raw.size();
  const Context context(EVP_MD_CTX_new());
  EP_CHECK(context && EVP_PKEY_get_raw_public_key(key.get(), raw_key.data(), &key_size) == 1 &&
               EVP_DigestSignInit(context.get(), nullptr, nullptr, nullptr, key.get()) == 1 &&
               EVP_DigestSign(context.get(), raw.data(), &size, bytes_of(message), message.size()) == 1,
           "{}: signing failed", key_file);
  return {hex(raw_key), hex(raw)};
}

}  // namespace epilogue::package
