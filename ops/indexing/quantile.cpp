// quantile and nanquantile: sorted elements, gathered on both sides of a rank.

#include "mezzo/ops/detail/composed.h"
#include "mezzo/ops/ops.h"

namespace mezzo {

namespace {

using namespace ops;

struct QuantileAttrs {
  std::optional<std::int64_t> dim = {};
  bool keepdim = false;
  QuantileInterpolation interpolation = QuantileInterpolation::linear;
  MEZZO_FIELDS(QuantileAttrs, dim, keepdim, interpolation)
};
using QuantileArgs = ForwardArgs<QuantileAttrs>;

void require_share(std::string_view op, double q) {
  if (q >= 0 && q <= 1) return;
  throw ValueError(op, "q in [0, 1]", number_text(q), "pass a share of the elements, 0.5 for the middle");
}
/// The host reads q, before the op: called by name, gather refuses ranks that are not there.
void require_shares(std::string_view op, const Tensor& q) {
  require_defined(op, q);
  for (const double share : q.detach().to_vector<double>()) require_share(op, share);
}

/// Ranks of the elements asked for among `sorted` rows of n, in f64: [.., k].
Tensor quantile_ranks(const Tensor& sorted, const Tensor& q, bool skips_nan) {
  const std::int64_t last = sorted.size(-1) - 1;
  if (skips_nan) {
    const Tensor counted = to(sum(to(logical_not(isnan(sorted)), DType::i64), -1, true), DType::f64);
    return q * clamp(counted - 1.0, 0);
  }
  // A row with a NaN has one in its last place.
  return where(isnan(narrow(sorted, -1, last, 1)), static_cast<double>(last), q * static_cast<double>(last));
}

Tensor at_ranks(const Tensor& sorted, const Tensor& ranks, QuantileInterpolation interpolation) {
  const auto at = [&](const Tensor& whole) { return gather(sorted, -1, to(whole, DType::i64)); };
  switch (interpolation) {
    case QuantileInterpolation::lower:
      return at(floor(ranks));
    case QuantileInterpolation::higher:
      return at(ceil(ranks));
    case QuantileInterpolation::nearest:
      return at(round(ranks));
    case QuantileInterpolation::midpoint:
      return lerp(at(floor(ranks)), at(ceil(ranks)), 0.5);
    case QuantileInterpolation::linear:
      break;
  }
  return lerp(at(floor(ranks)), at(ceil(ranks)), to(ranks - floor(ranks), sorted.dtype()));
}

template <bool kSkipsNan>
Outputs quantile_forward(const QuantileArgs& args) {
  constexpr std::string_view kName = kSkipsNan ? "nanquantile" : "quantile";
  const auto& [asked, keepdim, interpolation] = args.attrs;
  const Tensor &x = args.in(0), &q = args.in(1);
  require_floating(kName, x);
  require_floating(kName, q);
  if (q.dim() > 1) throw ShapeError(kName, "q of shape [] or [k]", to_string(q.shape()), "flatten it");
  const bool along = asked && x.dim() > 0;
  const std::int64_t dim = asked ? layout::wrap_dim(kName, *asked, x.shape().size()) : 0;
  const Tensor rows = to(along ? movedim(x, dim, -1) : reshape(x, {x.numel()}), compute_dtype(x.dtype()));
  if (rows.size(-1) == 0)
    throw ShapeError(kName, "at least one element", to_string(x.shape()), "leave out empty tensors");
  const Tensor sorted = sort(rows).values;
  const Tensor ranks = quantile_ranks(sorted, reshape(to(q, DType::f64), {q.numel()}), kSkipsNan);
  Shape places = sorted.shape();
  places.back() = q.numel();
  const Tensor found = at_ranks(sorted, expand(ranks, places), interpolation);
  Shape shape = along ? x.shape() : Shape(static_cast<std::size_t>(x.dim()), 1);
  if (along) shape[static_cast<std::size_t>(dim)] = 1;
  if (!keepdim) {
    if (along)
      shape.erase(static_cast<std::size_t>(dim));
    else
      shape.clear();
  }
  if (q.dim() == 1) shape.insert(0, q.numel());
  return to(reshape(movedim(found, -1, 0), shape), x.dtype());
}

std::vector<Sample<QuantileAttrs>> quantile_samples() {
  using op_samples::constant, op_samples::distinct;
  using Way = QuantileInterpolation;
  return {{{distinct({3, 5}), constant({}, 0, 1)}, {.dim = 1}},
          {{distinct({3, 2, 4}), constant({3}, 0, 1)}, {.dim = 0, .keepdim = true}},
          {{distinct({2, 3}), constant({2}, 0, 1)}, {.interpolation = Way::midpoint}},
          {{distinct({7}), constant({2}, 0, 1)}, {.dim = -1, .interpolation = Way::lower}},
          {{distinct({}), constant({}, 0, 1)}, {.dim = 0, .interpolation = Way::higher}}};
}
constexpr Op<QuantileAttrs> quantile_op =
    plain_composition<QuantileAttrs>("quantile", quantile_samples, quantile_forward<false>);
constexpr Op<QuantileAttrs> nanquantile_op =
    plain_composition<QuantileAttrs>("nanquantile", quantile_samples, quantile_forward<true>);
const Registered quantile_registered{quantile_op}, nanquantile_registered{nanquantile_op};

Tensor quantile_number(std::string_view op, const Tensor& x, double q) {
  require_defined(op, x);
  return full({}, q, {.dtype = DType::f64, .device = x.device()});
}
QuantileAttrs quantile_attrs(const QuantileOptions& options) {
  return {options.dim, options.keepdim, options.interpolation};
}

}  // namespace

Tensor quantile(const Tensor& x, const Tensor& q, const QuantileOptions& options) {
  require_shares("quantile", q);
  return bind(quantile_op, {x, q}, quantile_attrs(options));
}
Tensor quantile(const Tensor& x, double q, const QuantileOptions& options) {
  require_share("quantile", q);
  return bind(quantile_op, {x, quantile_number("quantile", x, q)}, quantile_attrs(options));
}
Tensor nanquantile(const Tensor& x, const Tensor& q, const QuantileOptions& options) {
  require_shares("nanquantile", q);
  return bind(nanquantile_op, {x, q}, quantile_attrs(options));
}
Tensor nanquantile(const Tensor& x, double q, const QuantileOptions& options) {
  require_share("nanquantile", q);
  return bind(nanquantile_op, {x, quantile_number("nanquantile", x, q)}, quantile_attrs(options));
}

}  // namespace mezzo
