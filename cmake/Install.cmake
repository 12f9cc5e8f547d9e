# `cmake --install`: headers under include/mezzo, the library, and a package for find_package(mezzo).
include(CMakePackageConfigHelpers)
set(package_dir "${CMAKE_INSTALL_LIBDIR}/cmake/mezzo")

foreach(folder IN ITEMS core autograd kernels ops nn amp optim io data train)
  if(IS_DIRECTORY "${PROJECT_SOURCE_DIR}/${folder}")
    install(DIRECTORY "${PROJECT_SOURCE_DIR}/${folder}" DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}/mezzo"
      FILES_MATCHING PATTERN "*.h")
  endif()
endforeach()
install(FILES "${PROJECT_SOURCE_DIR}/mezzo.h" DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}/mezzo" OPTIONAL)
install(FILES "${PROJECT_SOURCE_DIR}/LICENSE" "${PROJECT_SOURCE_DIR}/README.md" DESTINATION "${CMAKE_INSTALL_DOCDIR}"
  OPTIONAL)

install(TARGETS mezzo EXPORT mezzoTargets)
install(EXPORT mezzoTargets NAMESPACE mezzo:: DESTINATION "${package_dir}")
configure_package_config_file("${PROJECT_SOURCE_DIR}/cmake/mezzoConfig.cmake.in"
  "${PROJECT_BINARY_DIR}/mezzoConfig.cmake" INSTALL_DESTINATION "${package_dir}")
write_basic_package_version_file("${PROJECT_BINARY_DIR}/mezzoConfigVersion.cmake" COMPATIBILITY SameMinorVersion)
install(FILES "${PROJECT_BINARY_DIR}/mezzoConfig.cmake" "${PROJECT_BINARY_DIR}/mezzoConfigVersion.cmake"
  "${PROJECT_SOURCE_DIR}/cmake/FindoneDNN.cmake" DESTINATION "${package_dir}")
