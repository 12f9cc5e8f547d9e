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
  c.set(c.node("Gather", {c.input(0), c.input(1, DType::i64)}, {{"axis", c.dim("dim")}}));
}
void gather(Call& c) { c.set(c.node("GatherElements", {c.input(0), c.input(1)}, {{"axis", c.dim("dim")}})); }
/// ONNX's index has the shape of the updates; the op's may be smaller.
template <Literal kReduction>
void scatter(Call& c) {
  if (c.in_sizes(1) != c.in_sizes(2))
    c.refuse("an index of the shape of src", "another one", "cut src to the index's shape");
  c.set(c.node("ScatterElements", {operand(c, 0), c.input(1), operand(c, 2)},
               {{"axis", c.dim("dim")}, {"reduction", std::string(kReduction.text)}}));
}

/// Rows of src in the place of rows of x.
bool copies_rows(const TracedOp& op, std::int64_t /*opset*/) { return op.attrs.at("dim").as_int() == 0; }
void index_copy(Call& c) {
  const std::string index = c.node("Unsqueeze", {c.input(1, DType::i64), c.list(Integers{1})});
  c.set(c.node("ScatterND", {operand(c, 0), index, operand(c, 2)}));
}

/// x[.., i, ..] with one index, or x[i, j, ..] with the first dims' indices.
void index(Call& c) {
  std::vector<std::size_t> given;
  for (std::size_t i = 1; i < c.num_inputs(); ++i) {
    if (!c.has(i)) continue;
    if (c.in(i).dtype() == DType::boolean)
      c.refuse("indices that are numbers", "a mask, whose result has a size that depends on values",
               "use where, or masked_fill");
    given.push_back(i);
  }
  if (given.size() == 1) {
    const auto dim = static_cast<std::int64_t>(given[0] - 1);
    return c.set(c.node("Gather", {c.input(0), c.input(given[0], DType::i64)}, {{"axis", dim}}));
  }
  if (given.empty() || given.back() != given.size())
    c.refuse("an index of one dim, or of the first dims", "other ones",
             "permute the dims, or index in steps");
  // All indices in one tensor [.., number of indices].
  const std::size_t dims = c.out_sizes().size() - (c.in_sizes(0).size() - given.size());
  const Sizes out = c.out_sizes(), shape(out.begin(), out.begin() + static_cast<std::ptrdiff_t>(dims));
  std::vector<std::string> columns;
  for (const std::size_t i : given) {
    const std::string full = c.node("Expand", {c.input(i, DType::i64), c.list(shape)});
    columns.push_back(c.node("Unsqueeze", {full, c.list(Integers{static_cast<std::int64_t>(dims)})}));
  }
  const std::string all = c.node("Concat", columns, {{"axis", static_cast<std::int64_t>(dims)}});
  c.set(c.node("GatherND", {c.input(0), all}));
}

constexpr Mapping kMappings[]{
    {"embedding", embedding},
    {"one_hot", one_hot},
    {"index_select", index_select},
    {"gather", gather},
    {"scatter", scatter<"none">},
    {"scatter_add", scatter<"add">},
    {"index_copy", index_copy, copies_rows},
    {"index", index},
};

}  // namespace

std::span<const Mapping> indexing_mappings() { return kMappings; }

}  // namespace mezzo::onnx
