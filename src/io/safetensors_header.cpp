#include "io/safetensors_header.h"

#include <algorithm>
#include <cstring>
#include <tuple>

#include "io/json.h"

namespace epilogue::safetensors {
namespace {

namespace dom = simdjson::dom;

struct FileDType {
  const char* name;
  int64_t bits;
  std::optional<DType> dtype = {};
};
// Of the others a file may hold tensors that nobody asks for, as masks and scales.
constexpr FileDType kFileDTypes[] = {{"F32", 32, DType::f32},
                                     {"BF16", 16, DType::bf16},
                                     {"F16", 16, DType::f16},
                                     {"F64", 64, DType::f64},
                                     {"I32", 32, DType::i32},
                                     {"I64", 64, DType::i64},
                                     {"BOOL", 8},
                                     {"U8", 8},
                                     {"I8", 8},
                                     {"F8_E5M2", 8},
                                     {"F8_E4M3", 8},
                                     {"F8_E8M0", 8},
                                     {"U16", 16},
                                     {"I16", 16},
                                     {"U32", 32},
                                     {"U64", 64},
                                     {"C64", 64},
                                     {"F4", 4},
                                     {"F6_E2M3", 6},
                                     {"F6_E3M2", 6}};

const FileDType& row_of(std::string_view name, const std::string& where) {
  for (const FileDType& row : kFileDTypes)
    if (name == row.name) return row;
  fail("{}", no_such_dtype(where, std::string(name)));
}

void parse_dtype(dom::element value, const std::string& where, Entry& entry) {
  std::string_view text;
  EP_CHECK(!value.get(text), "{} has a dtype that is no string", where);
  entry.dtype = row_of(text, where).dtype;
  entry.file_dtype = text;
}

std::vector<int64_t> parse_shape(dom::element value, const std::string& where) {
  dom::array sizes;
  EP_CHECK(!value.get(sizes), "{} has a shape that is no array", where);
  EP_CHECK(sizes.size() <= kMaxDims, "{} has {} dimensions; at most {} are supported", where, sizes.size(),
           kMaxDims);
  std::vector<int64_t> shape;
  for (const dom::element size : sizes) {
    int64_t number = -1;
    EP_CHECK(!size.get(number) && number >= 0, "{} has a size that is no integer from 0 to 2^63-1", where);
    shape.push_back(number);
  }
  return shape;
}

void parse_offsets(dom::element value, const std::string& where, Entry& entry) {
  dom::array offsets;
  EP_CHECK(!value.get(offsets) && offsets.size() == 2 && !offsets.at(0).get(entry.begin) &&
               !offsets.at(1).get(entry.end),
           "{} has data_offsets that are not two integers from 0 to 2^64-1", where);
  EP_CHECK(entry.begin <= entry.end, "{} has data_offsets [{}, {}], which end before they begin", where,
           entry.begin, entry.end);
}

// Sizes of 0 count as 1 in the overflow check, so that strides fit too.
void check_span(const Entry& entry, const std::string& where) {
  int64_t bound = row_of(entry.file_dtype, where).bits;
  bool overflow = false, empty = false;
  for (const int64_t size : entry.shape) {
    overflow |= __builtin_mul_overflow(bound, std::max<int64_t>(size, 1), &bound);
    empty |= size == 0;
  }
  EP_CHECK(!overflow, "{} has a shape whose size in bits overflows", where);
  EP_CHECK(bound % 8 == 0 || empty, "{} ends within a byte", where);
  const uint64_t needed = empty ? 0 : static_cast<uint64_t>(bound / 8);
  EP_CHECK(entry.end - entry.begin == needed, "{} spans {} bytes, but its shape and dtype need {}", where,
           entry.end - entry.begin, needed);
}

Entry parse_entry(std::string_view name, dom::element value) {
  const std::string where = "tensor " + in_quotes(name);
  dom::object object;
  EP_CHECK(!value.get(object), "{} is described by no JSON object", where);
  Entry entry;
  entry.name = name;
  bool dtype = false, shape = false, offsets = false;
  for_each_member(object, where, [&](std::string_view key, dom::element member) {
    if (key == "dtype") {
      parse_dtype(member, where, entry);
      dtype = true;
    } else if (key == "shape") {
      entry.shape = parse_shape(member, where);
      shape = true;
    } else if (key == "data_offsets") {
      parse_offsets(member, where, entry);
      offsets = true;
    }
  });
  EP_CHECK(dtype && shape && offsets, "{} has no {}", where,
           !dtype   ? "dtype"
           : !shape ? "shape"
                    : "data_offsets");
  check_span(entry, where);
  return entry;
}

std::map<std::string, std::string> parse_metadata(dom::element value) {
  dom::object object;
  EP_CHECK(!value.get(object), "__metadata__ is no JSON object");
  std::map<std::string, std::string> metadata;
  for_each_member(object, "__metadata__", [&](std::string_view key, dom::element member) {
    std::string_view text;
    EP_CHECK(!member.get(text), "__metadata__ has a value for {} that is no string", in_quotes(key));
    metadata.emplace(key, text);
  });
  return metadata;
}

// The spans, in order, have to cover the `size` bytes behind the header: no gap, no overlap, nothing left
// over.
void check_chain(std::vector<Entry>& entries, uint64_t size) {
  std::sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) {
    return std::tie(a.begin, a.end, a.name) < std::tie(b.begin, b.end, b.name);
  });
  uint64_t expected = 0;
  for (const Entry& entry : entries) {
    EP_CHECK(entry.begin == expected, "tensor {} begins at byte {} of the data; expected {}, where {}",
             in_quotes(entry.name), entry.begin, expected,
             expected == 0 ? "the data begins" : "the tensor before it ends");
    expected = entry.end;
  }
  EP_CHECK(expected == size, "the tensors end at byte {} of the data, but the file holds {}", expected, size);
}

template <class... Args>
void check_kind(bool holds, fmt::format_string<Args...> format, Args&&... args) {
  if (!holds) throw NoSafetensors(fmt::format(format, std::forward<Args>(args)...));
}

// What follows the length field.
std::string_view header_text(std::span<const std::byte> file) {
  uint64_t length = 0;
  check_kind(file.size() >= sizeof length, "it has {} bytes; expected at least 8", file.size());
  std::memcpy(&length, file.data(), sizeof length);
  check_kind(length <= kMaxHeaderBytes,
             "its first eight bytes give a header of {} bytes; at most {} are allowed", length,
             kMaxHeaderBytes);
  EP_CHECK(length <= file.size() - sizeof length, "the file ends inside its header of {} bytes", length);
  const std::string_view text(reinterpret_cast<const char*>(file.data()) + sizeof length, length);
  check_kind(text.starts_with('{'), "its header does not begin with '{{'");
  // JSON would allow other white space here, the format allows spaces alone.
  check_kind(text.substr(0, text.find_last_not_of(' ') + 1).ends_with('}'),
             "its header does not end with '}}' and spaces");
  return text;
}

}  // namespace

Header parse_header(std::span<const std::byte> file) {
  const std::string_view text = header_text(file);
  dom::parser parser;
  dom::object root;
  const auto error = parser.parse(text.data(), text.size()).get(root);
  check_kind(!error, "its header is no JSON object: {}", simdjson::error_message(error));
  Header header;
  header.data_offset = sizeof(uint64_t) + text.size();
  for_each_member(root, "the header", [&](std::string_view key, dom::element value) {
    if (key == "__metadata__")
      header.metadata = parse_metadata(value);
    else
      header.entries.push_back(parse_entry(key, value));
  });
  check_chain(header.entries, file.size() - header.data_offset);
  return header;
}

std::string no_such_dtype(const std::string& what, const std::string& file_dtype) {
  return fmt::format("{} has dtype {}; supported are F32, BF16, F16, F64, I32 and I64", what,
                     in_quotes(file_dtype));
}

const char* file_dtype_name(DType dtype) {
  return std::find_if(std::begin(kFileDTypes), std::end(kFileDTypes),
                      [&](const FileDType& row) { return row.dtype == dtype; })
      ->name;
}

}  // namespace epilogue::safetensors
