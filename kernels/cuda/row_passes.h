// CUDA kernels that pass over all elements of a row several times (softmax, losses). A body is written once,
// in terms of the places of a row that belong to a thread; whether these are registers (register_row.h,
// long_row.h) or memory is chosen per call (row_plan.h). Sums of a row in registers are added in f32, up to
// 16 terms of a thread and then threads in pairs: shuffles and quotients in f64 would be most of a short
// row's time. The few numbers of a row (mean, variance, 1 / sqrt) are f64.
#pragma once

#include <cstdint>
#include <limits>
#include <type_traits>
#include <utility>

#include "mezzo/kernels/cuda/long_row.h"
#include "mezzo/kernels/cuda/register_row.h"
#include "mezzo/kernels/cuda/row_plan.h"
#include "mezzo/kernels/cuda/rows.h"

namespace mezzo::kernels::cuda {

/// A row in memory, shared by the threads of a team.
template <class T, class Team, std::size_t N>
class StreamedRow {
 public:
  /// An element that belongs to the calling thread.
  struct Place {
    std::int64_t at;
    /// Whether it is element i, which is in the row.
    [[nodiscard]] __device__ bool is(std::int64_t i) const { return at == i; }
  };
  using Number = T;
  using ThreadSum = double;  ///< what a thread adds its terms up in

  __device__ StreamedRow(const Team& team, const Row<N>& row, std::int64_t length)
      : row_(row), team_(team), length_(length) {}

  /// The element of input kArray at a place of the thread.
  template <std::size_t kArray>
  [[nodiscard]] __device__ T get(const Place& place) const {
    return row_.template get<T>(kArray, place.at);
  }
  /// The element of input kArray at any index, from memory.
  template <std::size_t kArray>
  [[nodiscard]] __device__ T at(std::int64_t i) const {
    return row_.template get<T>(kArray, i);
  }
  /// f(place, elements of `along`...) for every place of the thread, `along` being Alike<T>.
  template <class F, class... Along>
  __device__ MEZZO_ALWAYS_INLINE void each(const F& f, const Along&... along) const {
    MEZZO_KEEP_DEVICE_LOOP
    for (std::int64_t i = team_.rank(); i < length_; i += team_.size()) {
      f(Place{i}, (along.data != nullptr ? along.data[i] : along.otherwise)...);
    }
  }
  /// Array 0 = f(place, elements of `along`...).
  template <class F, class... Along>
  __device__ MEZZO_ALWAYS_INLINE void write(const F& f, const Along&... along) const {
    each([&](const Place& place, auto... values) { row_.set(0, place.at, f(place, values...)); }, along...);
  }
  /// A function of a place with the values of f, which are computed once where they can be kept; the first
  /// input is gone then.
  template <class F>
  [[nodiscard]] __device__ F kept(const F& f) {
    return f;
  }
  /// combine over the values of all threads of the row, in every one of them.
  template <class A, class Combine>
  [[nodiscard]] __device__ A reduce(A value, const Combine& combine) const {
    return team_.reduce(value, combine);
  }
  template <std::size_t kArray>
  [[nodiscard]] __device__ RowInMemory<T, Team> in_memory() const {
    return row_.template in_memory<T>(kArray, length_, team_);
  }
  /// sum / length().
  [[nodiscard]] __device__ double mean_of(double sum) const { return sum / static_cast<double>(length_); }
  /// True in one thread of the row.
  [[nodiscard]] __device__ bool leads() const { return team_.rank() == 0; }
  [[nodiscard]] __device__ std::int64_t length() const { return length_; }

 private:
  Row<N> row_;
  Team team_;
  std::int64_t length_;
};

/// The sum over a row of term(place, elements of `along`...), in every thread. Added in f64, but in f32 where
/// the row is in registers: a thread has few terms then and sums of threads are added in pairs, and a GPU
/// takes several times as long to make f64 of a term, or to hand it on, as to add it in f32. So such a sum is
/// not finite beyond f32, as on the CPU.
template <class Row, class F, class... Along>
[[nodiscard]] __device__ MEZZO_ALWAYS_INLINE double sum_row(const Row& row, const F& term,
                                                            const Along&... along) {
  typename Row::ThreadSum sum = 0;
  row.each([&](const auto& place, auto... values) { sum += term(place, values...); }, along...);
  return static_cast<double>(row.reduce(sum, AddTerms{}));
}
/// The largest of value(place) over a row of at least one element, in every thread.
template <class Row, class F>
__device__ MEZZO_ALWAYS_INLINE auto max_row(const Row& row, const F& value) {
  auto max = -std::numeric_limits<typename Row::Number>::infinity();
  row.each([&](const auto& place) { max = LargerTerm{}(max, value(place)); });
  return row.reduce(max, LargerTerm{});
}

/// The largest of x(place) over a row, and the sum of exp(x(place) - max).
template <class Row, class X>
[[nodiscard]] __device__ MEZZO_ALWAYS_INLINE auto row_statistics(const Row& row, const X& x) {
  using T = typename Row::Number;
  if constexpr (requires { row.statistics(x); }) {
    return row.statistics(x);
  } else {
    const T max = max_row(row, x);
    const scalar::ExpMinusFn<T> term{max};
    const double sum = sum_row(row, [&](const auto& place) { return term(x(place)); });
    return RowStatistics<T>{max, static_cast<T>(sum)};
  }
}
/// exp(x(place) - max) of a row as a function of places, and the sum of it; x may be gone then (Row::kept).
template <class Row, class X>
[[nodiscard]] __device__ MEZZO_ALWAYS_INLINE auto row_terms(Row& row, const X& x) {
  using T = typename Row::Number;
  const auto terms_from = [&](T max) {
    return row.kept([x, term = scalar::ExpMinusFn<T>{max}](const auto& place) { return term(x(place)); });
  };
  if constexpr (requires { row.statistics(x); }) {
    const RowStatistics<T> found = row.statistics(x);
    return std::pair(terms_from(found.max), found.sum);
  } else {
    const auto terms = terms_from(max_row(row, x));
    return std::pair(terms, static_cast<T>(sum_row(row, terms)));
  }
}

namespace detail {

/// The body that the kernels of rows.h call, with the row in memory.
template <class Body, std::size_t N>
struct Streamed {
  Body body;
  template <class Team>
  __device__ void operator()(const Team& team, const Row<N>& row, std::int64_t index,
                             std::int64_t length) const {
    StreamedRow<typename Body::Number, Team, N> streamed(team, row, length);
    body(streamed, index);
  }
};

/// blockDim.y rows per block, more than one only where a warp has a row: then no barrier is met, and the last
/// block may have fewer. No loop over rows: what the compiler would keep from one row to the next does not
/// fit beside the row itself.
template <std::size_t N, int kSlots, RowPacks kPacks, class Body>
__global__ void __launch_bounds__(kSlots == 1 ? kWarp * kRowsOfABlock : kMostRowThreads)
    rows_in_registers(Body body, RowArrays<N> all) {
  const std::int64_t r = static_cast<std::int64_t>(blockIdx.x) * blockDim.y + threadIdx.y;
  if (r >= all.rows.total()) return;
  RegisterRow<N, Body::kResults, kSlots, kPacks> row(all, r);
  body(row, r);
}

/// No loop over rows: scratch would be written again before all had read it. Three blocks leave 80 registers.
template <std::size_t N, class Body>
__global__ void __launch_bounds__(kThreads, 3) rows_in_chunks(Body body, RowArrays<N> all) {
  LongRow<N, Body::kResults> row(all, blockIdx.x);
  body(row, blockIdx.x);
}

template <int kSlots, RowPacks kPacks, std::size_t N, class Body>
void launch_in_registers(Device device, const RowArrays<N>& all, const Body& body, const RowPlan& plan) {
  const std::int64_t blocks = (all.rows.total() + plan.rows - 1) / plan.rows;
  mezzo::cuda::launch(rows_in_registers<N, kSlots, kPacks, Body>, dim3(static_cast<unsigned>(blocks)),
                      dim3(plan.threads, plan.rows), kRowScratchBytes, mezzo::cuda::current_stream(device),
                      body, all);
}

/// Whether all arrays are of a dtype that registers are made of.
template <std::size_t N>
[[nodiscard]] bool are_narrow(const RowArrays<N>& all) {
  for (const Array& array : all.arrays) {
    if (array.dtype != DType::f16 && array.dtype != DType::bf16 && array.dtype != DType::f32) return false;
  }
  return true;
}

}  // namespace detail

/// Runs `body(row, index)` for every row. The body is a trivially copyable functor that names its compute
/// type Number and, as kResults, how many arrays come before the inputs (0, or 1 that it writes); its call is
/// a template over the row, which is a StreamedRow or a RegisterRow.
template <std::size_t N, class Body>
void run_row_passes(Device device, const RowArrays<N>& all, const Body& body) {
  constexpr int kInputs = static_cast<int>(N - Body::kResults);
  const bool narrow = std::is_same_v<typename Body::Number, float> && detail::are_narrow(all);
  if (all.rows.total() == 0) return;
  const RowPlan plan =
      plan_rows({all.rows.total(), all.length, kInputs, all.across, narrow, all.packed, all.shifted});
  if (plan.way == RowWay::across || plan.way == RowWay::streamed) {
    // All threads of an SM on two long rows, instead of eight, leave them in the cache until they are read
    // again.
    const unsigned threads = all.length > kLongestRegisterRow ? kMostBlockTeam : kThreads;
    return run_rows(device, all, detail::Streamed<Body, N>{body}, threads);
  }
  if constexpr (std::is_same_v<typename Body::Number, float>) {
    using detail::launch_in_registers;
    if (plan.way == RowWay::chunks) {
      return mezzo::cuda::launch(detail::rows_in_chunks<N, Body>,
                                 dim3(static_cast<unsigned>(all.rows.total())), dim3(kThreads),
                                 kRowScratchBytes, mezzo::cuda::current_stream(device), body, all);
    }
    if (plan.slots == 1) return launch_in_registers<1, RowPacks::packed>(device, all, body, plan);
    // Of one input: beside two, what makes a vector of results would not fit into the registers.
    if constexpr (kInputs == 1) {
      if (all.joined) return launch_in_registers<kRowSlots, RowPacks::joined>(device, all, body, plan);
    }
    launch_in_registers<kRowSlots, RowPacks::packed>(device, all, body, plan);
  }
}

}  // namespace mezzo::kernels::cuda
