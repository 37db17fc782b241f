#include "package/toml.h"

#include <algorithm>

namespace epilogue::package {

toml::table parse_toml(std::string_view text, const std::string& source) {
  try {
    return toml::parse(text);
  } catch (const toml::parse_error& error) {
    fail("{}:{}: {}", source, error.source().begin.line, error.description());
  }
}

void TomlTable::allow(std::initializer_list<std::string_view> keys) const {
  for (const auto& [key, value] : table_)
    if (std::ranges::find(keys, key.str()) == keys.end())
      refuse("'{}' is not known here; expected {}", key.str(), fmt::join(keys, ", "));
}

const toml::node& TomlTable::node(std::string_view key) const {
  const toml::node* found = table_.get(key);
  if (!found) refuse("'{}' is missing", key);
  return *found;
}

const toml::array& TomlTable::array(std::string_view key) const {
  const toml::array* found = node(key).as_array();
  if (!found || found->empty()) refuse("'{}': expected an array that is not empty", key);
  return *found;
}

std::string TomlTable::text(std::string_view key) const {
  const auto* value = node(key).as_string();
  if (!value) refuse("'{}': expected a string", key);
  return value->get();
}

std::string TomlTable::text(std::string_view key, std::string otherwise) const {
  return has(key) ? text(key) : otherwise;
}

int64_t TomlTable::number(std::string_view key, int64_t lowest, int64_t highest) const {
  const auto* value = node(key).as_integer();
  if (!value || value->get() < lowest || value->get() > highest)
    refuse("'{}': expected a whole number from {} to {}", key, lowest, highest);
  return value->get();
}

bool TomlTable::flag(std::string_view key, bool otherwise) const {
  if (!has(key)) return otherwise;
  const auto* value = node(key).as_boolean();
  if (!value) refuse("'{}': expected true or false", key);
  return value->get();
}

std::vector<std::string> TomlTable::texts(std::string_view key) const {
  std::vector<std::string> values;
  for (const toml::node& element : array(key)) {
    const auto* value = element.as_string();
    if (!value) refuse("'{}': expected strings", key);
    values.push_back(value->get());
  }
  return values;
}

std::vector<int64_t> TomlTable::numbers(std::string_view key) const {
  std::vector<int64_t> values;
  for (const toml::node& element : array(key)) {
    const auto* value = element.as_integer();
    if (!value) refuse("'{}': expected whole numbers", key);
    values.push_back(value->get());
  }
  return values;
}

std::vector<TomlTable> TomlTable::tables(std::string_view key) const {
  std::vector<TomlTable> found;
  if (!has(key)) return found;
  for (const toml::node& element : array(key)) {
    const toml::table* table = element.as_table();
    if (!table) refuse("'{}': expected [[{}]] tables", key, key);
    found.emplace_back(*table, fmt::format("{}: [[{}]] {}", where_, key, found.size() + 1));
  }
  return found;
}

const toml::table& TomlTable::table(std::string_view key) const {
  const toml::table* found = node(key).as_table();
  if (!found) refuse("'{}': expected a table", key);
  return *found;
}

}  // namespace epilogue::package
