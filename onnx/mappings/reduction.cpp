// Reductions, orders and running sums.
#include <cmath>
#include <utility>

#include "mezzo/onnx/mappings/common.h"

namespace mezzo::onnx {

namespace {

using Integers = std::vector<std::int64_t>;

template <Literal kOp>
void reduce(Call& c) {
  c.set(c.reduced(kOp.text, operand(c, 0), c.dims("dim"), c.flag("keepdim")));
}
/// Of bools: the least or the greatest.
template <Literal kOp>
void reduce_bools(Call& c) {
  const std::string x = c.cast(c.input(0, DType::boolean), DType::boolean, DType::i32);
  c.set(c.cast(c.reduced(kOp.text, x, c.dims("dim"), c.flag("keepdim")), DType::i32, DType::boolean));
}
template <Literal kOp>
void reduce_all(Call& c) {
  Integers dims(static_cast<std::size_t>(c.in(0).dim()));
  for (std::size_t d = 0; d < dims.size(); ++d) dims[d] = static_cast<std::int64_t>(d);
  c.set(c.reduced(kOp.text, operand(c, 0), dims, false));
}

void prod(Call& c) {
  if (c.is_null("dim")) return reduce_all<"ReduceProd">(c);
  c.set(c.reduced("ReduceProd", operand(c, 0), {c.dim("dim")}, c.flag("keepdim")));
}

std::string arg(Call& c, const char* op, std::int64_t dim, bool keepdim, const std::string& x) {
  return c.node(op, {x}, {{"axis", dim}, {"keepdims", std::int64_t{keepdim ? 1 : 0}}});
}
template <Literal kOp>
void arg_of(Call& c) {
  if (!c.is_null("dim")) return c.set(arg(c, kOp.text, c.dim("dim"), c.flag("keepdim"), c.input(0)));
  const std::string flat = c.node("Reshape", {c.input(0), c.list(Integers{-1})});
  c.set(c.reshaped(arg(c, kOp.text, 0, false, flat), c.out_sizes()));
}
/// The greatest or least along a dim, and where it is.
template <Literal kReduce, Literal kArg>
void with_place(Call& c) {
  const std::int64_t dim = c.dim("dim");
  const bool keepdim = c.flag("keepdim");
  c.set(0, c.reduced(kReduce.text, c.input(0), {dim}, keepdim));
  c.set(1, arg(c, kArg.text, dim, keepdim, c.input(0)));
}

/// The mean squared distance from the mean, over n - correction in the place of n.
std::string variance(Call& c) {
  const Integers dims = c.dims("dim");
  const std::string x = operand(c, 0);
  const std::string apart = c.node("Sub", {x, c.reduced("ReduceMean", x, dims, true)});
  std::string mean = c.reduced("ReduceMean", c.node("Mul", {apart, apart}), dims, c.flag("keepdim"));
  const std::int64_t correction =
      c.is_null("correction") ? (c.flag("unbiased") ? 1 : 0) : c.integer("correction");
  if (correction == 0) return mean;
  double count = 1;
  for (const std::int64_t d : dims) {
    const Size size = c.in_sizes(0)[static_cast<std::size_t>(d)];
    if (size.varies()) {
      c.refuse("an unbiased variance over sizes that do not vary",
               std::to_string(size.first) + " and " + std::to_string(size.second),
               "take the biased one, or export for one size: .fixed_sizes = true");
    }
    count *= static_cast<double>(size.first);
  }
  return c.node("Mul", {mean, number(c, count / (count - static_cast<double>(correction)))});
}
void var(Call& c) { c.set(variance(c)); }
void standard_deviation(Call& c) { c.set(c.node("Sqrt", {variance(c)})); }

std::string norm_of(Call& c, const std::string& x, const Integers& dims, double p, bool keepdim) {
  if (p == 1) return c.reduced("ReduceL1", x, dims, keepdim);
  if (p == 2) return c.reduced("ReduceL2", x, dims, keepdim);
  const std::string size = c.node("Abs", {x});
  if (std::isinf(p)) return c.reduced(p > 0 ? "ReduceMax" : "ReduceMin", size, dims, keepdim);
  if (p == 0) c.refuse("a p other than 0", "0", "count what is not 0 by ne and sum");
  const std::string sum = c.reduced("ReduceSum", c.node("Pow", {size, number(c, p)}), dims, keepdim);
  return c.node("Pow", {sum, number(c, 1 / p)});
}
void norm(Call& c) { c.set(norm_of(c, operand(c, 0), c.dims("dim"), c.real("p"), c.flag("keepdim"))); }
void normalize(Call& c) {
  const std::string x = operand(c, 0), size = norm_of(c, x, c.dims("dim"), c.real("p"), true);
  c.set(c.node("Div", {x, c.node("Max", {size, number(c, c.real("eps"))})}));
}
/// The sizes that two tensors broadcast to.
Sizes broadcast(Sizes a, Sizes b) {
  if (a.size() < b.size()) std::swap(a, b);
  for (std::size_t d = 0; d < b.size(); ++d) {
    Size& size = a[a.size() - b.size() + d];
    if (size == Size{1, 1}) size = b[d];
  }
  return a;
}
/// Along a dim of what both broadcast to.
void cosine_similarity(Call& c) {
  const Sizes sizes = broadcast(c.in_sizes(0), c.in_sizes(1));
  const auto full = [&](std::size_t i) {
    return c.in_sizes(i) == sizes ? operand(c, i) : c.node("Expand", {operand(c, i), c.list(sizes)});
  };
  const std::string a = full(0), b = full(1), eps = number(c, c.real("eps"));
  const Integers dims{c.dim("dim", static_cast<std::int64_t>(sizes.size()))};
  const auto length = [&](const std::string& x) {
    return c.node("Max", {c.reduced("ReduceL2", x, dims, false), eps});
  };
  const std::string dot = c.reduced("ReduceSum", c.node("Mul", {a, b}), dims, false);
  c.set(c.node("Div", {dot, c.node("Mul", {length(a), length(b)})}));
}

void cumsum(Call& c) {
  const std::string axis = c.number(static_cast<double>(c.dim("dim")), DType::i64);
  c.set(c.node("CumSum", {operand(c, 0), axis}));
}
void sorted(Call& c, const Sizes& count, bool largest) {
  const auto results = c.nodes(
      "TopK", {c.input(0), c.list(count)},
      {{"axis", c.dim("dim")}, {"largest", std::int64_t{largest ? 1 : 0}}, {"sorted", std::int64_t{1}}}, 2);
  c.set(0, results[0]);
  c.set(1, results[1]);
}
void topk(Call& c) { sorted(c, {c.size("k")}, c.flag("largest")); }
void sort(Call& c) {
  sorted(c, {c.in_sizes(0)[static_cast<std::size_t>(c.dim("dim"))]}, c.flag("descending"));
}

constexpr Mapping kMappings[]{
    {"sum", reduce<"ReduceSum">},
    {"mean", reduce<"ReduceMean">},
    {"amax", reduce<"ReduceMax">},
    {"amin", reduce<"ReduceMin">},
    {"logsumexp", reduce<"ReduceLogSumExp">},
    {"prod", prod},
    {"all", reduce_bools<"ReduceMin">},
    {"any", reduce_bools<"ReduceMax">},
    {"max_all", reduce_all<"ReduceMax">},
    {"min_all", reduce_all<"ReduceMin">},
    {"max_dim", with_place<"ReduceMax", "ArgMax">},
    {"min_dim", with_place<"ReduceMin", "ArgMin">},
    {"argmax", arg_of<"ArgMax">},
    {"argmin", arg_of<"ArgMin">},
    {"var", var},
    {"std", standard_deviation},
    {"norm", norm},
    {"normalize", normalize},
    {"cosine_similarity", cosine_similarity},
    {"cumsum", cumsum},
    {"topk", topk},
    {"sort", sort},
};

}  // namespace

std::span<const Mapping> reduction_mappings() { return kMappings; }

}  // namespace mezzo::onnx
