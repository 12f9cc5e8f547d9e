// The CPU's kernels of cross-entropy from logits, forward and backward, a row at a time while it is in the
// cache.
#include "mezzo/kernels/softmax/softmax.h"

#include <cstdint>

#include "mezzo/kernels/cpu/multiversion.h"
#include "mezzo/kernels/cpu/row_pass.h"
#include "mezzo/kernels/cpu/rows.h"
#include "mezzo/kernels/math/scalar_math.h"
#include "mezzo/kernels/softmax/softmax_math.h"

namespace mezzo::kernels::cpu {

namespace {

/// A ClassTarget for a block of rows, in the compute type.
template <class T>
struct ClassRows {
  const std::int64_t* index;  ///< of the first row of the block
  const T* weight;
  T weight_sum;
  std::int64_t ignore_index;
  scalar::ClassMassFn<T> mass;
};

/// A row of logits for cross-entropy: its maximum and the sum of exp(x - max).
template <class T>
struct RowStatistics {
  T max, sum;
};
/// `exps` receives exp(x - max) unless it is nullptr; `next` is fetched meanwhile.
template <class T>
[[nodiscard]] MEZZO_ALWAYS_INLINE RowStatistics<T> row_statistics(const T* x, T* exps, std::int64_t n,
                                                                  const T* next) {
  const T max = row_max(x, n);
  return {max, static_cast<T>(row_pass<T, 1>({x}, exps, n, scalar::ExpMinusFn<T>{max}, {next}))};
}

template <class T>
struct CrossEntropyRows {
  static void run(T* losses, RowBlock<T> x, ClassRows<T> target, std::int64_t rows, std::int64_t n) {
    for (std::int64_t r = 0; r < rows; ++r) {
      const T* const row = x.data + r * x.distance;
      losses[r] = target.index[r] == target.ignore_index ? T(0) : row_loss(row, target, r, n, x.next(r));
    }
  }

 private:
  MEZZO_ALWAYS_INLINE static T row_loss(const T* x, const ClassRows<T>& target, std::int64_t r,
                                        std::int64_t n, const T* next) {
    const auto [max, sum] = row_statistics(x, static_cast<T*>(nullptr), n, next);
    const scalar::ClassLossFn<T> loss{target.mass, {max, math::log(sum)}};
    const std::int64_t t = target.index[r];
    const T own = -(target.mass.own * target.weight[t]) * loss.log_probability(x[t]);
    if (target.mass.shared == T(0)) return own;
    return own + static_cast<T>(row_pass<T, 2>({x, target.weight}, nullptr, n, loss));
  }
};

template <class T>
struct CrossEntropyBackwardRows {
  /// `scales` points to one factor per row, or to one for all (`scale_step` 0).
  static void run(RowBlock<T> out, RowBlock<T> x, ClassRows<T> target, const T* scales,
                  std::int64_t scale_step, std::int64_t rows, std::int64_t n) {
    for (std::int64_t r = 0; r < rows; ++r) {
      T* const result = out.data + r * out.distance;
      if (target.index[r] == target.ignore_index) {
        for (std::int64_t i = 0; i < n; ++i) result[i] = T(0);
        continue;
      }
      row_gradient(result, x.data + r * x.distance, target, scales[r * scale_step], r, n, x.next(r));
    }
  }

 private:
  MEZZO_ALWAYS_INLINE static void row_gradient(T* result, const T* x, const ClassRows<T>& target, T scale,
                                               std::int64_t r, std::int64_t n, const T* next) {
    const auto [max, sum] = row_statistics(x, result, n, next);
    const T own = target.mass.own * target.weight[target.index[r]];
    const T mass = own + target.mass.shared * target.weight_sum;
    const scalar::ClassGradientFn<T> gradient{target.mass, mass / sum, scale};
    row_pass<T, 2>({result, target.weight}, result, n, gradient);
    result[target.index[r]] -= scale * own;
  }
};

template <class T>
[[nodiscard]] ClassRows<T> class_rows(const ClassTarget& target, std::int64_t classes) {
  const T* const weight = static_cast<const T*>(target.weight);
  double sum = 0;
  for (std::int64_t c = 0; c < classes; ++c) sum += static_cast<double>(weight[c]);
  const double shared = target.label_smoothing / static_cast<double>(classes);
  return {.index = target.index,
          .weight = weight,
          .weight_sum = static_cast<T>(sum),
          .ignore_index = target.ignore_index,
          .mass = {static_cast<T>(1.0 - target.label_smoothing), static_cast<T>(shared)}};
}

/// Calls `body(out, x, target, begin, count)` for blocks of rows.
template <class T, class Body>
void for_class_rows(const RowOperand* out, const View& x, std::size_t dim, const ClassTarget& target,
                    const Body& body) {
  const RowOperand logits(x, dim);
  const ClassRows<T> all = class_rows<T>(target, logits.length());
  for_row_blocks<T, 1>(out, {logits}, [&](auto result, const auto& in, auto begin, auto count) {
    ClassRows<T> some = all;
    some.index += begin;
    body(result, in[0], some, begin, count);
  });
}

}  // namespace

std::int64_t count_classes(const char* /*op*/, const ClassTarget& target, std::int64_t rows,
                           std::int64_t classes, double* weight_sum, DType compute) {
  return dispatch_real(compute, [&]<class T>(TypeTag<T>) -> std::int64_t {
    const T* const weight = static_cast<const T*>(target.weight);
    double sum = 0;
    for (std::int64_t r = 0; r < rows; ++r) {
      const std::int64_t t = target.index[r];
      if (t == target.ignore_index) continue;
      if (t < 0 || t >= classes) return r;
      sum += static_cast<double>(weight[t]);
    }
    *weight_sum = sum;
    return -1;
  });
}

void cross_entropy(void* losses, const View& x, std::size_t dim, const ClassTarget& target, DType compute) {
  const std::int64_t n = RowOperand(x, dim).length();
  dispatch_real(compute, [&]<class T>(TypeTag<T>) {
    T* const to = static_cast<T*>(losses);
    for_class_rows<T>(
        nullptr, x, dim, target,
        [&](RowBlock<T> /*none*/, RowBlock<T> in, const ClassRows<T>& some, std::int64_t begin,
            std::int64_t rows) { run_isa<CrossEntropyRows<T>>(to + begin, in, some, rows, n); });
  });
}

void cross_entropy_backward(const View& out, const RowScales& scales, const View& x, std::size_t dim,
                            const ClassTarget& target, DType compute) {
  const RowOperand result(out, dim);
  const std::int64_t n = result.length(), step = scales.step;
  dispatch_real(compute, [&]<class T>(TypeTag<T>) {
    const T* const factors = static_cast<const T*>(scales.values);
    for_class_rows<T>(
        &result, x, dim, target,
        [&](RowBlock<T> to, RowBlock<T> in, const ClassRows<T>& some, std::int64_t begin, std::int64_t rows) {
          run_isa<CrossEntropyBackwardRows<T>>(to, in, some, factors + begin * step, step, rows, n);
        });
  });
}

}  // namespace mezzo::kernels::cpu
