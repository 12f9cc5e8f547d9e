// What tests/plugin/dlpack.py calls: tensors go out and come in as pointers to DLPack's structs.
#include <cstdio>
#include <exception>

#include "mezzo/mezzo.h"

namespace {
mezzo::Tensor kept;  // what went out last
}

extern "C" {

/// The transpose of [[0, 1, 2], [3, 4, 5]] in f32.
DLManagedTensorVersioned* mezzo_probe_give() {
  kept = mezzo::arange(6, mezzo::DType::f32).view({2, 3}).t();
  return mezzo::io::to_dlpack(kept);
}
DLManagedTensor* mezzo_probe_give_unversioned() {
  kept = mezzo::arange(6, mezzo::DType::f32).view({2, 3}).t();
  return mezzo::io::to_dlpack_unversioned(kept);
}
/// The sum of what went out, after whatever was written to it since.
double mezzo_probe_sum_of_given() { return kept.sum().item(); }

/// Doubles what is given in place and returns its sum; -1 when it is refused.
double mezzo_probe_double(DLManagedTensorVersioned* shared) try {
  return mezzo::io::from_dlpack(shared).mul_(2).sum().item();
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return -1;
}
double mezzo_probe_double_unversioned(DLManagedTensor* shared) try {
  return mezzo::io::from_dlpack(shared).mul_(2).sum().item();
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return -1;
}
}
