// Communicators of the emulated NCCL, and what their ranks have called.
#pragma once

#include <nccl.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "emulated_cuda/control.h"

namespace emulated_cuda::nccl_library {

enum class Kind { all_reduce, reduce_scatter, all_gather, broadcast, exchange };

/// A send or a receive of a group.
struct Transfer {
  int peer;
  void* data;
  std::size_t bytes;
  ncclDataType_t type;
};

/// What one rank asks for.
struct Part {
  const void* from = nullptr;
  void* to = nullptr;
  std::vector<Transfer> sends, receives;  ///< of an exchange
  bool has_come = false;
};

/// What all ranks have to ask for alike.
struct Signature {
  Kind kind;
  std::size_t count = 0;
  ncclDataType_t type = ncclUint8;
  ncclRedOp_t op = ncclSum;
  int root = 0;
  friend bool operator==(const Signature&, const Signature&) = default;
};

/// One collective.
struct Collective {
  Signature signature;
  std::vector<Part> parts;
  std::vector<cudaStream_t> streams;
  std::shared_ptr<Meeting> meeting;
};

/// The ranks of one communicator.
struct Clique {
  explicit Clique(std::vector<int> devices_of_ranks)
      : devices(std::move(devices_of_ranks)), calls(devices.size()) {}
  [[nodiscard]] int size() const { return static_cast<int>(devices.size()); }

  std::vector<int> devices;          ///< by rank
  std::vector<std::uint64_t> calls;  ///< collectives that each rank has put into its stream
  std::map<std::uint64_t, std::shared_ptr<Collective>> open;  ///< that have not run
  std::string broken;                                         ///< why it is of no more use
};

}  // namespace emulated_cuda::nccl_library

/// A rank's communicator; kept when it is destroyed, so that its address is never another one's.
struct ncclComm {
  std::shared_ptr<emulated_cuda::nccl_library::Clique> clique;
  int rank;
  bool is_destroyed = false;
};

namespace emulated_cuda::nccl_library {

/// Guards all cliques and communicators. Nothing of CUDA is called with it held.
std::mutex& state_mutex();
/// Whether it was made here and not destroyed. Hold the mutex.
bool is_live(ncclComm_t comm);
/// Registers a rank's communicator. Hold the mutex.
ncclComm_t new_communicator(std::shared_ptr<Clique> clique, int rank);
/// Every clique with a communicator that was not destroyed. Hold the mutex.
std::vector<std::shared_ptr<Clique>> live_cliques();

/// Counts a refusal and keeps its text for ncclGetLastError.
ncclResult_t refuse(ncclResult_t result, const std::string& text);

/// What runs when all have come: in device memory.
void compute(const Collective& collective);
/// 0 for a type that is not emulated.
std::size_t size_of(ncclDataType_t type);
/// "all_reduce of 4 elements of type 7, operation 0".
std::string text_of(const Signature& signature);

}  // namespace emulated_cuda::nccl_library
