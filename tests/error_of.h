// What a test expects to be refused says.
#pragma once

#include <string>

#include "epilogue/error.h"

namespace epilogue {

std::string error_of(const auto& body) {
  try {
    body();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

}  // namespace epilogue
