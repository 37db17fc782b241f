#include "epilogue/safetensors.h"

#include <algorithm>
#include <memory>
#include <vector>

#include <fcntl.h>
#include <simdjson.h>

#include <sys/mman.h>
#include <sys/stat.h>

#include "base/check.h"
#include "base/file.h"
#include "base/format.h"
#include "io/safetensors_header.h"

namespace epilogue {
namespace {

// A private mapping of a whole file: writes stay in this process.
class Mapping {
 public:
  explicit Mapping(const std::string& path) {
    const FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
    EP_CHECK(file.get() >= 0, "cannot open: {}", system_error());
    struct stat status {};
    EP_CHECK(::fstat(file.get(), &status) == 0, "cannot read the file's size: {}", system_error());
    EP_CHECK(S_ISREG(status.st_mode), "not a regular file");
    if (status.st_size == 0) return;
    size_ = static_cast<size_t>(status.st_size);
    void* data = ::mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_PRIVATE, file.get(), 0);
    EP_CHECK(data != MAP_FAILED, "cannot map the file: {}", system_error());
    data_ = static_cast<std::byte*>(data);
  }
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;
  ~Mapping() {
    if (data_) ::munmap(data_, size_);
  }
  std::span<std::byte> bytes() const { return {data_, size_}; }

 private:
  std::byte* data_ = nullptr;
  size_t size_ = 0;
};

// Over the mapping, or a copy where a header of odd length leaves the elements misaligned.
Tensor entry_tensor(const safetensors::Entry& entry, std::byte* data,
                    const std::shared_ptr<Mapping>& mapping) {
  const Dims sizes{std::span<const int64_t>(entry.shape)};
  if (reinterpret_cast<uintptr_t>(data) % dtype_size(*entry.dtype) == 0)
    return from_blob(data, sizes, {.dtype = *entry.dtype}, [mapping](void*) {});
  Tensor copy = empty(sizes, {.dtype = *entry.dtype});
  std::memcpy(copy.mutable_data(), data, entry.end - entry.begin);
  return copy;
}

SafetensorsFile load(const std::string& path) {
  const auto mapping = std::make_shared<Mapping>(path);
  safetensors::Header header = safetensors::parse_header(mapping->bytes());
  SafetensorsFile file;
  std::byte* data = mapping->bytes().data() + header.data_offset;
  for (const safetensors::Entry& entry : header.entries)
    if (entry.dtype)
      file.tensors.emplace(entry.name, entry_tensor(entry, data + entry.begin, mapping));
    else
      file.unread.emplace(entry.name, entry.file_dtype);
  file.metadata = std::move(header.metadata);
  return file;
}

using NamedTensor = std::pair<std::string, Tensor>;

// json_quote would replace what is no UTF-8, and the file would hold another name.
std::string quoted(const std::string& text) {
  EP_CHECK(simdjson::validate_utf8(text), "a tensor's name or the metadata is no UTF-8");
  return json_quote(text);
}

// Contiguous, on the CPU, the widest elements first: each tensor is then aligned for its dtype.
std::vector<NamedTensor> in_file_order(const std::map<std::string, Tensor>& tensors) {
  std::vector<NamedTensor> ordered;
  for (const auto& [name, tensor] : tensors) {
    EP_CHECK(tensor.defined(), "tensor {} is undefined", json_quote(name));
    EP_CHECK(name != "__metadata__", "a tensor cannot have the name __metadata__");
    ordered.emplace_back(name, tensor.to(Device{}).contiguous());
  }
  std::stable_sort(ordered.begin(), ordered.end(), [](const NamedTensor& a, const NamedTensor& b) {
    return dtype_size(a.second.dtype()) > dtype_size(b.second.dtype());
  });
  return ordered;
}

std::string header_json(const std::vector<NamedTensor>& tensors,
                        const std::map<std::string, std::string>& metadata) {
  std::vector<std::string> members;
  if (!metadata.empty()) {
    std::vector<std::string> pairs;
    for (const auto& [key, value] : metadata) pairs.push_back(quoted(key) + ':' + quoted(value));
    members.push_back(fmt::format(R"("__metadata__":{{{}}})", fmt::join(pairs, ",")));
  }
  uint64_t begin = 0;
  for (const auto& [name, tensor] : tensors) {
    const uint64_t end = begin + tensor.nbytes();
    members.push_back(fmt::format(R"({}:{{"dtype":"{}","shape":[{}],"data_offsets":[{},{}]}})", quoted(name),
                                  safetensors::file_dtype_name(tensor.dtype()),
                                  fmt::join(tensor.sizes(), ","), begin, end));
    begin = end;
  }
  std::string json = fmt::format("{{{}}}", fmt::join(members, ","));
  json.resize((json.size() + 7) / 8 * 8, ' ');
  EP_CHECK(json.size() <= safetensors::kMaxHeaderBytes,
           "the header would take {} bytes; at most {} are allowed", json.size(),
           safetensors::kMaxHeaderBytes);
  return json;
}

void save(const std::string& path, const std::map<std::string, Tensor>& tensors,
          const std::map<std::string, std::string>& metadata) {
  const std::vector<NamedTensor> ordered = in_file_order(tensors);
  const std::string json = header_json(ordered, metadata);
  const uint64_t length = json.size();
  ReplacementFile file(path);
  file.write(&length, sizeof length);
  file.write(json.data(), json.size());
  for (const auto& [name, tensor] : ordered) file.write(tensor.data(), tensor.nbytes());
  file.commit();
}

}  // namespace

SafetensorsFile load_safetensors(const std::string& path) try {
  return load(path);
} catch (const safetensors::NoSafetensors& error) {
  fail("{} is no safetensors file: {}", path, error.what());
} catch (const Error& error) {
  fail("{}: {}", path, error.what());
}

void save_safetensors(const std::string& path, const std::map<std::string, Tensor>& tensors,
                      const std::map<std::string, std::string>& metadata) try {
  save(path, tensors, metadata);
} catch (const Error& error) {
  fail("{}: {}", path, error.what());
}

}  // namespace epilogue
