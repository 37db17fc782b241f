// Names made at run time that must live as long as the process: kernel names in events.
#pragma once

#include <string_view>

namespace epilogue {

// The same pointer for the same text, for ever. Takes a lock: keep the pointer rather than asking again.
const char* intern(std::string_view text);

}  // namespace epilogue
