# `cmake --install`: headers under include/mezzo, the library, and a package for find_package(mezzo).
include(CMakePackageConfigHelpers)
set(package_dir "${CMAKE_INSTALL_LIBDIR}/cmake/mezzo")

# Comes first, so that an unwritable place is one sentence and not half an installation.
install(CODE [[
  set(place "$ENV{DESTDIR}${CMAKE_INSTALL_PREFIX}")
  set(probe "${place}/.mezzo_can_write_here")
  execute_process(COMMAND "${CMAKE_COMMAND}" -E make_directory "${place}" RESULT_VARIABLE failed OUTPUT_QUIET ERROR_QUIET)
  if(NOT failed)
    execute_process(COMMAND "${CMAKE_COMMAND}" -E touch "${probe}" RESULT_VARIABLE failed OUTPUT_QUIET ERROR_QUIET)
  endif()
  if(failed)
    message(FATAL_ERROR "\n  mezzo: cannot write to ${place}; choose a folder of yours with --prefix DIR, or run this with sudo\n")
  endif()
  file(REMOVE "${probe}")
]])

# Every header that a program may include, those of the kernels too: an op of one's own is made of them. Not installed
# is what reads the library's private macros: the inside of matrix products and convolutions.
# The kernels of CUDA devices include CUDA's headers, so they go only where CUDA is built.
set(without_cuda PATTERN "cuda" EXCLUDE)
if(MEZZO_HAVE_CUDA AND NOT MEZZO_CUDA_EMULATED)
  set(without_cuda PATTERN "cuda/vendor" EXCLUDE)
endif()
install(FILES "${PROJECT_SOURCE_DIR}/core/cuda/trace.h" DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}/mezzo/core/cuda")
foreach(folder IN ITEMS core autograd kernels ops nn amp optim io data train)
  if(IS_DIRECTORY "${PROJECT_SOURCE_DIR}/${folder}")
    install(DIRECTORY "${PROJECT_SOURCE_DIR}/${folder}" DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}/mezzo"
      FILES_MATCHING PATTERN "*.h" PATTERN "cpu/gemm_*" EXCLUDE PATTERN "cpu/conv_*" EXCLUDE PATTERN "cpu/attention_tile.h" EXCLUDE PATTERN "cpu/onednn.h" EXCLUDE PATTERN "cpu/eigen" EXCLUDE
      ${without_cuda})
  endif()
endforeach()
install(FILES "${PROJECT_SOURCE_DIR}/mezzo.h" DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}/mezzo")
install(FILES "${PROJECT_SOURCE_DIR}/LICENSE" "${PROJECT_SOURCE_DIR}/README.md"
  "${PROJECT_SOURCE_DIR}/CHANGELOG.md" DESTINATION "${CMAKE_INSTALL_DOCDIR}")
install(DIRECTORY "${PROJECT_SOURCE_DIR}/docs" DESTINATION "${CMAKE_INSTALL_DOCDIR}")

install(TARGETS mezzo EXPORT mezzoTargets)
install(EXPORT mezzoTargets NAMESPACE mezzo:: DESTINATION "${package_dir}")
configure_package_config_file("${PROJECT_SOURCE_DIR}/cmake/mezzoConfig.cmake.in"
  "${PROJECT_BINARY_DIR}/mezzoConfig.cmake" INSTALL_DESTINATION "${package_dir}")
write_basic_package_version_file("${PROJECT_BINARY_DIR}/mezzoConfigVersion.cmake" COMPATIBILITY SameMinorVersion)
install(FILES "${PROJECT_BINARY_DIR}/mezzoConfig.cmake" "${PROJECT_BINARY_DIR}/mezzoConfigVersion.cmake"
  "${PROJECT_SOURCE_DIR}/cmake/FindoneDNN.cmake" DESTINATION "${package_dir}")
