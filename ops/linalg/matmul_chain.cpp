// chain_matmul and multi_dot: products of several matrices in the order that takes the fewest
// multiplications.
#include <limits>

#include "mezzo/autograd/decomposed.h"
#include "mezzo/ops/detail/composed.h"
#include "mezzo/ops/linalg/product.h"
#include "mezzo/ops/ops.h"

namespace mezzo {

namespace {

using namespace ops;

/// Throws unless the operands follow one another: all matrices, but for vectors at the ends of multi_dot.
void check_chain(std::string_view op, Inputs inputs, bool vectors) {
  const std::size_t least = vectors ? 2 : 1;
  if (inputs.size() < least) {
    throw ShapeError(op, "at least " + std::to_string(least) + " tensors", std::to_string(inputs.size()),
                     "pass the factors in their order");
  }
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const bool end = i == 0 || i + 1 == inputs.size();
    if (!vectors || !end || inputs[i]->dim() != 1) require_dims(op, "a matrix", inputs[i], 2);
    if (i == 0) continue;
    static_cast<void>(product_dtype(op, inputs[0], inputs[i], {}));
    require_inner(op, inputs[i - 1], inputs[i], inputs[i - 1]->size(-1), inputs[i]->size(0));
  }
}

/// The cheapest way to put the brackets, by dynamic programming over all runs of factors (Cormen et al.,
/// "Introduction to Algorithms", matrix-chain multiplication).
class Brackets {
 public:
  /// `sizes`: rows of the first matrix, then the columns of each.
  explicit Brackets(std::vector<double> sizes) : n_(sizes.size() - 1), last_(n_ * n_, 0) {
    std::vector<double> cost(n_ * n_, 0);
    for (std::size_t length = 2; length <= n_; ++length) {
      for (std::size_t i = 0; i + length <= n_; ++i) {
        const std::size_t j = i + length - 1;
        double best = std::numeric_limits<double>::infinity();
        for (std::size_t k = i; k < j; ++k) {
          const double here =
              cost[i * n_ + k] + cost[(k + 1) * n_ + j] + sizes[i] * sizes[k + 1] * sizes[j + 1];
          if (here < best) best = here, last_[i * n_ + j] = k;
        }
        cost[i * n_ + j] = best;
      }
    }
  }
  /// The product of factors i to j, both included, in `dtype`; products of fewer factors are in `wide`.
  [[nodiscard]] Tensor product(const Tensors& factors, std::size_t i, std::size_t j, DType dtype,
                               DType wide) const {
    if (i == j) return factors[i];
    const std::size_t k = last_[i * n_ + j];
    return matmul(product(factors, i, k, wide, wide), product(factors, k + 1, j, wide, wide), dtype);
  }

 private:
  std::size_t n_;
  std::vector<std::size_t> last_;  ///< the last factor of the left half of each run
};

template <bool vectors>
constexpr const char* kChainName = vectors ? "multi_dot" : "chain_matmul";

template <bool vectors>
Outputs chain_reference(const ForwardArgs<NoAttrs>& args) {
  check_chain(kChainName<vectors>, args.inputs, vectors);
  Tensors factors(args.inputs.begin(), args.inputs.end());
  const bool row = factors[0].dim() == 1, column = factors[factors.size() - 1].dim() == 1;
  if (row) factors[0] = unsqueeze(factors[0], 0);
  if (column) factors[factors.size() - 1] = unsqueeze(factors[factors.size() - 1], 1);
  std::vector<double> sizes{static_cast<double>(factors[0].size(0))};
  for (const Tensor& factor : factors) sizes.push_back(static_cast<double>(factor.size(1)));
  const DType dtype = factors[0].dtype();
  const Tensor product =
      Brackets(std::move(sizes)).product(factors, 0, factors.size() - 1, dtype, unrounded(dtype));
  Shape shape;
  if (!row) shape.push_back(product.size(0));
  if (!column) shape.push_back(product.size(1));
  return reshape(product, shape);
}

template <bool vectors>
Outputs chain_forward(const ForwardArgs<NoAttrs>& args) {
  Tensor product = chain_reference<vectors>(args);
  if (args.inputs.size() == 1) return clone(product);
  return alias(product, product.shape(), product.strides(), 0, false);  // the memory is new: not a view
}

template <bool vectors>
std::vector<Sample<NoAttrs>> chain_samples() {
  using op_samples::real;
  std::vector<Sample<NoAttrs>> list{{{real({3, 4}), real({4, 2}), real({2, 5})}},
                                    {{real({2, 6}), real({6, 3}), real({3, 4}), real({4, 1})}},
                                    {{real({2, 3}), real({3, 2})}},
                                    {{real({2, 0}), real({0, 3}), real({3, 2})}}};
  if (!vectors) list.push_back({{real({2, 3})}});
  if (vectors) list.push_back({{real({4}), real({4, 3}), real({3})}});
  return list;
}
template <bool vectors>
constexpr Op<NoAttrs> kChainOp = taking_list(fused_op<NoAttrs>(kChainName<vectors>, Category::lower_precision,
                                                               chain_samples<vectors>, chain_forward<vectors>,
                                                               chain_reference<vectors>, kDecomposed,
                                                               {~0U, 0}));

const Registered matmul_chain_registered{kChainOp<false>, kChainOp<true>};

}  // namespace

Tensor chain_matmul(TensorList factors) { return bind_list(kChainOp<false>, factors); }
Tensor multi_dot(TensorList factors) { return bind_list(kChainOp<true>, factors); }

}  // namespace mezzo
