// Matrix products and sums of them.
#include "mezzo/onnx/mappings/common.h"

namespace mezzo::onnx {

namespace {

using Integers = std::vector<std::int64_t>;

/// Of rows: other dims are merged before and come back behind.
void linear(Call& c) {
  if (c.in(1).numel() == 0) c.refuse("a weight with values", to_string(c.in(1).shape()), "give it some");
  const bool is_matrix = c.in(0).dim() == 2;
  std::string x = operand(c, 0);
  if (!is_matrix) x = c.node("Reshape", {x, c.list(Integers{-1, c.in(1).size(1)})});
  const std::string y =
      c.node("Gemm", {x, operand(c, 1), c.optional_input(2, c.out().dtype())}, {{"transB", std::int64_t{1}}});
  c.set(is_matrix ? y : c.reshaped(y, c.out_sizes()));
}

void outer(Call& c) {
  const std::string a = c.node("Unsqueeze", {operand(c, 0), c.list(Integers{1})});
  c.set(c.node("Mul", {a, operand(c, 1)}));
}

std::string scaled(Call& c, const std::string& x, double by) {
  return by == 1 ? x : c.node("Mul", {x, number(c, by)});
}
/// beta x + alpha product.
void add_product(Call& c, const std::string& product) {
  const std::string scaled_product = scaled(c, product, c.real("alpha"));
  if (c.real("beta") == 0) return c.set(c.node("Expand", {scaled_product, c.list(c.out_sizes())}));
  c.set(c.node("Add", {scaled(c, operand(c, 0), c.real("beta")), scaled_product}));
}
/// Of matrices, of a matrix and a vector, of batches of matrices.
void add_matmul(Call& c) { add_product(c, c.node("MatMul", {operand(c, 1), operand(c, 2)})); }
void add_sum_of_products(Call& c) {
  const std::string all = c.node("MatMul", {operand(c, 1), operand(c, 2)});
  add_product(c, c.reduced("ReduceSum", all, {0}, false));
}
void add_outer(Call& c) {
  const std::string a = c.node("Unsqueeze", {operand(c, 1), c.list(Integers{1})});
  add_product(c, c.node("Mul", {a, operand(c, 2)}));
}

std::string einsum_of(Call& c, const std::string& equation, std::size_t inputs) {
  std::vector<std::string> operands;
  for (std::size_t i = 0; i < inputs; ++i) operands.push_back(operand(c, i));
  return c.node("Einsum", operands, {{"equation", equation}});
}
/// ONNX broadcasts neither ellipses of different lengths nor sizes of 1.
bool is_plain_einsum(const TracedOp& op, std::int64_t /*opset*/) {
  for (const Tensor& input : op.inputs) {
    if (std::find(input.shape().begin(), input.shape().end(), 1) != input.shape().end()) return false;
  }
  return op.attrs.at("eq").as_string().find('.') == std::string::npos;
}
void einsum(Call& c) { c.set(einsum_of(c, c.text("eq"), c.num_inputs())); }
/// As an einsum: dims that are summed over share a letter.
void tensordot(Call& c) {
  const Integers of_a = c.integers("dims_a"), of_b = c.integers("dims_b");
  const auto at = [](std::int64_t dim, const Tensor& x) {
    return static_cast<std::size_t>(dim < 0 ? dim + x.dim() : dim);
  };
  std::string a(static_cast<std::size_t>(c.in(0).dim()), ' '),
      b(static_cast<std::size_t>(c.in(1).dim()), ' ');
  char letter = 'a';
  for (std::size_t i = 0; i < of_a.size(); ++i) a[at(of_a[i], c.in(0))] = b[at(of_b[i], c.in(1))] = letter++;
  std::string out;
  for (std::string* const letters : {&a, &b}) {
    for (char& one : *letters) {
      if (one == ' ') out += one = letter++;
    }
  }
  c.set(einsum_of(c, a + "," + b + "->" + out, 2));
}

constexpr Mapping kMappings[]{
    {"linear", linear},          {"matmul", same<"MatMul", 2>},
    {"mm", same<"MatMul", 2>},   {"bmm", same<"MatMul", 2>},
    {"mv", same<"MatMul", 2>},   {"dot", same<"MatMul", 2>},
    {"vdot", same<"MatMul", 2>}, {"outer", outer},
    {"addmm", add_matmul},       {"addmv", add_matmul},
    {"baddbmm", add_matmul},     {"addbmm", add_sum_of_products},
    {"addr", add_outer},         {"einsum", einsum, is_plain_einsum},
    {"tensordot", tensordot},
};

}  // namespace

std::span<const Mapping> product_mappings() { return kMappings; }

}  // namespace mezzo::onnx
