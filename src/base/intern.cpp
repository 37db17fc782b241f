#include "base/intern.h"

#include <mutex>
#include <set>
#include <string>

namespace epilogue {

const char* intern(std::string_view text) {
  static std::mutex mutex;
  static auto* names = new std::set<std::string, std::less<>>;
  const std::lock_guard lock(mutex);
  const auto found = names->find(text);
  return (found != names->end() ? found : names->emplace(text).first)->c_str();
}

}  // namespace epilogue
