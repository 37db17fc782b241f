// What this machine is, for `info` and for the head of results.
#pragma once

#include <string>

namespace epilogue::cli {

std::string machine_json();  // {"cpu":...,"cores":2,"threads":2,"isa":"avx512",...}
std::string machine_text();  // the same, a line a fact

}  // namespace epilogue::cli
