// pad: a border around the last dims, constant or continued from the inside.
#include "mezzo/ops/ops.h"
#include "mezzo/ops/pointwise/common.h"
#include "mezzo/ops/shape/copy_into.h"

namespace mezzo {

namespace {

using namespace ops;

struct PadAttrs {
  IntList pad;
  PadMode mode = PadMode::constant;
  Scalar value = 0;
  MEZZO_FIELDS(PadAttrs, pad, mode, value)
};

/// A border of one dim.
struct Border {
  std::size_t dim;
  std::int64_t before, after;
};
/// `pad` as borders, the last dim first. Throws unless they fit the shape.
SmallVector<Border, 4> borders_of(const Shape& shape, const IntList& pad) {
  if (pad.size() % 2 != 0 || pad.size() > 2 * shape.size()) {
    throw ShapeError("pad", "a pair of numbers for each of the last dims", to_string(pad),
                     "the tensor has shape " + to_string(shape));
  }
  SmallVector<Border, 4> borders;
  Shape result = shape;
  for (std::size_t i = 0; i < pad.size() / 2; ++i) {
    const Border border{shape.size() - 1 - i, pad[2 * i], pad[2 * i + 1]};
    const std::int64_t size = shape[border.dim];
    const bool fits =
        std::max(border.before, border.after) < layout::kMaxElements &&
        std::min(border.before, border.after) >= -size &&
        std::min<std::int64_t>(border.before, 0) + std::min<std::int64_t>(border.after, 0) >= -size;
    if (!fits) {
      throw ShapeError("pad", "numbers that leave at least 0 of the " + std::to_string(size) + " positions",
                       to_string(pad), "negative numbers cut off, positive ones add");
    }
    result[border.dim] = size + border.before + border.after;
    borders.push_back(border);
  }
  layout::checked_numel("pad", result);
  return borders;
}

// --- constant

/// x without what negative borders cut off, in its place in a tensor full of the value.
Tensor padded_with(const Tensor& x, const SmallVector<Border, 4>& borders, const Scalar& value) {
  Shape shape = x.shape();
  for (const Border& border : borders) shape[border.dim] += border.before + border.after;
  Tensor out = full(shape, value,
                    {.dtype = x.dtype(), .device = x.device(), .memory_format = x.suggest_memory_format()});
  Tensor from = x, to = out;
  for (const Border& border : borders) {
    const auto dim = static_cast<std::int64_t>(border.dim);
    const std::int64_t cut = std::max<std::int64_t>(-border.before, 0);
    const std::int64_t kept = x.shape()[border.dim] - cut - std::max<std::int64_t>(-border.after, 0);
    from = narrow(from, dim, cut, kept);
    to = narrow(to, dim, std::max<std::int64_t>(border.before, 0), kept);
  }
  copy_into(to, from);
  return out;
}

// --- the other modes: each dim selects from itself

/// The position that position i of the result shows.
struct InsideFn {
  PadMode mode;
  std::int64_t before, size;
  std::int64_t first = 0;  ///< circular: the first position that is not cut off
  template <class T>
  MEZZO_HD T operator()(T i) const {
    const std::int64_t at = static_cast<std::int64_t>(i) - before, last = size - 1;
    if (mode == PadMode::circular)
      return static_cast<T>(first + (at < 0 ? at + size : at > last ? at - size : at));
    if (mode == PadMode::replicate) return static_cast<T>(at < 0 ? 0 : at > last ? last : at);
    return static_cast<T>(at < 0 ? -at : at > last ? 2 * last - at : at);
  }
};
void check_inside(const Border& border, PadMode mode, std::int64_t size) {
  const std::int64_t widest = std::max<std::int64_t>({border.before, border.after, 0});
  const std::int64_t most = mode == PadMode::circular ? size : size - 1;
  const bool fits = mode == PadMode::replicate ? size > 0 || widest == 0 : widest == 0 || widest <= most;
  if (fits) return;
  throw ShapeError("pad", "a border that the dim can fill",
                   "(" + std::to_string(border.before) + ", " + std::to_string(border.after) +
                       ") for a dim of size " + std::to_string(size),
                   "reflect takes less than the size, circular at most the size");
}
/// The positions of x's dim that the result shows, in their order.
Tensor inside(const Border& border, PadMode mode, std::int64_t size, Device device) {
  const std::int64_t length = size + border.before + border.after;
  InsideFn position{mode, border.before, size};
  if (mode == PadMode::circular) {
    // Positions that are cut off at one end do not come back at the other.
    position.first = std::max<std::int64_t>(-border.before, 0);
    position.before += position.first;
    position.size -= position.first + std::max<std::int64_t>(-border.after, 0);
  }
  check_inside(border, mode, position.size);
  return map_one(position, arange(length, {.device = device}), DType::i64, DType::i64);
}

Outputs pad_forward(const ForwardArgs<PadAttrs>& args) {
  const Tensor& x = args.in(0);
  const auto borders = borders_of(x.shape(), args.attrs.pad);
  if (args.attrs.mode == PadMode::constant) return padded_with(x, borders, args.attrs.value);
  if (borders.empty()) return clone(x);
  Tensor out = x;
  for (const Border& border : borders) {
    const Tensor positions = inside(border, args.attrs.mode, x.shape()[border.dim], x.device());
    out = index_select(out, static_cast<std::int64_t>(border.dim), positions);
  }
  return out;
}
Gradients pad_vjp(const VjpArgs<PadAttrs>& args) {
  const PadAttrs& attrs = args.attrs;
  if (attrs.mode == PadMode::constant) {
    IntList opposite;
    for (const std::int64_t count : attrs.pad) opposite.push_back(-count);
    return {pad(args.grad(), opposite)};
  }
  const auto borders = borders_of(args.in_shape(0), attrs.pad);
  // 16-bit sums are rounded once and not after each dim.
  Tensor grad = borders.size() > 1 ? widened(args.grad()) : args.grad();
  for (std::size_t i = borders.size(); i-- > 0;) {
    const std::int64_t size = args.in_shape(0)[borders[i].dim];
    Shape shape = grad.shape();
    shape[borders[i].dim] = size;
    grad = index_add(zeros(shape, options_of(grad)), static_cast<std::int64_t>(borders[i].dim),
                     inside(borders[i], attrs.mode, size, grad.device()), grad);
  }
  return {grad};
}
std::vector<Sample<PadAttrs>> pad_samples() {
  return {{{op_samples::real({2, 3})}, {{1, 2}}},
          {{op_samples::real({4, 5})}, {{-1, 1, 2, -2}, PadMode::constant, 1.5}},
          {{op_samples::real({1, 2, 5})}, {{2, 1}, PadMode::reflect}},
          {{op_samples::real({2, 3, 4})}, {{1, 5, -1, 3}, PadMode::replicate}},
          {{op_samples::real({2, 3, 4})}, {{3, 4, 2, -1}, PadMode::circular}}};
}
constexpr Op<PadAttrs> pad_op =
    plain_op<PadAttrs>("pad", Category::passthrough, pad_samples, pad_forward, pad_vjp, kSaveNothing);
const Registered pad_registered{pad_op};

}  // namespace

Tensor pad(const Tensor& x, const IntList& pad, PadMode mode, Scalar value) {
  return bind(pad_op, {x}, {pad, mode, value});
}

}  // namespace mezzo
