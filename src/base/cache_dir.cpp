#include "base/cache_dir.h"

#include <cstdlib>

#include "base/env.h"

namespace epilogue {

std::string cache_dir() {
  if (std::string set = env_text(EnvVar::cache_dir); !set.empty()) return set;
  if (const char* xdg = std::getenv("XDG_CACHE_HOME"); xdg && *xdg) return std::string(xdg) + "/epilogue";
  if (const char* home = std::getenv("HOME"); home && *home) return std::string(home) + "/.cache/epilogue";
  return "";
}

}  // namespace epilogue
