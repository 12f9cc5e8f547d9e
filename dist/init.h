// Where this process stands among those that were started together, by mpirun, Slurm or by environment.
//   int main() {
//     const auto session = mezzo::dist::init();
//     std::cout << dist::rank() << " of " << dist::world_size() << "\n";
// Started alone, a program is a group of one process, and needs neither MPI nor NCCL.
#pragma once

#include <chrono>
#include <string>

#include "mezzo/dist/collectives.h"
#include "mezzo/dist/group.h"

namespace mezzo::dist {

struct InitOptions {
  /// How long a collective may take, waiting for others included, before all processes are ended.
  /// Environment: MEZZO_DIST_TIMEOUT, in seconds.
  std::chrono::milliseconds timeout = std::chrono::minutes(10);
  /// Compares before each collective whether all ranks are about to do the same.
  /// Environment: MEZZO_DIST_DEBUG=1.
  bool debug = false;
};

/// The time between init() and its end, in which processes work together. The end waits for all processes,
/// and is also the end of MPI, unless the program has begun with that itself: then it may open another
/// session.
///
/// A process that leaves in another way ends all, within the timeout and with one line that names it, the
/// collective that it was at, and the cause: by an exception that leaves the session's scope or the program,
/// by std::exit with a status that is not 0, by being killed or stopped. std::exit(0) is an end of the
/// session.
class Session {
 public:
  Session(Session&& other) noexcept;
  Session& operator=(Session&&) = delete;
  ~Session();

 private:
  friend Session init(const InitOptions& options);
  friend void ensure_initialized();
  Session() noexcept = default;
  bool is_owner_ = true;
  int exceptions_ = 0;
};

/// Finds the other processes. By mpirun or srun (OMPI_*, PMI_*, PMIX_*, SLURM_*): by MPI, which also moves
/// CPU tensors. By RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT: by NCCL alone, so for CUDA tensors. By
/// neither: this process alone. CUDA tensors are moved by NCCL in all cases; process i of a machine uses its
/// GPU i. A call while a session is open opens none.
/// Throws: StateError, on rank 0 with what to do and on the others in short: started by mpirun without MPI in
/// this build, by the mpirun of another MPI, more ranks on a machine than GPUs (when the first CUDA tensor is
/// met). StateError where the program has ended MPI, or has begun with it without MPI_THREAD_SERIALIZED (it
/// then calls MPI only while no collective of mezzo's is under way). ValueError for a timeout that is not
/// positive, and for a launcher's variable that is no number.
[[nodiscard]] Session init(const InitOptions& options = {});
/// init(), until the process ends. For libraries; does nothing while a session is open.
void ensure_initialized();
[[nodiscard]] bool is_initialized() noexcept;

/// This process's number among all, and how many there are: 0 of 1 before init().
[[nodiscard]] int rank();
[[nodiscard]] int world_size();
/// This process's number among the processes of this machine, and how many these are.
[[nodiscard]] int local_rank();
[[nodiscard]] int local_world_size();

/// Ends all processes now, with one line that names this one and the reason.
[[noreturn]] void abort(const std::string& reason);

}  // namespace mezzo::dist
