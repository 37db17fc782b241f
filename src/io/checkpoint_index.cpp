#include "io/checkpoint_index.h"

#include "io/json.h"

namespace epilogue::safetensors {
namespace {

namespace dom = simdjson::dom;

// An index comes with its checkpoint from a stranger: nothing outside its folder is opened for it.
bool is_plain_name(std::string_view name) {
  return !name.empty() && name != "." && name != ".." &&
         name.find_first_of(std::string_view("/\\\0", 3)) == name.npos;
}

}  // namespace

CheckpointIndex parse_checkpoint_index(std::string_view text) {
  dom::parser parser;
  dom::object root;
  if (const auto error = parser.parse(text.data(), text.size()).get(root))
    fail("the index of a checkpoint is a JSON object, and this is none: {}", simdjson::error_message(error));
  CheckpointIndex index;
  bool found = false;
  for_each_member(root, "the index", [&](std::string_view key, dom::element value) {
    if (key != "weight_map") return;
    dom::object files;
    EP_CHECK(!value.get(files), "its weight_map is no JSON object");
    found = true;
    for_each_member(files, "its weight_map", [&](std::string_view tensor, dom::element file) {
      std::string_view name;
      EP_CHECK(!file.get(name), "its weight_map has a file for tensor {} that is no string",
               in_quotes(tensor));
      EP_CHECK(is_plain_name(name),
               "its weight_map has {} for tensor {}; expected the plain name of a file beside the index",
               in_quotes(name), in_quotes(tensor));
      index.emplace(tensor, name);
    });
  });
  EP_CHECK(found, "it has no weight_map, which tells the file of each tensor");
  return index;
}

}  // namespace epilogue::safetensors
