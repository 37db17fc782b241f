// The index of a checkpoint that is saved as several files: which file holds which tensor.
#pragma once

#include <map>
#include <string>
#include <string_view>

namespace epilogue::safetensors {

// The file's name by the tensor's. Every file is a plain name, to be looked for in the index's own folder.
using CheckpointIndex = std::map<std::string, std::string, std::less<>>;

// Of the text of a model.safetensors.index.json: {"weight_map": {"a tensor": "a file", ...}}; other members
// are of no concern. Throws Error, one sentence without the index's name, for
// - what is no JSON object, or has no object "weight_map";
// - a repeated key in either;
// - a file that is no string, or no plain name: empty, "." or "..", or with a '/', a '\\' or a NUL in it.
CheckpointIndex parse_checkpoint_index(std::string_view text);

}  // namespace epilogue::safetensors
