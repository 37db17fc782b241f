// Where what was learned or built once is kept between runs.
#pragma once

#include <string>

namespace epilogue {

// EPILOGUE_CACHE_DIR, or ~/.cache/epilogue (XDG_CACHE_HOME where it is set); "" when there is no home. Not
// created here.
std::string cache_dir();

}  // namespace epilogue
