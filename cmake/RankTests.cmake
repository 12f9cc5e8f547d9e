# Tests of several processes (tests/ranks): one program of GoogleTest, which mpirun starts 2 and 4 times at once, and whose
# expectations hold in every process; and a script that makes a process fail in each way there is. They need MPI. A
# sanitizer finds faults in MPI's own libraries, so there they are left out.
if(NOT MEZZO_HAVE_MPI OR NOT MPIEXEC_EXECUTABLE OR MEZZO_SANITIZE)
  return()
endif()

file(GLOB sources CONFIGURE_DEPENDS "${mezzo_tests_dir}/ranks/*.cpp")
mezzo_test_executable(test_ranks ${sources})
# As variables, since other MPIs do not know Open MPI's options: started by root, more processes than processors, none
# bound to one. A single thread per process leaves room for the others.
set(rank_environment OMP_NUM_THREADS=1 "MEZZO_MPI_MODULE=$<TARGET_FILE:mezzo_mpi>"
  OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1
  OMPI_MCA_hwloc_base_binding_policy=none OMPI_MCA_mpi_yield_when_idle=1
  PRTE_MCA_rmaps_default_mapping_policy=:oversubscribe PRTE_MCA_hwloc_default_binding_policy=none)
foreach(ranks IN ITEMS 2 4)
  add_test(NAME dist_ranks_${ranks} COMMAND "${MPIEXEC_EXECUTABLE}" ${MPIEXEC_NUMPROC_FLAG} ${ranks}
    $<TARGET_FILE:test_ranks> WORKING_DIRECTORY "${PROJECT_SOURCE_DIR}")
  set_tests_properties(dist_ranks_${ranks} PROPERTIES TIMEOUT 600 PROCESSORS 2 ENVIRONMENT "${rank_environment}")
endforeach()
# The same with debug mode, which gathers what each rank is about to do before each collective.
add_test(NAME dist_ranks_debug COMMAND "${MPIEXEC_EXECUTABLE}" ${MPIEXEC_NUMPROC_FLAG} 2 $<TARGET_FILE:test_ranks>
  WORKING_DIRECTORY "${PROJECT_SOURCE_DIR}")
set_tests_properties(dist_ranks_debug PROPERTIES TIMEOUT 600 PROCESSORS 2 ENVIRONMENT
  "${rank_environment};MEZZO_DIST_DEBUG=1")

mezzo_test_executable(rank_faults "${mezzo_tests_dir}/ranks/faults/worker.cpp")
add_test(NAME dist_faults COMMAND sh "${mezzo_tests_dir}/ranks/faults/faults.sh" "${MPIEXEC_EXECUTABLE}"
  $<TARGET_FILE:rank_faults>)
# Most of its time it waits for timeouts, so other tests run beside it, and it is started first.
set_tests_properties(dist_faults PROPERTIES TIMEOUT 600 COST 1000 ENVIRONMENT "${rank_environment}")

# Not among what MEZZO_PROGRAM_OBJECTS serves, as it includes mpi.h.
add_executable(rank_own_mpi "${mezzo_tests_dir}/ranks/own_mpi/main.cpp")
mezzo_test_target(rank_own_mpi)
target_link_libraries(rank_own_mpi PRIVATE MPI::MPI_CXX)
foreach(mode IN ITEMS serialized single finalized again)
  add_test(NAME dist_own_mpi.${mode} COMMAND "${MPIEXEC_EXECUTABLE}" ${MPIEXEC_NUMPROC_FLAG} 2
    $<TARGET_FILE:rank_own_mpi> ${mode})
  set_tests_properties(dist_own_mpi.${mode} PROPERTIES TIMEOUT 60 PROCESSORS 2 ENVIRONMENT "${rank_environment}")
endforeach()
