// searchsorted and bucketize: a binary search for each value.
#include "mezzo/kernels/random/generate.h"
#include "mezzo/ops/forward.h"
#include "mezzo/ops/ops.h"

namespace mezzo {

namespace {

using namespace ops;

/// The place of each value in its row of the sequence.
template <class T>
struct PlaceBlocks {
  const T *sequence, *values;
  std::int64_t length, values_per_row, total;
  bool right;
  MEZZO_HD MEZZO_ALWAYS_INLINE void operator()(std::int64_t block, std::int64_t* places) const {
    for (int i = 0; i < 4; ++i) {
      const std::int64_t at = 4 * block + i;
      places[i] = at < total ? place(sequence + at / values_per_row * length, values[at]) : 0;
    }
  }
  [[nodiscard]] MEZZO_HD MEZZO_ALWAYS_INLINE std::int64_t place(const T* row, T value) const {
    std::int64_t first = 0, last = length;
    while (first < last) {
      const std::int64_t middle = first + (last - first) / 2;
      if (right ? row[middle] > value : row[middle] >= value)
        last = middle;
      else
        first = middle + 1;
    }
    return first;
  }
};

struct SearchAttrs {
  bool right = false;
  MEZZO_FIELDS(SearchAttrs, right)
};

/// `shape` without its last dim.
Shape rows_of(Shape shape) {
  shape.pop_back();
  return shape;
}

Outputs searchsorted_forward(const ForwardArgs<SearchAttrs>& args) {
  const Tensor &sequence = args.in(0), &values = args.in(1);
  const bool is_one_row = sequence.dim() == 1;
  if (!is_one_row && (sequence.dim() != values.dim() || sequence.dim() == 0 ||
                      rows_of(sequence.shape()) != rows_of(values.shape()))) {
    throw ShapeError("searchsorted", "a sequence of one dim, or of the values' dims but for the last",
                     to_string(sequence.shape()) + " for values " + to_string(values.shape()),
                     "give each row of values a sequence");
  }
  Tensor places = empty(values.shape(), {.dtype = DType::i64, .device = values.device()});
  if (values.numel() == 0) return places;
  const DType common = result_type({&sequence, &values});
  // f64 holds more integers than f32.
  const bool mixed = is_floating(sequence.dtype()) != is_floating(values.dtype());
  const DType compute = mixed ? DType::f64 : compute_dtype(common);
  const Tensor from = to(sequence, compute).contiguous(), sought = to(values, compute).contiguous();
  dispatch_compute(compute, [&]<class T>(TypeTag<T>) {
    const PlaceBlocks<T> blocks{static_cast<const T*>(from.impl().data()),
                                static_cast<const T*>(sought.impl().data()),
                                sequence.size(-1),
                                is_one_row ? values.numel() : values.size(-1),
                                values.numel(),
                                args.attrs.right};
    kernels::generate<std::int64_t>(values.device(), blocks, view_of(places));
  });
  return places;
}
std::vector<Sample<SearchAttrs>> searchsorted_samples() {
  // One element is always sorted.
  return {{{op_samples::constant({1}), op_samples::constant({3, 5})}, {}},
          {{op_samples::constant({3, 1}), op_samples::constant({3, 5})}, {true}}};
}
constexpr Op<SearchAttrs> searchsorted_op =
    plain_op<SearchAttrs>("searchsorted", Category::passthrough, searchsorted_samples, searchsorted_forward,
                          NotDifferentiable{"the result is an index"}, kSaveNothing);

const Registered search_registered{searchsorted_op};

/// The number as a 0-dim tensor of the dtype that it and the sequence have in common.
Tensor beside_sequence(std::string_view op, const Tensor& sequence, const Scalar& value) {
  require_defined(op, sequence);
  return full({}, value, {.dtype = ResultType().add(sequence).add(value).get(), .device = sequence.device()});
}

}  // namespace

Tensor searchsorted(const Tensor& sorted_sequence, const Tensor& values, bool right) {
  return bind(searchsorted_op, {sorted_sequence, values}, {right});
}
Tensor searchsorted(const Tensor& sorted_sequence, Scalar value, bool right) {
  return searchsorted(sorted_sequence, beside_sequence("searchsorted", sorted_sequence, value), right);
}
Tensor bucketize(const Tensor& x, const Tensor& boundaries, bool right) {
  require_defined("bucketize", boundaries);
  if (boundaries.dim() != 1)
    throw ShapeError("bucketize", "boundaries of one dim", to_string(boundaries.shape()), "use searchsorted");
  return searchsorted(boundaries, x, right);
}
Tensor bucketize(Scalar value, const Tensor& boundaries, bool right) {
  return bucketize(beside_sequence("bucketize", boundaries, value), boundaries, right);
}

}  // namespace mezzo
