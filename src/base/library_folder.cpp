#include "base/library_folder.h"

#include <dlfcn.h>

namespace epilogue {

std::string library_folder() {
  Dl_info here{};
  if (!dladdr(reinterpret_cast<const void*>(&library_folder), &here) || !here.dli_fname) return "";
  const std::string path = here.dli_fname;
  return path.substr(0, path.find_last_of('/') + 1);
}

}  // namespace epilogue
