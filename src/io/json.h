// Members of JSON objects, and names in messages.
#pragma once

#include <string>
#include <string_view>
#include <unordered_set>

#include <simdjson.h>

#include "base/check.h"
#include "base/format.h"

namespace epilogue::safetensors {

inline std::string in_quotes(std::string_view text) { return json_quote(std::string(text)); }

// Calls visit(key, value) for each member. JSON parsers differ in which of two equal keys wins, so a file
// with such a pair has no one meaning: it is refused.
template <class Visit>
void for_each_member(simdjson::dom::object object, const std::string& where, const Visit& visit) {
  std::unordered_set<std::string_view> seen;
  for (const auto [key, value] : object) {
    EP_CHECK(seen.insert(key).second, "{} has the key {} twice", where, in_quotes(key));
    visit(key, value);
  }
}

}  // namespace epilogue::safetensors
