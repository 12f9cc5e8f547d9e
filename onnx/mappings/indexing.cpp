// Reading and writing by index.
#include "mezzo/onnx/mappings/common.h"
#include "mezzo/ops/factory.h"

namespace mezzo::onnx {

namespace {

using Integers = std::vector<std::int64_t>;

void embedding(Call& c) { c.set(c.node("Gather", {c.input(1), c.input(0)}, {{"axis", std::int64_t{0}}})); }
void one_hot(Call& c) {
  const std::int64_t classes = c.integer("num_classes");
  if (classes < 0) c.refuse("a given num_classes", "one that is counted", "pass num_classes");
  const Tensor values = tensor(Integers{0, 1}, {.dtype = DType::i64});
  c.set(c.node("OneHot", {c.input(0), c.list(Integers{classes}), c.constant(values)}));
}
void index_select(Call& c) {
  std::string places = c.input(1, DType::i64);
  if (c.in(1).dim() == 0) places = c.reshaped(places, {{1, 1}});
  c.set(c.node("Gather", {c.input(0), places}, {{"axis", c.dim("dim")}}));
}
void gather(Call& c) { c.set(c.node("GatherElements", {c.input(0), c.input(1)}, {{"axis", c.dim("dim")}})); }
/// ONNX's index has the shape of the updates; the op's may be smaller.
void scatter_by(Call& c, const char* reduction) {
  if (c.in_sizes(1) != c.in_sizes(2))
    c.refuse("an index of the shape of src", "another one", "cut src to the index's shape");
  c.set(c.node("ScatterElements", {operand(c, 0), c.input(1), operand(c, 2)},
               {{"axis", c.dim("dim")}, {"reduction", std::string(reduction)}}));
}
void scatter(Call& c) { scatter_by(c, "none"); }
void scatter_add(Call& c) { scatter_by(c, "add"); }
/// Maxima and minima are there since opset 18.
void scatter_reduce(Call& c) {
  constexpr std::int64_t kHasMaxima = 18;
  const std::string& mode = c.text("reduce");
  const char* const reduction = mode == "sum"    ? "add"
                                : mode == "prod" ? "mul"
                                : mode == "amax" ? "max"
                                                 : "min";
  const bool is_extremum = mode == "amax" || mode == "amin";
  if (mode == "mean" || !c.flag("include_self") || (is_extremum && c.opset() < kHasMaxima)) {
    c.refuse("a sum, product or (from opset 18) extremum with what is there", mode,
             "use another reduction, or a newer opset");
  }
  scatter_by(c, reduction);
}

/// Positions of src along a dim, put or added at those of x that the index lists.
void put(Call& c, const std::string& src, const char* reduction) {
  const std::int64_t dim = c.dim("dim");
  Sizes along(static_cast<std::size_t>(c.in(0).dim()), Size{1, 1});
  if (c.in(2).dim() != c.in(0).dim()) c.refuse("a src of x's dims", "another one", "unsqueeze it");
  if (c.in(1).dim() > 0) along[static_cast<std::size_t>(dim)] = c.in_sizes(1)[0];
  const std::string index =
      c.node("Expand", {c.reshaped(c.input(1, DType::i64), along), c.list(c.in_sizes(2))});
  c.set(c.node("ScatterElements", {operand(c, 0), index, src},
               {{"axis", dim}, {"reduction", std::string(reduction)}}));
}
void index_copy(Call& c) { put(c, operand(c, 2), "none"); }
void index_add(Call& c) {
  const double alpha = c.real("alpha");
  put(c, alpha == 1 ? operand(c, 2) : c.node("Mul", {operand(c, 2), number(c, alpha)}), "add");
}

/// All indices in one tensor [.., number of indices].
std::string joined_indices(Call& c, const std::vector<std::size_t>& given, const Sizes& shape) {
  const auto dims = static_cast<std::int64_t>(shape.size());
  std::vector<std::string> columns;
  for (const std::size_t i : given) {
    const std::string full = c.node("Expand", {c.input(i, DType::i64), c.list(shape)});
    columns.push_back(c.node("Unsqueeze", {full, c.list(Integers{dims})}));
  }
  return c.node("Concat", columns, {{"axis", dims}});
}

/// x[.., i, ..] with one index, or x[.., i, j, ..] with those of neighbouring dims.
void index(Call& c) {
  std::vector<std::size_t> given;
  for (std::size_t i = 1; i < c.num_inputs(); ++i) {
    if (!c.has(i)) continue;
    if (c.in(i).dtype() == DType::boolean) {
      c.refuse("indices that are numbers", "a mask, whose result has a size that depends on values",
               "use where, or masked_fill");
    }
    given.push_back(i);
  }
  if (given.empty() || given.back() - given.front() + 1 != given.size())
    c.refuse("indices of neighbouring dims", "other ones", "permute the dims, or index in steps");
  const auto first = static_cast<std::int64_t>(given.front() - 1),
             count = static_cast<std::int64_t>(given.size());
  if (count == 1)
    return c.set(c.node("Gather", {c.input(0), c.input(given[0], DType::i64)}, {{"axis", first}}));
  const std::int64_t rank = c.in(0).dim(), of_index = c.out().dim() - (rank - count);
  const Sizes out = c.out_sizes();
  const Sizes shape(out.begin() + first, out.begin() + first + of_index);
  // The dims with an index come first, and what they give goes back to its place.
  Integers order, back;
  for (std::int64_t d = 0; d < rank; ++d)
    order.push_back(d < count ? first + d : d < count + first ? d - count : d);
  for (std::int64_t d = 0; d < c.out().dim(); ++d)
    back.push_back(d < first ? of_index + d : d < first + of_index ? d - first : d);
  const auto turned = [&](const std::string& x, const Integers& perm) {
    return first == 0 ? x : c.node("Transpose", {x}, {{"perm", perm}});
  };
  c.set(turned(c.node("GatherND", {turned(c.input(0), order), joined_indices(c, given, shape)}), back));
}

constexpr Mapping kMappings[]{
    {"embedding", embedding},
    {"one_hot", one_hot},
    {"index_select", index_select},
    {"gather", gather},
    {"scatter", scatter},
    {"scatter_add", scatter_add},
    {"scatter_reduce", scatter_reduce},
    {"index_copy", index_copy},
    {"index_add", index_add},
    {"index", index},
};

}  // namespace

std::span<const Mapping> indexing_mappings() { return kMappings; }

}  // namespace mezzo::onnx
