// Linear recurrences and running extrema of rows longer than a block, of rows in chunks, and of many rows
// side by side, on the device as on the CPU.
#include <cmath>

#include "mezzo/kernels/scan/cuda_chunks.h"
#include "mezzo/ops/cumulative.h"
#include "mezzo/tests/cuda/twin.h"

namespace mezzo {
namespace {

using namespace twin;
using kernels::cuda::chunks_of_scan;
using kernels::cuda::kMostScanChunks;
using kernels::cuda::ScanChunks;

using CudaScan = CudaTwin;

/// All three kinds of recurrence, both ways, along the long dim of `shape`.
void expect_same_scans(const Shape& shape, std::int64_t dim) {
  expect_same([&](Device device, Trace& trace) {
    // Scales near 1, so that the first elements still show in the last ones.
    const Tensor scale = values(1, shape, DType::f32, device) * 0.05 + 1.0;
    const Tensor add = values(2, shape, DType::f32, device) + 1.5;
    for (const bool reverse : {false, true}) {
      trace.add("scale and add", linear_recurrence(scale, add, dim, 0.5, reverse));
      trace.add("scale", linear_recurrence(scale, {}, dim, 2, reverse));
      trace.add("add", linear_recurrence({}, add, dim, -1, reverse));
    }
  });
}

TEST(ScanChunks, EveryElementIsInOneChunk) {
  for (const std::int64_t rows : {0, 1, 2, 3, 527, 528, 529, 1056, 100000}) {
    for (const std::int64_t length : {0, 1, 4095, 4096, 4097, 10000, 1 << 19, (1 << 19) + 1, 1 << 28}) {
      SCOPED_TRACE(::testing::Message() << rows << " x " << length);
      const ScanChunks chunks = chunks_of_scan(rows, length);
      ASSERT_GE(chunks.count, 1);
      ASSERT_LE(chunks.count, kMostScanChunks);
      ASSERT_GE(chunks.count * chunks.size, length);
      if (chunks.count == 1) continue;
      EXPECT_LT((chunks.count - 1) * chunks.size, length) << "a chunk is empty";
      EXPECT_EQ(chunks.size % 1024, 0) << "blocks take 1024 elements at once";
      EXPECT_LE(rows * chunks.count, 1056);
    }
  }
  EXPECT_EQ(chunks_of_scan(1, 4095).count, 1);
  EXPECT_EQ(chunks_of_scan(1, 4096).count, 2);
  EXPECT_EQ(chunks_of_scan(1, 1 << 28).count, kMostScanChunks);
  EXPECT_EQ(chunks_of_scan(529, 1 << 20).count, 1) << "rows alone fill the device";
}

TEST_F(CudaScan, LongRowsInChunks) {
  for (const std::int64_t n : {4095, 4096, 6145}) {
    SCOPED_TRACE(n);
    expect_same([&](Device device, Trace& trace) {
      for (const DType dtype : {DType::f32, DType::f64, DType::f16, DType::bf16}) {
        const Tensor x = values(4, {n}, dtype, device), rows = values(5, {3, n}, dtype, device);
        // Sums are kept in f64. Signs differ, so one in f64 may nearly cancel: relative to all its terms.
        const double terms = dtype == DType::f64 ? static_cast<double>(n) / 2 : 0;
        trace.add("sums", cumsum(x, 0), terms);
        trace.add("of rows", cumsum(rows, 1), terms);
        // Each of the n additions rounds the logarithm, in another order on each device: a random walk.
        const double walk = dtype == DType::f64 ? std::sqrt(static_cast<double>(n)) : 0;
        trace.add("logarithms of sums", logcumsumexp(rows, 1), walk);
        trace.add("backwards", linear_recurrence({}, rows, 1, 0.25, true), terms);
      }
      trace.add("of integers", cumsum(arange(0, n, 1).to(device), 0));
    });
  }
}
TEST_F(CudaScan, LongRowsSideBySide) {
  expect_same([](Device device, Trace& trace) {
    trace.add("sums", cumsum(values(6, {4097, 33}, DType::f32, device), 0), 0);
  });
}
// 256 chunks, each of several steps of a block.
TEST_F(CudaScan, AsManyChunksAsThereAre) {
  expect_same(
      [](Device device, Trace& trace) { trace.add("sums", cumsum(arange(0, 600'001, 1).to(device), 0)); });
}
TEST_F(CudaScan, AnInfinityIsSeenInLaterChunksOnly) {
  expect_same([](Device device, Trace& trace) {
    const Tensor x = (values(7, {9000}, DType::f32, device) + 2.0).detach();
    set_element(x, 5000, kInf);
    trace.add("sums", cumsum(x, 0));
    set_element(x, 8000, -kInf);
    trace.add("sums that end in NaN", cumsum(x, 0));
  });
}
TEST_F(CudaScan, RunningExtremaOfTiesAndNan) {
  expect_same([](Device device, Trace& trace) {
    for (const DType dtype : {DType::f32, DType::f64, DType::bf16, DType::i64, DType::u8}) {
      Generator generator(8);
      Tensor x = randint(0, 200, {2, 9001}, {.generator = &generator}).to(device, dtype);
      if (is_floating(dtype)) x[{1, Slice(7000, 8000, 300)}] = kNan;
      for (const std::int64_t dim : {0, 1}) {
        for (const auto& [values, indices] : {cummax(x, dim), cummin(x, dim)}) {
          trace.add("extrema", values, 0);
          trace.add("their places", indices);
        }
      }
    }
  });
}
TEST_F(CudaScan, RowsOfSeveralBlocks) { expect_same_scans({3, 1000}, 1); }
TEST_F(CudaScan, ManyRowsSideBySide) { expect_same_scans({300, 40}, 0); }

TEST_F(CudaScan, IntegersAndInfinities) {
  expect_same([](Device device, Trace& trace) {
    const Tensor numbers = arange(1, 701, 1).to(device);
    trace.add("sums", cumsum(numbers, 0));
    trace.add("products", cumprod(numbers, 0));
    const Tensor x = (values(3, {600}, DType::f32, device) + 2.0).detach();
    set_element(x, 300, kInf);
    trace.add("products with an infinity", cumprod(x, 0));
    trace.add("sums with an infinity", cumsum(x, 0));
  });
}

}  // namespace
}  // namespace mezzo
