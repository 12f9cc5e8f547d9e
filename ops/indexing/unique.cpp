// unique, unique_consecutive and histc: elements or slices in order, and where each run of equal ones begins.
#include <algorithm>
#include <cmath>
#include <string>

#include "mezzo/autograd/grad_mode.h"
#include "mezzo/ops/forward.h"
#include "mezzo/ops/ops.h"

namespace mezzo {

namespace {

using namespace ops;

/// The order of rows [n, m] by their first element that differs: stable sorts by each column, the last first.
Tensor order_of_rows(const Tensor& rows) {
  Tensor order = arange(rows.size(0), {.device = rows.device()});
  for (std::int64_t column = rows.size(1); column-- > 0;) {
    const Tensor values = index_select(select(rows, 1, column), 0, order);
    order = index_select(order, 0, sort(values).indices);
  }
  return order;
}

/// Of rows [n] or [n, m]: whether each differs from the row before it. The first does.
Tensor run_starts(const Tensor& rows) {
  const std::int64_t n = rows.size(0);
  const Tensor first =
      ones({std::min<std::int64_t>(n, 1)}, {.dtype = DType::boolean, .device = rows.device()});
  if (n < 2) return first;
  const Tensor differs = ne(narrow(rows, 0, 1, n - 1), narrow(rows, 0, 0, n - 1));
  return cat({first, rows.dim() == 1 ? differs : any(differs, 1)}, 0);
}

/// `order`: the position in x of each row, where rows are sorted; undefined: rows are in x's order.
UniqueValues runs_of(const Tensor& rows, const Tensor& order, bool return_inverse, bool return_counts) {
  const Tensor starts = run_starts(rows);
  const std::int64_t n = rows.size(0);
  const Tensor positions = reshape(nonzero(starts), {-1});
  UniqueValues result;
  result.values = index_select(rows, 0, positions);
  if (return_inverse) {
    const Tensor run = cumsum(starts, 0) - 1;
    result.inverse = order.defined() ? scatter(zeros_like(run), 0, order, run) : run;
  }
  if (return_counts) {
    const Tensor end = full({1}, n, {.dtype = DType::i64, .device = rows.device()});
    result.counts = n == 0 ? positions : diff(cat({positions, end}, 0));
  }
  return result;
}

template <class Options>
UniqueValues unique_of(std::string_view op, const Tensor& input, const Options& options, bool sorts) {
  require_defined(op, input);
  const NoGrad no_grad;
  const Tensor x = input.detach();
  if (!options.dim) {
    Tensor flat = reshape(x, {x.numel()}), order;
    if (sorts) {
      const ValuesIndices sorted = sort(flat);
      flat = sorted.values;
      order = sorted.indices;
    }
    UniqueValues result = runs_of(flat, order, options.return_inverse, options.return_counts);
    if (options.return_inverse) result.inverse = reshape(result.inverse, x.shape());
    return result;
  }
  if (x.dim() == 0) throw IndexError(op, "a tensor with dims", "a 0-dim one", "leave out dim");
  const std::int64_t dim = layout::wrap_dim(op, *options.dim, x.shape().size());
  const Tensor slices = movedim(x, dim, 0);
  const std::int64_t n = slices.size(0);
  const Tensor rows = reshape(slices, {n, n == 0 ? 0 : slices.numel() / n});
  const Tensor order = sorts ? order_of_rows(rows) : Tensor();
  UniqueValues result = runs_of(sorts ? index_select(rows, 0, order) : rows, order, options.return_inverse,
                                options.return_counts);
  Shape shape = slices.shape();
  shape[0] = result.values.size(0);
  result.values = movedim(reshape(result.values, shape), 0, dim).contiguous();
  return result;
}

struct Limits {
  double low, high;
};
/// The range that a histogram covers.
Limits histogram_limits(const Tensor& x, Limits asked) {
  if (asked.low == asked.high && x.numel() > 0) {
    const auto ends = to(stack({min(x), max(x)}), DType::f64).to_vector<double>();  // one read
    asked = {ends[0], ends[1]};
  }
  if (!std::isfinite(asked.low) || !std::isfinite(asked.high)) {
    throw ValueError("histc", "finite limits",
                     "[" + number_text(asked.low) + ", " + number_text(asked.high) + "]",
                     "pass min and max, or x without NaNs and infinities");
  }
  if (asked.high < asked.low) {
    throw ValueError("histc", "a max of at least min",
                     number_text(asked.high) + " < " + number_text(asked.low), "exchange them");
  }
  if (asked.low == asked.high) return {asked.low - 1, asked.high + 1};
  return asked;
}

}  // namespace

UniqueValues unique(const Tensor& x, const UniqueOptions& options) {
  return unique_of("unique", x, options, true);
}
UniqueValues unique_consecutive(const Tensor& x, const UniqueConsecutiveOptions& options) {
  return unique_of("unique_consecutive", x, options, false);
}

Tensor histc(const Tensor& x, std::int64_t bins, double min, double max) {
  require_defined("histc", x);
  require_floating("histc", x);
  if (bins < 1) throw ValueError("histc", "at least 1 bin", std::to_string(bins), "100 is the default");
  const NoGrad no_grad;
  const Limits limits = histogram_limits(x, {min, max});
  const Tensor values = to(reshape(x.detach(), {x.numel()}), DType::f64);
  const Tensor inside = logical_and(ge(values, limits.low), le(values, limits.high));
  const Tensor parts = (values - limits.low) * static_cast<double>(bins) / (limits.high - limits.low);
  const Tensor places = to(clamp(where(inside, parts, 0.0), 0, bins - 1), DType::i64);
  const Tensor counts = scatter_add(zeros({bins}, {.dtype = DType::i64, .device = x.device()}), 0, places,
                                    to(inside, DType::i64));
  return to(counts, x.dtype());
}

}  // namespace mezzo
