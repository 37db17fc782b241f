// Where the modules lie that the library loads at run time.
#pragma once

#include <string>

namespace epilogue {

// The folder of libepilogue, ending in '/'; "" where the dynamic linker cannot tell.
std::string library_folder();

}  // namespace epilogue
