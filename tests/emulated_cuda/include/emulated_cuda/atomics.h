// Atomic functions. One thread runs at a time and is never interrupted, so plain reads and writes are atomic;
// the overloads are those that CUDA has.
#pragma once

#include "emulated_cuda/types.h"

namespace emulated_cuda::detail {

template <class T>
T replace(T* address, T value) {
  const T old = *address;
  *address = value;
  return old;
}

}  // namespace emulated_cuda::detail

inline int atomicAdd(int* address, int value) {
  // CUDA wraps around.
  const unsigned sum = static_cast<unsigned>(*address) + static_cast<unsigned>(value);
  return emulated_cuda::detail::replace(address, static_cast<int>(sum));
}
inline unsigned atomicAdd(unsigned* address, unsigned value) {
  return emulated_cuda::detail::replace(address, *address + value);
}
inline unsigned long long atomicAdd(unsigned long long* address, unsigned long long value) {
  return emulated_cuda::detail::replace(address, *address + value);
}
inline float atomicAdd(float* address, float value) {
  return emulated_cuda::detail::replace(address, *address + value);
}
inline double atomicAdd(double* address, double value) {
  return emulated_cuda::detail::replace(address, *address + value);
}

inline int atomicOr(int* address, int value) {
  return emulated_cuda::detail::replace(address, *address | value);
}
inline unsigned atomicOr(unsigned* address, unsigned value) {
  return emulated_cuda::detail::replace(address, *address | value);
}
inline unsigned long long atomicOr(unsigned long long* address, unsigned long long value) {
  return emulated_cuda::detail::replace(address, *address | value);
}

inline int atomicMax(int* address, int value) {
  return emulated_cuda::detail::replace(address, *address < value ? value : *address);
}
inline unsigned atomicMax(unsigned* address, unsigned value) {
  return emulated_cuda::detail::replace(address, *address < value ? value : *address);
}
inline long long atomicMax(long long* address, long long value) {
  return emulated_cuda::detail::replace(address, *address < value ? value : *address);
}
inline unsigned long long atomicMax(unsigned long long* address, unsigned long long value) {
  return emulated_cuda::detail::replace(address, *address < value ? value : *address);
}

inline int atomicMin(int* address, int value) {
  return emulated_cuda::detail::replace(address, value < *address ? value : *address);
}
inline unsigned atomicMin(unsigned* address, unsigned value) {
  return emulated_cuda::detail::replace(address, value < *address ? value : *address);
}
inline long long atomicMin(long long* address, long long value) {
  return emulated_cuda::detail::replace(address, value < *address ? value : *address);
}
inline unsigned long long atomicMin(unsigned long long* address, unsigned long long value) {
  return emulated_cuda::detail::replace(address, value < *address ? value : *address);
}

inline int atomicExch(int* address, int value) { return emulated_cuda::detail::replace(address, value); }
inline unsigned atomicExch(unsigned* address, unsigned value) {
  return emulated_cuda::detail::replace(address, value);
}
inline unsigned long long atomicExch(unsigned long long* address, unsigned long long value) {
  return emulated_cuda::detail::replace(address, value);
}
inline float atomicExch(float* address, float value) {
  return emulated_cuda::detail::replace(address, value);
}

inline int atomicCAS(int* address, int expected, int value) {
  return emulated_cuda::detail::replace(address, *address == expected ? value : *address);
}
inline unsigned atomicCAS(unsigned* address, unsigned expected, unsigned value) {
  return emulated_cuda::detail::replace(address, *address == expected ? value : *address);
}
inline unsigned long long atomicCAS(unsigned long long* address, unsigned long long expected,
                                    unsigned long long value) {
  return emulated_cuda::detail::replace(address, *address == expected ? value : *address);
}
