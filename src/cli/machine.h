// What this machine is, for `info` and for the head of results.
#pragma once

#include <string>

namespace epilogue::cli {

// {"cpu":...,"cores":2,"threads":2,"isa":"avx512",...}. A fact that a wrong environment variable leaves open
// is null; "wrong" holds what is wrong with which.
std::string machine_json();
std::string machine_text();  // the same, a line a fact, and every variable

}  // namespace epilogue::cli
