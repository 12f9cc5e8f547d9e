// cosine_similarity, normalize, renorm, dist, cdist, pdist: compositions around norm.
#include "mezzo/ops/distance.h"

#include <limits>
#include <vector>

#include "mezzo/ops/detail/composed.h"
#include "mezzo/ops/ops.h"

namespace mezzo {

namespace {

using namespace ops;
using op_samples::real;
using op_samples::smooth;

/// x / |x|, with eps for smaller norms.
struct Direction {
  Direction(const Tensor& x, double p, const Dims& over, double eps)
      : shrink(x.dtype() == DType::f32 && eps > 0x1p-90 ? 0x1p-32 : 1),
        dim(over),
        shrunk(shrink == 1 ? x : x * shrink),
        length(norm(shrunk, p, dim, true)),
        least(eps * shrink),
        divisor(clamp(length, least)),
        unit(shrunk / divisor) {}
  /// The gradient of x for p = 2: (g - y (g y)) / |x|. Neither powers of the norm nor products with x, which
  /// leave the range of f32 from 1e19 on.
  [[nodiscard]] Tensor gradient(const Tensor& grad) const {
    const Tensor along = where(ge(length, least), sum(grad * unit, dim, true), 0);
    const Tensor is_long = gt(divisor, std::numeric_limits<float>::max() * shrink);
    const Tensor across = (grad - unit * along) * where(is_long, shrink, 1.0);
    return across / where(is_long, divisor, divisor / shrink);
  }
  double shrink;  ///< of x: numbers that fit into f32 may make a vector whose length does not
  Dims dim;
  Tensor shrunk, length;
  double least;
  Tensor divisor, unit;
};

// --- cosine_similarity

struct CosineAttrs {
  std::int64_t dim = 1;
  double eps = 1e-8;
  MEZZO_FIELDS(CosineAttrs, dim, eps)
};

Outputs cosine_forward(const ForwardArgs<CosineAttrs>& args) {
  const DType result = floating_result("cosine_similarity", args);
  const Shape shape = layout::broadcast("cosine_similarity", args.in(0).shape(), args.in(1).shape());
  const Dims dim{layout::wrap_dim("cosine_similarity", args.attrs.dim, shape.size())};
  const auto unit = [&](std::size_t i) {
    return Direction(expand(input_as(args, i, compute_dtype(result)), shape), 2, dim, args.attrs.eps).unit;
  };
  return to(sum(unit(0) * unit(1), dim), result);
}
Gradients cosine_vjp(const VjpArgs<CosineAttrs>& args) {
  const Shape shape = layout::broadcast("cosine_similarity", args.in_shape(0), args.in_shape(1));
  const Dims dim{layout::wrap_dim("cosine_similarity", args.attrs.dim, shape.size())};
  const Tensor grad = unsqueeze(widened(args.grad()), dim[0]);
  const Direction a(expand(widened(args.in(0)), shape), 2, dim, args.attrs.eps);
  const Direction b(expand(widened(args.in(1)), shape), 2, dim, args.attrs.eps);
  return {args.needs(0) ? sum_to(a.gradient(grad * b.unit), args.in_shape(0)) : Tensor(),
          args.needs(1) ? sum_to(b.gradient(grad * a.unit), args.in_shape(1)) : Tensor()};
}
std::vector<Sample<CosineAttrs>> cosine_samples() {
  return {{{real({3, 5}), real({3, 5})}, {}},
          {{real({3, 4}), real({4})}, {.dim = -2, .eps = 1e-6}},
          {{real({5}), real({5})}, {.dim = 0, .eps = 100}}};
}
constexpr Op<CosineAttrs> cosine_op =
    composed_op<CosineAttrs>("cosine_similarity", cosine_samples, cosine_forward, cosine_vjp);

// --- normalize

struct NormalizeAttrs {
  double p = 2;
  Dims dim = {1};
  double eps = 1e-12;
  MEZZO_FIELDS(NormalizeAttrs, p, dim, eps)
};

Outputs normalize_forward(const ForwardArgs<NormalizeAttrs>& args) {
  const DType result = floating_result("normalize", args);
  const Tensor x = input_as(args, 0, compute_dtype(result));
  const Dims dim = layout::wrap_dims("normalize", args.attrs.dim, x.shape().size());
  return to(Direction(x, args.attrs.p, dim, args.attrs.eps).unit, result);
}
Gradients normalize_vjp(const VjpArgs<NormalizeAttrs>& args) {
  if (args.attrs.p != 2) return decomposed(args);
  const Tensor x = widened(args.in(0));
  const Dims dim = layout::wrap_dims("normalize", args.attrs.dim, x.shape().size());
  return {Direction(x, 2, dim, args.attrs.eps).gradient(widened(args.grad()))};
}
std::vector<Sample<NormalizeAttrs>> normalize_samples() {
  return {{{real({3, 5})}, {}},
          {{smooth({3, 5})}, {.p = 1, .dim = {0}}},
          {{smooth({2, 3, 4})}, {.p = 3, .dim = {-1}, .eps = 100}},
          {{real({2, 3, 4})}, {.p = 2, .dim = {1, -1}}},
          {{op_samples::distinct({4})}, {.p = std::numeric_limits<double>::infinity(), .dim = {0}}}};
}
constexpr Op<NormalizeAttrs> normalize_op =
    composed_op<NormalizeAttrs>("normalize", normalize_samples, normalize_forward, normalize_vjp);

// --- renorm

struct RenormAttrs {
  double p = 2;
  std::int64_t dim = 0;
  double maxnorm = 1;
  MEZZO_FIELDS(RenormAttrs, p, dim, maxnorm)
};

Outputs renorm_forward(const ForwardArgs<RenormAttrs>& args) {
  const RenormAttrs& attrs = args.attrs;
  const DType result = floating_result("renorm", args);
  const Tensor x = input_as(args, 0, compute_dtype(result));
  const std::size_t rank = x.shape().size();
  if (rank < 2) throw ShapeError("renorm", "at least 2 dims", to_string(x.shape()), "unsqueeze a dim");
  if (!(attrs.p > 0)) throw ValueError("renorm", "p > 0", number_text(attrs.p), "pass 2 for Euclidean norms");
  if (!(attrs.maxnorm >= 0))
    throw ValueError("renorm", "maxnorm >= 0", number_text(attrs.maxnorm), "pass the largest norm");
  const std::int64_t dim = layout::wrap_dim("renorm", attrs.dim, rank);
  Dims others;
  for (std::int64_t d = 0; d < static_cast<std::int64_t>(rank); ++d) {
    if (d != dim) others.push_back(d);
  }
  const Tensor norms = norm(x, attrs.p, others, true);
  const Tensor factor = where(gt(norms, attrs.maxnorm), attrs.maxnorm / (norms + 1e-7), 1.0);
  return to(x * factor, result);
}
std::vector<Sample<RenormAttrs>> renorm_samples() {
  return {{{real({3, 5}, 0.5, 2)}, {.p = 2, .dim = 0, .maxnorm = 1}},
          {{smooth({2, 3, 2})}, {.p = 1, .dim = -2, .maxnorm = 0.5}},
          {{smooth({4, 3})}, {.p = 3, .dim = 1, .maxnorm = 50}}};
}
constexpr Op<RenormAttrs> renorm_op = composed_op<RenormAttrs>("renorm", renorm_samples, renorm_forward);

// --- dist, cdist, pdist

struct DistanceAttrs {
  double p = 2;
  MEZZO_FIELDS(DistanceAttrs, p)
};
using DistanceArgs = ForwardArgs<DistanceAttrs>;

void require_not_negative(std::string_view op, double p) {
  if (p >= 0) return;
  throw ValueError(op, "p >= 0", number_text(p), "pass 2 for Euclidean distances");
}

/// Of points without coordinates every distance is 0; a norm for p = inf would ask for an element.
Tensor distances(const Tensor& difference, double p) {
  return difference.size(-1) == 0 ? sum(difference, -1) : norm(difference, p, -1);
}

Outputs dist_forward(const DistanceArgs& args) {
  const DType result = floating_result("dist", args), compute = compute_dtype(result);
  static_cast<void>(layout::broadcast("dist", args.in(0).shape(), args.in(1).shape()));
  const Tensor difference = input_as(args, 0, compute) - input_as(args, 1, compute);
  return to(norm(difference, args.attrs.p), result);
}
std::vector<Sample<DistanceAttrs>> dist_samples() {
  const SampleInput far = real({3, 4}, 3, 5);
  return {{{real({3, 4}), far}, {2}},
          {{far, real({4})}, {1}},
          {{real({}), far}, {3}},
          {{op_samples::distinct({5}), real({}, 3, 5)}, {std::numeric_limits<double>::infinity()}}};
}
constexpr Op<DistanceAttrs> dist_op = composed_op<DistanceAttrs>("dist", dist_samples, dist_forward);

Outputs cdist_forward(const DistanceArgs& args) {
  const DType result = floating_result("cdist", args), compute = compute_dtype(result);
  require_not_negative("cdist", args.attrs.p);
  const Shape &a = args.in(0).shape(), &b = args.in(1).shape();
  if (a.size() < 2 || b.size() < 2 || a.back() != b.back()) {
    throw ShapeError("cdist", "[..., P, M] and [..., R, M]", to_string(a) + " and " + to_string(b),
                     "the last dim of both holds the coordinates");
  }
  const Tensor difference =
      unsqueeze(input_as(args, 0, compute), -2) - unsqueeze(input_as(args, 1, compute), -3);
  return to(distances(difference, args.attrs.p), result);
}
std::vector<Sample<DistanceAttrs>> cdist_samples() {
  return {{{real({3, 4}), real({5, 4}, 3, 5)}, {2}},
          {{real({2, 3, 2}), real({4, 2}, 3, 5)}, {1}},
          {{real({3, 2}), real({2, 2}, 3, 5)}, {3}},
          {{real({3, 2}), real({2, 2}, 3, 5)}, {0}},
          {{real({3, 0}), real({2, 0})}, {std::numeric_limits<double>::infinity()}}};
}
constexpr Op<DistanceAttrs> cdist_op = composed_op<DistanceAttrs>("cdist", cdist_samples, cdist_forward);

Outputs pdist_forward(const DistanceArgs& args) {
  constexpr std::int64_t kMostRows = 32768;  // a pass each
  const DType result = floating_result("pdist", args);
  require_not_negative("pdist", args.attrs.p);
  const Tensor x = input_as(args, 0, compute_dtype(result));
  if (x.dim() != 2) throw ShapeError("pdist", "a matrix of rows [N, M]", to_string(x.shape()), "reshape it");
  const std::int64_t rows = x.shape()[0];
  if (rows > kMostRows) {
    throw ValueError("pdist", "at most " + std::to_string(kMostRows) + " rows", std::to_string(rows),
                     "call cdist on parts of them");
  }
  std::vector<Tensor> pieces;
  for (std::int64_t i = 0; i + 1 < rows; ++i) {
    pieces.push_back(distances(slice(x, 0, i, i + 1) - slice(x, 0, i + 1), args.attrs.p));
  }
  if (pieces.empty()) return to(sum(slice(x, 0, 0, 0), 1), result);
  return to(cat(pieces), result);
}
std::vector<Sample<DistanceAttrs>> pdist_samples() {
  return {
      {{real({4, 3})}, {2}}, {{op_samples::distinct({3, 2})}, {3}}, {{op_samples::distinct({3, 2})}, {1}}};
}
constexpr Op<DistanceAttrs> pdist_op = composed_op<DistanceAttrs>("pdist", pdist_samples, pdist_forward);

const Registered distance_registered{cosine_op, normalize_op, renorm_op, dist_op, cdist_op, pdist_op};

}  // namespace

Tensor cosine_similarity(const Tensor& a, const Tensor& b, std::int64_t dim, double eps) {
  return bind(cosine_op, {a, b}, CosineAttrs{dim, eps});
}
Tensor normalize(const Tensor& x, double p, const ReducedDims& dim, double eps) {
  return bind(normalize_op, {x}, NormalizeAttrs{p, dim, eps});
}
Tensor renorm(const Tensor& x, double p, std::int64_t dim, double maxnorm) {
  return bind(renorm_op, {x}, RenormAttrs{p, dim, maxnorm});
}
Tensor Tensor::dist(const Tensor& other, double p) const {
  return bind(dist_op, {*this, other}, DistanceAttrs{p});
}
Tensor cdist(const Tensor& a, const Tensor& b, double p) { return bind(cdist_op, {a, b}, DistanceAttrs{p}); }
Tensor pdist(const Tensor& x, double p) { return bind(pdist_op, {x}, DistanceAttrs{p}); }

}  // namespace mezzo
