// Shared by the indexing ops: checks of indices and dtypes, and writing through places.
#pragma once

#include "mezzo/kernels/indexing/indexing.h"
#include "mezzo/ops/cast.h"
#include "mezzo/ops/forward.h"

namespace mezzo::ops {

/// An index as contiguous i64; i32 is taken too where `narrow` says so. Throws DTypeError for other dtypes.
[[nodiscard]] Tensor index_as_i64(std::string_view op, const Tensor& index, bool narrow);
/// Throws IndexError for an index outside of [low, limit); on a CUDA device see kernels/indexing/indexing.h.
/// `op` must live forever; `indices` is contiguous.
void check_indices(const char* op, const Tensor& indices, std::int64_t low, std::int64_t limit);
/// Throws DTypeError unless both tensors of values have one dtype.
void require_one_dtype(std::string_view op, const Tensor& x, const Tensor& values);

/// x, or a 0-dim x as one of shape [1].
[[nodiscard]] Tensor with_dims(const Tensor& x);
/// A new tensor as one of x's rank: undoes with_dims.
[[nodiscard]] Tensor without_dims(const Tensor& result, const Tensor& x);
/// `dim` counted from the front. Throws IndexError.
[[nodiscard]] std::size_t wrapped(std::string_view op, std::int64_t dim, const Tensor& x);
/// Throws ShapeError unless `index` (with dims) fits x, and is nowhere larger than src: an index that has a
/// place for each element. One without elements fits whatever has as many dims.
void check_fit(std::string_view op, const Tensor& x, const Tensor& index, std::size_t dim,
               const Tensor* src = nullptr);

/// Which places of a tensor with strides `strides` a write or a read concerns.
struct PlaceMap {
  Shape shape;        ///< of the places
  Dims base_strides;  ///< 0 in the dims that the index decides about
  Dims index_strides;
  std::int64_t step = 1, limit = 0;
  Dims walked;  ///< dims along which places may repeat
  [[nodiscard]] kernels::Places of(const Tensor& array, const Tensor& indices) const {
    return {{array.impl().data(), array.dtype(), shape, base_strides},
            {indices.impl().data(), DType::i64, shape, index_strides},
            step,
            limit};
  }
};

/// Places of `shape` in a tensor of the given strides, whose positions along `dim`, `size` of them, the index
/// says.
[[nodiscard]] inline PlaceMap along(std::size_t dim, const Shape& shape, std::int64_t size, Dims strides,
                                    const Dims& index_strides) {
  const std::int64_t step = strides[dim];
  strides[dim] = 0;
  return {shape, strides, index_strides, step, size, {static_cast<std::int64_t>(dim)}};
}

/// The elements of x at places, as a new tensor of the places' shape.
[[nodiscard]] inline Tensor taken(const Tensor& x, const Tensor& index, const PlaceMap& map) {
  Tensor out = empty(map.shape, options_of(x));
  kernels::take(x.device(), view_of(out), map.of(x, index));
  return out;
}

/// Writes values, which have the places' shape, to places of `out`, or adds them. One dtype for both.
inline void write_places(const Tensor& out, const Tensor& indices, const Tensor& source, const PlaceMap& map,
                         bool add) {
  const kernels::View from{source.impl().data(), source.dtype(), map.shape, source.strides()};
  if (add)
    kernels::put_add(out.device(), map.of(out, indices), from, map.walked);
  else
    kernels::put(out.device(), map.of(out, indices), from, map.walked);
}

/// x with `values` written to (or added at) places. `map_of` gives the places for a tensor of x's shape with
/// given strides.
template <class MapOf>
[[nodiscard]] Tensor written(const Tensor& x, const Tensor& indices, const Tensor& values,
                             const MapOf& map_of, bool add) {
  const DType dtype = add ? compute_dtype(x.dtype()) : x.dtype();
  Tensor out = x.dtype() == dtype ? clone(x) : to(x, dtype);
  write_places(out, indices, to(values, dtype), map_of(out.strides()), add);
  return to(out, x.dtype());
}

}  // namespace mezzo::ops
