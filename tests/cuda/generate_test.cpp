// What is computed from an element's index alone, on the device as on the CPU: ranges, exponential draws,
// places in sorted sequences. And bits of integers, which the sweep has none of.
#include "mezzo/tests/cuda/twin.h"

namespace mezzo {
namespace {

using namespace twin;

using CudaGenerate = CudaTwin;

TEST_F(CudaGenerate, RangesAndDraws) {
  expect_same([](Device device, Trace& trace) {
    for (const DType dtype : {DType::f32, DType::f64, DType::f16, DType::i32}) {
      const ValueOptions options{.dtype = dtype, .device = device};
      trace.add("linspace", linspace(-3, 17, 1001, options), 0);
      trace.add("logspace", logspace(-1, 1.5, 101, 3, options), 0);
      if (!is_floating(dtype)) continue;
      Generator generator(3);
      trace.add("draws", exponential_(zeros({1003}, {.dtype = dtype, .device = device}), 2.5, generator), 0);
    }
  });
}

TEST_F(CudaGenerate, PlacesAndBits) {
  expect_same([](Device device, Trace& trace) {
    for (const DType dtype : {DType::f32, DType::i64, DType::u8}) {
      Generator generator(4);
      const Tensor x = randint(0, 200, {2, 5000}, {.generator = &generator}).to(device, dtype);
      const Tensor sequence = sort(narrow(x, 1, 0, 999)).values;
      trace.add("first places", searchsorted(sequence, x));
      trace.add("last places", searchsorted(sequence, x, true));
      if (is_floating(dtype)) continue;
      const Tensor y = flip(x, {1});
      for (const Tensor& bits : {x & y, x | y, x ^ 77, ~x}) trace.add("bits", bits);
    }
  });
}

}  // namespace
}  // namespace mezzo
