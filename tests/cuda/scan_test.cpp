// Linear recurrences of rows longer than a block, and of many rows side by side, on the device as on the CPU.
#include "mezzo/ops/cumulative.h"
#include "mezzo/tests/cuda/twin.h"

namespace mezzo {
namespace {

using namespace twin;

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
