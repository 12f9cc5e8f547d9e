// The sizes by which a reduction is cut into chunks and units of work, the choice between rows and columns,
// and the loop that runs pieces in parallel and combines chunks in order.
#include "mezzo/kernels/reduce/cpu_plan.h"

#include <array>
#include <cstdlib>
#include <cstring>

#include "mezzo/core/layout.h"

namespace mezzo::kernels::cpu {

namespace {

/// Elements of a chunk by rows: what a thread takes at a time.
constexpr std::int64_t kRowChunk = kReduceGrain;
/// A chunk by columns has about this many elements over all outputs, and not fewer than kShortestChunk per
/// output, so that the partial results stay small beside the input.
constexpr std::int64_t kColumnChunk = 131072, kShortestChunk = 64, kHighestChunk = 16 * kTile;
/// Positions within a chunk fit into 32 bits (cpu_arg_reduce.h relies on it).
constexpr std::int64_t kLongestChunk = std::int64_t{1} << 30;
/// With this many pieces side by side there is no need to cut columns into chunks for the threads' sake.
constexpr std::int64_t kEnoughUnits = 16;
/// Rows shorter than this are read across, many outputs at a time.
constexpr std::int64_t kShortRow = 32;
/// Kept runs shorter than this are worked on together.
constexpr std::int64_t kShortRun = 64;

constexpr std::int64_t divide_up(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

/// The dims of `source` that `order` lists.
Dims pick(const Dims& source, const Dims& order) {
  Dims result;
  for (const std::int64_t d : order) result.push_back(source[static_cast<std::size_t>(d)]);
  return result;
}

}  // namespace

StridedSpace::StridedSpace(Shape shape, const Dims& strides) {
  std::array<Dims, 1> merged{strides};
  layout::collapse(shape, merged);
  shape_ = shape;
  strides_ = merged[0];
}

std::int64_t StridedSpace::offset(std::int64_t index) const {
  std::int64_t result = 0;
  for (std::size_t d = shape_.size(); d-- > 1;) {
    result += index % shape_[d] * strides_[d];
    index /= shape_[d];
  }
  return shape_.empty() ? 0 : result + index * strides_[0];
}

ReducePlan::ReducePlan(const View& out, const View& in, bool by_position) {
  Dims kept, gone;
  for (std::size_t d = 0; d < in.shape.size(); ++d) {
    if (in.shape[d] == 1) continue;
    (out.strides[d] != 0 ? kept : gone).push_back(static_cast<std::int64_t>(d));
  }
  kept = layout::along_memory(kept, in.strides);
  if (!by_position) gone = layout::along_memory(gone, in.strides);
  reduced = StridedSpace(pick(in.shape, gone), pick(in.strides, gone));
  kept_in = StridedSpace(pick(in.shape, kept), pick(in.strides, kept));
  kept_out = StridedSpace(pick(in.shape, kept), pick(out.strides, kept));
  count = layout::numel(pick(in.shape, gone));
  outputs = layout::numel(pick(in.shape, kept));
  // A stride of 0 repeats one element, which no row is made of.
  const bool across = reduced.stride() == 0 || std::abs(kept_in.stride()) < std::abs(reduced.stride());
  columns = outputs > 1 && (across || count < kShortRow);
  cut();
}

ReducePlan::ReducePlan(std::int64_t total) : count(total) { cut(); }

void ReducePlan::cut() {
  const std::int64_t row = std::max<std::int64_t>(count, 1);
  if (columns) {
    const bool many = divide_up(outputs, kReduceUnit) >= kEnoughUnits;
    chunk = many ? std::min(row, kLongestChunk)
                 : std::clamp(kColumnChunk / outputs, kShortestChunk, kHighestChunk);
  } else {
    chunk = kRowChunk;
  }
  chunks = divide_up(row, chunk);
  unit_run = std::max<std::int64_t>(outputs, 1);
  if (columns) {
    if (kept_in.run() >= kShortRun) unit_run = kept_in.run();
    unit = std::min(unit_run, kReduceUnit);
  } else {
    unit = std::clamp<std::int64_t>(kReduceGrain / row, 1, std::min(unit_run, kReduceUnit));
  }
  units = outputs / unit_run * divide_up(unit_run, unit);
}

ReducePlan::Range ReducePlan::unit_range(std::int64_t u) const {
  const std::int64_t per_run = divide_up(unit_run, unit);
  const std::int64_t begin = u % per_run * unit;
  return {u / per_run * unit_run + begin, std::min(unit, unit_run - begin)};
}

namespace detail {

namespace {

/// Results of one piece, of any type.
struct Results {
  alignas(64) std::byte bytes[kReduceUnit * kLargestResult];
};

/// Elements in several chunks: each thread has chunks of its own, then they are combined in order.
void run_chunked(const ReducePlan& plan, const ReductionSteps& steps, std::int64_t grain) {
  const std::int64_t size = steps.result_size;
  const RowScratch<std::byte> partial(plan.chunks * plan.outputs * size);
  const auto partial_at = [&](std::int64_t chunk, std::int64_t output) {
    return partial.data() + (chunk * plan.outputs + output) * size;
  };
  cpu::parallel_for(plan.chunks * plan.units, grain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t at = begin; at < end; ++at) {
      const std::int64_t c = at / plan.units;
      const auto range = plan.unit_range(at % plan.units);
      steps.accumulate(steps.engine, range.begin, range.size, plan.chunk_range(c),
                       partial_at(c, range.begin));
    }
  });
  cpu::parallel_for(plan.outputs, kReduceUnit, [&](std::int64_t begin, std::int64_t end) {
    Results results;
    std::memcpy(results.bytes, partial_at(0, begin), static_cast<std::size_t>((end - begin) * size));
    for (std::int64_t c = 1; c < plan.chunks; ++c)
      steps.combine(steps.engine, results.bytes, partial_at(c, begin), end - begin);
    steps.store(steps.sink, begin, end - begin, results.bytes);
  });
}

}  // namespace

void run_reduction(const ReducePlan& plan, const ReductionSteps& steps) {
  const std::int64_t task = std::max<std::int64_t>(plan.unit * std::min(plan.chunk, plan.count), 1);
  const std::int64_t grain = std::max<std::int64_t>(kReduceGrain / task, 1);
  if (plan.chunks > 1) return run_chunked(plan, steps, grain);
  cpu::parallel_for(plan.units, grain, [&](std::int64_t begin, std::int64_t end) {
    Results results;
    for (std::int64_t u = begin; u < end; ++u) {
      const auto range = plan.unit_range(u);
      steps.accumulate(steps.engine, range.begin, range.size, plan.chunk_range(0), results.bytes);
      steps.store(steps.sink, range.begin, range.size, results.bytes);
    }
  });
}

}  // namespace detail

}  // namespace mezzo::kernels::cpu
