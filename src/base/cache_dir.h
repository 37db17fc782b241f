// Where what was learned or built once is kept between runs.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace epilogue {

// EPILOGUE_CACHE_DIR, or ~/.cache/epilogue (XDG_CACHE_HOME where it is set); "" when there is no home. Not
// created here.
std::string cache_dir();

// The file in it that holds what was tuned for one device and its libraries. Its lock, and what is being
// written in its place, have its name and a suffix.
std::string choices_file_name(uint64_t origin);
bool is_choices_file(std::string_view name);  // with such a suffix, too

}  // namespace epilogue
