// One of several processes that reduce in a loop, of which one fails in the way that its arguments say:
//   rank_faults FAULT RANK STEP
// kill, launcher (kills mpirun), stop (SIGSTOP), stop_before (init), throw, catch (main catches it), hang
// (computes for ever), call (another collective), size (another size), return (from main, early), exit_0,
// exit_3, none. RANK -1: all do. faults.sh starts it.
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <thread>

#include "mezzo/core/error.h"
#include "mezzo/dist/detail/group_state.h"
#include "mezzo/dist/init.h"
#include "mezzo/ops/ops.h"

namespace {

using mezzo::Device;
using mezzo::Tensor;
namespace dist = mezzo::dist;

/// Returns whether main is to return now.
bool fail(const std::string& fault) {
  if (fault == "kill") static_cast<void>(raise(SIGKILL));
  if (fault == "launcher") static_cast<void>(::kill(getppid(), SIGKILL));
  if (fault == "stop") static_cast<void>(raise(SIGSTOP));
  if (fault == "throw" || fault == "catch") throw std::runtime_error("the disk is full");
  if (fault == "exit_0") std::exit(0);
  if (fault == "exit_3") std::exit(3);
  if (fault == "call") dist::broadcast(mezzo::zeros({250'000}), dist::rank());
  if (fault == "size") dist::all_reduce(mezzo::zeros({7}));
  while (fault == "hang") std::this_thread::sleep_for(std::chrono::seconds(1));
  return fault == "return";
}

int train(const std::string& fault, int rank, int step) {
  const char* const mine = std::getenv("OMPI_COMM_WORLD_RANK");
  if (fault == "stop_before" && mine != nullptr && std::atoi(mine) == rank) static_cast<void>(raise(SIGSTOP));
  const auto session = dist::init();
  for (int i = 0; i < 200; ++i) {
    dist::world()
        .state()
        .start(Device::cpu(), {},
               [&](dist::Transport& transport) { transport.set_place("step " + std::to_string(i)); })
        .wait();
    if ((dist::rank() == rank || rank == -1) && i == step && fail(fault)) return 0;
    const Tensor x = mezzo::full({250'000}, 1.0);
    const dist::Work work = dist::all_reduce(x, dist::ReduceOp::sum, {.async = true});
    static_cast<void>(mezzo::sum(x.clone()).item());
    work.wait();
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) return 2;
  const std::string fault = argv[1];
  const int rank = std::atoi(argv[2]);
  const int step = std::atoi(argv[3]);
  if (fault != "catch") return train(fault, rank, step);
  try {
    return train(fault, rank, step);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "caught: %s\n", error.what());
    return 1;
  }
}
