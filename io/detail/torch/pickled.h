// The content of the pickle in a file of torch.save: values, and tensors that are still without their bytes.
// It is flat: values name each other by their numbers, so that what is shared is there once, copies are
// cheap, and nothing recurses however deep a file nests.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "mezzo/core/tensor.h"
#include "mezzo/io/torch_kind.h"

namespace mezzo::io::detail {

/// Values of a file at the most, lists and dicts included: some 60,000 tensors.
inline constexpr std::size_t kMaxTorchValues = std::size_t{1} << 20U;
/// A pickle takes a few hundred bytes for a tensor.
inline constexpr std::size_t kMaxPickleBytes = 100'000'000;
/// Lists and dicts within each other.
inline constexpr std::size_t kMaxTorchDepth = 128;

struct TorchTree {
  using Number = std::uint32_t;  ///< of a value: an index of `nodes`

  struct Node {
    TorchKind kind = TorchKind::none;
    union {
      std::int64_t integer = 0;  ///< of an integer or a bool
      double real;
      std::size_t index;  ///< of a string, of the parts of a list, tuple or map, of a tensor
    };
  };

  std::vector<Node> nodes;
  std::vector<std::string> strings;
  std::vector<std::vector<Number>> parts;  ///< elements; of a map keys and values by turns
  std::vector<Tensor> tensors;
  Number root = 0;
};

/// A tensor as a pickle describes it: a view of a storage, whose bytes are elsewhere.
struct PickledTensor {
  std::size_t storage = 0;  ///< index of Pickled::storages
  DType dtype = DType::f32;
  bool is_unsigned = false;       ///< of unsigned integers as large as `dtype`, which mezzo has not
  std::string_view foreign = {};  ///< the name of a dtype that mezzo has not at all, in place of `dtype`
  std::int64_t offset = 0;        ///< in elements, like the strides
  Shape shape;
  Dims strides;
};

/// Bytes that tensors may share, by the name of their entry.
struct PickledStorage {
  std::string key;
  DType dtype = DType::f32;  ///< u8 for one without a dtype
  bool has_dtype = true;
  std::string_view foreign = {};  ///< as in PickledTensor
  std::uint64_t bytes = 0;
  std::uint64_t element = 1;  ///< bytes of one
};

/// The tensors in a value, by the numbers of their nodes, under names as TorchValue::tensors() has them.
/// Throws: what that throws.
[[nodiscard]] std::vector<std::pair<std::string, TorchTree::Number>> named_tensors(const TorchTree& tree,
                                                                                   TorchTree::Number root);

struct Pickled {
  TorchTree tree;  ///< its tensors are still to be set, as many as there are below
  std::vector<PickledTensor> tensors;
  std::vector<PickledStorage> storages;
};

}  // namespace mezzo::io::detail
