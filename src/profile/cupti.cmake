# The profiler's device tracer: a module beside the library, which loads it when a window opens and a GPU is in use.
# Built wherever the CUDA toolkit has CUPTI; it needs no nvcc.
if(NOT TARGET CUDA::cupti)
  message(STATUS "CUPTI: not found, the profiler will not see GPU kernels")
  return()
endif()
set(cupti_dir ${PROJECT_SOURCE_DIR}/src/profile)
add_library(epilogue_cupti MODULE ${cupti_dir}/cupti.cpp ${cupti_dir}/cupti_devices.cpp)
target_include_directories(epilogue_cupti PRIVATE ${PROJECT_SOURCE_DIR}/src)
target_link_libraries(epilogue_cupti PRIVATE epilogue_flags epilogue fmt::fmt CUDA::cupti CUDA::cudart_static)
# Where the toolkit's libraries usually lie on a machine that runs the module.
set(cupti_rpath "$ORIGIN;/usr/local/cuda/lib64;/usr/local/cuda/extras/CUPTI/lib64")
set_target_properties(epilogue_cupti PROPERTIES BUILD_RPATH "${cupti_rpath}" INSTALL_RPATH "${cupti_rpath}")
install(TARGETS epilogue_cupti DESTINATION ${CMAKE_INSTALL_LIBDIR})

if(EPILOGUE_TESTS)
  find_package(GTest REQUIRED)
  add_executable(epilogue_cupti_tests ${cupti_dir}/cupti_test.cpp ${cupti_dir}/cupti_devices_test.cpp
                                      ${cupti_dir}/cupti_devices.cpp)
  add_dependencies(epilogue_cupti_tests epilogue_cupti)
  target_include_directories(epilogue_cupti_tests PRIVATE ${PROJECT_SOURCE_DIR}/src)
  target_link_libraries(epilogue_cupti_tests PRIVATE epilogue_flags epilogue fmt::fmt CUDA::cudart_static GTest::gtest
                                                     GTest::gtest_main GTest::gmock)
  include(GoogleTest)
  gtest_discover_tests(epilogue_cupti_tests DISCOVERY_TIMEOUT 60)
endif()
