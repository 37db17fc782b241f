// Where tests find their files: below tests/data, or where the environment's EPILOGUE_TEST_DATA says (a
// bundle).
#pragma once

#include <cstdlib>
#include <string>

namespace epilogue {

inline std::string test_data(const std::string& path) {
  const char* folder = std::getenv("EPILOGUE_TEST_DATA");
  return std::string(folder ? folder : EPILOGUE_TEST_DATA) + "/" + path;
}

}  // namespace epilogue
