# What `cmake --install` leaves: the library as epilogue::epilogue for find_package(epilogue) and as `epilogue` for
# pkg-config, its headers, the program.
# Public headers include the standard library alone, so the package asks nothing else of a consumer.
include(CMakePackageConfigHelpers)

set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/epilogue)
install(TARGETS epilogue EXPORT epilogue_targets)
install(DIRECTORY include/ DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(EXPORT epilogue_targets FILE epilogue-config.cmake NAMESPACE epilogue:: DESTINATION ${package_dir})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/epilogue-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/epilogue-config-version.cmake DESTINATION ${package_dir})

set(pkgconfig_dir ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
foreach(folder INCLUDEDIR LIBDIR)
  file(RELATIVE_PATH path_to_${folder} ${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig ${CMAKE_INSTALL_FULL_${folder}})
endforeach()
configure_file(${CMAKE_CURRENT_LIST_DIR}/epilogue.pc.in ${PROJECT_BINARY_DIR}/epilogue.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/epilogue.pc DESTINATION ${pkgconfig_dir})

install(FILES LICENSE NOTICE DESTINATION ${CMAKE_INSTALL_DOCDIR})
install(DIRECTORY docs DESTINATION ${CMAKE_INSTALL_DOCDIR}  # the program's help names them
  PATTERN performance.md EXCLUDE PATTERN layout.md EXCLUDE)  # of the repository, which they lead into
if(TARGET epilogue_program)
  install(TARGETS epilogue_program)
endif()
