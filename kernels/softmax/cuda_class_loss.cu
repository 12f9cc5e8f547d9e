// The CUDA rows of cross-entropy. A class index out of range is reported as a fault of the device and never
// dereferenced: its row has neither loss nor gradient.
#include "mezzo/kernels/softmax/softmax.h"

#include "mezzo/core/cuda/fault.h"
#include "mezzo/kernels/cuda/row_passes.h"
#include "mezzo/kernels/reduce/cuda_kernels.h"
#include "mezzo/kernels/softmax/softmax_math.h"

namespace mezzo::kernels::cuda {

namespace {

/// A ClassTarget in the compute type.
template <class T>
struct ClassIndices {
  const std::int64_t* index;
  const T* weight;
  std::int64_t ignore_index;
  [[nodiscard]] __device__ Alike<T> weights() const { return {weight, T(1)}; }
  /// The class of row r, or -1 when the row does not count.
  [[nodiscard]] __device__ std::int64_t of_row(std::int64_t r, std::int64_t classes) const {
    const std::int64_t t = index[r];
    return t == ignore_index || t < 0 || t >= classes ? -1 : t;
  }
};
template <class T>
[[nodiscard]] ClassIndices<T> indices_of(const ClassTarget& target) {
  return {target.index, static_cast<const T*>(target.weight), target.ignore_index};
}

/// Own and shared target mass of a class (kernels/softmax/softmax_math.h).
template <class T>
[[nodiscard]] scalar::ClassMassFn<T> mass_of(const ClassTarget& target, std::int64_t classes) {
  return {static_cast<T>(1.0 - target.label_smoothing),
          static_cast<T>(target.label_smoothing / static_cast<double>(classes))};
}

/// Losses. Arrays: logits.
template <class T>
struct CrossEntropyRow {
  using Number = T;
  static constexpr std::size_t kResults = 0;
  T* losses;
  ClassIndices<T> target;
  scalar::ClassMassFn<T> mass;
  template <class Row>
  __device__ MEZZO_ALWAYS_INLINE void operator()(Row& row, std::int64_t index) const {
    const std::int64_t t = target.of_row(index, row.length());
    if (t < 0) {  // the same for all threads of the row, so no barrier is left out by some
      if (row.leads()) losses[index] = T(0);
      return;
    }
    const auto x = [&](const auto& place) { return row.template get<0>(place); };
    const RowStatistics<T> statistics = row_statistics(row, x);
    const scalar::ClassLossFn<T> loss{mass, {statistics.max, math::log(statistics.sum)}};
    T total = -(mass.own * target.weight[t]) * loss.log_probability(row.template at<0>(t));
    if (mass.shared != T(0)) {
      total += static_cast<T>(sum_row(
          row, [&](const auto& place, T weight) { return loss(x(place), weight); }, target.weights()));
    }
    if (row.leads()) losses[index] = total;
  }
};

/// Gradients. Arrays: result, logits.
template <class T>
struct CrossEntropyBackwardRow {
  using Number = T;
  static constexpr std::size_t kResults = 1;
  const T* scales;
  std::int64_t scale_step;
  ClassIndices<T> target;
  scalar::ClassMassFn<T> mass;
  template <class Row>
  __device__ MEZZO_ALWAYS_INLINE void operator()(Row& row, std::int64_t index) const {
    const std::int64_t t = target.of_row(index, row.length());
    if (t < 0) {
      row.write([](const auto& /*place*/) { return T(0); });
      return;
    }
    const auto x = [&](const auto& place) { return row.template get<1>(place); };
    const auto terms = row_terms(row, x);
    const T own = mass.own * target.weight[t], scale = scales[index * scale_step];
    T total = own;
    if (mass.shared != T(0)) {
      total +=
          mass.shared * static_cast<T>(sum_row(
                            row, [](const auto& /*place*/, T weight) { return weight; }, target.weights()));
    }
    const scalar::ClassGradientFn<T> gradient{mass, total / terms.second, scale};
    row.write(
        [&](const auto& place, T weight) {
          const T g = gradient(terms.first(place), weight);
          return place.is(t) ? g - scale * own : g;
        },
        target.weights());
  }
};

/// Sum of the weights of the rows that count, and the first row whose index is out of range.
template <class T>
struct ClassCount {
  struct Acc {
    double sum;
    std::int64_t first_wrong;  ///< rows when there is none
  };
  using Place = int;
  ClassIndices<T> target;
  std::int64_t rows, classes;
  double* weight_sum;
  mezzo::cuda::Fault* fault;
  const char* op;

  [[nodiscard]] __device__ Acc identity() const { return {0, rows}; }
  [[nodiscard]] __device__ Place place(std::int64_t /*output*/) const { return 0; }
  __device__ void accumulate(Acc& acc, Place /*place*/, std::int64_t r) const {
    const std::int64_t t = target.index[r];
    if (t == target.ignore_index) return;
    const bool wrong = t < 0 || t >= classes;
    acc = combine(acc, {wrong ? 0.0 : static_cast<double>(target.weight[t]), wrong ? r : rows});
  }
  [[nodiscard]] __device__ Acc combine(const Acc& a, const Acc& b) const {
    return {a.sum + b.sum, a.first_wrong < b.first_wrong ? a.first_wrong : b.first_wrong};
  }
  __device__ void store(std::int64_t /*output*/, const Acc& acc) const {
    *weight_sum = acc.sum;
    if (acc.first_wrong < rows) fault->report(op, acc.first_wrong, target.index[acc.first_wrong], classes);
  }
};

}  // namespace

std::int64_t count_classes(Device device, const char* op, const ClassTarget& target, std::int64_t rows,
                           std::int64_t classes, double* weight_sum, DType compute) {
  dispatch_real(compute, [&]<class T>(TypeTag<T>) {
    const ClassCount<T> engine{
        indices_of<T>(target), rows, classes, weight_sum, mezzo::cuda::fault_record(device), op};
    run_reduction(device, engine, 1, rows, false);
  });
  return -1;
}

void cross_entropy(Device device, void* losses, const View& x, std::size_t dim, const ClassTarget& target,
                   DType compute) {
  if (layout::numel(x.shape) == 0) return;
  dispatch_real(compute, [&]<class T>(TypeTag<T>) {
    const RowArrays<1> all({x}, dim);
    run_row_passes(
        device, all,
        CrossEntropyRow<T>{static_cast<T*>(losses), indices_of<T>(target), mass_of<T>(target, all.length)});
  });
}

void cross_entropy_backward(Device device, const View& out, const RowScales& scales, const View& x,
                            std::size_t dim, const ClassTarget& target, DType compute) {
  if (layout::numel(x.shape) == 0) return;
  dispatch_real(compute, [&]<class T>(TypeTag<T>) {
    const RowArrays<2> all({out, x}, dim);
    run_row_passes(device, all,
                   CrossEntropyBackwardRow<T>{static_cast<const T*>(scales.values), scales.step,
                                              indices_of<T>(target), mass_of<T>(target, all.length)});
  });
}

}  // namespace mezzo::kernels::cuda
