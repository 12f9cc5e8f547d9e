// What a test may ask of the emulated cuBLASLt. It is a library of its own (libcublasLt_emulated.so), opened
// like the real one at the first product; this part is in libmezzo.
//
// How it differs from cuBLASLt, on purpose:
// * Whatever cuBLASLt leaves undefined, or leaves to luck, has a status: destroyed handles, an algorithm for
//   another product, pointers less aligned than the algorithm was asked for, a workspace that is too small.
// * Three algorithms. The first is for aligned memory only, and rounds two halves over k to the type of D
// before
//   it adds them, unless the preference forbids that. Those that want a workspace overwrite all of it.
// * Row sums (BGRADA, BGRADB) are of the operands as they are multiplied: rounded, in TF32.
// * Batches of at most 65535.
// * Float8 is compute capability 9.0's: op(A) = T, op(B) = N, no two e5m2, no bias for an f32 D, one matrix,
//   runs and memory at multiples of 16 bytes. All else is NOT_SUPPORTED.
#pragma once

#include <atomic>
#include <cstdint>

#pragma GCC visibility push(default)

namespace emulated_cuda {

/// The epilogues other than the default one that the heuristic has algorithms for.
enum class Epilogues { all, none };

struct BlasLt {
  std::atomic<std::uint64_t> heuristics = 0;  ///< questions to the heuristic
  std::atomic<std::uint64_t> products = 0;    ///< calls of cublasLtMatmul that succeeded
  std::atomic<std::uint64_t> epilogues = 0;   ///< those among them with an epilogue
  Epilogues offered = Epilogues::all;
  /// There are algorithms for matrices whose columns begin at multiples of this many bytes; 0: there are
  /// none.
  int multiple = 1;
  /// Milliseconds that a product takes with each of the three algorithms, on top of its arithmetic.
  int slowness[3] = {0, 0, 0};
  std::atomic<int> last_algorithm = -1;  ///< of the last product
};

/// Its counters and settings. A test changes the settings while no product is under way.
BlasLt& blas_lt();

}  // namespace emulated_cuda

#pragma GCC visibility pop
