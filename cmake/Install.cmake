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

# Installed are two lists of headers, with all that these include: what a program includes (mezzo.h, and format.h to print
# by std::format), and what an op or kernel of a user's own includes in addition. The rest is internal. The API reference is of
# these headers too: tools/public_headers.sh reads the next two lines and follows includes as this file does. What the
# first list may include of kernels/, core/cuda/ and core/parallel/ is named in tests/package/public_headers.sh.
set(mezzo_program_headers mezzo.h data.h train.h dist.h format.h)
set(mezzo_kernel_headers ops/forward.h autograd/decomposed.h kernels/random/random.h)

# mezzo_included_headers(RESULT HEADERS...): these, and what they include of mezzo.
function(mezzo_included_headers result)
  set(found ${ARGN})
  set(new ${ARGN})
  while(new)
    list(POP_FRONT new header)
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/${header}")
    file(STRINGS "${PROJECT_SOURCE_DIR}/${header}" lines REGEX "^ *# *include [<\"]mezzo/")
    foreach(line IN LISTS lines)
      string(REGEX REPLACE ".*[<\"]mezzo/([^>\"]+)[>\"].*" "\\1" included "${line}")
      if(NOT included IN_LIST found)
        list(APPEND found "${included}")
        list(APPEND new "${included}")
      endif()
    endforeach()
  endwhile()
  set(${result} ${found} PARENT_SCOPE)
endfunction()

mezzo_included_headers(mezzo_installed_headers ${mezzo_program_headers} ${mezzo_kernel_headers})
# What includes CUDA's own headers goes only where CUDA is built.
if(NOT MEZZO_HAVE_CUDA OR MEZZO_CUDA_EMULATED)
  list(FILTER mezzo_installed_headers EXCLUDE REGEX "/cuda/|^kernels/[a-z]+/cuda[_.]")
endif()
foreach(header IN LISTS mezzo_installed_headers)
  get_filename_component(folder "${header}" DIRECTORY)
  install(FILES "${PROJECT_SOURCE_DIR}/${header}" DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}/mezzo/${folder}")
endforeach()
install(FILES "${PROJECT_SOURCE_DIR}/LICENSE" "${PROJECT_SOURCE_DIR}/README.md"
  "${PROJECT_SOURCE_DIR}/CHANGELOG.md" DESTINATION "${CMAKE_INSTALL_DOCDIR}")
install(DIRECTORY "${PROJECT_SOURCE_DIR}/docs" DESTINATION "${CMAKE_INSTALL_DOCDIR}" FILES_MATCHING PATTERN "*.md")

install(TARGETS mezzo EXPORT mezzoTargets)
if(MEZZO_HAVE_MPI)
  install(TARGETS mezzo_mpi LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}")
endif()
install(EXPORT mezzoTargets NAMESPACE mezzo:: DESTINATION "${package_dir}")
configure_package_config_file("${PROJECT_SOURCE_DIR}/cmake/mezzoConfig.cmake.in"
  "${PROJECT_BINARY_DIR}/mezzoConfig.cmake" INSTALL_DESTINATION "${package_dir}")
write_basic_package_version_file("${PROJECT_BINARY_DIR}/mezzoConfigVersion.cmake" COMPATIBILITY SameMinorVersion)
install(FILES "${PROJECT_BINARY_DIR}/mezzoConfig.cmake" "${PROJECT_BINARY_DIR}/mezzoConfigVersion.cmake"
  "${PROJECT_SOURCE_DIR}/cmake/FindoneDNN.cmake" "${PROJECT_SOURCE_DIR}/cmake/FindTurboJPEG.cmake" DESTINATION "${package_dir}")

# The same for pkg-config (Meson, make). The folder may be moved, so it goes by the place of the file itself. A shared library
# is found there at run time too, a static one names what it is linked with.
foreach(name IN ITEMS LIB INCLUDE)
  string(TOLOWER "mezzo_pc_${name}dir" place)
  set(${place} "${CMAKE_INSTALL_${name}DIR}")
  if(NOT IS_ABSOLUTE "${${place}}")
    string(PREPEND ${place} "\${prefix}/")
  endif()
endforeach()
file(RELATIVE_PATH mezzo_pc_prefix "${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig" "${CMAKE_INSTALL_PREFIX}")
if(BUILD_SHARED_LIBS)
  set(mezzo_pc_libs "-L\${libdir} -Wl,-rpath,\${libdir} -lmezzo")
else()
  set(mezzo_pc_libs "-L\${libdir} -lmezzo -Wl,--exclude-libs,libmezzo.a -pthread")
  set(ZLIB_flag -lz)
  set(PNG_flag -lpng)
  set(JPEG_flag -lturbojpeg)
  foreach(codec IN ITEMS PNG ZLIB JPEG)
    if(MEZZO_HAVE_${codec})
      string(APPEND mezzo_pc_libs " ${${codec}_flag}")
    endif()
  endforeach()
  if(MEZZO_HAVE_ONEDNN AND NOT MEZZO_ONEDNN_OPENED)
    string(APPEND mezzo_pc_libs " -ldnnl")
  endif()
  if(MEZZO_HAVE_CUDA AND NOT MEZZO_CUDA_EMULATED)
    string(APPEND mezzo_pc_libs " -L${CUDAToolkit_LIBRARY_DIR} -lcudart_static -lrt")
  endif()
  if(CMAKE_DL_LIBS)
    string(APPEND mezzo_pc_libs " -l${CMAKE_DL_LIBS}")
  endif()
endif()
configure_file("${PROJECT_SOURCE_DIR}/cmake/mezzo.pc.in" "${PROJECT_BINARY_DIR}/mezzo.pc" @ONLY)
install(FILES "${PROJECT_BINARY_DIR}/mezzo.pc" DESTINATION "${CMAKE_INSTALL_LIBDIR}/pkgconfig")
