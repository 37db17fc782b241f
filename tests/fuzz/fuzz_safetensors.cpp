// parse_header: any bytes give an Error or a header that keeps its promises.
#include <cstdlib>

#include "io/safetensors_header.h"

using namespace epilogue;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  try {
    const safetensors::Header header = safetensors::parse_header(std::as_bytes(std::span(data, size)));
    uint64_t covered = 0;
    for (const safetensors::Entry& entry : header.entries) {
      uint64_t elements = 1;
      for (const int64_t dim : entry.shape) elements *= static_cast<uint64_t>(dim);
      if (entry.dtype && entry.end - entry.begin != elements * dtype_size(*entry.dtype)) std::abort();
      if (entry.begin != covered || entry.shape.size() > kMaxDims) std::abort();
      covered = entry.end;
    }
    if (header.data_offset + covered != size) std::abort();
  } catch (const Error&) {
  }
  return 0;
}
