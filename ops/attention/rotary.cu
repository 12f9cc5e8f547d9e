// apply_rotary. Its gradient is the rotation back: the op itself with the attribute `inverse`.
#include "mezzo/ops/rotary.h"

#include "mezzo/kernels/recurrent/recurrent.h"
#include "mezzo/ops/detail/composed.h"
#include "mezzo/ops/forward.h"
#include "mezzo/ops/ops.h"

namespace mezzo {

namespace {

using namespace ops;
using op_samples::real;

constexpr std::string_view kRotary = "apply_rotary";

/// Inputs: a pair of features, and cosine and sine of an angle. Results: the pair turned by it, or back.
struct RotatePairFn {
  static constexpr std::size_t kInputs = 4, kResults = 2;
  bool back = false;
  template <class T>
  MEZZO_HD MEZZO_ALWAYS_INLINE kernels::Numbers<T, kResults> operator()(
      const kernels::Numbers<T, kInputs>& x) const {
    const T cos = x.at[2], sin = back ? -x.at[3] : x.at[3];
    return {{x.at[0] * cos - x.at[1] * sin, x.at[0] * sin + x.at[1] * cos}};
  }
};

struct RotaryAttrs {
  bool interleaved = false;
  bool inverse = false;  ///< turn back
  MEZZO_FIELDS(RotaryAttrs, interleaved, inverse)
};

/// The first and the second features of all pairs.
struct Pairs {
  Pairs(const Tensor& x, std::int64_t count, bool interleaved)
      : first(interleaved ? slice(x, -1, 0, 2 * count, 2) : slice(x, -1, 0, count)),
        second(interleaved ? slice(x, -1, 1, 2 * count, 2) : slice(x, -1, count, 2 * count)) {}
  Tensor first, second;
};

void require_rotary(const Tensor& x, const Tensor& cos, const Tensor& sin) {
  for (const Tensor* tensor : {&x, &cos, &sin}) require_floating(kRotary, *tensor);
  const auto refuse = [&](const std::string& expected, const std::string& got) {
    throw ShapeError(kRotary, expected, got, "a pair of features has one angle");
  };
  if (cos.dim() < 1 || cos.shape() != sin.shape()) {
    refuse("cos and sin of one shape [.., R]", to_string(cos.shape()) + " and " + to_string(sin.shape()));
  }
  if (x.dim() < cos.dim() || x.shape().back() < 2 * cos.shape().back())
    refuse("an x of as many dims as cos and twice its last one",
           to_string(x.shape()) + " for " + to_string(cos.shape()));
  const std::size_t added = x.shape().size() - cos.shape().size();
  for (std::size_t d = 0; d + 1 < cos.shape().size(); ++d) {
    if (cos.shape()[d] != 1 && cos.shape()[d] != x.shape()[added + d])
      refuse("a cos that broadcasts to x " + to_string(x.shape()) + " but for the last dim",
             to_string(cos.shape()));
  }
}

Outputs rotary_forward(const ForwardArgs<RotaryAttrs>& args) {
  const Tensor &x = args.in(0), &cos = args.in(1), &sin = args.in(2);
  require_rotary(x, cos, sin);
  const std::int64_t count = cos.shape().back(), width = x.shape().back();
  const Tensor out = empty(x.shape(), options_of(x));
  // The kernel takes rows: a single one has a dim of its own.
  const auto rows = [](const Tensor& of) { return of.dim() > 1 ? of : unsqueeze(of, 0); };
  const Pairs from(rows(x), count, args.attrs.interleaved),
      to_pairs(rows(out), count, args.attrs.interleaved);
  const Shape& shape = from.first.shape();
  kernels::cell_map(
      x.device(), RotatePairFn{args.attrs.inverse}, {view_of(to_pairs.first), view_of(to_pairs.second)},
      {view_of(from.first), view_of(from.second), view_of(expand(cos, shape)), view_of(expand(sin, shape))},
      compute_dtype(x.dtype()));
  if (width > 2 * count)
    narrow(out, -1, 2 * count, width - 2 * count).copy_(narrow(x, -1, 2 * count, width - 2 * count));
  return out;
}

Tensor rotate(const Tensor& x, const Tensor& cos, const Tensor& sin, const RotaryAttrs& attrs);

Gradients rotary_vjp(const VjpArgs<RotaryAttrs>& args) {
  // Angles seldom need a gradient: theirs comes from the composition.
  Gradients result(3);
  if (args.needs(1) || args.needs(2)) result = decomposed(args);
  const RotaryAttrs back{args.attrs.interleaved, !args.attrs.inverse};
  if (args.needs(0)) result[0] = rotate(args.grad(), args.in(1), args.in(2), back);
  return result;
}

Outputs rotary_reference(const ForwardArgs<RotaryAttrs>& args) {
  const Tensor& x = args.in(0);
  require_rotary(x, args.in(1), args.in(2));
  const DType compute = compute_dtype(x.dtype());
  const Tensor cos = to(args.in(1), compute),
               sin = to(args.in(2), compute) * (args.attrs.inverse ? -1.0 : 1.0);
  const std::int64_t count = cos.shape().back(), rest = x.shape().back() - 2 * count;
  const auto [a, b] = Pairs(to(x, compute), count, args.attrs.interleaved);
  const Tensor first = a * cos - b * sin, second = a * sin + b * cos;
  const Tensor turned =
      args.attrs.interleaved ? flatten(stack({first, second}, -1), -2, -1) : cat({first, second}, -1);
  return cat({to(turned, x.dtype()), narrow(x, -1, 2 * count, rest)}, -1);
}

std::vector<Sample<RotaryAttrs>> rotary_samples() {
  return {{{real({2, 3, 4}), real({3, 2}), real({3, 2})}, {}},
          {{real({2, 2, 3, 5}), real({2, 1, 3, 2}), real({2, 1, 3, 2})}, {.interleaved = true}},
          {{real({3, 6}), real({1, 2}), real({1, 2})}, {.inverse = true}},
          {{real({4}), real({2}), real({2})}, {.interleaved = true, .inverse = true}},
          {{real({0, 3, 4}), real({3, 2}), real({3, 2})}, {}}};
}
constexpr Op<RotaryAttrs> rotary_op =
    fused_op<RotaryAttrs>(kRotary, Category::passthrough, rotary_samples, rotary_forward, rotary_reference,
                          rotary_vjp, save_inputs(0, 1, 2));
const Registered rotary_registered{rotary_op};

Tensor rotate(const Tensor& x, const Tensor& cos, const Tensor& sin, const RotaryAttrs& attrs) {
  return bind(rotary_op, {x, cos, sin}, attrs);
}

}  // namespace

Tensor apply_rotary(const Tensor& x, const Tensor& cos, const Tensor& sin, bool interleaved) {
  return rotate(x, cos, sin, {interleaved, false});
}

}  // namespace mezzo
