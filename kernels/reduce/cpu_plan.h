// How a reduction is cut up: which elements make up an output, in which order they are accumulated, and which
// pieces may run on different threads. Apart from the loops because all reducers share it. Order and pieces
// follow from shape, strides and the reduced dims alone, never from threads: memory is read in its own order,
// so a transposed tensor gives the bits of the tensor, and its contiguous copy perhaps others.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <type_traits>

#include "mezzo/kernels/cpu/parallel.h"
#include "mezzo/kernels/cpu/rows.h"
#include "mezzo/kernels/cpu/tile.h"
#include "mezzo/kernels/view.h"

namespace mezzo::kernels::cpu {

/// A strided index space: positions in row-major order, and where in memory each stands.
class StridedSpace {
 public:
  StridedSpace() = default;
  /// The given dims, neighbours merged where they are one run.
  StridedSpace(Shape shape, const Dims& strides);
  /// Where position `index` stands, in elements from the start.
  [[nodiscard]] std::int64_t offset(std::int64_t index) const;
  /// Length of a run: size of the last dim (1 without dims).
  [[nodiscard]] std::int64_t run() const { return shape_.empty() ? 1 : shape_.back(); }

  /// Distance between neighbours of a run.
  [[nodiscard]] std::int64_t stride() const { return shape_.empty() ? 1 : strides_.back(); }

  /// Cuts positions [begin, begin + n) into boxes of whole dims but for one: f(position of the first element
  /// before it, its offset, shape, strides).
  template <class F>
  void each_box(std::int64_t begin, std::int64_t n, F f) const;

  struct Run {
    std::int64_t offset, stride;
  };
  /// Positions [begin, begin + n) as one run, if they are one.
  [[nodiscard]] std::optional<Run> single_run(std::int64_t begin, std::int64_t n) const {
    if (begin % run() + n > run()) return std::nullopt;
    return Run{offset(begin), stride()};
  }

  /// Cuts positions [begin, begin + n) into runs: f(offset, stride, positions before it, length).
  template <class F>
  void each_run(std::int64_t begin, std::int64_t n, F f) const {
    for (std::int64_t done = 0; done < n;) {
      const std::int64_t at = begin + done;
      const std::int64_t count = std::min(n - done, run() - at % run());
      f(offset(at), stride(), done, count);
      done += count;
    }
  }

 private:
  Shape shape_;
  Dims strides_;
};

template <class F>
void StridedSpace::each_box(std::int64_t begin, std::int64_t n, F f) const {
  for (std::int64_t done = 0; done < n;) {
    // The outermost dim of which a whole element fits, from its start on.
    const std::int64_t at = begin + done, left = n - done;
    std::size_t d = shape_.size();
    std::int64_t inner = 1;  // positions in an element of dim d - 1
    while (d > 1 && at % (inner * shape_[d - 1]) == 0 && left >= inner * shape_[d - 1]) inner *= shape_[--d];
    Shape box{d == 0 ? 1 : std::min(left / inner, shape_[d - 1] - at / inner % shape_[d - 1])};
    Dims steps{d == 0 ? 0 : strides_[d - 1]};
    for (; d < shape_.size(); ++d) {
      box.push_back(shape_[d]);
      steps.push_back(strides_[d]);
    }
    f(done, offset(at), box, steps);
    done += box[0] * inner;
  }
}

/// Elements that one thread takes at a time, at the least.
inline constexpr std::int64_t kReduceGrain = 65536;
/// Widest piece of outputs that is worked on at once.
inline constexpr std::int64_t kReduceUnit = kTile;

/// The plan of one reduction of `count` elements each into `outputs` outputs. The elements of an output are
/// in the order of their memory, or in row-major order of the reduced dims where their positions matter; they
/// are cut into chunks of `chunk` elements, whose results are combined in order. Within a chunk there are two
/// ways. By rows (neighbours in memory belong to one output): tiles of kTile elements, or of less at the end
/// of a long run; in each R::kLanes accumulators take turns and are combined pairwise; then the tiles in
/// order. By columns (they belong to different outputs, or rows are very short): one element after the other,
/// many outputs side by side.
struct ReducePlan {
  /// `out` has the shape of `in`, with stride 0 in the dims that are reduced and in no other of more than one
  /// element.
  ReducePlan(const View& out, const View& in, bool by_position = false);
  /// One output of `total` elements, by rows, for kernels that bring their own spaces.
  explicit ReducePlan(std::int64_t total);

  StridedSpace reduced;            ///< the elements of an output, in the input's strides
  StridedSpace kept_in, kept_out;  ///< the outputs, in the strides of the input and of the output
  std::int64_t outputs = 1, count = 1;
  bool columns = false;
  std::int64_t chunk = 1, chunks = 1;
  std::int64_t unit = 1;      ///< outputs in a unit of work: a piece of ...
  std::int64_t unit_run = 1;  ///< ... a run of this many outputs
  std::int64_t units = 1;

  struct Range {
    std::int64_t begin, size;
  };
  /// Outputs of unit u.
  [[nodiscard]] Range unit_range(std::int64_t u) const;
  /// Elements of chunk c.
  [[nodiscard]] Range chunk_range(std::int64_t c) const {
    return {c * chunk, std::min(chunk, count - c * chunk)};
  }

 private:
  void cut();
};

namespace detail {
/// An engine and a sink of run_reduction by address, results without their type: the loop over pieces is one
/// for all reducers.
struct ReductionSteps {
  const void* engine;
  const void* sink;
  std::int64_t result_size;  ///< in bytes
  void (*accumulate)(const void* engine, std::int64_t first, std::int64_t n, ReducePlan::Range elements,
                     void* results);
  void (*combine)(const void* engine, void* into, const void* from, std::int64_t n);
  void (*store)(const void* sink, std::int64_t first, std::int64_t n, const void* results);
};
inline constexpr std::int64_t kLargestResult = 16;
void run_reduction(const ReducePlan& plan, const ReductionSteps& steps);
}  // namespace detail

/// Runs a plan. `engine` has a type Acc, `accumulate(first output, how many, elements, Acc* results)` and
/// `combine(Acc, Acc)`; `sink(first output, how many, const Acc*)` gets each complete piece of at most
/// kReduceUnit outputs once, on any thread.
template <class Engine, class Sink>
void run_reduction(const ReducePlan& plan, const Engine& engine, const Sink& sink) {
  using Acc = typename Engine::Acc;
  static_assert(sizeof(Acc) <= detail::kLargestResult && std::is_trivially_copyable_v<Acc>);
  detail::run_reduction(
      plan, {.engine = &engine,
             .sink = &sink,
             .result_size = sizeof(Acc),
             .accumulate =
                 [](const void* raw, std::int64_t first, std::int64_t n, ReducePlan::Range elements,
                    void* results) {
                   static_cast<const Engine*>(raw)->accumulate(first, n, elements,
                                                               static_cast<Acc*>(results));
                 },
             .combine =
                 [](const void* raw, void* into, const void* from, std::int64_t n) {
                   auto* const a = static_cast<Acc*>(into);
                   const auto* const b = static_cast<const Acc*>(from);
                   for (std::int64_t i = 0; i < n; ++i)
                     a[i] = static_cast<const Engine*>(raw)->combine(a[i], b[i]);
                 },
             .store =
                 [](const void* raw, std::int64_t first, std::int64_t n, const void* results) {
                   (*static_cast<const Sink*>(raw))(first, n, static_cast<const Acc*>(results));
                 }});
}

}  // namespace mezzo::kernels::cpu
