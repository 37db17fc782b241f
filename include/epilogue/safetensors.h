// safetensors files: read by mmap, written whole.
#pragma once

#include <map>
#include <span>
#include <string>

#include "epilogue/tensor.h"

namespace epilogue {

struct SafetensorsFile {
  std::map<std::string, Tensor> tensors;  // CPU tensors over the mapping, which lives as long as any of them
  std::map<std::string, std::string> metadata;  // "__metadata__"
  std::map<std::string, std::string> unread;    // tensors of dtypes that no Tensor has, with these: "BOOL"
};

// Tensors share one private (copy-on-write) mapping of the file, which must not be cut short while it is in
// use; one whose data is not aligned for its dtype is a copy. Throws Error naming the file and what is wrong:
// see src/io/safetensors_header.h for the list.
SafetensorsFile load_safetensors(const std::string& path);

struct Checkpoint {
  std::string path;                       // of the file or the index
  std::map<std::string, Tensor> tensors;  // as SafetensorsFile's
};

// Those of the named tensors that the checkpoint has; a tensor of a dtype that no Tensor has is an error if
// it is named. `path` is
// - a safetensors file,
// - an index, which ends in .json (model.safetensors.index.json): of the files beside it that it lists, those
//   that hold a named tensor are opened, or
// - a folder with model.safetensors in it, or else model.safetensors.index.json.
// Throws Error naming the file and what is wrong: see src/io/checkpoint_index.h for an index's list.
Checkpoint load_checkpoint(const std::string& path, std::span<const std::string> names);

// The file has its name when it is whole, so a reader never sees half of one.
void save_safetensors(const std::string& path, const std::map<std::string, Tensor>& tensors,
                      const std::map<std::string, std::string>& metadata = {});

}  // namespace epilogue
