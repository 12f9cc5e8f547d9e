// Who has started this process, by the environment: mpirun, srun, a script that numbers processes, or nobody.
#pragma once

#include <string>

#include "mezzo/core/function.h"

namespace mezzo::dist {

struct Launch {
  enum class By { nobody, mpi, environment };
  By by = By::nobody;
  int rank = 0;
  int size = 1;  ///< 0: the launcher does not say
  int local_rank = 0, local_size = 1;
  std::string variable;  ///< the one that says so: "OMPI_COMM_WORLD_RANK"
};

/// Reads an environment: null for a variable that is not set.
using ReadVariable = mezzo::detail::Function<const char*(const char* name)>;

/// By mpi: OMPI_COMM_WORLD_*, PMI_*, PMIX_RANK, or SLURM_PROCID in a step of several tasks. By environment:
/// RANK, WORLD_SIZE and MASTER_ADDR, unless a launcher has started as many processes, which then is who
/// counts. A launcher of one process is nobody. Throws: ValueError for numbers that are none or do not fit.
[[nodiscard]] Launch find_launch(const ReadVariable& read);
/// Of this process's environment.
[[nodiscard]] Launch find_launch();

/// A warning for processes that a launcher has bound to so few of its processors that half of them or more
/// stay idle, as Open MPI does with a few processes: it gives each one core. Empty where there is nothing to
/// say.
[[nodiscard]] std::string binding_warning(int processors_of_each, int processors_of_launcher, int local_size);

}  // namespace mezzo::dist
