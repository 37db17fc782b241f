// parse_checkpoint_index: any bytes give an Error or plain names of files.
#include <cstdint>
#include <cstdlib>

#include "epilogue/error.h"
#include "io/checkpoint_index.h"

using namespace epilogue;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  try {
    for (const auto& [tensor, file] :
         safetensors::parse_checkpoint_index({reinterpret_cast<const char*>(data), size}))
      if (file.empty() || file == "." || file == ".." || file.find('/') != file.npos) std::abort();
  } catch (const Error&) {
  }
  return 0;
}
