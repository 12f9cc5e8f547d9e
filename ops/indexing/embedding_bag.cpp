// embedding_bag as a composition: rows are looked up, multiplied by their factors or by 0, and reduced by the
// bag that each belongs to.
#include <limits>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "mezzo/ops/forward.h"
#include "mezzo/ops/ops.h"

namespace mezzo {

namespace {

using namespace ops;

constexpr const char* kEmbeddingBag = "embedding_bag";

void check_embedding_bag(const Tensor& index, const Tensor& weight, const Tensor& offsets,
                         const EmbeddingBagOptions& options) {
  require_defined(kEmbeddingBag, index);
  require_defined(kEmbeddingBag, weight);
  require_floating(kEmbeddingBag, weight);
  if (index.dim() != 1 && index.dim() != 2) {
    throw ShapeError(kEmbeddingBag, "an index [n] with offsets, or [bags, n]", to_string(index.shape()),
                     "reshape it");
  }
  if (offsets.defined() != (index.dim() == 1)) {
    throw ValueError(kEmbeddingBag,
                     index.dim() == 1 ? "offsets for an index [n]" : "no offsets for an index [bags, n]",
                     offsets.defined() ? "offsets" : "none", "each row of a 2-dim index is a bag");
  }
  const Tensor& factors = options.per_sample_weights;
  if (!factors.defined()) return;
  if (options.mode != BagMode::sum) {
    throw ValueError(kEmbeddingBag, "per_sample_weights with mode sum", "another mode", "leave them out");
  }
  if (factors.shape() != index.shape()) {
    throw ShapeError(kEmbeddingBag, "per_sample_weights of the index's shape " + to_string(index.shape()),
                     to_string(factors.shape()), "give one factor per index");
  }
  if (factors.dtype() != weight.dtype()) {
    throw DTypeError(kEmbeddingBag, "per_sample_weights of " + std::string(to_string(weight.dtype())),
                     to_string(factors.dtype()), "convert them with to(dtype)");
  }
}

/// The bag of each index, i64 [n], and how many bags there are.
std::pair<Tensor, std::int64_t> bags_of(const Tensor& index, const Tensor& offsets, bool last_is_end) {
  const std::int64_t n = index.size(0);
  if (offsets.dim() != 1) {
    throw ShapeError(kEmbeddingBag, "offsets [bags]", to_string(offsets.shape()), "reshape them");
  }
  const std::vector<std::int64_t> starts = offsets.to_vector<std::int64_t>();
  const std::int64_t count = std::ssize(starts) - (last_is_end ? 1 : 0);
  bool good = count >= 0 && (starts.empty() || starts[0] == 0);
  for (std::size_t i = 1; i < starts.size(); ++i) good = good && starts[i] >= starts[i - 1];
  if (!good || (!starts.empty() && starts.back() > n) || (count == 0 && n > 0)) {
    throw ValueError(kEmbeddingBag,
                     "offsets that begin with 0, do not fall, and end at most at " + std::to_string(n),
                     "others", "bag b begins at offsets[b]");
  }
  std::vector<std::int64_t> bags(static_cast<std::size_t>(n), 0);
  for (std::size_t b = 0; b < static_cast<std::size_t>(count); ++b) {
    const auto end = b + 1 < starts.size() ? starts[b + 1] : n;
    for (std::int64_t i = starts[b]; i < end; ++i)
      bags[static_cast<std::size_t>(i)] = static_cast<std::int64_t>(b);
  }
  if (last_is_end && !starts.empty() && starts.back() < n) {
    throw ValueError(kEmbeddingBag, "a last offset of " + std::to_string(n), std::to_string(starts.back()),
                     "with include_last_offset it is where the last bag ends");
  }
  return {to(from_data<std::int64_t>(bags, {n}), index.device()), count};
}

/// Rows [.., width] and whether each takes part, reduced to bags.
class Bags {
 public:
  /// The bags of `index`; its rows where there are no offsets.
  Bags(const Tensor& index, const Tensor& offsets, bool last_is_end) {
    if (offsets.defined()) std::tie(bag_, count_) = bags_of(index, offsets, last_is_end);
  }
  [[nodiscard]] Tensor sum(const Tensor& x) const {
    return bag_.defined() ? index_add(filled(x, 0), 0, bag_, x) : mezzo::sum(x, 1);
  }
  [[nodiscard]] Tensor max(const Tensor& x) const {
    if (!bag_.defined()) return x.size(1) == 0 ? mezzo::sum(x, 1) : amax(x, 1);
    return scatter_reduce(filled(x, kLowest), 0, expand(unsqueeze(bag_, 1), x.shape()), x,
                          ScatterReduction::amax);
  }
  static constexpr double kLowest = -std::numeric_limits<double>::infinity();

 private:
  /// One element, or row, for each bag.
  [[nodiscard]] Tensor filled(const Tensor& x, double value) const {
    Shape shape = x.shape();
    shape[0] = count_;
    return full(shape, value, {.dtype = x.dtype(), .device = x.device()});
  }

  Tensor bag_;  // of each index; undefined where rows are bags
  std::int64_t count_ = 0;
};

}  // namespace

Tensor embedding_bag(const Tensor& index, const Tensor& weight, const Tensor& offsets,
                     const EmbeddingBagOptions& options) {
  check_embedding_bag(index, weight, offsets, options);
  const Bags bags(index, offsets, options.include_last_offset);
  // One rounding to 16 bits, at the end.
  const DType wide = compute_dtype(weight.dtype());
  Tensor rows = to(embedding(index, weight, options.padding_idx, options.scale_grad_by_freq, options.max_norm,
                             options.norm_type),
                   wide);
  Tensor takes_part;
  if (options.padding_idx) {
    const std::int64_t padding =
        *options.padding_idx < 0 ? *options.padding_idx + weight.size(0) : *options.padding_idx;
    takes_part = ne(index, padding);
    rows = where(unsqueeze(takes_part, -1), rows, options.mode == BagMode::max ? Bags::kLowest : 0);
  } else {
    takes_part = ones(index.shape(), {.dtype = DType::boolean, .device = index.device()});
  }
  if (options.mode == BagMode::sum) {
    if (options.per_sample_weights.defined())
      rows = mul(rows, unsqueeze(to(options.per_sample_weights, wide), -1));
    return to(bags.sum(rows), weight.dtype());
  }
  const Tensor counts = unsqueeze(bags.sum(to(takes_part, DType::i64)), -1);
  if (options.mode == BagMode::max) return to(where(gt(counts, 0), bags.max(rows), 0), weight.dtype());
  return to(div(bags.sum(rows), clamp(counts, 1)), weight.dtype());
}

}  // namespace mezzo
