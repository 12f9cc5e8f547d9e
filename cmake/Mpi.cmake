# MPI: what starts and joins several processes (dist/mpi). Only libmezzo_mpi.so, a module, includes mpi.h and is linked
# with MPI; libmezzo opens it when a launcher has started the program, so it needs no MPI to be installed.
set(MEZZO_HAVE_MPI OFF)
if(NOT MEZZO_MPI STREQUAL "OFF" AND NOT MEZZO_BUNDLE)
  # The C interface, which all MPIs have. The compiler of C++ compiles it, as the project has no other.
  find_package(MPI QUIET COMPONENTS CXX)
  if(MPI_CXX_FOUND)
    set(MEZZO_HAVE_MPI ON)
  elseif(MEZZO_MPI STREQUAL "ON")
    message(FATAL_ERROR "mezzo: MEZZO_MPI is ON and no MPI was found. On Debian or Ubuntu run:\n"
      "  sudo apt-get install -y --no-install-recommends openmpi-bin libopenmpi-dev\n"
      "Elsewhere install an MPI and put its mpicxx into PATH.")
  endif()
endif()

if(MEZZO_HAVE_MPI)
  add_library(mezzo_mpi MODULE "${PROJECT_SOURCE_DIR}/dist/mpi/module.cpp")
  # It lies beside libmezzo, which looks for it there. Another project's settings are kept out, as in Library.cmake.
  set_target_properties(mezzo_mpi PROPERTIES CXX_EXTENSIONS OFF UNITY_BUILD OFF CXX_VISIBILITY_PRESET default
    VISIBILITY_INLINES_HIDDEN ON)
  target_compile_features(mezzo_mpi PRIVATE cxx_std_20)
  mezzo_optimise(mezzo_mpi)
  target_include_directories(mezzo_mpi PRIVATE "${PROJECT_BINARY_DIR}/include")
  # Without the sanitizers, which find faults in MPI's own libraries.
  target_compile_options(mezzo_mpi PRIVATE ${MEZZO_NOT_INSTRUMENTED})
  target_link_libraries(mezzo_mpi PRIVATE mezzo_flags MPI::MPI_CXX)
  add_dependencies(mezzo mezzo_mpi)
  set_property(SOURCE "${PROJECT_SOURCE_DIR}/dist/init.cpp" APPEND PROPERTY COMPILE_DEFINITIONS MEZZO_HAVE_MPI=1
    "MEZZO_MPI_INSTALLED=\"${CMAKE_INSTALL_FULL_LIBDIR}/libmezzo_mpi.so\"")
endif()
