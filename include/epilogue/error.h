// What the library throws when a caller's input is wrong or a resource is missing.
#pragma once

#include <stdexcept>

namespace epilogue {

// One sentence for the user: the op or file, what was found, what was expected. The library never prints,
// aborts or exits; a program decides what to do with the sentence.
class Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

}  // namespace epilogue
