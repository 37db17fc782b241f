// How packages and the files in them are named.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace epilogue::package {

// "epilogue/geglu" at major version 1.
struct Reference {
  std::string name;
  uint32_t version = 0;

  std::string to_string() const { return name + "@" + std::to_string(version); }
  bool operator==(const Reference&) const = default;
};

// Reads "OWNER/NAME@VERSION". Throws Error that shows the form: a version is never guessed.
Reference parse_reference(std::string_view text);

// OWNER/NAME, each of lower-case letters, digits, '-', '_' and '.', beginning with a letter or digit.
bool is_package_name(std::string_view name);
// One path component of such letters, upper-case ones too: a variant's or a build's name.
bool is_plain_word(std::string_view word);

// Why `path` may not name a file of a package ("" when it may): it must be relative, printable ASCII with '/'
// between parts, without ".", "..", empty parts or anything that could lead out of its folder.
std::string path_problem(std::string_view path);

}  // namespace epilogue::package
