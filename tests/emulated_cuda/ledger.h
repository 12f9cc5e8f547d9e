// How the emulated device finds out what a piece of work touches: device memory is closed before, and each
// page is opened when it is first read, and once more when it is first written.
#pragma once

#include <functional>
#include <string>

#include "block.h"

namespace emulated_cuda {

/// Runs a piece of work in device memory; while a ledger is kept, it is written down. `name` is asked then.
void run_in_ledger(const std::function<std::string()>& name, dim3 grid, dim3 block,
                   const std::function<void()>& work);

/// In the signal handler: opens the page of `address` if a ledger closed it. `writes`: what the access is.
bool open_page(const void* address, bool writes);

/// The name of a kernel without return type and parameters.
std::string short_name(detail::AnyKernel kernel);

}  // namespace emulated_cuda
