# nvcc, where it is found, with the settings of everything that is built with it: EPILOGUE_CUDA tells whether it is there.
# Included by each folder with CUDA sources: CMake enables a language folder by folder.
set(EPILOGUE_CUDA OFF)
include(CheckLanguage)
check_language(CUDA)
if(NOT CMAKE_CUDA_COMPILER)
  message(STATUS "CUDA: nvcc not found, ${CMAKE_CURRENT_SOURCE_DIR} is built without it")
  return()
endif()
# sm_80 and sm_90a as machine code, and the former's PTX for what comes after them.
set(CMAKE_CUDA_ARCHITECTURES 80 90a-real)
set(CMAKE_CUDA_RUNTIME_LIBRARY Static)
if(CCACHE)
  set(CMAKE_CUDA_COMPILER_LAUNCHER ${CCACHE})
endif()
enable_language(CUDA)
# CMake 3.25 does not know that nvcc speaks C++20.
set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION -std=c++20)
set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION -std=c++20)
set(CMAKE_CUDA20_STANDARD__HAS_FULL_SUPPORT ON)
# CMake 3.25 says that nvToolsExt is deprecated without asking whether it is there; CUDA 13 no longer has it.
if(NOT TARGET CUDA::nvToolsExt)
  add_library(CUDA::nvToolsExt INTERFACE IMPORTED)
endif()
find_package(CUDAToolkit REQUIRED)
set(EPILOGUE_CUDA ON)
