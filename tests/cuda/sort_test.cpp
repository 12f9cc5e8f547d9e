// Sorting on a device against the CPU, bit for bit: rows around the sizes of a thread's share (8), a warp and
// a tile (2048), of several tiles, of every dtype and layout.
#include "mezzo/ops/indexing.h"
#include "mezzo/tests/cuda/twin.h"

namespace mezzo {
namespace {

using namespace twin;

using CudaSort = CudaTwin;

/// Few different values, and for floating dtypes both zeros, infinities and NaNs.
Tensor tied(std::uint64_t seed, const Shape& shape, DType dtype, Device device) {
  Generator generator(seed);
  const bool is_signed = dtype != DType::u8 && dtype != DType::boolean;
  const Tensor numbers =
      randint(is_signed ? -40 : 0, dtype == DType::boolean ? 2 : 40, shape, {.dtype = DType::i64}, generator);
  Tensor x = numbers.to(dtype);
  if (is_floating(dtype)) {
    const auto replace = [&](std::int64_t number, double value) {
      x = where(eq(numbers, number), full({}, value, {.dtype = dtype}), x);
    };
    replace(-1, -0.0);
    replace(1, 0x1p-14);
    replace(2, -kInf);
    replace(3, kInf);
    replace(4, kNan);
    replace(5, -kNan);
  }
  return x.to(device);
}
void add_sorted(Trace& trace, const Tensor& x, std::int64_t dim) {
  for (const bool descending : {false, true}) {
    const auto [values, indices] = sort(x, dim, descending);
    trace.add(to_string(x.dtype()) + to_string(x.shape()) + " sorted", indices);
    trace.add("its values", values);
  }
}

TEST_F(CudaSort, EveryDTypeOnRowsOfAllKinds) {
  for (const DType dtype :
       {DType::f16, DType::bf16, DType::f32, DType::f64, DType::i64, DType::i32, DType::u8, DType::boolean}) {
    expect_same([&](Device device, Trace& trace) {
      for (const std::int64_t n : {1, 7, 8, 9, 33, 300, 2049, 5000})
        add_sorted(trace, tied(1, {3, n}, dtype, device), -1);
    });
  }
}

TEST_F(CudaSort, LengthsAroundTheSizesOfTheKernels) {
  for (const std::int64_t n : {2,   3,   4,    15,   16,   17,   31,   32,   63,   64,   65,
                               255, 257, 1023, 1025, 2047, 2048, 4095, 4096, 4097, 6144, 8193}) {
    expect_same([n](Device device, Trace& trace) {
      add_sorted(trace, tied(2, {n}, DType::f32, device), 0);
      add_sorted(trace, tied(3, {2, n}, DType::f64, device), 1);
    });
  }
}

TEST_F(CudaSort, ManyRows) {
  expect_same([](Device device, Trace& trace) {
    add_sorted(trace, tied(4, {5000, 5}, DType::f32, device), 1);
    add_sorted(trace, tied(5, {5, 3000}, DType::f32, device), 0);
    add_sorted(trace, tied(6, {4, 300, 7}, DType::bf16, device), 1);
    add_sorted(trace, tied(7, {2500, 3}, DType::i64, device), 0);
  });
}

TEST_F(CudaSort, StridedRows) {
  expect_same([](Device device, Trace& trace) {
    const Tensor x = tied(8, {90, 110}, DType::f32, device);
    add_sorted(trace, transpose(x, 0, 1), 0);
    add_sorted(trace, transpose(x, 0, 1), 1);
    add_sorted(trace, slice(x, 1, 3, 100, 2), 1);
    add_sorted(trace, slice(x, 0, 3, 80, 7), 0);
    add_sorted(trace, expand(select(x, 0, 4), {3, 110}), 1);
    add_sorted(trace, transpose(tied(9, {2500, 2}, DType::f16, device), 0, 1), 1);
  });
}

TEST_F(CudaSort, ALongRowWithManyTies) {
  expect_same([](Device device, Trace& trace) {
    add_sorted(trace, tied(10, {100000}, DType::f32, device), 0);
    add_sorted(trace, values(11, {30000}, DType::f64, device), 0);
    add_sorted(trace, arange(9000, 0, -1).to(device), 0);
  });
}

TEST_F(CudaSort, NothingAndOneElement) {
  expect_same([](Device device, Trace& trace) {
    add_sorted(trace, zeros({0}, {.device = device}), 0);
    add_sorted(trace, zeros({3, 0}, {.device = device}), -1);
    add_sorted(trace, zeros({0, 3}, {.device = device}), 1);
    add_sorted(trace, full({}, 2.5, {.device = device}), -1);
  });
}

TEST_F(CudaSort, TheFirstOnes) {
  expect_same([](Device device, Trace& trace) {
    for (const std::int64_t n : {20, 2048, 2049, 9000, 50000}) {
      const Tensor x = tied(12, {2, n}, DType::f32, device);
      for (const std::int64_t k : {1, 17, 1024, 1025, 2500}) {
        if (k > n) continue;
        for (const bool largest : {false, true}) {
          const auto [values, indices] = topk(x, k, 1, largest);
          trace.add("first " + std::to_string(k) + " of " + std::to_string(n), indices);
          trace.add("their values", values);
        }
      }
    }
    trace.add("none", topk(zeros({5}, {.device = device}), 0, 0).indices);
  });
}

}  // namespace
}  // namespace mezzo
