// Writing along one dim where an index says, an index for each element: scatter, scatter_add, scatter_reduce.
#include <limits>

#include "mezzo/ops/indexing/common.h"
#include "mezzo/ops/ops.h"

namespace mezzo {

namespace {

using namespace ops;

/// The part of a source that was read: the first elements of each dim, in the shape of the index.
Tensor read_part(const Tensor& src, const Shape& places) {
  Tensor part = src.dim() == 0 ? reshape(src, {1}) : src;
  const Shape ends = places.empty() ? Shape{1} : places;
  for (std::size_t d = 0; d < ends.size(); ++d) {
    if (part.shape()[d] != ends[d]) part = slice(part, static_cast<std::int64_t>(d), 0, ends[d]);
  }
  return part.shape() == places ? part : reshape(part, places);
}
/// The gradient of such a source.
Tensor source_gradient(const Tensor& read, const Shape& shape) {
  if (read.numel() == 0) return zeros(shape, options_of(read));
  Tensor grown = read.dim() == 0 ? reshape(read, {1}) : read;
  const Shape ends = shape.empty() ? Shape{1} : shape;
  for (std::size_t d = 0; d < ends.size(); ++d) {
    Shape next = grown.shape();
    if (next[d] == ends[d]) continue;
    const std::int64_t end = next[d];
    next[d] = ends[d];
    grown = slice_backward(grown, next, static_cast<std::int64_t>(d), 0, end);
  }
  return grown.shape() == shape ? grown : reshape(grown, shape);
}

/// The arguments of an op that writes, checked, with dims.
struct Write {
  Write(const char* op, Inputs inputs, std::int64_t asked)
      : x(with_dims(inputs[0])),
        index(with_dims(index_as_i64(op, inputs[1], false))),
        src(with_dims(inputs[2])),
        dim(wrapped(op, asked, x)) {
    require_one_dtype(op, x, src);
    check_fit(op, x, index, dim, &src);
    check_indices(op, index, 0, x.shape()[dim]);
  }
  [[nodiscard]] PlaceMap map(const Dims& strides) const {
    return along(dim, index.shape(), x.shape()[dim], strides, index.strides());
  }
  Tensor x, index, src;
  std::size_t dim;
};

// --- scatter, scatter_add

template <bool Add>
Outputs scatter_forward(const ForwardArgs<AlongAttrs>& args) {
  const Write write(Add ? "scatter_add" : "scatter", args.inputs, args.attrs.dim);
  const auto map = [&](const Dims& strides) { return write.map(strides); };
  return without_dims(written(write.x, write.index, write.src, map, Add), args.in(0));
}
template <bool Add>
Gradients scatter_vjp(const VjpArgs<AlongAttrs>& args) {
  const Tensor grad = args.grad(), index = args.in(1);
  const std::int64_t dim = args.attrs.dim;
  Gradients result(3);
  if (args.needs(0))
    result[0] = Add ? grad : scatter(grad, dim, index, zeros(index.shape(), options_of(grad)));
  if (args.needs(2)) result[2] = source_gradient(gather(grad, dim, index), args.in_shape(2));
  return result;
}
/// One index per lane: with a second one for the same place, differences would not show the gradient.
std::vector<Sample<AlongAttrs>> scatter_samples() {
  return {{{op_samples::real({3, 5}), op_samples::index({3, 1}, 5), op_samples::real({3, 1})}, {1}},
          {{op_samples::real({4, 2}), op_samples::index({1, 2}, 4), op_samples::real({2, 3})}, {-2}},
          {{op_samples::real({}), op_samples::index({}, 1), op_samples::real({})}, {0}},
          {{op_samples::real({4}), op_samples::index({}, 4), op_samples::real({3})}, {0}}};
}
std::vector<Sample<AlongAttrs>> scatter_add_samples() {
  return {{{op_samples::real({3, 5}), op_samples::index({3, 7}, 5), op_samples::real({3, 7})}, {1}},
          {{op_samples::real({3, 5}), op_samples::index({2, 4}, 3), op_samples::real({2, 6})}, {0}},
          {{op_samples::real({2, 3, 4}), op_samples::index({2, 2, 3}, 4), op_samples::real({2, 3, 4})}, {-1}},
          {{op_samples::real({}), op_samples::index({2}, 1), op_samples::real({2})}, {0}}};
}
constexpr Op<AlongAttrs> scatter_op =
    plain_op<AlongAttrs>("scatter", Category::passthrough, scatter_samples, scatter_forward<false>,
                         scatter_vjp<false>, save_inputs(1));
constexpr Op<AlongAttrs> scatter_add_op =
    plain_op<AlongAttrs>("scatter_add", Category::promote, scatter_add_samples, scatter_forward<true>,
                         scatter_vjp<true>, save_inputs(1));

// --- scatter_reduce

struct ScatterReduceAttrs {
  std::int64_t dim = 0;
  ScatterReduction reduce = ScatterReduction::sum;
  bool include_self = true;
  MEZZO_FIELDS(ScatterReduceAttrs, dim, reduce, include_self)
};

/// The neutral element of a reduction, in the compute type.
Scalar neutral(ScatterReduction reduce, DType compute) {
  constexpr double kInf = std::numeric_limits<double>::infinity();
  using Whole = std::numeric_limits<std::int64_t>;
  const bool real = is_floating(compute);
  if (reduce == ScatterReduction::amax) return real ? Scalar(-kInf) : Scalar(Whole::min());
  if (reduce == ScatterReduction::amin) return real ? Scalar(kInf) : Scalar(Whole::max());
  return reduce == ScatterReduction::prod ? 1 : 0;
}

/// How many elements each place of a mean is made of, at least 1.
Tensor counts(const Shape& shape, std::int64_t dim, const Tensor& index, bool include_self, DType dtype) {
  const TensorOptions options{.dtype = dtype, .device = index.device()};
  const Tensor own = full(shape, include_self ? 1 : 0, options);
  return clamp(scatter_add(own, dim, index, ones(index.shape(), options)), 1);
}

Outputs scatter_reduce_forward(const ForwardArgs<ScatterReduceAttrs>& args) {
  const auto& [asked, reduce, include_self] = args.attrs;
  const Write write("scatter_reduce", args.inputs, asked);
  const DType dtype = write.x.dtype(), compute = compute_dtype(dtype);
  const Device device = write.x.device();
  if (reduce == ScatterReduction::mean && dtype == DType::boolean)
    throw DTypeError("scatter_reduce", "numbers to take the mean of", "bool",
                     "convert them with to(DType::f32)");
  Tensor out = dtype == compute ? clone(write.x) : to(write.x, compute);
  const PlaceMap map = write.map(out.strides());
  const auto shown = [&](const Tensor& values, const Dims& strides) {
    return kernels::View{values.impl().data(), compute, map.shape, strides};
  };
  if (!include_self) {
    const Tensor number = full({}, neutral(reduce, compute), {.dtype = compute, .device = device});
    kernels::put(device, map.of(out, write.index), shown(number, Dims(map.shape.size(), 0)), map.walked);
  }
  const Tensor source = to(write.src, compute);
  const kernels::View from = shown(source, source.strides());
  if (reduce == ScatterReduction::sum || reduce == ScatterReduction::mean)
    kernels::put_add(device, map.of(out, write.index), from, map.walked);
  else
    kernels::put_combined(device, map.of(out, write.index), from, map.walked,
                          reduce == ScatterReduction::prod   ? kernels::Combine::product
                          : reduce == ScatterReduction::amax ? kernels::Combine::largest
                                                             : kernels::Combine::smallest);
  if (reduce == ScatterReduction::mean) {
    const RoundingMode rounding = is_floating(compute) ? RoundingMode::none : RoundingMode::floor;
    const auto dim = static_cast<std::int64_t>(write.dim);
    out = div(out, counts(out.shape(), dim, write.index, include_self, compute), rounding);
  }
  return without_dims(to(out, dtype), args.in(0));
}

/// A call whose gradient is wanted. The gradients are of the elements that were read, in the compute type.
struct Call {
  Tensor x, index, read, out, grad;
  std::int64_t dim;
  bool include_self;
  [[nodiscard]] Tensor at_places(const Tensor& values) const { return gather(values, dim, index); }
  [[nodiscard]] Tensor added(const Tensor& own, const Tensor& values) const {
    return scatter_add(include_self ? own : zeros(own.shape(), options_of(own)), dim, index, values);
  }
};
using PairOfGradients = std::pair<Tensor, Tensor>;

/// Shared evenly by all that equal the result. As in PyTorch an element of x counts even where it takes no
/// part.
PairOfGradients extremum_gradients(const Call& r) {
  const DType dtype = r.grad.dtype();
  const Tensor own = to(eq(r.x, r.out), dtype), other = to(eq(r.read, r.at_places(r.out)), dtype);
  const Tensor share = div(r.grad, scatter_add(own, r.dim, r.index, other));
  return {mul(share, own), mul(r.at_places(share), other)};
}

/// The product of all other elements: the product of the nonzero elements, divided by the element if it is
/// nonzero, times the zeros among the others. With one other zero it is 0, but its derivative is not: so that
/// zero takes part as the sum of the zeros there without the element itself.
PairOfGradients product_gradients(const Call& r) {
  const Tensor own_is = eq(r.x, 0), other_is = eq(r.read, 0);
  const Tensor own_count = to(own_is, r.grad.dtype()), other_count = to(other_is, r.grad.dtype());
  const Tensor own_zero = where(own_is, r.x, 0.0), other_zero = where(other_is, r.read, 0.0);
  const Tensor own = where(own_is, 1.0, r.x), other = where(other_is, 1.0, r.read);
  const Tensor count = r.added(own_count, other_count), zero = r.added(own_zero, other_zero);
  const Tensor product =
      mul(r.grad, scatter_reduce(own, r.dim, r.index, other, ScatterReduction::prod, r.include_self));
  const auto times_zeros = [](const Tensor& rest, const Tensor& number, const Tensor& sum) {
    return mul(rest, where(eq(number, 0), 1.0, where(eq(number, 1), sum, 0.0)));
  };
  return {times_zeros(div(product, own), sub(count, own_count), sub(zero, own_zero)),
          times_zeros(div(r.at_places(product), other), sub(r.at_places(count), other_count),
                      sub(r.at_places(zero), other_zero))};
}

PairOfGradients gradients_of(const Call& r, ScatterReduction reduce) {
  if (reduce == ScatterReduction::prod) return product_gradients(r);
  if (reduce == ScatterReduction::amax || reduce == ScatterReduction::amin) return extremum_gradients(r);
  if (reduce == ScatterReduction::sum) return {r.grad, r.at_places(r.grad)};
  const Tensor share = div(r.grad, counts(r.x.shape(), r.dim, r.index, r.include_self, r.grad.dtype()));
  return {share, r.at_places(share)};
}

Gradients scatter_reduce_vjp(const VjpArgs<ScatterReduceAttrs>& args) {
  const auto& [dim, reduce, include_self] = args.attrs;
  const DType compute = compute_dtype(args.out_dtype());
  const Tensor index = args.in(1);
  const Call r{to(args.in(0), compute),
               index,
               read_part(to(args.in(2), compute), index.shape()),
               to(args.out(), compute),
               to(args.grad(), compute),
               dim,
               include_self};
  auto [own, other] = gradients_of(r, reduce);
  if (!include_self) own = scatter(own, dim, index, 0);
  return {own, {}, source_gradient(other, args.in_shape(2))};
}

std::vector<Sample<ScatterReduceAttrs>> scatter_reduce_samples() {
  using op_samples::distinct;
  using op_samples::index;
  using op_samples::real;
  std::vector<Sample<ScatterReduceAttrs>> list;
  for (const ScatterReduction reduce :
       {ScatterReduction::sum, ScatterReduction::prod, ScatterReduction::amax, ScatterReduction::amin}) {
    list.push_back({{distinct({3, 5}), index({3, 4}, 5), distinct({3, 4})}, {1, reduce, true}});
    list.push_back({{distinct({4, 2}), index({3, 1}, 4), distinct({5, 2})}, {-2, reduce, false}});
  }
  // None below 0, where the mean of integers is rounded down and not cut off.
  constexpr ScatterReduction kMean = ScatterReduction::mean;
  list.push_back({{real({3, 5}, 0, 2), index({3, 4}, 5), real({3, 4}, 0, 2)}, {1, kMean, true}});
  list.push_back({{real({4, 2}, 0, 2), index({3, 1}, 4), real({5, 2}, 0, 2)}, {-2, kMean, false}});
  list.push_back({{real({}), index({2}, 1), real({3})}, {0, ScatterReduction::prod, true}});
  return list;
}
constexpr Op<ScatterReduceAttrs> scatter_reduce_op =
    plain_op<ScatterReduceAttrs>("scatter_reduce", Category::passthrough, scatter_reduce_samples,
                                 scatter_reduce_forward, scatter_reduce_vjp);

ScatterReduction reduction_of(ScatterMode mode) {
  return mode == ScatterMode::add ? ScatterReduction::sum : ScatterReduction::prod;
}
/// A number as a source, in x's dtype.
Tensor everywhere(const Tensor& x, const Tensor& index, Scalar value) {
  require_defined("scatter", x);
  require_defined("scatter", index);
  return expand(full({}, value, {.dtype = x.dtype(), .device = x.device()}), index.shape());
}

const Registered scatter_registered{scatter_op, scatter_add_op, scatter_reduce_op};

}  // namespace

Tensor scatter(const Tensor& x, std::int64_t dim, const Tensor& index, const Tensor& src) {
  return bind(scatter_op, {x, index, src}, {dim});
}
Tensor scatter(const Tensor& x, std::int64_t dim, const Tensor& index, Scalar value) {
  return scatter(x, dim, index, everywhere(x, index, value));
}
Tensor scatter(const Tensor& x, std::int64_t dim, const Tensor& index, const Tensor& src,
               ScatterMode reduce) {
  return scatter_reduce(x, dim, index, src, reduction_of(reduce));
}
Tensor scatter(const Tensor& x, std::int64_t dim, const Tensor& index, Scalar value, ScatterMode reduce) {
  return scatter(x, dim, index, everywhere(x, index, value), reduce);
}
Tensor scatter_add(const Tensor& x, std::int64_t dim, const Tensor& index, const Tensor& src) {
  return bind(scatter_add_op, {x, index, src}, {dim});
}
Tensor scatter_reduce(const Tensor& x, std::int64_t dim, const Tensor& index, const Tensor& src,
                      ScatterReduction reduce, bool include_self) {
  return bind(scatter_reduce_op, {x, index, src}, ScatterReduceAttrs{dim, reduce, include_self});
}

}  // namespace mezzo
