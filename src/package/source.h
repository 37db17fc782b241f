// Where packages come from: a folder, a .tar.gz, or an index of archives in a folder or on a web server.
#pragma once

#include <optional>
#include <string>

#include "package/cache.h"
#include "package/download.h"

namespace epilogue::package {

// Adds a package to the cache. An index needs `reference`; for the others it is what is expected. Throws
// Error with the reason, and then the cache is as it was.
Added add_from(Cache& cache, const std::string& source, const std::optional<Reference>& reference,
               const Policy& policy, const Progress& progress);

}  // namespace epilogue::package
