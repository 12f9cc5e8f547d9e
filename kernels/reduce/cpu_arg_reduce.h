// Where an extremum stands: loops of their own beside cpu.h, since a position travels with each value.
// Rows look for the value of a tile first and for its position only when it beats what came before.
#pragma once

#include <type_traits>

#include "mezzo/kernels/cpu/vector_loop.h"
#include "mezzo/kernels/reduce/cpu.h"

namespace mezzo::kernels::cpu {

namespace detail {

/// First position of `value` (of a NaN, when it is one) in a tile that holds it.
template <class T>
struct FindInTile {
  static std::int64_t run(const T* x, T value) {
    std::int64_t i = 0;
    if (value != value) {
      while (x[i] == x[i]) ++i;
    } else {
      while (x[i] != value) ++i;
    }
    return i;
  }
};

/// best[c], index[c] go on with element c of a row whose position is r. Positions have the width of T, so
/// that one vector mask serves both.
template <class T, bool Least>
struct ArgRow {
  using Index = std::conditional_t<sizeof(T) == 4, std::int32_t, std::int64_t>;
  static void run(const T* x, Index r, T* best, Index* index, std::int64_t width) {
    MEZZO_INDEPENDENT_LOOP
    for (std::int64_t c = 0; c < width; ++c) {
      const T value = x[c], old = best[c];
      const bool further = Least ? value < old : value > old;
      const bool take = further | ((value != value) & (old == old));
      best[c] = take ? value : old;
      index[c] = take ? r : index[c];
    }
  }
};

}  // namespace detail

/// A value and its position among the elements of its output.
template <class T>
struct ValueAt {
  T value;
  std::int64_t index;
};

/// The first largest (or least) element and its position, for run_reduction. There must be elements.
template <class T, bool Least>
class ArgReduction {
 public:
  using Acc = ValueAt<T>;
  ArgReduction(const ReducePlan& plan, const View& in) : plan_(plan), source_(in) {}

  [[nodiscard]] Acc combine(Acc a, Acc b) const { return Ahead<Least>{}(b.value, a.value) ? b : a; }

  void accumulate(std::int64_t first, std::int64_t n, ReducePlan::Range elements, Acc* results) const {
    if (plan_.columns) return columns(first, n, elements, results);
    for (std::int64_t i = 0; i < n; ++i) results[i] = row(first + i, elements);
  }

 private:
  [[nodiscard]] Acc row(std::int64_t output, ReducePlan::Range elements) const {
    using Run = detail::RowRun<T, Extremum<Least>, 1>;
    constexpr Extremum<Least> kReducer{};
    TileBuffer<T> buffer;
    const std::int64_t origin = plan_.kept_in.offset(output);
    Acc best{};
    for (std::int64_t done = 0; done < elements.size; done += kTile) {
      const std::int64_t n = std::min(kTile, elements.size - done);
      const T* x = source_.template read<T>(plan_.reduced, origin, elements.begin + done, n, buffer.values);
      const T value =
          run_isa<Run>(kReducer, std::array<const T*, 1>{x}, 0.0, n, kReducer.template identity<T>());
      if (done > 0 && !Ahead<Least>{}(value, best.value)) continue;
      best = {value, elements.begin + done + run_isa<detail::FindInTile<T>>(x, value)};
    }
    return best;
  }

  void columns(std::int64_t first, std::int64_t n, ReducePlan::Range elements, Acc* results) const {
    using Row = detail::ArgRow<T, Least>;
    using Index = typename Row::Index;
    TileBuffer<T> best;
    TileBuffer<Index> index;
    // Positions count from the start of the chunk, which fits into 32 bits (kLongestChunk).
    source_.template each_block<T>(plan_, first, n, elements, [&](const detail::Block<T>& block) {
      for (std::int64_t r = 0; r < block.rows; ++r) {
        const T* x = block.data + r * block.pitch;
        const std::int64_t position = block.row + r - elements.begin;
        if (position == 0) {
          std::copy_n(x, block.columns, best.values + block.column);
          std::fill_n(index.values + block.column, block.columns, Index{0});
        } else {
          run_isa<Row>(x, static_cast<Index>(position), best.values + block.column,
                       index.values + block.column, block.columns);
        }
      }
    });
    for (std::int64_t i = 0; i < n; ++i) results[i] = {best.values[i], elements.begin + index.values[i]};
  }

  const ReducePlan& plan_;
  detail::ReduceSource source_;
};

/// Extrema of `in` read as T along the reduced dims, and their i64 positions in row-major order of these.
/// `values` has
/// the strides of `indices`, or no data: then only positions are stored.
template <class T, bool Least>
void arg_reduce(const View& values, const View& indices, const View& in) {
  constexpr bool kByPosition = true;
  const ReducePlan plan(indices, in, kByPosition);
  run_reduction(plan, ArgReduction<T, Least>(plan, in),
                [&](std::int64_t first, std::int64_t n, const ValueAt<T>* found) {
                  T value[kReduceUnit];
                  std::int64_t index[kReduceUnit];
                  for (std::int64_t i = 0; i < n; ++i) {
                    value[i] = found[i].value;
                    index[i] = found[i].index;
                  }
                  if (values.data != nullptr) store_results(plan, values, first, n, value);
                  store_results(plan, indices, first, n, index);
                });
}

}  // namespace mezzo::kernels::cpu
