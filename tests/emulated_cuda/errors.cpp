// Error codes: the last one, names and texts.
#include "runtime.h"

using namespace emulated_cuda;  // the functions below have CUDA's names, in no namespace

namespace {

struct ErrorText {
  cudaError_t code;
  const char *name, *text;
};

#define MEZZO_EMULATED_ERROR(name, text) \
  { name, #name, text }
constexpr ErrorText kErrors[] = {
    MEZZO_EMULATED_ERROR(cudaSuccess, "no error"),
    MEZZO_EMULATED_ERROR(cudaErrorInvalidValue, "invalid argument"),
    MEZZO_EMULATED_ERROR(cudaErrorMemoryAllocation, "out of memory"),
    MEZZO_EMULATED_ERROR(cudaErrorInitializationError, "initialization error"),
    MEZZO_EMULATED_ERROR(cudaErrorInvalidConfiguration, "invalid configuration argument"),
    MEZZO_EMULATED_ERROR(cudaErrorInvalidDevicePointer, "invalid device pointer"),
    MEZZO_EMULATED_ERROR(cudaErrorInvalidMemcpyDirection, "invalid copy direction for memcpy"),
    MEZZO_EMULATED_ERROR(cudaErrorInsufficientDriver,
                         "CUDA driver version is insufficient for CUDA runtime version"),
    MEZZO_EMULATED_ERROR(cudaErrorInvalidDeviceFunction, "invalid device function"),
    MEZZO_EMULATED_ERROR(cudaErrorNoDevice, "no CUDA-capable device is detected"),
    MEZZO_EMULATED_ERROR(cudaErrorInvalidDevice, "invalid device ordinal"),
    MEZZO_EMULATED_ERROR(cudaErrorInvalidResourceHandle, "invalid resource handle"),
    MEZZO_EMULATED_ERROR(cudaErrorIllegalState, "not allowed in the object's state"),
    MEZZO_EMULATED_ERROR(cudaErrorNotReady, "device not ready"),
    MEZZO_EMULATED_ERROR(cudaErrorIllegalAddress, "an illegal memory access was encountered"),
    MEZZO_EMULATED_ERROR(cudaErrorLaunchOutOfResources, "too many resources requested for launch"),
    MEZZO_EMULATED_ERROR(cudaErrorAssert, "device-side assert triggered"),
    MEZZO_EMULATED_ERROR(cudaErrorLaunchFailure, "unspecified launch failure"),
    MEZZO_EMULATED_ERROR(cudaErrorNotPermitted, "operation not permitted"),
    MEZZO_EMULATED_ERROR(cudaErrorNotSupported, "operation not supported"),
    MEZZO_EMULATED_ERROR(cudaErrorStreamCaptureUnsupported, "not permitted while a stream captures"),
    MEZZO_EMULATED_ERROR(cudaErrorStreamCaptureInvalidated, "an earlier error made the capture invalid"),
    MEZZO_EMULATED_ERROR(cudaErrorStreamCaptureMerge, "would join two captures"),
    MEZZO_EMULATED_ERROR(cudaErrorStreamCaptureUnmatched, "the capture began in another stream"),
    MEZZO_EMULATED_ERROR(cudaErrorStreamCaptureUnjoined, "a stream of the capture was not joined"),
    MEZZO_EMULATED_ERROR(cudaErrorStreamCaptureIsolation, "depends on work outside of the capture"),
    MEZZO_EMULATED_ERROR(cudaErrorStreamCaptureImplicit, "depends on a capture by the default stream"),
    MEZZO_EMULATED_ERROR(cudaErrorCapturedEvent, "the event was last recorded in a capture"),
    MEZZO_EMULATED_ERROR(cudaErrorStreamCaptureWrongThread, "the capture began in another thread"),
    MEZZO_EMULATED_ERROR(cudaErrorUnknown, "unknown error"),
};
#undef MEZZO_EMULATED_ERROR

const ErrorText* find_error(cudaError_t code) {
  for (const ErrorText& error : kErrors) {
    if (error.code == code) return &error;
  }
  return nullptr;
}

}  // namespace

cudaError_t cudaGetLastError() {
  const std::lock_guard lock(runtime_mutex());
  const cudaError_t result = last_error();
  // A failure of the device stays.
  last_error() = runtime().broken;
  return result;
}

cudaError_t cudaPeekAtLastError() { return last_error(); }

const char* cudaGetErrorName(cudaError_t error) {
  const ErrorText* const found = find_error(error);
  return found == nullptr ? "unrecognized error code" : found->name;
}

const char* cudaGetErrorString(cudaError_t error) {
  const ErrorText* const found = find_error(error);
  return found == nullptr ? "unrecognized error code" : found->text;
}
