// Operands are multiplied in pairs, from left to right. Labels that nothing later needs are summed over
// first. A pair that shares a label to sum over becomes a matmul, any other a broadcast product.
#include "mezzo/ops/linalg/contraction.h"

#include <map>

#include "mezzo/ops/linalg/product.h"
#include "mezzo/ops/ops.h"

namespace mezzo::ops {

namespace {

bool has(const IntList& labels, std::int64_t label) {
  return std::find(labels.begin(), labels.end(), label) != labels.end();
}
std::int64_t position(const IntList& labels, std::int64_t label) {
  return std::find(labels.begin(), labels.end(), label) - labels.begin();
}
std::int64_t size_of_label(const Labelled& x, std::int64_t label) {
  return x.tensor.size(position(x.labels, label));
}

IntList joined(IntList first, const IntList& second) {
  for (const std::int64_t label : second) first.push_back(label);
  return first;
}

[[noreturn]] void refuse_sizes(std::string_view op, std::int64_t one, std::int64_t other) {
  throw ShapeError(op, "dims of one index that have one size",
                   std::to_string(one) + " and " + std::to_string(other),
                   "check the operands' shapes against the indices");
}

/// x with the dims of its labels in another order.
Tensor permuted(const Labelled& x, const IntList& order) {
  if (order == x.labels) return x.tensor;
  Dims dims;
  for (const std::int64_t label : order) dims.push_back(position(x.labels, label));
  return permute(x.tensor, dims);
}

/// The first label that x has twice, or -1.
std::int64_t repeated_label(const IntList& labels) {
  for (std::size_t i = 0; i < labels.size(); ++i) {
    if (position(labels, labels[i]) != static_cast<std::int64_t>(i)) return labels[i];
  }
  return -1;
}

/// x with each label once: dims that share one become their diagonal.
Labelled with_diagonals(std::string_view op, Labelled x) {
  for (std::int64_t label = repeated_label(x.labels); label >= 0; label = repeated_label(x.labels)) {
    const std::int64_t first = position(x.labels, label);
    const auto second = std::find(x.labels.begin() + first + 1, x.labels.end(), label) - x.labels.begin();
    const std::int64_t n = x.tensor.size(first);
    if (n != x.tensor.size(second)) refuse_sizes(op, n, x.tensor.size(second));
    IntList labels;
    for (std::int64_t d = 0; d < x.tensor.dim(); ++d) {
      if (d != first && d != second) labels.push_back(x.labels[static_cast<std::size_t>(d)]);
    }
    labels.push_back(label);
    x = {diagonal(x.tensor, 0, first, second), labels};
  }
  return x;
}

/// x summed over the labels that are not in `kept`; a sum has this dtype.
Labelled summed(const Labelled& x, const IntList& kept, DType dtype) {
  Dims gone;
  IntList labels;
  for (std::size_t d = 0; d < x.labels.size(); ++d) {
    if (has(kept, x.labels[d]))
      labels.push_back(x.labels[d]);
    else
      gone.push_back(static_cast<std::int64_t>(d));
  }
  return gone.empty() ? x : Labelled{sum(x.tensor, gone, false, dtype), labels};
}

/// The sizes of all labels. Dims of size 1 do not count where another operand has more.
std::map<std::int64_t, std::int64_t> label_sizes(std::string_view op, const std::vector<Labelled>& operands) {
  std::map<std::int64_t, std::int64_t> sizes;
  for (const Labelled& x : operands) {
    for (std::size_t d = 0; d < x.labels.size(); ++d) {
      const std::int64_t size = x.tensor.shape()[d];
      std::int64_t& known = sizes.emplace(x.labels[d], size).first->second;
      if (known != size && known != 1 && size != 1) refuse_sizes(op, known, size);
      if (known == 1) known = size;
    }
  }
  return sizes;
}

/// x without the dims that others broadcast.
Labelled without_broadcast(const Labelled& x, const std::map<std::int64_t, std::int64_t>& sizes) {
  Dims gone;
  IntList labels;
  for (std::size_t d = 0; d < x.labels.size(); ++d) {
    if (x.tensor.shape()[d] == sizes.at(x.labels[d]))
      labels.push_back(x.labels[d]);
    else
      gone.push_back(static_cast<std::int64_t>(d));
  }
  return gone.empty() ? x : Labelled{squeeze(x.tensor, gone), labels};
}

/// The labels of a pair of operands by what becomes of them.
struct Roles {
  IntList batch;        ///< in both and in the result
  IntList contracted;   ///< in both and summed over
  IntList left, right;  ///< in one and in the result
};
Roles roles_of(const Labelled& a, const Labelled& b, const IntList& needed) {
  Roles roles;
  for (const std::int64_t label : a.labels) {
    if (!has(b.labels, label))
      roles.left.push_back(label);
    else
      (has(needed, label) ? roles.batch : roles.contracted).push_back(label);
  }
  for (const std::int64_t label : b.labels) {
    if (!has(a.labels, label)) roles.right.push_back(label);
  }
  return roles;
}

/// The product of two operands without a sum: dims that one operand lacks have size 1 there.
Tensor broadcast_product(const Labelled& a, const Labelled& b, const Roles& roles, DType dtype) {
  Tensor left = permuted(a, joined(roles.batch, roles.left));
  Tensor right = permuted(b, joined(roles.batch, roles.right));
  for (std::size_t i = 0; i < roles.right.size(); ++i) left = unsqueeze(left, -1);
  const auto at = static_cast<std::int64_t>(roles.batch.size());
  for (std::size_t i = 0; i < roles.left.size(); ++i) right = unsqueeze(right, at);
  if (left.dtype() == dtype && right.dtype() == dtype) return mul(left, right);
  const DType wide = unrounded(dtype);
  return to(mul(to(left, wide), to(right, wide)), dtype);
}

/// The product of two operands with a sum over labels: a product of matrices or of batches of them.
Tensor matrix_product(std::string_view op, const Labelled& a, const Labelled& b, const Roles& roles,
                      DType dtype) {
  Shape shape;
  const auto count = [&](const Labelled& x, const IntList& labels, bool in_result) {
    Shape sizes;
    for (const std::int64_t label : labels) sizes.push_back(size_of_label(x, label));
    for (const std::int64_t size : sizes) {
      if (in_result) shape.push_back(size);
    }
    return layout::checked_numel(op, sizes);
  };
  const std::int64_t batch = count(a, roles.batch, true), rows = count(a, roles.left, true),
                     columns = count(b, roles.right, true), inner = count(a, roles.contracted, false);
  Shape left{batch, rows, inner}, right{batch, inner, columns};
  if (roles.batch.empty()) left.erase(std::size_t{0}), right.erase(std::size_t{0});
  const Tensor product =
      matmul(reshape(permuted(a, joined(joined(roles.batch, roles.left), roles.contracted)), left),
             reshape(permuted(b, joined(joined(roles.batch, roles.contracted), roles.right)), right), dtype);
  return reshape(product, shape);
}

/// The product of two operands in `dtype`, summed over the labels that are not needed.
Labelled pair_product(std::string_view op, const Labelled& first, const Labelled& second,
                      const IntList& needed, DType dtype) {
  const Labelled a = summed(first, joined(needed, second.labels), unrounded(dtype));
  const Labelled b = summed(second, joined(needed, first.labels), unrounded(dtype));
  const Roles roles = roles_of(a, b, needed);
  return {roles.contracted.empty() ? broadcast_product(a, b, roles, dtype)
                                   : matrix_product(op, a, b, roles, dtype),
          joined(joined(roles.batch, roles.left), roles.right)};
}

}  // namespace

bool has_repeated(const IntList& labels) { return repeated_label(labels) >= 0; }

Tensor contract(std::string_view op, std::vector<Labelled> operands, const IntList& result,
                std::optional<DType> asked) {
  const DType dtype = asked.value_or(operands[0].tensor.dtype());
  for (Labelled& x : operands) {
    static_cast<void>(product_dtype(op, operands[0].tensor, x.tensor, asked));
    x = with_diagonals(op, std::move(x));
  }
  const auto sizes = label_sizes(op, operands);
  Labelled product = without_broadcast(operands[0], sizes);
  for (std::size_t i = 1; i < operands.size(); ++i) {
    IntList needed = result;
    for (std::size_t j = i + 1; j < operands.size(); ++j) needed = joined(needed, operands[j].labels);
    const bool last = i + 1 == operands.size();
    product = pair_product(op, product, without_broadcast(operands[i], sizes), needed,
                           last ? dtype : unrounded(dtype));
  }
  return permuted(summed(product, result, dtype), result);
}

Gradients contract_gradients(std::string_view op, const VjpContext& args,
                             const std::array<IntList, 2>& labels, const IntList& result) {
  Gradients gradients{Tensor(), Tensor()};
  for (std::size_t i = 0; i < 2; ++i) {
    if (!args.needs(i)) continue;
    const std::vector<Labelled> factors{{args.grad(), result}, {args.in(1 - i), labels[1 - i]}};
    const auto sizes = label_sizes(op, factors);
    // Labels that the factors lack were summed over alone; sizes that are larger in them were broadcast.
    const Shape& shape = args.in_shape(i);
    IntList kept;
    Shape ones = shape;
    for (std::size_t d = 0; d < shape.size(); ++d) {
      const auto found = sizes.find(labels[i][d]);
      if (found != sizes.end() && found->second == shape[d])
        kept.push_back(labels[i][d]);
      else
        ones[d] = 1;
    }
    gradients[i] = expand(reshape(contract(op, factors, kept, args.wanted(i)), ones), shape);
  }
  return gradients;
}

}  // namespace mezzo::ops
