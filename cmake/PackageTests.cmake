# Tests of mezzo as a package, label "package": the installed headers, and the consumers of examples/consumers, which are
# configured, built and run. `ctest -LE package` leaves them out. The installation is made from the build at hand, so in
# the embedded presets it is a static one.
set(package_tests "${PROJECT_SOURCE_DIR}/tests/package")
set(package_build "${PROJECT_BINARY_DIR}/package")
string(REPLACE ";" "$<SEMICOLON>" launcher "${CMAKE_CXX_COMPILER_LAUNCHER}")
set(package_options -G "${CMAKE_GENERATOR}" "-DCMAKE_CXX_COMPILER=${CMAKE_CXX_COMPILER}"
  "-DCMAKE_CXX_COMPILER_LAUNCHER=${launcher}")

# The same program as part of this build; the consumers must see as many ops as it does.
add_executable(consumer_reference "${PROJECT_SOURCE_DIR}/examples/consumers/main.cpp")
set_target_properties(consumer_reference PROPERTIES RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/tests"
  CXX_EXTENSIONS OFF)
target_link_libraries(consumer_reference PRIVATE mezzo mezzo_flags)

# package_consumer(NAME KIND FOLDER OPTIONS...): test package.NAME builds the consumer KIND in FOLDER.
function(package_consumer name kind folder)
  add_test(NAME package.${name} COMMAND sh "${package_tests}/consumer.sh" ${kind} "${package_build}/${folder}"
    "$<TARGET_FILE:consumer_reference>" ${package_options} ${ARGN})
  set_tests_properties(package.${name} PROPERTIES PROCESSORS 2)
endfunction()

add_test(NAME package.install COMMAND "${CMAKE_COMMAND}" --install "${PROJECT_BINARY_DIR}" --prefix
  "${package_build}/installed")
set_tests_properties(package.install PROPERTIES FIXTURES_SETUP installed)
# Where none was found CMAKE_CUDA_COMPILER says NOTFOUND.
set(package_nvcc "")
if(MEZZO_HAVE_CUDA)
  set(package_nvcc "${CMAKE_CUDA_COMPILER}")
endif()
add_test(NAME package.unwritable_prefix COMMAND sh "${package_tests}/unwritable.sh" "${PROJECT_BINARY_DIR}")
package_consumer(find_package find_package find_package "-DCMAKE_PREFIX_PATH=${package_build}/installed")
set_tests_properties(package.find_package PROPERTIES FIXTURES_REQUIRED installed)
set(tests package.install package.unwritable_prefix package.find_package)

# package_plain(NAME PREFIX FIXTURE): test package.NAME links with what is installed at PREFIX without CMake.
function(package_plain name prefix fixture)
  add_test(NAME package.${name} COMMAND sh "${package_tests}/plain.sh" "${package_build}/${prefix}/${CMAKE_INSTALL_LIBDIR}"
    "${package_build}/${prefix}/${CMAKE_INSTALL_INCLUDEDIR}" "$<TARGET_FILE:consumer_reference>" "${CMAKE_CXX_COMPILER}")
  set_tests_properties(package.${name} PROPERTIES FIXTURES_REQUIRED ${fixture})
endfunction()
if(NOT MEZZO_SANITIZE)
  package_plain(plain installed installed)
  list(APPEND tests package.plain)
endif()

# The same headers for every build, so one that takes its programs from another leaves them to that one.
if(NOT MEZZO_PROGRAM_OBJECTS)
  add_test(NAME package.headers COMMAND sh "${package_tests}/headers.sh"
    "${package_build}/installed/${CMAKE_INSTALL_INCLUDEDIR}" "${CMAKE_CXX_COMPILER}" ${package_nvcc})
  set_tests_properties(package.headers PROPERTIES FIXTURES_REQUIRED installed PROCESSORS 2)
  add_test(NAME package.public_headers COMMAND sh "${package_tests}/public_headers.sh"
    "${package_build}/installed/${CMAKE_INSTALL_INCLUDEDIR}" "${PROJECT_SOURCE_DIR}")
  set_tests_properties(package.public_headers PROPERTIES FIXTURES_REQUIRED installed)
  add_test(NAME package.headers_detects COMMAND sh "${package_tests}/headers_test.sh" "${CMAKE_CXX_COMPILER}")
  add_test(NAME package.old_compiler COMMAND sh "${package_tests}/old_compiler.sh" ${package_options})
  add_test(NAME package.cross COMMAND sh "${package_tests}/cross.sh" ${package_options})
  list(APPEND tests package.headers package.public_headers package.headers_detects package.old_compiler package.cross)
endif()

# These two build the library as part of another project, and so are part of one preset only. Some sources are compiled,
# of the others the objects are taken from this build (compile_once.sh). One folder serves both, so that the second finds
# what was compiled in the compiler cache. The first is static and installs what it has built for a last consumer.
if(CMAKE_BUILD_TYPE STREQUAL "Release" AND BUILD_SHARED_LIBS)
  set(once "sh$<SEMICOLON>${package_tests}/compile_once.sh$<SEMICOLON>${PROJECT_BINARY_DIR}")
  set(from_source "-DMEZZO_CUDA=${MEZZO_HAVE_CUDA}" "-DCMAKE_CUDA_COMPILER_LAUNCHER=${once}")
  if(launcher)
    string(APPEND once "$<SEMICOLON>${launcher}")
  endif()
  list(APPEND from_source "-DCMAKE_CXX_COMPILER_LAUNCHER=${once}")
  package_consumer(add_subdirectory add_subdirectory from_source ${from_source} -DBUILD_SHARED_LIBS=OFF
    -DMEZZO_INSTALL=ON)
  add_test(NAME package.install_static COMMAND "${CMAKE_COMMAND}" --install "${package_build}/from_source/mezzo-build"
    --prefix "${package_build}/installed_static")
  # Links the shared library by another linker, where there is one: the options that it has must be ones that it knows.
  set(other_linker "")
  foreach(linker IN ITEMS lld mold)
    find_program(MEZZO_LINKER_${linker} ld.${linker})
    mark_as_advanced(MEZZO_LINKER_${linker})
    if(MEZZO_LINKER_${linker})
      set(other_linker "-DCMAKE_SHARED_LINKER_FLAGS=-fuse-ld=${linker}")
    endif()
  endforeach()
  package_consumer(fetch_content fetch_content from_source ${from_source} ${other_linker}
    "-DFETCHCONTENT_BASE_DIR=${package_build}/from_source")
  package_consumer(find_package_static find_package find_package_static
    "-DCMAKE_PREFIX_PATH=${package_build}/installed_static")
  set_tests_properties(package.add_subdirectory PROPERTIES FIXTURES_SETUP built_static)
  set_tests_properties(package.install_static PROPERTIES FIXTURES_REQUIRED built_static FIXTURES_SETUP installed_static)
  set_tests_properties(package.find_package_static PROPERTIES FIXTURES_REQUIRED installed_static)
  package_plain(plain_static installed_static installed_static)
  set_tests_properties(package.fetch_content PROPERTIES DEPENDS package.install_static)
  add_test(NAME package.compile_once_refuses COMMAND sh "${package_tests}/compile_once_test.sh")
  list(APPEND tests package.compile_once_refuses package.add_subdirectory package.install_static package.fetch_content
    package.find_package_static package.plain_static)
endif()
# Compiling may take longer than ctest's 1500 s where the machine is slow or busy.
set_tests_properties(${tests} PROPERTIES LABELS package TIMEOUT 10800)
