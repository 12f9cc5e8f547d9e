// interpolate on the CPU. Dims are dealt with one after the other: rows of the last dim (whole vectors of
// channels at each place, where these are innermost) are added up over the other dims, with weights, while
// they are in the cache; the sum is then resampled along the last dim. The gradient is the same with the
// transposed weights.
#include "mezzo/kernels/resample/interpolate.h"

#include <algorithm>
#include <type_traits>
#include <vector>

#include "mezzo/kernels/cpu/multiversion.h"
#include "mezzo/kernels/cpu/parallel.h"
#include "mezzo/kernels/cpu/rows.h"

namespace mezzo::kernels::cpu {

namespace {

/// The terms of each place of a result, along one dim. Where all places have as many terms, term k of all
/// places comes before term k + 1 of any, for vector instructions; else the terms of a place are neighbours.
template <class T>
class TermTable {
 public:
  static TermTable forward(const Resampler<T>& map) {
    TermTable table;
    table.same_count_ = map.count();
    const auto places = static_cast<std::size_t>(map.out());
    table.first_.resize(places);
    table.at_.resize(places * static_cast<std::size_t>(map.count()));
    table.weight_.resize(table.at_.size());
    for (std::size_t o = 0; o < places; ++o) {
      table.first_[o] = static_cast<std::int64_t>(o);
      const Taps<T> taps = map.taps_of(static_cast<std::int64_t>(o));
      for (int k = 0; k < map.count(); ++k) {
        const std::size_t term = static_cast<std::size_t>(k) * places + o;
        table.at_[term] = taps.at[k];
        table.weight_[term] = taps.weight[k];
      }
    }
    return table;
  }
  static TermTable transposed(const Resampler<T>& map) {
    TermTable table;
    for (std::int64_t i = 0; i < map.in(); ++i) {
      table.first_.push_back(static_cast<std::int64_t>(table.at_.size()));
      const Readers readers = map.readers(i);
      for (std::int64_t o = readers.first; o < readers.last; ++o) {
        table.at_.push_back(o);
        table.weight_.push_back(map.weight_of(o, i));
      }
    }
    table.first_.push_back(static_cast<std::int64_t>(table.at_.size()));
    return table;
  }

  [[nodiscard]] std::int64_t places() const {
    return static_cast<std::int64_t>(first_.size()) - (same_count_ == 0 ? 1 : 0);
  }
  /// Terms of every place; 0 where they differ in number.
  [[nodiscard]] int same_count() const { return same_count_; }
  [[nodiscard]] std::int64_t count(std::int64_t place) const {
    const auto p = static_cast<std::size_t>(place);
    return same_count_ != 0 ? same_count_ : first_[p + 1] - first_[p];
  }
  [[nodiscard]] std::int64_t at(std::int64_t place, std::int64_t k) const { return at_[term(place, k)]; }
  [[nodiscard]] T weight(std::int64_t place, std::int64_t k) const { return weight_[term(place, k)]; }
  // For loops over all places.
  [[nodiscard]] const std::int64_t* first() const { return first_.data(); }
  [[nodiscard]] const std::int64_t* at() const { return at_.data(); }
  [[nodiscard]] const T* weight() const { return weight_.data(); }

 private:
  [[nodiscard]] std::size_t term(std::int64_t place, std::int64_t k) const {
    const std::int64_t step = same_count_ != 0 ? places() : 1;
    return static_cast<std::size_t>(first_[static_cast<std::size_t>(place)] + k * step);
  }
  int same_count_ = 0;
  std::vector<std::int64_t> first_, at_;
  std::vector<T> weight_;
};

/// sum = or += weight * x
template <class T, class Sum>
struct AddRow {
  static void run(const T* x, T weight, Sum* sum, std::int64_t n, bool begins) {
    const auto factor = static_cast<Sum>(weight);
    if (begins) {
      for (std::int64_t i = 0; i < n; ++i) sum[i] = factor * static_cast<Sum>(x[i]);
    } else {
      for (std::int64_t i = 0; i < n; ++i) sum[i] += factor * static_cast<Sum>(x[i]);
    }
  }
};

/// Places of `inner` elements from a row of such, kCount terms each.
template <class T, int kCount>
struct SpreadRow {
  static void run(const T* x, T* y, const std::int64_t* at, const T* weight, std::int64_t places,
                  std::int64_t inner) {
    if (inner == 1) {
      for (std::int64_t o = 0; o < places; ++o) {
        T sum = weight[o] * x[at[o]];
        for (int k = 1; k < kCount; ++k) sum += weight[k * places + o] * x[at[k * places + o]];
        y[o] = sum;
      }
      return;
    }
    for (std::int64_t o = 0; o < places; ++o) {
      const T* from[kCount];
      T factor[kCount];
      for (int k = 0; k < kCount; ++k) {
        from[k] = x + at[k * places + o] * inner;
        factor[k] = weight[k * places + o];
      }
      T* const to = y + o * inner;
      for (std::int64_t c = 0; c < inner; ++c) {
        T sum = factor[0] * from[0][c];
        for (int k = 1; k < kCount; ++k) sum += factor[k] * from[k][c];
        to[c] = sum;
      }
    }
  }
};

/// SpreadRow for any number of terms, first[o] to first[o + 1] for place o, added up in Sum.
template <class T, class Sum>
struct GatherRow {
  static constexpr std::int64_t kAcross = 64;
  static void run(const Sum* x, T* y, const std::int64_t* first, const std::int64_t* at, const T* weight,
                  std::int64_t places, std::int64_t inner) {
    for (std::int64_t o = 0; o < places; ++o) {
      const std::int64_t begin = first[o], end = first[o + 1];
      if (inner == 1) {
        Sum sum = 0;
        for (std::int64_t k = begin; k < end; ++k) sum += static_cast<Sum>(weight[k]) * x[at[k]];
        y[o] = static_cast<T>(sum);
        continue;
      }
      for (std::int64_t c = 0; c < inner; c += kAcross) {
        const std::int64_t n = inner - c < kAcross ? inner - c : kAcross;
        Sum sum[kAcross] = {};
        for (std::int64_t k = begin; k < end; ++k) {
          const Sum* const from = x + at[k] * inner + c;
          const auto factor = static_cast<Sum>(weight[k]);
          for (std::int64_t i = 0; i < n; ++i) sum[i] += factor * from[i];
        }
        for (std::int64_t i = 0; i < n; ++i) y[o * inner + c + i] = static_cast<T>(sum[i]);
      }
    }
  }
};

/// The maps of the three dims, and the arrays.
template <class T>
struct Resampled {
  std::array<TermTable<T>, InterpolateShape::kDims> terms;
  std::array<std::int64_t, InterpolateShape::kDims> sizes;  ///< of the source
  std::int64_t outer, inner;
  View out, x;

  [[nodiscard]] std::int64_t source_row() const { return sizes[2] * inner; }
  [[nodiscard]] std::int64_t result_row() const { return terms[2].places() * inner; }
  [[nodiscard]] std::int64_t rows() const { return outer * terms[0].places() * terms[1].places(); }
  [[nodiscard]] std::byte* row(const View& view, std::int64_t index, std::int64_t length) const {
    return static_cast<std::byte*>(view.data) + index * length * size_of(view.dtype);
  }
};

/// The weighted sum of the source rows that row `row` of the result is made of: in `sum`, or the only one
/// itself where its weight is 1. `wide` has room for a source row.
template <class T, class Sum>
const Sum* sum_rows(const Resampled<T>& job, std::int64_t row, T* wide, Sum* sum) {
  const TermTable<T>&outer = job.terms[0], &middle = job.terms[1];
  const std::int64_t n = job.source_row();
  const std::int64_t j = row % middle.places(), rest = row / middle.places();
  const std::int64_t i = rest % outer.places(), block = rest / outer.places();
  const bool only = outer.count(i) == 1 && middle.count(j) == 1;
  if (outer.count(i) * middle.count(j) == 0) std::fill_n(sum, n, Sum{0});
  bool begins = true;
  for (std::int64_t a = 0; a < outer.count(i); ++a) {
    for (std::int64_t b = 0; b < middle.count(j); ++b) {
      const std::int64_t source = (block * job.sizes[0] + outer.at(i, a)) * job.sizes[1] + middle.at(j, b);
      const std::byte* const at = job.row(job.x, source, n);
      const T* values = reinterpret_cast<const T*>(at);
      if (job.x.dtype != dtype_of<T>) {
        convert(at, job.x.dtype, wide, dtype_of<T>, n);
        values = wide;
      }
      const T weight = outer.weight(i, a) * middle.weight(j, b);
      if constexpr (std::is_same_v<T, Sum>) {
        if (only && weight == T(1)) return values;
      }
      run_isa<AddRow<T, Sum>>(values, weight, sum, n, begins);
      begins = false;
    }
  }
  return sum;
}

/// A row of the result from that sum.
template <class T, class Sum>
void finish_row(const Resampled<T>& job, const Sum* sum, T* y) {
  const TermTable<T>& last = job.terms[2];
  const std::int64_t places = last.places();
  if constexpr (std::is_same_v<T, Sum>) {
    if (last.same_count() == 1)
      return run_isa<SpreadRow<T, 1>>(sum, y, last.at(), last.weight(), places, job.inner);
    if (last.same_count() == 2)
      return run_isa<SpreadRow<T, 2>>(sum, y, last.at(), last.weight(), places, job.inner);
    if (last.same_count() == 4)
      return run_isa<SpreadRow<T, 4>>(sum, y, last.at(), last.weight(), places, job.inner);
  }
  run_isa<GatherRow<T, Sum>>(sum, y, last.first(), last.at(), last.weight(), places, job.inner);
}

/// Elements of a chunk of rows.
constexpr std::int64_t kChunk = std::int64_t{1} << 15;

template <class T, class Sum>
void resample(const Resampled<T>& job) {
  const std::int64_t from = job.source_row(), to = job.result_row();
  const bool in_place = job.out.dtype == dtype_of<T>;
  parallel_for(job.rows(), kChunk / (from + to), [&](std::int64_t begin, std::int64_t end) {
    const RowScratch<T> wide(job.x.dtype == dtype_of<T> ? 0 : from), result(in_place ? 0 : to);
    const RowScratch<Sum> sum(from);
    for (std::int64_t r = begin; r < end; ++r) {
      std::byte* const target = job.row(job.out, r, to);
      T* const y = in_place ? reinterpret_cast<T*>(target) : result.data();
      finish_row(job, sum_rows(job, r, wide.data(), sum.data()), y);
      if (!in_place) convert(y, dtype_of<T>, target, job.out.dtype, to);
    }
  });
}

/// The job of a call. `backward`: with the maps' transposes, from results to places.
template <class T>
Resampled<T> job_of(const InterpolateShape& shape, const View& out, const View& x, bool backward) {
  Resampled<T> job{{}, {}, shape.outer, shape.inner, out, x};
  for (std::size_t d = 0; d < InterpolateShape::kDims; ++d) {
    const Resampler<T> map = shape.along<T>(d);
    job.terms[d] = backward ? TermTable<T>::transposed(map) : TermTable<T>::forward(map);
    job.sizes[d] = backward ? shape.dims[d].out : shape.dims[d].in;
  }
  return job;
}

}  // namespace

void interpolate(const InterpolateShape& shape, const View& out, const View& x, DType compute) {
  dispatch_real(compute, [&]<class T>(TypeTag<T>) { resample<T, T>(job_of<T>(shape, out, x, false)); });
}

void interpolate_backward(const InterpolateShape& shape, const View& out, const View& grad, DType compute) {
  dispatch_real(compute,
                [&]<class T>(TypeTag<T>) { resample<T, double>(job_of<T>(shape, out, grad, true)); });
}

}  // namespace mezzo::kernels::cpu
