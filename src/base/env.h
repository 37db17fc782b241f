// Every environment variable the library reads, in one table (env.cpp), shown by `epilogue info`.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace epilogue {

enum class EnvVar : uint8_t {
  verbose,
  threads,
  pack_weights,
  isa,
  split_f32,
  cache_dir,
  cuda_module,
  tf32,
  replay,
  disable_passes,
  cache_mb,
  kernels_policy,
  count
};

struct EnvRow {
  const char* name;     // "EPILOGUE_THREADS"
  const char* meaning;  // one line
};
const EnvRow& env_row(EnvVar var);

// Those of the process whose names begin as ours do, and that are none: misspelled ones.
std::vector<std::string> unknown_variables();

std::string env_text(EnvVar var);                // "" when it is not set
int64_t env_int(EnvVar var, int64_t otherwise);  // throws Error naming the variable when it is no number
int64_t env_megabytes(EnvVar var, int64_t otherwise);  // the same, from 0 to 2^30
bool env_flag(EnvVar var, bool otherwise);             // 0, off, false / 1, on, true

// What a variable lists: the words between any of `separators`, none of them empty.
std::vector<std::string> listed_words(std::string_view list, const char* separators = ",");

// What is wrong with EPILOGUE_VERBOSE; "" where nothing is. The first verbose() says it on standard error.
std::string wrong_verbose_topics();
// Whether EPILOGUE_VERBOSE (a comma-separated list) has `topic`.
bool verbose(std::string_view topic);
// Writes one line to standard error when `topic` is on. The only place of the library that prints, and only
// when asked.
void verbose_line(std::string_view topic, std::string_view line);

}  // namespace epilogue
