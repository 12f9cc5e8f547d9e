// Reductions on the device: the CPU's results at every size at which blocks, vectors and chunks begin and
// end; the same bits wherever the elements lie; and the blocks that finish last, also of recorded kernels and
// in several streams.
#include <cmath>

#include "mezzo/core/cuda/graph.h"
#include "mezzo/core/cuda/stream.h"
#include "mezzo/core/cuda/tickets.h"
#include "mezzo/kernels/reduce/cuda_plan.h"
#include "mezzo/tests/cuda/twin.h"

namespace mezzo {
namespace {

using namespace twin;
using kernels::cuda::plan_reduction;
using kernels::cuda::ReduceSizes;
using kernels::cuda::ReduceWay;

using CudaReductions = CudaTwin;

constexpr std::int64_t kCounts[] = {0,    1,    7,    8,    9,    31,   255,   511,   512,     513,
                                    2047, 2048, 2049, 8191, 8192, 8193, 12288, 70001, 1 << 22, (1 << 22) + 1};

TEST(ReductionPlan, EveryElementIsInOneChunk) {
  for (const std::int64_t outputs : {1, 2, 31, 32, 33, 1055, 1056, 1057, 100000}) {
    for (const std::int64_t count : kCounts) {
      for (const bool side_by_side : {false, true}) {
        const ReduceSizes sizes = plan_reduction(outputs, count, side_by_side);
        SCOPED_TRACE(::testing::Message() << outputs << " x " << count << ", " << side_by_side);
        EXPECT_EQ(sizes.way == ReduceWay::columns, side_by_side && outputs >= 32);
        ASSERT_GE(sizes.chunks * sizes.chunk_size, count);
        ASSERT_LE(sizes.chunks, 65535) << "blocks along y";
        ASSERT_TRUE(sizes.threads >= 32 && sizes.threads <= 256 && sizes.threads % 32 == 0) << sizes.threads;
        if (sizes.chunks == 1) continue;
        EXPECT_EQ(sizes.chunk_size % 8, 0) << "vectors of a chunk begin where it begins";
        EXPECT_LT((sizes.chunks - 1) * sizes.chunk_size, count) << "a chunk is empty";
        EXPECT_LE(sizes.groups(), cuda::kTickets);
        EXPECT_NE(sizes.way, ReduceWay::warps);
      }
    }
  }
}

TEST(ReductionPlan, WaysBySize) {
  EXPECT_EQ(plan_reduction(7, 512, false).way, ReduceWay::warps);
  EXPECT_EQ(plan_reduction(7, 513, false).way, ReduceWay::blocks);
  EXPECT_EQ(plan_reduction(31, 513, true).way, ReduceWay::blocks);
  EXPECT_EQ(plan_reduction(32, 513, true).way, ReduceWay::columns);
  EXPECT_EQ(plan_reduction(1, 8191, false).chunks, 1);
  EXPECT_EQ(plan_reduction(1, 8192, false).chunks, 2);
  EXPECT_EQ(plan_reduction(1056, 1 << 20, false).chunks, 1) << "outputs alone fill the device";
}

/// Every kind of reduction of all elements of a row, or of a column.
void reductions(const Tensor& x, std::int64_t dim, Trace& trace) {
  // Signs differ, so a sum may nearly cancel: as large as its terms together.
  trace.add("sum", sum(x, dim), 0x1p-10 * static_cast<double>(x.size(dim)));
  trace.add("mean of squares", mean(x * x, dim));
  trace.add("norm", norm(x, 2, dim));
  trace.add("variance", var(x, dim, false));
  trace.add("largest", amax(x, dim));
  trace.add("where", argmin(x, dim));
  trace.add("any", any(gt(x, 0.9), dim));
}

TEST_F(CudaReductions, EverySizeInRowsAndColumns) {
  for (const std::int64_t count :
       {1, 7, 8, 9, 31, 127, 128, 129, 511, 512, 513, 2049, 8191, 8192, 8200, 12295}) {
    SCOPED_TRACE(count);
    expect_same([&](Device device, Trace& trace) {
      for (const DType dtype : {DType::f32, DType::f16}) {
        reductions(values(1, {count}, dtype, device), 0, trace);
        reductions(values(2, {3, count}, dtype, device), 1, trace);
        if (count < 1000) reductions(values(3, {count, 33}, dtype, device), 0, trace);
      }
      reductions(values(4, {2, count}, DType::f64, device), 1, trace);
      trace.add("of integers", sum(arange(0, count, 1).to(device)));
    });
  }
}
TEST_F(CudaReductions, OfNothing) {
  expect_same([&](Device device, Trace& trace) {
    trace.add("sum", sum(zeros({0}, {.device = device})));
    trace.add("sums", sum(zeros({40, 0}, {.device = device}), 1));
    trace.add("columns", sum(zeros({0, 40}, {.device = device}), 0));
    trace.add("mean", mean(zeros({0}, {.device = device})));
  });
}
TEST_F(CudaReductions, LongColumns) {
  expect_same([&](Device device, Trace& trace) {
    for (const std::int64_t columns : {32, 40, 100}) {
      const Tensor x = values(5, {4099, columns}, DType::f32, device);
      trace.add("sum", sum(x, 0), 4.0);
      trace.add("largest", amax(x, 0));
      trace.add("where", argmax(x, 0));
    }
  });
}

/// Values of which every order of addition has another sum in f64: wider apart than its 53 bits hold, but in
/// f16, whose sums are exact in any order.
Tensor uneven(std::int64_t n, DType dtype, Device device) {
  const Tensor x = values(6, {n}, DType::f64, Device::cpu());
  const double exponents = dtype == DType::f16 ? 8.0 : 80.0;
  return (x * exp(values(7, {n}, DType::f64, Device::cpu()) * exponents)).to(dtype).to(device);
}

TEST_F(CudaReductions, BitsDoNotDependOnWhereElementsLie) {
  const Device device = Device::cuda(0);
  for (const std::int64_t n : {100, 1000, 9001, 30000}) {
    for (const DType dtype : {DType::f64, DType::f32, DType::f16}) {
      const Tensor x = uneven(n, dtype, device);
      const auto total = [](const Tensor& t) { return sum(t, {}, false, DType::f64).item<double>(); };
      const double expected = total(x);
      for (const std::int64_t offset : {1, 2, 4, 8}) {
        const Tensor place = slice(zeros({n + offset}, {.dtype = dtype, .device = device}), 0, offset);
        place.copy_(x);
        EXPECT_EQ(total(place), expected) << n << " elements of " << to_string(dtype) << " from " << offset;
      }
      const Tensor spaced = select(zeros({n, 3}, {.dtype = dtype, .device = device}), 1, 1);
      spaced.copy_(x);
      EXPECT_EQ(total(spaced), expected) << n << " elements with gaps";
      EXPECT_EQ(total(x.to(DType::f64)), expected) << "the same numbers in another dtype";
    }
  }
}

// What the last block folds comes from all others, also when the same counters serve one launch after the
// other, another stream, and a graph that is replayed between them.
TEST_F(CudaReductions, CountersServeEveryLaunch) {
  const Device device = Device::cuda(0);
  const Tensor x = uneven(50000, DType::f32, device), y = x * 2.0;
  const double expected = sum(x.to(Device::cpu())).item<double>();
  const auto near = [&](const Tensor& result, double value) {
    const double got = result.item<double>();
    return std::abs(got - value) <= 0x1p-20 * std::abs(value);
  };
  const Tensor first = sum(x);
  ASSERT_TRUE(near(first, expected));
  const Tensor recorded = zeros({}, {.device = device}), twice = zeros({}, {.device = device});
  cuda::Graph graph(device, [&] {
    recorded.copy_(sum(x));
    twice.copy_(sum(y));
  });
  cuda::Stream other(device);
  for (int i = 0; i < 3; ++i) {
    recorded.fill_(0.0);
    twice.fill_(0.0);
    graph.replay();
    const Tensor eager = sum(x);
    EXPECT_EQ(eager.item<double>(), first.item<double>());
    EXPECT_EQ(recorded.item<double>(), first.item<double>());
    EXPECT_TRUE(near(twice, 2 * expected));
    cuda::default_stream(0).synchronize();
    const cuda::StreamGuard guard(other);
    EXPECT_EQ(sum(x).item<double>(), first.item<double>());
  }
}

TEST_F(CudaReductions, OfSeveralArrays) {
  expect_same([&](Device device, Trace& trace) {
    for (const std::int64_t n : {7, 8, 4096, 9001}) {
      for (const DType dtype : {DType::f32, DType::f16}) {
        const Tensor x = values(8, {n}, dtype, device), target = values(9, {n + 3}, DType::f32, device);
        trace.add("aligned", mse_loss(x, slice(target, 0, 0, n).to(dtype)));
        trace.add("shifted", mse_loss(x.to(DType::f32), slice(target, 0, 3)));
      }
    }
  });
}

}  // namespace
}  // namespace mezzo
