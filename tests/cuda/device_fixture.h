// What the tests of the CUDA layer share: they skip, saying why, where no device is, and they look into
// device memory only through copies.
#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

#include "mezzo/core/backend.h"
#include "mezzo/core/cuda.h"
#include "mezzo/core/cuda/device.h"
#include "mezzo/core/memory/allocator.h"

namespace mezzo::test {

using Bytes = std::vector<unsigned char>;

/// Whether the GPU multiplies TF32, and bf16.
inline bool has_tf32() { return cuda::compute_capability(0) >= 80; }

class CudaTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!cuda::is_available()) GTEST_SKIP() << cuda::why_unavailable();
  }
  static Backend& device() { return backend(Device::cuda(0)); }

  static void write(void* memory, const Bytes& bytes) {
    device().copy_from_host(memory, bytes.data(), bytes.size(), 0);
  }
  static Bytes read(const void* memory, std::size_t size) {
    Bytes bytes(size);
    device().copy_to_host(bytes.data(), memory, size, 0);
    return bytes;
  }
};

/// For tests of what the allocator caches; each begins with an empty cache.
class CudaCacheTest : public CudaTest {
 protected:
  void SetUp() override {
    CudaTest::SetUp();
    if (IsSkipped()) return;
    const char* const value = std::getenv("MEZZO_CUDA_CACHE");
    if (value != nullptr && std::string(value) == "0")
      GTEST_SKIP() << "MEZZO_CUDA_CACHE=0 turned off what is tested here";
    synchronize(Device::cuda(0));
    empty_cache(Device::cuda(0));
  }
};

/// Bytes that differ from one place and from one seed to the next.
inline Bytes pattern(std::size_t size, unsigned seed) {
  Bytes bytes(size);
  std::uint32_t state = seed * 2654435761U + 1U;
  for (unsigned char& byte : bytes) {
    state = state * 1664525U + 1013904223U;
    byte = static_cast<unsigned char>(state >> 24);
  }
  return bytes;
}

}  // namespace mezzo::test
