// Rows on the device: softmax and cross-entropy with their gradients as on the CPU, at every length at which
// the way over a row changes (kernels/cuda/row_plan.h), in every layout; and the choice of the way itself.
#include "mezzo/kernels/cuda/row_plan.h"
#include "mezzo/ops/loss.h"
#include "mezzo/ops/softmax.h"
#include "mezzo/tests/cuda/twin.h"

namespace mezzo {
namespace {

using namespace twin;
using kernels::cuda::plan_rows;
using kernels::cuda::RowPlan;
using kernels::cuda::RowWay;

using CudaRows = CudaTwin;

constexpr std::int64_t kLongest = kernels::cuda::kLongestRegisterRow;

TEST(RowPlan, RegistersHoldRowsUpToTheLongest) {
  for (const int inputs : {1, 2}) {
    for (std::int64_t length = 0; length <= kLongest; ++length) {
      const RowPlan plan = plan_rows({3, length, inputs, false, true, true, true});
      ASSERT_EQ(plan.way, RowWay::registers) << length;
      // Every element has a place, no warp is idle, and registers and threads are as many as a block may
      // have.
      const std::int64_t places = std::int64_t{plan.slots} * 4 * plan.threads;
      ASSERT_GE(places, length);
      ASSERT_TRUE(plan.threads == 32 || places - std::int64_t{plan.slots} * 4 * 32 < length) << length;
      ASSERT_EQ(plan.threads % 32, 0U);
      ASSERT_LE(plan.threads * plan.rows, plan.slots == 1 ? 128U : 1024U);
      ASSERT_LE(plan.slots * 4 * inputs, 32);
      ASSERT_TRUE(plan.rows == 1 || plan.threads == 32) << "a barrier would meet warps of several rows";
    }
    EXPECT_EQ(plan_rows({3, kLongest + 1, inputs, false, true, true, true}).way, RowWay::chunks);
  }
}

TEST(RowPlan, OtherWays) {
  EXPECT_EQ(plan_rows({3, kLongest + 1, 1, false, false, true, true}).way, RowWay::streamed)
      << "f64 or integers";
  EXPECT_EQ(plan_rows({3, 100, 1, false, false, true, true}).way, RowWay::streamed) << "f64 or integers";
  EXPECT_EQ(plan_rows({3, 100, 3, false, true, true, true}).way, RowWay::streamed) << "three inputs";
  EXPECT_EQ(plan_rows({std::int64_t{1} << 31, 4, 1, false, true, true, true}).way, RowWay::streamed)
      << "too many blocks";
  EXPECT_EQ(plan_rows({3, 513, 2, false, true, false, true}).way, RowWay::chunks) << "no whole packs";
  EXPECT_EQ(plan_rows({3, 512, 2, false, true, false, true}).way, RowWay::streamed) << "few, not whole packs";
  EXPECT_EQ(plan_rows({3, kLongest + 1, 1, false, true, false, false}).way, RowWay::streamed) << "no runs";
  EXPECT_EQ(plan_rows({31, 100, 1, true, true, true, true}).way, RowWay::registers);
  EXPECT_EQ(plan_rows({32, 100, 1, true, true, true, true}).way, RowWay::across);
  EXPECT_EQ(plan_rows({32, 100, 1, true, false, true, true}).way, RowWay::across);
}

TEST(RowPlan, ShortRowsShareABlock) {
  EXPECT_EQ(plan_rows({9, 128, 1, false, true, true, true}).slots, 1);
  EXPECT_EQ(plan_rows({9, 129, 1, false, true, true, true}).slots, 4);
  EXPECT_EQ(plan_rows({9, 512, 1, false, true, true, true}).rows, 4U);
  EXPECT_EQ(plan_rows({9, 513, 1, false, true, true, true}).rows, 1U);
  EXPECT_EQ(plan_rows({9, 513, 1, false, true, true, true}).threads, 64U);
}

/// How the rows of a test lie in memory.
enum class Layout { contiguous, shifted, spaced, across, padded, shifted_pack };

/// rows x length values: one after the other, the same from an address that takes no packs, with other
/// elements between neighbours of a row, or with rows side by side; with four elements between rows, and from
/// an address that takes packs of four 16-bit elements but not of eight.
Tensor laid_out(const Tensor& x, Layout layout) {
  const std::int64_t rows = x.size(0), length = x.size(1);
  const auto empty = [&](const Shape& shape) {
    return zeros(shape, {.dtype = x.dtype(), .device = x.device()});
  };
  Tensor place;
  if (layout == Layout::contiguous) return x;
  if (layout == Layout::shifted) {
    place = view(slice(empty({rows * length + 1}), 0, 1), {rows, length});
  } else if (layout == Layout::spaced) {
    place = select(empty({rows, length, 3}), 2, 1);
  } else if (layout == Layout::padded) {
    place = slice(empty({rows, length + 4}), 1, 0, length);
  } else if (layout == Layout::shifted_pack) {
    place = view(slice(empty({rows * length + 4}), 0, 4), {rows, length});
  } else {
    place = transpose(empty({length, rows}), 0, 1);
  }
  place.copy_(x);
  return place;
}

struct RowsCase {
  std::int64_t rows, length;
  DType dtype = DType::f32;
  Layout layout = Layout::contiguous;
};

/// Logits whose largest value, far from the others, is where the last places of a row are.
Tensor logits(const RowsCase& c, Device device) {
  Tensor x = values(1, {c.rows, c.length}, DType::f32, Device::cpu()) * 4.0;
  select(select(x, 0, c.rows - 1), 0, c.length - 1).fill_(9.0);
  return laid_out(x.to(c.dtype).to(device), c.layout);
}

/// 1 or 3, laid out like the logits: no gradient is nearly cancelled by a mean of them.
Tensor gradients(const RowsCase& c, Device device) {
  return laid_out((sign(values(2, {c.rows, c.length}, DType::f32, device)) + 2.0).to(c.dtype), c.layout);
}

void softmax_case(const RowsCase& c, Device device, Trace& trace) {
  const Tensor x = logits(c, device), grad = gradients(c, device);
  trace.add("softmax", softmax(x, 1));
  trace.add("log_softmax", log_softmax(x, 1), 8);
  // Outputs that are the same on both devices: what is compared is the backward pass alone.
  const Tensor wide = softmax(values(3, {c.rows, c.length}, DType::f64, Device::cpu()), 1);
  const auto output = [&](const Tensor& t) { return laid_out(t.to(c.dtype).to(device), c.layout); };
  trace.add("softmax_backward", softmax_backward(grad, output(wide), 1), 8.0 / static_cast<double>(c.length));
  trace.add("log_softmax_backward", log_softmax_backward(grad, output(log(wide)), 1), 4);
}

void loss_case(const RowsCase& c, Device device, Trace& trace) {
  const Tensor weight = values(4, {c.length}, c.dtype, device) + 2.0;
  // Targets everywhere in a row; the last row's is its last element, the one before does not count.
  Tensor index = arange(0, c.rows, 1) * 7919.0;
  index = remainder(index.to(DType::i64), c.length);
  select(index, 0, c.rows - 1).fill_(c.length - 1);
  if (c.rows > 1) select(index, 0, c.rows - 2).fill_(-100);
  const Tensor mass = laid_out(
      softmax(values(5, {c.rows, c.length}, DType::f64, Device::cpu()), 1).to(c.dtype).to(device), c.layout);
  const Tensor scales = ((arange(1, c.rows + 1, 1).to(DType::f32)) * (1.0 / static_cast<double>(c.rows)))
                            .to(c.dtype)
                            .to(device);
  const auto add = [&](const char* what, const Tensor& target, double smoothing) {
    const Tensor x = logits(c, device).detach();
    x.requires_grad_();
    const Tensor losses =
        cross_entropy(x, target, weight, {.reduction = Reduction::none, .label_smoothing = smoothing});
    trace.add(what, losses, 8);
    sum(losses * scales).backward();
    trace.add(std::string(what) + ", gradient", x.grad(), 4);
  };
  add("index", index.to(device), 0);
  add("index, smoothed", index.to(device), 0.125);
  add("probabilities", mass, 0.125);
}

void expect_same_rows(const RowsCase& c) {
  SCOPED_TRACE(::testing::Message() << c.rows << " x " << c.length << " " << to_string(c.dtype) << ", layout "
                                    << static_cast<int>(c.layout));
  expect_same([&](Device device, Trace& trace) {
    softmax_case(c, device, trace);
    loss_case(c, device, trace);
  });
}

constexpr std::int64_t kLengths[] = {1,   2,   31,   32,   33,   127,  128,  129, 511,
                                     512, 513, 1023, 1024, 1025, 4095, 4096, 4097};

TEST_F(CudaRows, EveryLength) {
  for (const std::int64_t length : kLengths) expect_same_rows({6, length});
}
TEST_F(CudaRows, TheLongestInRegistersAndLonger) {
  for (const std::int64_t length : {kLongest - 1, kLongest, kLongest + 1, kLongest + 4})
    expect_same_rows({2, length});
  // A vocabulary's: rows begin anywhere, and the last chunk is not whole.
  for (const DType dtype : {DType::f16, DType::bf16, DType::f32}) expect_same_rows({3, 50257, dtype});
  for (const Layout layout : {Layout::spaced, Layout::shifted_pack})
    expect_same_rows({2, 32000, DType::f16, layout});
}
TEST_F(CudaRows, EveryDtype) {
  for (const DType dtype : {DType::f16, DType::bf16, DType::f64}) {
    for (const std::int64_t length : {1, 32, 33, 128, 129, 1024, 1025, 4096})
      expect_same_rows({3, length, dtype});
  }
}
TEST_F(CudaRows, EveryLayout) {
  for (const DType dtype : {DType::f16, DType::f32}) {
    for (const Layout layout : {Layout::shifted, Layout::spaced}) {
      for (const std::int64_t length : {32, 128, 129, 1024}) expect_same_rows({5, length, dtype, layout});
    }
    for (const std::int64_t rows : {31, 32, 33}) {
      for (const std::int64_t length : {4, 33, 128}) expect_same_rows({rows, length, dtype, Layout::across});
    }
  }
}

// Packs of 16-bit elements are joined in rows of whole pairs of packs, if a thread has several.
TEST_F(CudaRows, PacksOfHalfRowsAreJoined) {
  for (const DType dtype : {DType::f16, DType::bf16}) {
    for (const std::int64_t length : {132, 136, 144, 512, 516, 520, 1032, 8200, 16384}) {
      for (const Layout layout : {Layout::contiguous, Layout::padded, Layout::shifted_pack})
        expect_same_rows({2, length, dtype, layout});
    }
  }
}

TEST_F(CudaRows, MixedDtypes) {
  expect_same([](Device device, Trace& trace) {
    for (const std::int64_t length : {64, 516, 520}) {
      const Tensor grad = values(1, {3, length}, DType::f32, device) + 2.0;
      const Tensor output = softmax(values(2, {3, length}, DType::f32, device), 1).to(DType::bf16);
      trace.add("to f32", softmax_backward(grad, output, 1), 0x1p-4);
      trace.add("to f16", softmax_backward(grad, output, 1, DType::f16), 0x1p-4);
      trace.add("f16 to f32", softmax(output.to(DType::f16), 1, DType::f32));
      trace.add("f32 to bf16", softmax(grad, 1, DType::bf16));
      trace.add("bf16 to f64", softmax(output, 1, DType::f64));
    }
  });
}

TEST_F(CudaRows, InfinitiesAndNansStayInTheirRow) {
  expect_same([](Device device, Trace& trace) {
    for (const std::int64_t length : {8, 130, 700}) {
      const Tensor x = values(1, {4, length}, DType::f32, device).detach();
      set_element(x, 1, -kInf);
      set_element(x, length + length / 2, kInf);
      set_element(x, -1, kNan);
      slice(view(x, {4 * length}), 0, 2 * length, 3 * length).fill_(-kInf);
      trace.add("softmax", softmax(x, 1));
      trace.add("log_softmax", log_softmax(x, 1));
    }
  });
}
TEST_F(CudaRows, ALongRowWithChunksOfNothingButInfinities) {
  expect_same([](Device device, Trace& trace) {
    const Tensor x = values(1, {2, 30000}, DType::f32, device).detach();
    for (std::int64_t row = 0; row < 2; ++row)
      slice(select(x, 0, row), 0, 0, 20000 + 9990 * row).fill_(-kInf);
    trace.add("softmax", softmax(x, 1));
    trace.add("log_softmax", log_softmax(x, 1));
  });
}

}  // namespace
}  // namespace mezzo
