# Installs BUILD to a new prefix, builds the consumer and the example against it and runs them:
#   cmake -D BUILD=build/release -D WORK=scratch -P test.cmake
file(REMOVE_RECURSE ${WORK})
function(run)
  execute_process(COMMAND ${ARGN} OUTPUT_VARIABLE output ERROR_VARIABLE output RESULT_VARIABLE result)
  if(NOT result EQUAL 0)
    message(FATAL_ERROR "${ARGN}: ${result}\n${output}")
  endif()
  set(output "${output}" PARENT_SCOPE)
endfunction()

run(${CMAKE_COMMAND} --install ${BUILD} --prefix ${WORK}/prefix)
function(build_and_run program source expected)
  run(${CMAKE_COMMAND} -S ${source} -B ${WORK}/${program} -G Ninja -D CMAKE_PREFIX_PATH=${WORK}/prefix -D CMAKE_BUILD_TYPE=Release)
  run(${CMAKE_COMMAND} --build ${WORK}/${program})
  run(${CMAKE_COMMAND} -E chdir ${WORK} ${WORK}/${program}/${program})
  if(NOT output MATCHES "${expected}")
    message(FATAL_ERROR "${program}: expected ${expected}, got\n${output}")
  endif()
endfunction()

build_and_run(consumer ${CMAKE_CURRENT_LIST_DIR} "^.2, 8, 64.\n$")
build_and_run(profile ${CMAKE_CURRENT_LIST_DIR}/../../examples/profile "eager\n.*ep::silu .*compiled\n.* compiled ")
run(${WORK}/prefix/bin/epilogue --version)
