// index and index_put: x[i0, i1, ...] with tensors of positions and masks.
#include <vector>

#include "mezzo/ops/detail/inplace.h"
#include "mezzo/ops/indexing/common.h"
#include "mezzo/ops/ops.h"

namespace mezzo {

namespace {

using namespace ops;

/// Positions along one dim of x.
struct DimIndex {
  std::size_t dim;
  Tensor positions;
};
using DimIndices = std::vector<DimIndex>;

/// Where the mask is true, as positions along each of its dims. Needs their number, so the host reads it.
void add_mask(std::string_view op, const Tensor& x, std::size_t dim, const Tensor& mask, DimIndices& result) {
  const Shape& shape = mask.shape();
  bool fits = !shape.empty() && dim + shape.size() <= x.shape().size();
  for (std::size_t d = 0; fits && d < shape.size(); ++d) fits = shape[d] == x.shape()[dim + d];
  if (!fits) {
    throw IndexError(op, "a mask with the sizes of the dims it stands for", to_string(shape),
                     "x has shape " + to_string(x.shape()));
  }
  const Tensor host = mask.to(Device::cpu()).contiguous();
  const auto* const chosen = static_cast<const std::uint8_t*>(host.impl().data());
  std::vector<std::vector<std::int64_t>> positions(shape.size());
  for (std::int64_t at = 0; at < host.numel(); ++at) {
    if (chosen[at] == 0) continue;
    std::int64_t rest = at;
    for (std::size_t d = shape.size(); d-- > 0;) {
      positions[d].push_back(rest % shape[d]);
      rest /= shape[d];
    }
  }
  for (std::size_t d = 0; d < shape.size(); ++d)
    result.push_back({dim + d, tensor(positions[d], {.device = x.device()})});
}

/// The indices as positions along the dims of x.
DimIndices dim_indices(std::string_view op, const Tensor& x, Inputs indices) {
  DimIndices result;
  std::size_t dim = 0;
  for (const TensorRef& index : indices) {
    const bool is_mask = index.get().defined() && index->dtype() == DType::boolean;
    const std::size_t dims = is_mask ? index->shape().size() : 1;
    if (is_mask) {
      add_mask(op, x, dim, index, result);
    } else if (dim >= x.shape().size()) {
      throw IndexError(op, "at most " + std::to_string(x.dim()) + " indices", "more",
                       "x has shape " + to_string(x.shape()));
    } else if (index.get().defined()) {
      result.push_back({dim, index_as_i64(op, index, true)});
    }
    dim += dims;
  }
  if (result.empty()) throw ValueError(op, "at least one index", "none", "pass a tensor of positions");
  return result;
}

/// One step of the sum of position * stride over the indexed dims; negative for a position out of range.
struct AddOffsetFn {
  std::int64_t stride, size;
  template <class T>
  MEZZO_HD T operator()(T sum, T position) const {
    const auto before = static_cast<std::int64_t>(sum);
    const auto at = static_cast<std::int64_t>(position);
    if (before < 0 || at < -size || at >= size) return T(-1);
    return static_cast<T>(before + (at < 0 ? at + size : at) * stride);
  }
};

/// The first step.
struct FirstOffsetFn {
  AddOffsetFn add;
  template <class T>
  MEZZO_HD T operator()(T position) const {
    return add(T(0), position);
  }
};

/// A call's indices, checked, and the shape of what they choose.
class Chosen {
 public:
  Chosen(const char* op, const Tensor& x, Inputs indices)
      : op_(op), sizes_(x.shape()), indices_(dim_indices(op, x, indices)) {
    Shape together;
    for (const auto& [dim, positions] : indices_) {
      together = layout::broadcast(op, together, positions.shape());
      check_indices(op, positions, -sizes_[dim], sizes_[dim]);
    }
    const std::size_t first = indices_.front().dim;
    const bool side_by_side = indices_.back().dim - first + 1 == indices_.size();
    for (std::size_t d = 0; d <= sizes_.size(); ++d) {
      if (d == (side_by_side ? first : 0)) {
        start_ = shape_.size();
        for (const std::int64_t size : together) shape_.push_back(size);
      }
      if (d < sizes_.size() && !is_indexed(d)) shape_.push_back(sizes_[d]);
    }
    count_ = together.size();
    layout::checked_numel(op, shape_);
  }
  [[nodiscard]] const Shape& shape() const { return shape_; }

  /// Offsets of the chosen places along the indexed dims, contiguous.
  [[nodiscard]] Tensor offsets(const Dims& strides) const {
    Tensor sum;
    for (const auto& [dim, positions] : indices_) {
      const AddOffsetFn add{strides[dim], sizes_[dim]};
      sum = sum.defined() ? map<2>(op_, add, {&sum, &positions}, DType::i64, DType::i64)
                          : map<1>(op_, FirstOffsetFn{add}, {&positions}, DType::i64, DType::i64);
    }
    return sum;
  }
  /// The places in a tensor of x's shape, with `offsets` of the same strides as indices.
  [[nodiscard]] PlaceMap map_of(const Dims& strides) const {
    PlaceMap result{shape_, Dims(shape_.size(), 0), Dims(shape_.size(), 0), 1, 1, {}};
    for (const auto& [dim, positions] : indices_) result.limit += (sizes_[dim] - 1) * strides[dim];
    std::int64_t stride = 1;
    for (std::size_t d = start_ + count_; d-- > start_;) {
      result.walked.push_back(static_cast<std::int64_t>(d));
      result.index_strides[d] = stride;
      stride *= shape_[d];
    }
    std::size_t at = 0;
    for (std::size_t d = 0; d < sizes_.size(); ++d) {
      if (is_indexed(d)) continue;
      if (at == start_) at += count_;
      result.base_strides[at++] = strides[d];
    }
    return result;
  }

 private:
  [[nodiscard]] bool is_indexed(std::size_t dim) const {
    return std::any_of(indices_.begin(), indices_.end(), [dim](const DimIndex& i) { return i.dim == dim; });
  }
  const char* op_;
  Shape sizes_, shape_;
  DimIndices indices_;
  std::size_t start_ = 0, count_ = 0;  ///< where the dims of the indices are in the result, and how many
};

/// Inputs [first, end).
Inputs part_of(Inputs inputs, std::size_t first, std::size_t end) {
  return std::span<const TensorRef>(inputs.begin() + first, inputs.begin() + end);
}
/// The saved indices: inputs [1, end).
Tensors saved_indices(const VjpContext& args, std::size_t end) {
  Tensors indices;
  for (std::size_t i = 1; i < end; ++i) indices.push_back(args.in(i));
  return indices;
}
/// Everything but x.
constexpr Saves kSaveIndices{~1U, 0};

// --- index

Outputs index_forward(const ForwardArgs<NoAttrs>& args) {
  if (args.inputs.size() < 2) throw ValueError("index", "x and indices", "fewer tensors", "pass them all");
  const Tensor& x = args.in(0);
  const Chosen chosen("index", x, part_of(args.inputs, 1, args.inputs.size()));
  Tensor out = empty(chosen.shape(), options_of(x));
  kernels::take(x.device(), view_of(out), chosen.map_of(x.strides()).of(x, chosen.offsets(x.strides())));
  return out;
}
Gradients index_vjp(const VjpArgs<NoAttrs>& args) {
  const Tensor grad = args.grad();
  Gradients result(args.num_inputs());
  result[0] = index_put(zeros(args.in_shape(0), options_of(grad)), saved_indices(args, args.num_inputs()),
                        grad, true);
  return result;
}
std::vector<Sample<NoAttrs>> index_samples() {
  using namespace op_samples;
  return {
      {{real({5, 3}), op_samples::index_from_end({4}, 5)}},
      {{real({5, 3}), op_samples::index_from_end({4}, 5), op_samples::index_from_end({4}, 3)}},
      {{real({4, 2, 3}), absent(), op_samples::index_from_end({3, 1}, 2),
        op_samples::index_from_end({2}, 3)}},
      {{real({4, 2, 3}), op_samples::index_from_end({2}, 4), absent(), op_samples::index_from_end({2}, 3)}},
      {{real({4, 2, 3}), mask({4, 2})}},
      {{real({3, 4}), absent(), mask({4})}}};
}
constexpr Op<NoAttrs> index_op = taking_list(
    plain_op("index", Category::passthrough, index_samples, index_forward, index_vjp, kSaveIndices, ~1U));

// --- index_put

struct IndexPutAttrs {
  bool accumulate = false;
  MEZZO_FIELDS(IndexPutAttrs, accumulate)
};
void require_device(std::string_view op, const Tensor& x, const Tensor& other) {
  if (other.device() == x.device()) return;
  throw DeviceError(op, to_string(x.device()), to_string(other.device()), "move it with to(device)");
}
/// Values as a tensor of the shape that the indices give.
Tensor shown_at(const Tensor& values, const Chosen& chosen) {
  const Dims strides = layout::expand_strides("index_put", values.shape(), values.strides(), chosen.shape());
  return alias(values, chosen.shape(), strides, values.impl().offset, true);
}
/// Inputs: x, the indices, the values.
Outputs index_put_forward(const ForwardArgs<IndexPutAttrs>& args) {
  if (args.inputs.size() < 3)
    throw ValueError("index_put", "x, indices and values", "fewer tensors", "pass them all");
  const std::size_t last = args.inputs.size() - 1;
  const Tensor &x = args.in(0), &values = args.in(last);
  require_defined("index_put", values);
  require_one_dtype("index_put", x, values);
  const Chosen chosen("index_put", x, part_of(args.inputs, 1, last));
  const Dims strides =  // of the result
      layout::dense_strides("index_put", x.shape(), x.suggest_memory_format());
  return written(
      x, chosen.offsets(strides), shown_at(values, chosen),
      [&](const Dims& result) { return chosen.map_of(result); }, args.attrs.accumulate);
}
Gradients index_put_vjp(const VjpArgs<IndexPutAttrs>& args) {
  const std::size_t last = args.num_inputs() - 1;
  const Tensor grad = args.grad();
  const Tensors indices = saved_indices(args, last);
  Gradients result(args.num_inputs());
  if (args.needs(0))
    result[0] = args.attrs.accumulate ? grad : index_put(grad, indices, zeros({}, options_of(grad)));
  if (args.needs(last)) result[last] = sum_to(index(grad, indices), args.in_shape(last), args.wanted(last));
  return result;
}
/// Without `accumulate` no two indices for one place: differences would not show the gradient.
std::vector<Sample<IndexPutAttrs>> index_put_samples() {
  using namespace op_samples;
  return {{{real({5, 3}), op_samples::index_from_end({1}, 5), real({1, 3})}, {false}},
          {{real({5, 3}), op_samples::index_from_end({7}, 5), real({3})}, {true}},
          {{real({3, 4}), op_samples::index_from_end({5}, 3), op_samples::index_from_end({5}, 4), real({1})},
           {true}},
          {{real({3, 4, 2}), absent(), op_samples::index_from_end({2, 3}, 4), real({3, 2, 3, 2})}, {true}},
          {{real({3, 4}), mask({3, 4}), real({})}, {false}}};
}
constexpr Op<IndexPutAttrs> index_put_op = taking_list(plain_op<IndexPutAttrs>(
    "index_put", Category::promote, index_put_samples, index_put_forward, index_put_vjp, kSaveIndices, ~1U));

const Registered index_registered{index_op, index_put_op};

}  // namespace

void ops::index_put_into(const Tensor& x, std::span<const Tensor> indices, const Tensor& values) {
  require_compute_dtype("index_put_", x.dtype());
  require_own_memory("index_put_", x);
  require_one_dtype("index_put_", x, values);
  require_device("index_put_", x, values);
  SmallVector<TensorRef, 8> list;
  for (const Tensor& one : indices) {
    if (one.defined()) require_device("index_put_", x, one);
    list.push_back(one);
  }
  const Chosen chosen("index_put_", x, Inputs(list));
  // Values that show x's own memory are read while it is written.
  const Tensor source = values.impl().storage == x.impl().storage ? clone(values) : values;
  write_places(x, chosen.offsets(x.strides()), shown_at(source, chosen), chosen.map_of(x.strides()), false);
  x.impl().storage->bump_version();
}

Tensor index(const Tensor& x, TensorList indices) {
  SmallVector<TensorRef, 8> inputs;
  inputs.push_back(x);
  for (const Tensor& one : indices) inputs.push_back(one);
  return bind(index_op, Inputs(inputs));
}
Tensor index_put(const Tensor& x, TensorList indices, const Tensor& values, bool accumulate) {
  SmallVector<TensorRef, 8> inputs;
  inputs.push_back(x);
  for (const Tensor& one : indices) inputs.push_back(one);
  inputs.push_back(values);
  return bind(index_put_op, Inputs(inputs), {accumulate});
}

}  // namespace mezzo
