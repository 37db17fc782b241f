#include "package/digest.h"

#include <gtest/gtest.h>

#include "epilogue/error.h"
#include "package_data.h"

namespace epilogue::package {
namespace {

// RFC 8032, 7.1, TEST 2: the message is 0x72.
const Signature kRfc{"3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c",
                     "92a009a9f0d4cab8720e820b5f642540a2b27b5416503f8fb3762223ebdb69da"
                     "085ac1e43e15996e458f3613d0f11d8c387b2eaeb4302aeeb00d291612bb0c00"};

TEST(Digest, Sha256IsThatOfTheStandard) {
  EXPECT_EQ(sha256("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

TEST(Digest, AnEd25519SignatureOfTheStandardHolds) { EXPECT_TRUE(signature_holds(kRfc, "\x72")); }

TEST(Digest, AnyChangeBreaksTheSignature) {
  EXPECT_FALSE(signature_holds(kRfc, "\x73"));
  EXPECT_FALSE(signature_holds(kRfc, ""));
  for (size_t i = 0; i < kRfc.signature.size(); ++i) {
    Signature changed = kRfc;
    changed.signature[i] = changed.signature[i] == '0' ? '1' : '0';
    EXPECT_FALSE(signature_holds(changed, "\x72")) << i;
  }
  for (size_t i = 0; i < kRfc.key.size(); ++i) {
    Signature changed = kRfc;
    changed.key[i] = changed.key[i] == '0' ? '1' : '0';
    EXPECT_FALSE(signature_holds(changed, "\x72")) << i;
  }
}

TEST(Digest, ASignatureFileHasOneSpelling) {
  const std::string text = kRfc.to_text();
  EXPECT_EQ(parse_signature(text, "s").key, kRfc.key);
  for (size_t i = 0; i < text.size(); ++i) {
    std::string changed = text;
    changed[i] = static_cast<char>(changed[i] ^ 0x20);  // upper case, among others
    bool accepted = true;
    try {
      accepted = signature_holds(parse_signature(changed, "s"), "\x72");
    } catch (const Error&) {
      accepted = false;
    }
    EXPECT_FALSE(accepted) << i;
  }
  EXPECT_THROW(parse_signature(text + "\n", "s"), Error);
  EXPECT_THROW(parse_signature("", "s"), Error);
}

using SignTest = PackageTest;

TEST_F(SignTest, OnlyAnEd25519KeySigns) {
  write_text(path("key.pem"), kPrivateKey);
  const Signature signature = sign("hello", path("key.pem"));
  EXPECT_TRUE(signature_holds(signature, "hello"));
  EXPECT_FALSE(signature_holds(signature, "hallo"));
  EXPECT_EQ(signature.key, kPublicKey);
  write_text(path("no_key.pem"), "nothing");
  EXPECT_THROW(sign("hello", path("no_key.pem")), Error);
  EXPECT_THROW(sign("hello", path("missing.pem")), Error);
}

}  // namespace
}  // namespace epilogue::package
