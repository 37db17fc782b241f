// Reading a TOML table strictly: each key of a known type, none that is unknown.
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include <toml++/toml.h>

#include "base/check.h"

namespace epilogue::package {

// Throws Error naming `source`, the line and what the parser found.
toml::table parse_toml(std::string_view text, const std::string& source);

class TomlTable {
 public:
  // `where` stands in front of every message: "package.toml: [[variant]] 2".
  TomlTable(const toml::table& table, std::string where) : table_(table), where_(std::move(where)) {}

  const std::string& where() const { return where_; }
  bool has(std::string_view key) const { return table_.contains(key); }
  void allow(std::initializer_list<std::string_view> keys) const;  // throws Error on any other

  std::string text(std::string_view key) const;
  std::string text(std::string_view key, std::string otherwise) const;
  int64_t number(std::string_view key, int64_t lowest, int64_t highest) const;
  bool flag(std::string_view key, bool otherwise) const;
  std::vector<std::string> texts(std::string_view key) const;  // not empty
  std::vector<int64_t> numbers(std::string_view key) const;    // not empty
  std::vector<TomlTable> tables(std::string_view key) const;   // [[key]]; empty when it is not there
  const toml::table& table(std::string_view key) const;        // [key]

  template <class... Args>
  [[noreturn]] void refuse(fmt::format_string<Args...> format, Args&&... args) const {
    fail("{}: {}", where_, fmt::format(format, std::forward<Args>(args)...));
  }

 private:
  const toml::node& node(std::string_view key) const;
  const toml::array& array(std::string_view key) const;

  const toml::table& table_;
  std::string where_;
};

}  // namespace epilogue::package
