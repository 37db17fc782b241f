#include "package/index.h"

#include <algorithm>

#include <simdjson.h>

#include "base/check.h"
#include "base/format.h"
#include "package/digest.h"
#include "package/manifest.h"

namespace epilogue::package {
namespace {

namespace json = simdjson::dom;

std::string text_at(json::object object, const char* key, const std::string& where) {
  std::string_view value;
  EP_CHECK(object.at_key(key).get(value) == simdjson::SUCCESS, "{}: '{}': expected a string", where, key);
  return std::string(value);
}

uint64_t number_at(json::object object, const char* key, uint64_t highest, const std::string& where) {
  uint64_t value = 0;
  EP_CHECK(object.at_key(key).get(value) == simdjson::SUCCESS && value >= 1 && value <= highest,
           "{}: '{}': expected a whole number from 1 to {}", where, key, highest);
  return value;
}

IndexEntry read_entry(json::element element, const std::string& where) {
  json::object object;
  EP_CHECK(element.get(object) == simdjson::SUCCESS, "{}: expected an object", where);
  IndexEntry entry{{text_at(object, "name", where),
                    static_cast<uint32_t>(number_at(object, "version", UINT32_MAX, where))},
                   text_at(object, "build", where),
                   text_at(object, "file", where),
                   number_at(object, "size", kMaxPackageBytes, where),
                   text_at(object, "sha256", where)};
  EP_CHECK(is_package_name(entry.reference.name), "{}: 'name': expected OWNER/NAME", where);
  EP_CHECK(is_plain_word(entry.build), "{}: 'build': expected a word", where);
  EP_CHECK(path_problem(entry.file).empty() && entry.file.find('/') == entry.file.npos,
           "{}: 'file': expected the name of a file beside the index", where);
  EP_CHECK(is_hex(entry.sha256, 32), "{}: 'sha256': expected 64 digits of lower-case hex", where);
  return entry;
}

}  // namespace

const IndexEntry& Index::find(const Reference& reference, const std::string& source) const {
  for (auto entry = entries.rbegin(); entry != entries.rend(); ++entry)
    if (entry->reference == reference) return *entry;
  std::vector<std::string> known;
  for (const IndexEntry& entry : entries) known.push_back(entry.reference.to_string());
  fail("{}: it has no {}; it has {}", source, reference.to_string(),
       known.empty() ? "nothing" : fmt::format("{}", fmt::join(known, ", ")));
}

void Index::set(IndexEntry entry) {
  std::erase_if(
      entries, [&](const IndexEntry& e) { return e.reference == entry.reference && e.build == entry.build; });
  entries.push_back(std::move(entry));
}

std::string Index::to_json() const {
  std::vector<std::string> rows;
  for (const IndexEntry& e : entries)
    rows.push_back(fmt::format(R"({{"name":{},"version":{},"build":{},"file":{},"size":{},"sha256":"{}"}})",
                               json_quote(e.reference.name), e.reference.version, json_quote(e.build),
                               json_quote(e.file), e.size, e.sha256));
  return fmt::format("{{\"format\":1,\"packages\":[\n{}\n]}}\n", fmt::join(rows, ",\n"));
}

Index parse_index(std::string_view text, const std::string& source) {
  EP_CHECK(text.size() <= kMaxIndexBytes, "{}: {} bytes are more than the {} an index may have", source,
           text.size(), kMaxIndexBytes);
  json::parser parser;
  json::object root;
  json::array packages;
  EP_CHECK(parser.parse(text.data(), text.size()).get(root) == simdjson::SUCCESS,
           "{}: expected a JSON object, the index of kernel packages", source);
  EP_CHECK(number_at(root, "format", UINT32_MAX, source) == 1,
           "{}: its format is newer than this program's, 1", source);
  EP_CHECK(root.at_key("packages").get(packages) == simdjson::SUCCESS, "{}: 'packages': expected an array",
           source);
  Index index;
  for (const json::element element : packages)
    index.entries.push_back(
        read_entry(element, fmt::format("{}: package {}", source, index.entries.size() + 1)));
  return index;
}

}  // namespace epilogue::package
