// NVTX ranges, for Nsight Systems. NVTX is a library of headers alone, part of the CUDA toolkit.
#include "mezzo/profile/recorder.h"

#if __has_include(<nvtx3/nvToolsExt.h>)
#include <nvtx3/nvToolsExt.h>

namespace mezzo::profile {

bool has_nvtx() noexcept { return true; }
void push_nvtx(std::string_view name) { static_cast<void>(nvtxRangePushA(std::string(name).c_str())); }
void pop_nvtx() noexcept { static_cast<void>(nvtxRangePop()); }

}  // namespace mezzo::profile

#else

namespace mezzo::profile {

bool has_nvtx() noexcept { return false; }
void push_nvtx(std::string_view /*name*/) {}
void pop_nvtx() noexcept {}

}  // namespace mezzo::profile

#endif
