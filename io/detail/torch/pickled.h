// The content of the pickle in a file of torch.save: values, and tensors that are still without their bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "mezzo/core/tensor.h"
#include "mezzo/io/detail/torch/torch_tree.h"

namespace mezzo::io::detail {

/// A tensor as a pickle describes it: a view of a storage, whose bytes are elsewhere.
struct PickledTensor {
  std::size_t storage = 0;  ///< index of Pickled::storages
  DType dtype = DType::f32;
  std::int64_t offset = 0;  ///< in elements, like the strides
  Shape shape;
  Dims strides;
};

/// Bytes that tensors may share, by the name of their entry.
struct PickledStorage {
  std::string key;
  DType dtype = DType::f32;  ///< u8 for one without a dtype
  bool has_dtype = true;
  std::uint64_t bytes = 0;
};

struct Pickled {
  TorchTree tree;  ///< its tensors are still to be set, as many as there are below
  std::vector<PickledTensor> tensors;
  std::vector<PickledStorage> storages;
};

}  // namespace mezzo::io::detail
