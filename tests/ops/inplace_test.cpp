// In-place writes: values and dtypes, what is refused, versions, and how a write becomes part of the graph.
#include <gtest/gtest.h>

#include "mezzo/amp/autocast.h"
#include "mezzo/autograd/grad_mode.h"
#include "mezzo/ops/cast.h"
#include "mezzo/ops/factory.h"
#include "mezzo/ops/matmul.h"
#include "mezzo/ops/reduction.h"
#include "mezzo/ops/shape.h"
#include "mezzo/tests/ops/pointwise_support.h"

namespace mezzo {
namespace {

using namespace test;

using Doubles = std::vector<double>;

// --- without recording

TEST(Inplace, WritesIntoTheTensorsOwnMemory) {
  const Tensor x = make<float>({2, 2}, {1, 2, 3, 4});
  const void* memory = x.impl().data();
  x.add_(make<float>({10, 20}), 0.5).mul_(make<float>({2, 1}, {1, 2})).add_(1).mul_(2);
  EXPECT_EQ(list(x), (Doubles{14, 26, 34, 58}));
  EXPECT_EQ(x.impl().data(), memory);
  x.copy_(make<double>({7, 8}));
  EXPECT_EQ(list(x), (Doubles{7, 8, 7, 8}));
  x.fill_(-1.5);
  EXPECT_EQ(list(x), (Doubles(4, -1.5)));
  x.zero_();
  EXPECT_EQ(list(x), (Doubles(4, 0)));
  EXPECT_EQ(x.dtype(), DType::f32);
}

TEST(Inplace, EachWriteCountsOneVersion) {
  const Tensor x = zeros({3}), alias_of_x = x.detach();
  const std::uint32_t before = x.version();
  x.add_(1);
  x.mul_(x);
  x.fill_(2);
  x.copy_(ones_like(x));
  EXPECT_EQ(x.version(), before + 4);
  EXPECT_EQ(alias_of_x.version(), x.version());
}

TEST(Inplace, TheResultKeepsItsDTypeAndIsRoundedOnce) {
  const Tensor half = make<Half>({Half(1.0F), Half(2.0F)});
  half.add_(make<double>({0.1, 0.2}));
  EXPECT_EQ(half.dtype(), DType::f16);
  EXPECT_EQ(half.to_vector<float>(),
            (std::vector<float>{static_cast<float>(Half(1.1)), static_cast<float>(Half(2.2))}));
  const Tensor bytes = make<std::uint8_t>({250, 1});
  bytes.add_(make<std::int64_t>({10, 300}));
  EXPECT_EQ(list(bytes), (Doubles{4, 45}));  // modulo 256
  const Tensor shorts = make<std::int8_t>({127, -128});
  shorts.add_(make<std::int16_t>({1, -1}));
  EXPECT_EQ(list(shorts), (Doubles{-128, 127}));
  const Tensor truth = bools({3}, {1, 0, 1});
  truth.mul_(bools({3}, {0, 1, 1}));
  EXPECT_EQ(list(truth), (Doubles{0, 0, 1}));
  truth.fill_(0.5);
  EXPECT_EQ(list(truth), (Doubles{1, 1, 1}));
}

TEST(Inplace, CopyConvertsAndFillTruncates) {
  const Tensor ints = make<std::int32_t>({1, 2});
  ints.copy_(make<float>({2.9F, -2.9F}));
  EXPECT_EQ(list(ints), (Doubles{2, -2}));
  ints.fill_(3.7);
  EXPECT_EQ(list(ints), (Doubles{3, 3}));
}

TEST(Inplace, StridedTensorsAndViewsAreWrittenWhereTheyLie) {
  const Tensor base = make<float>({2, 3}, {1, 2, 3, 4, 5, 6});
  transpose(base, 0, 1).add_(make<float>({10, 20}));
  EXPECT_EQ(list(base), (Doubles{11, 12, 13, 24, 25, 26}));
  select(base, 1, 1).zero_();
  EXPECT_EQ(list(base), (Doubles{11, 0, 13, 24, 0, 26}));
}

TEST(Inplace, AnOperandThatSharesTheMemoryIsReadBeforeTheWrite) {
  // Larger than a tile of the CPU loop, which reads all of a tile before it writes.
  constexpr std::int64_t kSize = 70;
  const Doubles values = spread(kSize * kSize, -1, 1);
  const Tensor x = make<double>({kSize, kSize}, values);
  x.add_(transpose(x, 0, 1));
  const Doubles got = list(x);
  for (std::size_t i = 0; i < kSize; ++i) {
    for (std::size_t j = 0; j < kSize; ++j)
      ASSERT_EQ(got[i * kSize + j], values[i * kSize + j] + values[j * kSize + i]) << i << " " << j;
  }
  const Tensor y = make<double>(Doubles(3000, 3));
  y.mul_(select(y, 0, 0));
  EXPECT_EQ(list(y), Doubles(3000, 9));
  y.add_(y);
  EXPECT_EQ(list(y), Doubles(3000, 18));
}

TEST(Inplace, EmptyAndZeroDimTensorsWork) {
  const Tensor none = zeros({0, 2});
  none.add_(1).mul_(none);
  EXPECT_EQ(none.numel(), 0);
  const Tensor one = number(3.0F);
  one.mul_(one);
  EXPECT_EQ(one.item(), 9);
}

TEST(Inplace, AutocastDoesNotTouchIt) {
  const Tensor x = make<float>({1.001F}), y = make<float>({1.001F});
  const amp::Autocast autocast(Device::cpu(), DType::bf16);
  x.mul_(y);
  EXPECT_EQ(x.dtype(), DType::f32);
  EXPECT_EQ(x.item<float>(), 1.001F * 1.001F);
}

TEST(InplaceErrors, SayWhatDoesNotFit) {
  const Tensor x = zeros({2}), ints = make<std::int64_t>({1, 2}), truth = bools({2}, {1, 0});
  EXPECT_EQ(
      message_of<ShapeError>([&] {
        x.add_(zeros({3, 2}));
      }),
      "add_: expected an operand that broadcasts to [2], got [3, 2]; use the op that returns a new tensor");
  EXPECT_EQ(message_of<DTypeError>([&] { ints.mul_(0.5); }),
            "mul_: expected a result that i64 can hold, got f32; use the op that returns a new tensor");
  EXPECT_NE(message_of<DTypeError>([&] { ints.add_(x); }).find("add_: "), std::string::npos);
  EXPECT_NE(message_of<DTypeError>([&] { truth.add_(ints); }).find("add_: "), std::string::npos);
  EXPECT_NE(message_of<DTypeError>([&] { ints.add_(ints, 0.5); }).find("integer alpha"), std::string::npos);
  EXPECT_NE(message_of<ShapeError>([&] { expand(zeros({1}), {3}).fill_(1); }).find("fill_: "),
            std::string::npos);
  EXPECT_EQ(list(ints), (Doubles{1, 2})) << "a refused write changed values";
}

// --- recorded

TEST(InplaceGraph, AWriteTakesThePlaceOfTheTensor) {
  const Tensor x = leaf({1, 2, 3}), y = leaf({4, 5, 6});
  const Tensor h = x * 2;
  h.add_(y, 3);
  EXPECT_FALSE(h.is_leaf());
  EXPECT_EQ(list(h), (Doubles{14, 19, 24}));
  sum(h * h).backward();
  EXPECT_EQ(list(x.grad()), (Doubles{2 * 14 * 2, 2 * 19 * 2, 2 * 24 * 2}));
  EXPECT_EQ(list(y.grad()), (Doubles{2 * 14 * 3, 2 * 19 * 3, 2 * 24 * 3}));
}

TEST(InplaceGraph, MulGivesBothGradientsThoughItOverwritesWhatOneNeeds) {
  const Tensor x = leaf({1, 2, 3}), y = leaf({4, 5, 6});
  const Tensor h = x + 1;
  h.mul_(y);
  sum(h).backward();
  EXPECT_EQ(list(x.grad()), (Doubles{4, 5, 6}));
  EXPECT_EQ(list(y.grad()), (Doubles{2, 3, 4}));
}

TEST(InplaceGraph, ATensorCanBeMultipliedByItself) {
  const Tensor x = leaf({1, 2, 3});
  const Tensor h = x + 1;
  h.mul_(h);
  EXPECT_EQ(list(h), (Doubles{4, 9, 16}));
  h.add_(h);
  sum(h).backward();
  EXPECT_EQ(list(x.grad()), (Doubles{8, 12, 16}));
}

TEST(InplaceGraph, ATensorWithoutGradJoinsTheGraph) {
  const Tensor total = make<double>({0, 0}), x = leaf({3, 4});
  for (int i = 0; i < 3; ++i) total.add_(x * static_cast<double>(i));
  EXPECT_TRUE(total.requires_grad());
  sum(total).backward();
  EXPECT_EQ(list(x.grad()), (Doubles{3, 3}));
}

TEST(InplaceGraph, OperandsBroadcastAndKeepTheirOwnDTypeInBackward) {
  const Tensor x = leaf({2, 2}, {1, 2, 3, 4});
  const Tensor s = make<float>({2, 3}).requires_grad_();
  const Tensor h = x * 1;
  h.mul_(s).add_(1).mul_(2);
  sum(h).backward();
  EXPECT_EQ(list(x.grad()), (Doubles{4, 6, 4, 6}));
  EXPECT_EQ(s.grad().dtype(), DType::f32);
  EXPECT_EQ(list(s.grad()), (Doubles{8, 12}));
}

TEST(InplaceGraph, CopySendsTheGradientToTheSourceAndZeroToWhatWasThere) {
  const Tensor x = leaf({1, 2}), source = make<float>({5}).requires_grad_();
  const Tensor h = x * 2;
  h.copy_(source);
  sum(h * h).backward();
  EXPECT_EQ(list(x.grad()), (Doubles{0, 0}));
  EXPECT_EQ(list(source.grad()), (Doubles{20}));
  EXPECT_EQ(source.grad().dtype(), DType::f32);
}

TEST(InplaceGraph, FillCutsTheGradientToZero) {
  const Tensor x = leaf({1, 2});
  const Tensor h = x * 2;
  h.fill_(3);
  sum(h + x).backward();
  EXPECT_EQ(list(x.grad()), (Doubles{1, 1}));
  const Tensor z = x * 2;
  z.zero_();
  x.set_grad({});
  sum(z).backward();
  EXPECT_EQ(list(x.grad()), (Doubles{0, 0}));
}

TEST(InplaceGraph, SecondDerivativesPassThroughAWrite) {
  const Tensor x = leaf({2}), ones = make<double>({1.0});
  Tensor y = x * x;  // x^2, then x^2 * x + x^2
  y.mul_(x + 1);
  const Tensor first = grad({&y, 1}, Tensors{x}, {&ones, 1}, {.create_graph = true})[0];
  EXPECT_EQ(first.item(), 3 * 4 + 2 * 2);
  EXPECT_EQ(grad({&first, 1}, Tensors{x}, {&ones, 1})[0].item(), 6 * 2 + 2);
}

TEST(InplaceGraph, HooksStayWithTheTensorTheyWereRegisteredOn) {
  const Tensor x = leaf({1, 2});
  const Tensor h = x * 2;
  Doubles before, after;
  const auto keep = [](Doubles& seen) {
    return [&seen](const Tensor& gradient) {
      seen = list(gradient);
      return Tensor();
    };
  };
  (void)h.register_hook(keep(before));
  h.mul_(5);
  (void)h.register_hook(keep(after));
  sum(h).backward();
  EXPECT_EQ(before, (Doubles{5, 5}));
  EXPECT_EQ(after, (Doubles{1, 1}));
}

TEST(InplaceGraph, ASavedValueThatWasOverwrittenIsNoticed) {
  const Tensor x = leaf({1, 2});
  const Tensor h = x * 2;
  const Tensor y = h * h;
  h.add_(1);
  EXPECT_NE(message_of<AutogradError>([&] { sum(y).backward(); }).find("it was written in place since"),
            std::string::npos);
  const Tensor e = exp(x);
  e.add_(1);  // exp saved its result
  EXPECT_NE(message_of<AutogradError>([&] { sum(e).backward(); }).find("exp: "), std::string::npos);
  const Tensor other = x * 3, target = x * 2;
  target.mul_(other);
  other.zero_();
  EXPECT_NE(message_of<AutogradError>([&] { sum(target).backward(); }).find("mul: "), std::string::npos);
}

TEST(InplaceGraph, AValueNobodyNeedsMayBeOverwritten) {
  const Tensor x = leaf({1, 2}), factor = make<double>({3, 4});
  const Tensor h = x * 2;
  h.mul_(factor);  // needs factor only
  h.add_(1);
  sum(h).backward();
  EXPECT_EQ(list(x.grad()), (Doubles{6, 8}));
}

TEST(InplaceGraph, LeavesViewsAndTensorsWithViewsAreRefused) {
  const Tensor x = leaf({1, 2});
  EXPECT_EQ(
      message_of<AutogradError>([&] { x.add_(1); }),
      "add_: expected no recorded write into a leaf that requires grad, got a leaf of shape [2]; write under "
      "NoGrad, or use the op that returns a new tensor");
  const Tensor h = x * 2;
  {
    const Tensor view = select(h, 0, 1);
    EXPECT_NE(message_of<AutogradError>([&] { view.zero_(); }).find("got a view"), std::string::npos);
    EXPECT_NE(message_of<AutogradError>([&] { h.mul_(2); }).find("living views"), std::string::npos);
  }
  h.mul_(2);  // the view is gone
  EXPECT_EQ(list(h), (Doubles{4, 8}));
  const Tensor plain = make<double>({0, 0});
  EXPECT_NE(message_of<AutogradError>([&] { select(plain, 0, 0).add_(select(x, 0, 0)); }).find("a view"),
            std::string::npos);
}

TEST(InplaceGraph, NothingIsRecordedUnderNoGrad) {
  const Tensor x = leaf({1, 2}), y = leaf({5, 5});
  const NoGrad no_grad;
  x.add_(y);
  EXPECT_TRUE(x.is_leaf());
  EXPECT_TRUE(x.requires_grad());
  EXPECT_EQ(list(x), (Doubles{6, 7}));
}

TEST(InplaceGraph, NoTensorOwnsItself) {
  const Tensor x = leaf({1, 2});
  Ref<Storage> memory;
  {
    const Tensor h = x * 2;
    memory = h.impl().storage;
    h.add_(x).mul_(h).mul_(x * 3).mul_(2).fill_(1).copy_(x).add_(1);
  }
  EXPECT_EQ(memory->use_count(), 1U) << "the graph of a tensor that is gone is still alive";
}

// --- sums of products

TEST(Inplace, AddmmIsTheSumWithAProduct) {
  const Tensor x = make<float>({2, 2}, {1, 2, 3, 4});
  const Tensor a = make<float>({2, 1}, {1, 2}), b = make<float>({1, 2}, {3, 5});
  const void* memory = x.impl().data();
  x.addmm_(a, b, 0.5, 2);
  EXPECT_EQ(list(x), (Doubles{6.5, 11, 13.5, 22}));
  EXPECT_EQ(x.impl().data(), memory);
  const Tensor square = make<float>({2, 2}, {1, 2, 3, 4});
  square.addmm_(square, square);  // reads what it is about to write
  EXPECT_EQ(list(square), (Doubles{8, 12, 18, 26}));
}

TEST(Inplace, AutocastLeavesAddmmAlone) {
  const amp::Autocast autocast(Device::cpu(), DType::bf16);
  // 1 + 2^-10 is 1 in bf16, and in f32 itself.
  const Tensor x = zeros({1, 1}), a = make<float>({1, 1}, {1 + 0x1p-10F});
  EXPECT_EQ(x.addmm_(a, ones({1, 1})).item(), 1 + 0x1p-10);
  const Tensor out = zeros({1, 1});
  EXPECT_EQ(mm_out(out, a, ones({1, 1})).item(), 1 + 0x1p-10);
}

TEST(Inplace, AddmmTakesPartInTheGraph) {
  const Tensor w = make<float>({1, 1}, {3}), a = make<float>({1, 1}, {5});
  w.requires_grad_();
  a.requires_grad_();
  const Tensor x = mul(w, 2.0);
  x.addmm_(a, w, 10, 0.5);
  sum(x).backward();
  EXPECT_EQ(w.grad().item(), 10 * 2 + 0.5 * 5);
  EXPECT_EQ(a.grad().item(), 0.5 * 3);
  EXPECT_THROW(w.addmm_(a, a), AutogradError);
}

TEST(Inplace, AddmmRefusesOtherShapesAndDTypes) {
  const Tensor x = zeros({2, 2});
  EXPECT_THROW(x.addmm_(zeros({3, 1}), zeros({1, 2})), ShapeError);
  EXPECT_THROW(zeros({2}).addmm_(zeros({2, 1}), zeros({1, 2})), ShapeError);
  EXPECT_THROW(x.addmm_(zeros({2, 1}, {.dtype = DType::f64}), zeros({1, 2}, {.dtype = DType::f64})),
               DTypeError);
}

TEST(Inplace, MmOutWritesTheProductIntoGivenMemory) {
  const Tensor a = make<float>({2, 3}, {1, 2, 3, 4, 5, 6}), b = make<float>({3, 2}, {1, 0, 0, 1, 1, 1});
  const Tensor out = zeros({2, 2}), across = transpose(zeros({2, 2}), 0, 1);
  const std::uint32_t version = out.version();
  EXPECT_TRUE(mm_out(out, a, b).is_same(out));
  EXPECT_EQ(list(out), (Doubles{4, 5, 10, 11}));
  EXPECT_EQ(out.version(), version + 1);
  EXPECT_EQ(list(mm_out(across, a, b)), (Doubles{4, 5, 10, 11}));
}

TEST(Inplace, MmOutRefusesWhatItCannotWriteTo) {
  const Tensor a = zeros({2, 2}), out = zeros({2, 2}), weight = zeros({2, 2}, {.requires_grad = true});
  EXPECT_THROW(mm_out(zeros({2, 3}), a, a), ShapeError);
  EXPECT_THROW(mm_out(zeros({2, 2}, {.dtype = DType::f64}), a, a), DTypeError);
  EXPECT_THROW(mm_out(a, a, a), ValueError);
  EXPECT_THROW(mm_out(slice(zeros({4, 4}), 1, 0, 4, 2), zeros({4, 1}), zeros({1, 2})), ShapeError);
  EXPECT_THROW(mm_out(out, weight, a), AutogradError);
  EXPECT_THROW(mm_out(Tensor(), a, a), ValueError);
  const NoGrad no_grad;
  EXPECT_EQ(list(mm_out(out, weight, a)), (Doubles{0, 0, 0, 0}));
}

}  // namespace
}  // namespace mezzo
