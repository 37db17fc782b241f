// The header of a safetensors file: parsed from memory and checked against the file's size. Reads no tensor
// data.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "epilogue/tensor.h"

namespace epilogue::safetensors {

inline constexpr uint64_t kMaxHeaderBytes = 100'000'000;

struct Entry {
  std::string name;
  std::optional<DType> dtype;  // none: the library has none like it
  std::string file_dtype;      // "F32"
  std::vector<int64_t>
      shape;  // at most kMaxDims; the sizes' product (a 0 counted as 1) is known to fit int64_t
  uint64_t begin = 0, end = 0;  // bytes from Header::data_offset
};

struct Header {
  std::vector<Entry> entries;  // in the order of their data
  std::map<std::string, std::string> metadata;
  uint64_t data_offset = 0;  // where in the file the data starts
};

// A file that is of another kind, most likely.
class NoSafetensors : public Error {
 public:
  using Error::Error;
};

// `file` is the whole file. Every span of the result lies inside it, and the spans cover its data exactly.
// Throws NoSafetensors, one sentence without the file's name, for
// - a file shorter than its length field, or a header of more than kMaxHeaderBytes;
// - a header that is no JSON object or is followed by anything but spaces;
// and Error, likewise, for
// - a file shorter than its header;
// - a repeated key, at any level;
// - "__metadata__" that is no object of strings;
// - an entry without dtype, shape or data_offsets, or with one of the wrong form;
// - a dtype that safetensors does not have, more than kMaxDims dimensions, sizes that overflow;
// - a data span that differs from what shape and dtype need;
// - spans that do not start at 0, leave a gap or overlap, or end elsewhere than the file.
Header parse_header(std::span<const std::byte> file);

// `what` with a dtype that cannot be loaded, and those that can.
std::string no_such_dtype(const std::string& what, const std::string& file_dtype);
// The name of `dtype` in a file: "F32", "BF16", ...
const char* file_dtype_name(DType dtype);

}  // namespace epilogue::safetensors
