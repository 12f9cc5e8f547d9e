// Where NCCL is looked for, and what its results mean. A build with the emulated device opens the emulated
// library only.
#include "mezzo/dist/nccl/nccl.h"

#include <initializer_list>
#include <string>

#include "mezzo/core/error.h"
#include "mezzo/dist/group.h"

namespace mezzo::dist {

cuda::SharedLibrary open_nccl() {
#if defined(MEZZO_EMULATED_NCCL)
  const std::initializer_list<const char*> files{MEZZO_EMULATED_NCCL};  // never one that is installed
#else
  const std::initializer_list<const char*> files{"libnccl.so.2", "libnccl.so"};
#endif
  return {"NCCL", "MEZZO_NCCL_LIBRARY", files,
          "install libnccl2 or `pip install nvidia-nccl-cu13` and add its folder to LD_LIBRARY_PATH"};
}

const Nccl& nccl() {
  static const auto* const table = new Nccl;  // never closed: communicators may be in use to the very end
  return *table;
}

std::string describe_nccl(ncclResult_t result, ncclComm_t comm) {
  std::string text = nccl().error_string(result);
  const char* const note = nccl().last_error(comm);
  if (note == nullptr || *note == '\0') return text;
  text += ": ";
  text += note;
  while (text.back() == '\n') text.pop_back();
  return text;
}

void check_nccl(ncclResult_t result, std::string_view call, ncclComm_t comm) {
  if (result == ncclSuccess) return;
  const std::string expected = std::string(call) + " to succeed", got = describe_nccl(result, comm);
  switch (result) {
    case ncclUnhandledCudaError:
      throw DeviceError("NCCL", expected, got,
                        "run with MEZZO_CUDA_SYNC=1 to see whether an earlier kernel failed, and with "
                        "NCCL_DEBUG=WARN to see NCCL's own account");
    case ncclInvalidArgument:
      throw DeviceError("NCCL", expected, got,
                        "run with NCCL_DEBUG=WARN to see what NCCL refuses, and let all make the same calls");
    case ncclInvalidUsage:
      throw DeviceError("NCCL", expected, got,
                        "give each process a GPU of its own, and let all make the same calls");
    case ncclSystemError:
    case ncclRemoteError:
      throw CommunicationError(
          "NCCL", expected, got,
          "look whether another process has ended, and at the network: NCCL_DEBUG=INFO shows "
          "it, NCCL_SOCKET_IFNAME names the interface");
    default:
      throw CommunicationError("NCCL", expected, got, "run with NCCL_DEBUG=INFO to see NCCL's own account");
  }
}

}  // namespace mezzo::dist
