// The CPU's reductions: one reducer over a view, several views at once, and variance, on the plan of
// cpu_plan.h with the loops of cpu_tiles.h.
#pragma once

#include "mezzo/kernels/reduce/cpu_source.h"
#include "mezzo/kernels/reduce/cpu_tiles.h"

namespace mezzo::kernels::cpu {

namespace detail {

/// Reducers that add up the elements themselves, read as f32: what direct_sum can do.
template <class T, class R>
inline constexpr bool kPlainSum = std::is_same_v<T, float>&& std::is_same_v<R, Sum<>>;

}  // namespace detail

/// A reducer over one view, for run_reduction. `shifts` has one number per output for kShifted reducers.
template <class T, class R>
class Reduction {
 public:
  using Acc = typename R::template Acc<T>;
  Reduction(const ReducePlan& plan, const View& in, R reducer, const double* shifts = nullptr)
      : plan_(plan), source_(in), reducer_(reducer), shifts_(shifts) {}

  [[nodiscard]] Acc combine(Acc a, Acc b) const { return reducer_.combine(a, b); }

  void accumulate(std::int64_t first, std::int64_t n, ReducePlan::Range elements, Acc* results) const {
    if (plan_.columns) return columns(first, n, elements, results);
    for (std::int64_t i = 0; i < n; ++i) results[i] = row(first + i, elements);
  }

 private:
  /// The shifts of outputs from `first` on.
  [[nodiscard]] const double* shifts(std::int64_t first) const {
    return R::kShifted ? shifts_ + first : nullptr;
  }

  [[nodiscard]] Acc row(std::int64_t output, ReducePlan::Range elements) const {
    const double shift = R::kShifted ? shifts_[output] : 0;
    const std::int64_t origin = plan_.kept_in.offset(output);
    if (const std::byte* x = source_.packed(plan_.reduced, origin, elements.begin, elements.size))
      return packed_row(x, elements.size, shift);
    Acc total = reducer_.template identity<T>();
    if (plan_.reduced.run() >= kTile && plan_.reduced.stride() == 1) {
      plan_.reduced.each_run(
          elements.begin, elements.size,
          [&](std::int64_t offset, std::int64_t /*stride*/, std::int64_t /*done*/, std::int64_t n) {
            total = reducer_.combine(total, packed_row(source_.at(origin + offset), n, shift));
          });
      return total;
    }
    TileBuffer<T> buffer;
    for (std::int64_t done = 0; done < elements.size; done += kTile) {
      const std::int64_t n = std::min(kTile, elements.size - done);
      const T* x = source_.read(plan_.reduced, origin, elements.begin + done, n, buffer.values);
      total = run_isa<detail::RowRun<T, R, 1>>(reducer_, std::array<const T*, 1>{x}, shift, n, total);
    }
    return total;
  }

  /// n elements as they are stored, one after the other.
  [[nodiscard]] Acc packed_row(const std::byte* x, std::int64_t n, double shift) const {
    Acc total = reducer_.template identity<T>();
    if constexpr (detail::kPlainSum<T, R>) {
      if (detail::direct_sum(x, source_.dtype(), n, total)) return total;
    }
    TileBuffer<T> buffer;
    const bool as_stored = source_.dtype() == dtype_of<T>;
    const std::int64_t piece = as_stored ? n : kTile;
    for (std::int64_t done = 0; done < n; done += piece) {
      const std::int64_t count = std::min(piece, n - done);
      const std::byte* const at = x + done * size_of(source_.dtype());
      if (!as_stored) convert(at, source_.dtype(), buffer.values, dtype_of<T>, count);
      const std::array<const T*, 1> tile{as_stored ? reinterpret_cast<const T*>(at) : buffer.values};
      total = run_isa<detail::RowRun<T, R, 1>>(reducer_, tile, shift, count, total);
    }
    return total;
  }

  void columns(std::int64_t first, std::int64_t n, ReducePlan::Range elements, Acc* acc) const {
    std::fill_n(acc, n, reducer_.template identity<T>());
    source_.template each_block<T>(plan_, first, n, elements, [&](const detail::Block<T>& block) {
      run_isa<detail::ColumnTile<T, R>>(reducer_, block.data, block.pitch, block.rows,
                                        shifts(first + block.column), acc + block.column, block.columns);
    });
  }

  const ReducePlan& plan_;
  detail::ReduceSource source_;
  R reducer_;
  const double* shifts_;
};

/// A reducer over all elements of N views of one shape at once, for run_reduction with ReducePlan(total).
template <class T, class R, std::size_t N>
class WholeReduction {
 public:
  using Acc = typename R::template Acc<T>;
  WholeReduction(const std::array<View, N>& in, R reducer)
      : WholeReduction(in, reducer, std::make_index_sequence<N>{}) {}

  [[nodiscard]] Acc combine(Acc a, Acc b) const { return reducer_.combine(a, b); }

  void accumulate(std::int64_t /*first*/, std::int64_t /*n*/, ReducePlan::Range elements, Acc* result) const {
    Acc total = reducer_.template identity<T>();
    std::array<TileBuffer<T>, N> buffers;
    for (std::int64_t done = 0; done < elements.size; done += kTile) {
      const std::int64_t n = std::min(kTile, elements.size - done);
      std::array<const T*, N> x;
      for (std::size_t k = 0; k < N; ++k)
        x[k] = sources_[k].template read<T>(spaces_[k], 0, elements.begin + done, n, buffers[k].values);
      total = run_isa<detail::RowRun<T, R, N>>(reducer_, x, 0.0, n, total);
    }
    *result = total;
  }

 private:
  template <std::size_t... I>
  WholeReduction(const std::array<View, N>& in, R reducer, std::index_sequence<I...> /*inputs*/)
      : sources_{detail::ReduceSource(in[I])...},
        spaces_{StridedSpace(in[I].shape, in[I].strides)...},
        reducer_(reducer) {}

  std::array<detail::ReduceSource, N> sources_;
  std::array<StridedSpace, N> spaces_;
  R reducer_;
};

/// Stores results [first, first + n) of a plan, each rounded once.
template <class A>
void store_results(const ReducePlan& plan, const View& out, std::int64_t first, std::int64_t n,
                   const A* values) {
  std::byte* base = static_cast<std::byte*>(out.data);
  plan.kept_out.each_run(
      first, n, [&](std::int64_t offset, std::int64_t stride, std::int64_t done, std::int64_t count) {
        scatter(values + done, dtype_of<A>, base + offset * size_of(out.dtype), out.dtype, stride, count);
      });
}

/// out = reducer over `in` read as T; shapes and strides as ReducePlan says. `shifts`: see Reduction.
template <class T, class R>
void reduce(R reducer, const View& out, const View& in, const double* shifts = nullptr) {
  const ReducePlan plan(out, in);
  const Reduction<T, R> engine(plan, in, reducer, shifts);
  using Acc = typename R::template Acc<T>;
  run_reduction(plan, engine, [&](std::int64_t first, std::int64_t n, const Acc* acc) {
    Acc finished[kReduceUnit];
    for (std::int64_t i = 0; i < n; ++i) finished[i] = reducer.finish(acc[i], plan.count);
    store_results(plan, out, first, n, finished);
  });
}

/// out = the sum that `reducer` (a Sum) makes of all elements of N views of one shape, read as T.
template <class T, class R, std::size_t N>
void map_reduce(R reducer, const View& out, const std::array<View, N>& in) {
  const ReducePlan plan(layout::numel(in[0].shape));
  run_reduction(plan, WholeReduction<T, R, N>(in, reducer),
                [&](std::int64_t, std::int64_t, const double* sum) {
                  const double result = reducer.finish(*sum, plan.count);
                  convert(&result, DType::f64, out.data, out.dtype, 1);
                });
}

/// out = variance of `in` read as T (float or double), or its root: means first, then squared deviations from
/// them.
template <class T>
void variance(Deviation last, const View& out, const View& in) {
  const ReducePlan plan(out, in);
  const RowScratch<double> means(plan.outputs);
  run_reduction(plan, Reduction<T, Sum<>>(plan, in, {}),
                [&](std::int64_t first, std::int64_t n, const double* sums) {
                  for (std::int64_t i = 0; i < n; ++i)
                    means.data()[first + i] = sums[i] / static_cast<double>(plan.count);
                });
  reduce<T>(SumOfSquaredDeviations(last), out, in, means.data());
}

}  // namespace mezzo::kernels::cpu
