# The target bundle (preset cuda-bundle): tests, benchmarks and examples with all they need in one folder, for machines
# that have a GPU and no build tools. The start script `run` is tools/gpu.sh. headers.tar.gz is for machines that have nvcc but
# not the libraries that mezzo is compiled with.
option(MEZZO_BUNDLE "Make the target bundle" OFF)
if(NOT MEZZO_BUNDLE)
  return()
endif()
set(bundle "${PROJECT_BINARY_DIR}/bundle")

# Left out: test_docs reads the source tree, loop and bare are about compilers and oneDNN, other tests about the host alone.
get_property(targets DIRECTORY PROPERTY BUILDSYSTEM_TARGETS)
list(REMOVE_ITEM targets test_docs mezzo_loop libtorch_loop bare test_allocation test_autograd test_core test_faults
  test_fuzz test_misuse test_threads soak open_library openmp_host static_objects)
set(copies "")
foreach(target IN LISTS targets)
  get_target_property(type ${target} TYPE)
  get_target_property(folder ${target} RUNTIME_OUTPUT_DIRECTORY)
  string(REPLACE "${PROJECT_BINARY_DIR}/" "" folder "${folder}")
  if(NOT type STREQUAL "EXECUTABLE" OR NOT folder MATCHES "^(tests|bench|examples|examples/amp|examples/from_pytorch)$"
      OR target MATCHES "^libtorch_")
    continue()
  endif()
  list(APPEND bundled ${target})
  list(APPEND copies COMMAND ${CMAKE_STRIP} -s -o "${bundle}/${folder}/$<TARGET_FILE_NAME:${target}>"
    $<TARGET_FILE:${target}>)
endforeach()
# The C++ library that all of it was linked with: the GPU machine's may be older. It is the only one of a process: with
# -static-libstdc++ the libraries of cuDNN take half of their std:: functions from libmezzo, and crash.
foreach(name libstdc++.so.6 libgcc_s.so.1)
  execute_process(COMMAND ${CMAKE_CXX_COMPILER} -print-file-name=${name} OUTPUT_VARIABLE file OUTPUT_STRIP_TRAILING_WHITESPACE)
  if(IS_ABSOLUTE "${file}")
    file(REAL_PATH "${file}" file)
    list(APPEND copies COMMAND ${CMAKE_COMMAND} -E copy "${file}" "${bundle}/lib/${name}")
  endif()
endforeach()
# What the bench's bare peer needs and a GPU machine may lack.
if(OpenMP_gomp_LIBRARY)
  file(REAL_PATH "${OpenMP_gomp_LIBRARY}" gomp)
  list(APPEND copies COMMAND ${CMAKE_COMMAND} -E copy "${gomp}" "${bundle}/lib/libgomp.so.1")
endif()

add_custom_target(bundle
  COMMAND ${CMAKE_COMMAND} -E rm -rf "${bundle}"
  COMMAND ${CMAKE_COMMAND} -E make_directory "${bundle}/lib" "${bundle}/tests" "${bundle}/bench/peers" "${bundle}/examples/amp"
    "${bundle}/examples/from_pytorch"
  COMMAND ${CMAKE_STRIP} -s -o "${bundle}/lib/$<TARGET_SONAME_FILE_NAME:mezzo>" $<TARGET_FILE:mezzo>
  ${copies}
  COMMAND ${CMAKE_COMMAND} -E copy bench/run.py bench/comparisons.py bench/footprint.py bench/limits.py "${bundle}/bench"
  COMMAND ${CMAKE_COMMAND} -E copy bench/peers/pytorch.py bench/peers/pytorch_models.py bench/peers/pytorch_optimizers.py
          bench/peers/pytorch_views.py bench/peers/pytorch_worker.py "${bundle}/bench/peers"
  COMMAND ${CMAKE_COMMAND} -E copy_directory tests/goldens "${bundle}/data/goldens"
  COMMAND sh -c "for folder in tests/*/files; do \
    mkdir -p '${bundle}/data/'\"\${folder#tests/}\" && cp -R \"$folder/.\" '${bundle}/data/'\"\${folder#tests/}\"; done"
  COMMAND sh -c "cp -R examples/amp/. '${bundle}/examples/amp' && cp -R examples/from_pytorch/. '${bundle}/examples/from_pytorch'"
  COMMAND ${CMAKE_COMMAND} -E copy SECURITY.md "${bundle}"
  COMMAND ${CMAKE_COMMAND} -E copy tools/gpu.sh "${bundle}/run"
  COMMAND sh -c "{ git describe --always --dirty 2>/dev/null || echo unknown; } >'${bundle}/COMMIT'"
  COMMAND sh tools/bundle_headers.sh "${bundle}/headers.tar.gz" ${mezzo_packages}
  # 40 MiB is what may travel to a GPU machine beside the sources. Of one architecture it is less.
  COMMAND tar -C "${bundle}" -czf "${bundle}.tar.gz" .
  COMMAND sh -c "du -m '${bundle}.tar.gz' | { read -r mib file && echo \"$mib MiB: $file\" && \
    { [ $mib -le 40 ] || echo 'more than 40 MiB: name one architecture in CUDAARCHS'; }; }"
  WORKING_DIRECTORY "${PROJECT_SOURCE_DIR}" VERBATIM)
add_dependencies(bundle mezzo ${bundled})
