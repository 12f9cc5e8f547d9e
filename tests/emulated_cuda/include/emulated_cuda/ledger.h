// What work moves: while a ledger is kept, every kernel, copy and product that runs is written down with the
// bytes that it read and wrote in device memory. Products of the stand-ins of cuBLASLt and cuDNN are not
// computed then, their results are zeros: so the step of a large network takes seconds.
//
// Bytes are those of whole pages that were touched, each once for reading and once for writing. On other
// processors than x86-64 a page that is only written counts as read, too.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "emulated_cuda/types.h"

#pragma GCC visibility push(default)

namespace emulated_cuda {

struct LedgerEntry {
  std::string name;  ///< of the kernel, without its parameters; of a product its sizes; copy or fill
  dim3 grid, block;  ///< of a kernel
  std::uint64_t read = 0, written = 0;
  double operations = 0;  ///< of a product: each multiplication and each addition is one
};

/// Begins a new ledger, or keeps none any more; products are computed again then.
void keep_ledger(bool on);
/// Leaves out products without a ledger, which takes a fraction of the time: until keep_ledger(false).
void leave_out_products();
/// What ran since, in the order in which it ran; the ledger is empty then. Synchronize before.
[[nodiscard]] std::vector<LedgerEntry> take_ledger();

/// For the stand-ins: what a product is.
struct Product {
  std::string name;
  double operations;
  std::uint64_t read, written;
  std::function<void()> compute;  ///< in device memory
  std::function<void()> clear;    ///< sets its results to zeros
};
/// Computes it, or clears its results and writes it down.
void run_product(const Product& product);

}  // namespace emulated_cuda

#pragma GCC visibility pop
