// The variables that launchers set, in the order in which they are believed.
#include "mezzo/dist/detail/launch.h"

#include <charconv>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <string_view>
#include <utility>

#include "mezzo/core/error.h"

namespace mezzo::dist {

namespace {

std::optional<int> number(const ReadVariable& read, const char* name) {
  const char* const text = read(name);
  if (text == nullptr || *text == '\0') return {};
  int value = -1;
  const char* const end = text + std::strlen(text);
  const auto [stop, error] = std::from_chars(text, end, value);
  if (error != std::errc() || stop != end || value < 0) {
    throw ValueError("dist.init", std::string("a number in ") + name, "'" + std::string(text) + "'",
                     "unset it, or start the program by mpirun or srun");
  }
  return value;
}

Launch checked(Launch launch) {
  if (launch.size != 0 && launch.rank >= launch.size) {
    throw ValueError("dist.init", launch.variable + " below " + std::to_string(launch.size),
                     std::to_string(launch.rank), "let the launcher set it");
  }
  if (launch.size == 1) return {};
  return launch;
}

/// The launch by mpirun or srun.
Launch find_mpi(const ReadVariable& read) {
  struct Names {
    const char *rank, *size, *local_rank, *local_size;
  };
  // MPICH's mpiexec and srun --mpi=pmi2 set the second row, srun --mpi=pmix the third. srun sets the last one
  // too; a batch script, which is one process, has SLURM_PROCID and no SLURM_STEP_NUM_TASKS.
  constexpr Names all[] = {
      {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK",
       "OMPI_COMM_WORLD_LOCAL_SIZE"},
      {"PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS"},
      {"PMIX_RANK", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID", nullptr},
      {"SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID", nullptr},
  };
  for (const Names& names : all) {
    const std::optional<int> rank = number(read, names.rank);
    const std::optional<int> size = number(read, names.size);
    const bool needs_no_size = std::string_view(names.rank) == "PMIX_RANK";
    if (!rank || (!size && !needs_no_size)) continue;
    Launch launch{.by = Launch::By::mpi, .rank = *rank, .size = size.value_or(0), .variable = names.rank};
    launch.local_rank = number(read, names.local_rank).value_or(0);
    if (names.local_size != nullptr) launch.local_size = number(read, names.local_size).value_or(1);
    return checked(std::move(launch));
  }
  return {};
}

}  // namespace

Launch find_launch(const ReadVariable& read) {
  Launch mpi = find_mpi(read);
  const std::optional<int> rank = number(read, "RANK");
  const std::optional<int> size = number(read, "WORLD_SIZE");
  if (!rank || !size || read("MASTER_ADDR") == nullptr) return mpi;
  // A script that srun or mpirun has started once per machine starts processes of its own there, which
  // inherit that launcher's variables.
  if (mpi.by == Launch::By::mpi && mpi.size == *size) return mpi;
  Launch launch{.by = Launch::By::environment, .rank = *rank, .size = *size, .variable = "RANK"};
  launch.local_rank = number(read, "LOCAL_RANK").value_or(*rank);
  launch.local_size = number(read, "LOCAL_WORLD_SIZE").value_or(*size);
  return checked(std::move(launch));
}

Launch find_launch() {
  return find_launch([](const char* name) { return static_cast<const char*>(std::getenv(name)); });
}

std::string binding_warning(int processors_of_each, int processors_of_launcher, int local_size) {
  if (processors_of_each * local_size * 2 > processors_of_launcher) return {};
  return "dist.init: expected processes that share this machine's " + std::to_string(processors_of_launcher) +
         " processors, got " + std::to_string(local_size) + " that are bound to " +
         std::to_string(processors_of_each) +
         " each; start them by mpirun --bind-to none, or by --map-by slot:PE=" +
         std::to_string(processors_of_launcher / local_size);
}

}  // namespace mezzo::dist
