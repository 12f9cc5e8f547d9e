// A program that calls MPI itself, before and after mezzo's session:
//   rank_own_mpi serialized   MPI_Init_thread with MPI_THREAD_SERIALIZED: a session joins, and leaves MPI to
//   the program rank_own_mpi single       MPI_Init: init() refuses rank_own_mpi finalized    MPI_Finalize
//   before: init() refuses rank_own_mpi again        a second session: init() refuses, as MPI ends with the
//   first
#define OMPI_SKIP_MPICXX 1
#define MPICH_SKIP_MPICXX 1
#include <mpi.h>

#include <cstdio>
#include <string>

#include "mezzo/core/error.h"
#include "mezzo/dist/init.h"
#include "mezzo/ops/ops.h"

namespace {

/// Sums over all ranks in a session: whether it was right.
bool train() {
  const auto session = mezzo::dist::init();
  const mezzo::Tensor x = mezzo::full({10}, 1.0);
  mezzo::dist::all_reduce(x);
  return mezzo::sum(x).item() == 10.0 * mezzo::dist::world_size();
}

bool refuses(const std::string& why) {
  try {
    static_cast<void>(train());
  } catch (const mezzo::StateError& error) {
    if (std::string(error.what()).find(why) != std::string::npos) return true;
    std::printf("says %s\n", error.what());
  }
  return false;
}

int init(int wanted) {
  int provided = 0;
  MPI_Init_thread(nullptr, nullptr, wanted, &provided);
  return provided;
}

bool run(const std::string& mode) {
  if (mode == "serialized") {
    if (init(MPI_THREAD_SERIALIZED) < MPI_THREAD_SERIALIZED) return true;  // this MPI cannot
    const bool was_right = train();
    // MPI goes on, and so may a second session.
    int sum = 0, one = 1, size = 0;
    MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    const bool was_right_again = train();
    MPI_Finalize();
    return was_right && was_right_again && size > 1 && sum == size;
  }
  if (mode == "single") {
    init(MPI_THREAD_SINGLE);
    int level = 0;
    MPI_Query_thread(&level);
    const bool refused = level >= MPI_THREAD_SERIALIZED ? train() : refuses("MPI_THREAD_SERIALIZED");
    MPI_Finalize();
    return refused;
  }
  if (mode == "finalized") {
    init(MPI_THREAD_SINGLE);
    MPI_Finalize();
    return refuses("MPI was finalized before");
  }
  if (mode == "again") return train() && refuses("MPI was finalized before");
  return false;
}

}  // namespace

int main(int argc, char** argv) {
  const bool is_right = argc == 2 && run(argv[1]);
  if (!is_right) std::printf("not as it should be: %s\n", argc == 2 ? argv[1] : "no mode");
  return is_right ? 0 : 1;
}
