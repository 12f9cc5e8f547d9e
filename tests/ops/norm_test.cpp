// layer_norm and rms_norm against their formulas in double with their gradients, the layouts, dtypes and
// special values they promise to take, and the messages they refuse with. Hard inputs are in
// norm_hard_inputs_test.cpp.
#include <gtest/gtest.h>

#include "mezzo/kernels/cpu/isa.h"
#include "mezzo/tests/ops/norm_support.h"
#include "support/thread_guard.h"

namespace mezzo {
namespace {

using namespace test;

NormFormula rows_of(const Tensor& x, std::int64_t n, double eps = 1e-5) {
  return NormFormula(
      x.numel(), eps, [n](std::int64_t i) { return i / n; }, [n](std::int64_t i) { return i % n; });
}
Function layer(const Shape& shape, double eps = 1e-5) {
  return [=](const Tensors& in) { return layer_norm(in[0], shape, in[1], in[2], eps); };
}
Function rms(const Shape& shape, double eps = 1e-5) {
  return [=](const Tensors& in) { return rms_norm(in[0], shape, in[1], eps); };
}

TEST(LayerNorm, MatchesTheFormulaForEveryShortAndSomeLongRows) {
  for (const std::int64_t n : {1, 2, 3, 7, 8, 15, 16, 17, 31, 33, 100, 1023, 1025, 4097, 20000}) {
    const Tensor x = random({3, n}, DType::f32), w = random({n}, DType::f32, 0.5, 2);
    const Tensor b = random({n}, DType::f32, -1, 1, 0.4), g = random({3, n}, DType::f32, -1, 1, 0.7);
    const Evaluated found = evaluate(layer({n}), {x, w, b}, g);
    expect_near(found.y, rows_of(x, n).forward(x, w, b), 1e-6, 2e-6);
    const std::vector<Doubles> want = rows_of(x, n).backward(g, x, w);
    // At n = 1 the variance is 0, so that rstd is 316.
    for (std::size_t i = 0; i < 3; ++i) expect_near(found.gradients[i], want[i], 2e-6, n < 4 ? 1e-4 : 2e-6);
    const NormFormula squares = rows_of(x, n).uncentered();
    const Evaluated of_rms = evaluate(rms({n}), {x, w}, g);
    expect_near(of_rms.y, squares.forward(x, w, {}), 1e-6, 1e-6);
    const std::vector<Doubles> want_rms = squares.backward(g, x, w);
    for (std::size_t i = 0; i < 2; ++i) expect_near(of_rms.gradients[i], want_rms[i], 2e-6, 2e-6);
  }
}

TEST(LayerNorm, TakesMoreThan65536Rows) {
  for (const std::int64_t n : {1, 3}) {
    const Tensor x = random({65537, n}, DType::f32), w = random({n}, DType::f32, 0.5, 2);
    const Tensor b = random({n}, DType::f32), g = random({65537, n}, DType::f32, -1, 1, 0.7);
    const Evaluated found = evaluate(layer({n}), {x, w, b}, g);
    expect_near(found.y, rows_of(x, n).forward(x, w, b), 1e-6, 1e-4);
    const std::vector<Doubles> want = rows_of(x, n).backward(g, x, w);
    expect_near(found.gradients[1], want[1], 1e-5, 1e-3);  // sums of 65 537 terms of either sign
    expect_near(found.gradients[2], want[2], 1e-6, 1e-3);
  }
}

TEST(LayerNorm, OverSeveralDimsIsThatOverOneOfThemAll) {
  const Tensor x = random({4, 3, 5, 2}, DType::f32), w = random({5, 2}, DType::f32),
               b = random({5, 2}, DType::f32);
  const Tensor y = layer_norm(x, {5, 2}, w, b);
  const Tensor flat = layer_norm(reshape(x, {4, 3, 10}), {10}, reshape(w, {10}), reshape(b, {10}));
  EXPECT_EQ(y.shape(), x.shape());
  EXPECT_TRUE(same_bits(reshape(y, {4, 3, 10}), flat));
}

TEST(LayerNorm, AnAbsentParameterIsOneOrZero) {
  const Tensor x = random({4, 19}, DType::f32), w = random({19}, DType::f32), b = random({19}, DType::f32);
  const Tensor ones = full({19}, 1, options_of(x)), zero = zeros({19}, options_of(x));
  EXPECT_TRUE(same_bits(layer_norm(x, {19}, w), layer_norm(x, {19}, w, zero)));
  EXPECT_TRUE(same_bits(layer_norm(x, {19}, {}, b), layer_norm(x, {19}, ones, b)));
  EXPECT_TRUE(same_bits(layer_norm(x, {19}), layer_norm(x, {19}, ones, zero)));
  EXPECT_TRUE(same_bits(rms_norm(x, {19}, {}, 1e-5), rms_norm(x, {19}, ones, 1e-5)));
  const Tensor g = random({4, 19}, DType::f32);
  const Evaluated without = evaluate(layer({19}), {x, Tensor(), b}, g),
                  with = evaluate(layer({19}), {x, ones, b}, g);
  EXPECT_TRUE(same_bits(without.gradients[0], with.gradients[0]));
  EXPECT_TRUE(same_bits(without.gradients[1], with.gradients[2]));
}

TEST(LayerNorm, OfNothingHasGradientsOfZero) {
  const Tensor x = zeros({0, 4}), w = random({4}, DType::f32), b = random({4}, DType::f32);
  const Evaluated found = evaluate(layer({4}), {x, w, b}, zeros({0, 4}));
  EXPECT_EQ(found.y.shape(), (Shape{0, 4}));
  EXPECT_EQ(list(found.gradients[1]), Doubles(4));
  EXPECT_EQ(list(found.gradients[2]), Doubles(4));
  EXPECT_EQ(layer_norm(zeros({3, 0}), {0}).shape(), (Shape{3, 0}));
}

TEST(LayerNorm, KeepsSmallDeviationsFromALargeMean) {
  for (const std::int64_t n : {16, 1000, 8192}) {
    const Tensor x = random({2, n}, DType::f32, 9999.5, 10000.5);
    const Tensor g = random({2, n}, DType::f32, -1, 1, 0.7), w = random({n}, DType::f32, 0.5, 2);
    const Evaluated found = evaluate(layer({n}), {x, w, Tensor()}, g);
    // The deviations are exact in f32 and about 0.3, so errors are as if the mean were 0.
    expect_near(found.y, rows_of(x, n).forward(x, w, {}), 1e-6, 2e-6);
    expect_near(found.gradients[0], rows_of(x, n).backward(g, x, w)[0], 2e-6, 1e-5);
  }
  const Tensor same = full({1, 100}, 12345.678F, {.dtype = DType::f32});
  expect_near(layer_norm(same, {100}), Doubles(100), 0, 1e-6);
}

TEST(LayerNorm, KeepsNanAndInfinityInTheirRows) {
  std::vector<float> values(4 * 33);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i % 7);
  const Tensor clean = make<float>({4, 33}, values);
  values[40] = std::numeric_limits<float>::quiet_NaN();
  values[2 * 33] = std::numeric_limits<float>::infinity();
  const Tensor x = make<float>({4, 33}, values), g = random({4, 33}, DType::f32);
  const Evaluated found = evaluate(layer({33}), {x, Tensor(), Tensor()}, g);
  const Evaluated want = evaluate(layer({33}), {clean, Tensor(), Tensor()}, g);
  for (const auto& [got, expected] :
       {std::pair(found.y, want.y), std::pair(found.gradients[0], want.gradients[0])}) {
    const Doubles a = list(got), b = list(expected);
    for (std::size_t i = 0; i < a.size(); ++i) {
      if (i / 33 == 1 || i / 33 == 2)
        EXPECT_TRUE(std::isnan(a[i])) << i;
      else
        EXPECT_EQ(a[i], b[i]) << i;
    }
  }
}

TEST(LayerNorm, GivesTheSameBitsForEveryLayoutInstructionSetAndThreadCount) {
  using kernels::cpu::Isa;
  for (const Function& f : {layer({83}), rms({83})}) {
    const Tensor x = random({2570, 83}, DType::f32), g = random({2570, 83}, DType::f32, -1, 1, 0.7);
    const Tensor w = random({83}, DType::f32), b = random({83}, DType::f32);
    const Tensors inputs{x, w, b};
    const auto run = [&](const Tensor& in, const Tensor& upstream) {
      Tensors at{in.detach().requires_grad_(), w.detach().requires_grad_()};
      at.push_back(b);
      const Tensor y = f(at);
      return Evaluated{y.detach(), grad({&y, 1}, {at.data(), 2}, {&upstream, 1})};
    };
    const Evaluated want = run(x, g);
    EXPECT_TRUE(same_bits(run(strided_copy(x), strided_copy(g)), want));
    for (const Isa isa : {Isa::base, Isa::v3}) {
      if (isa > kernels::cpu::best_isa()) continue;
      const kernels::cpu::IsaGuard guard(isa);
      EXPECT_TRUE(same_bits(run(x, g), want)) << "instruction set";
    }
    for (const int threads : {1, 2, 5}) {
      const ThreadGuard guard(threads);
      EXPECT_TRUE(same_bits(run(x, g), want)) << threads << " threads";
    }
  }
}

TEST(LayerNorm, UnderAutocastIsThatOfF32Casts) {
  const Tensor x = random({5, 33}, DType::f32), w = random({33}, DType::f32, 0.5, 2),
               b = random({33}, DType::f32);
  for (const DType dtype : {DType::bf16, DType::f16}) {
    expect_autocast_equals_casts(layer({33}), {x, w, b}, dtype);
    expect_autocast_equals_casts(rms({33}), {x, w}, dtype);
    expect_autocast_equals_casts([](const Tensors& in) { return rms_norm(in[0], {33}, in[1]); }, {x, w},
                                 dtype);
  }
}

TEST(LayerNorm, TakesF32ParametersFor16BitValues) {
  const Tensor x = random({5, 33}, DType::bf16), w = random({33}, DType::f32), b = random({33}, DType::f32);
  const Evaluated found = evaluate(layer({33}), {x, w, b}, random({5, 33}, DType::bf16));
  EXPECT_EQ(found.y.dtype(), DType::bf16);
  EXPECT_EQ(found.gradients[0].dtype(), DType::bf16);
  EXPECT_EQ(found.gradients[1].dtype(), DType::f32);
  EXPECT_TRUE(same_bits(found.y, to(layer_norm(to(x, DType::f32), {33}, w, b), DType::bf16)));
}

// The dtype that is asked for is that of a cast behind the norm, and the gradients are those of such a cast.
TEST(LayerNorm, GivesTheDtypeThatIsAskedFor) {
  const auto expect_cast_behind = [](DType from, DType to_dtype, DType parameter) {
    SCOPED_TRACE(to_string(from) + " to " + to_string(to_dtype) + ", parameters " + to_string(parameter));
    const Tensor x = random({5, 33}, from), g = random({5, 33}, to_dtype, -1, 1, 0.7);
    const Tensor w = random({33}, parameter, 0.5, 2), b = random({33}, parameter);
    const DType wide = compute_dtype(promote(from, to_dtype));
    const Function asked = [=](const Tensors& in) {
      return layer_norm(in[0], {33}, in[1], in[2], 1e-3, to_dtype);
    };
    const Function cast = [=](const Tensors& in) {
      return to(layer_norm(to(in[0], wide), {33}, in[1], in[2], 1e-3), to_dtype);
    };
    const Evaluated found = evaluate(asked, {x, w, b}, g);
    EXPECT_EQ(found.y.dtype(), to_dtype);
    EXPECT_EQ(found.gradients[0].dtype(), from);
    EXPECT_EQ(found.gradients[1].dtype(), parameter);
    EXPECT_TRUE(same_bits(found, evaluate(cast, {x, w, b}, g)));
    const Function rms_asked = [=](const Tensors& in) {
      return rms_norm(in[0], {33}, in[1], 1e-3, to_dtype);
    };
    const Function rms_cast = [=](const Tensors& in) {
      return to(rms_norm(to(in[0], wide), {33}, in[1], 1e-3), to_dtype);
    };
    EXPECT_TRUE(same_bits(evaluate(rms_asked, {x, w}, g), evaluate(rms_cast, {x, w}, g)));
  };
  constexpr std::array kNarrow{DType::f16, DType::bf16, DType::f32};
  for (const DType from : kNarrow) {
    for (const DType to_dtype : kNarrow) {
      for (const DType parameter : kNarrow) expect_cast_behind(from, to_dtype, parameter);
    }
    expect_cast_behind(from, DType::f64, DType::f64);
    expect_cast_behind(DType::f64, from, DType::f64);
  }
}

TEST(LayerNorm, AutocastLeavesAnAskedDtypeAlone) {
  const Tensor x = random({5, 33}, DType::f32), w = random({33}, DType::f32, 0.5, 2);
  const Tensor outside = layer_norm(x, {33}, w, {}, 1e-5, DType::f16);
  const amp::Autocast autocast(Device::cpu(), DType::bf16);
  EXPECT_TRUE(same_bits(layer_norm(x, {33}, w, {}, 1e-5, DType::f16), outside));
}

TEST(RmsNorm, TakesTheEpsilonOfItsInputForAnotherResult) {
  const double eps = info(DType::f32).eps;
  const Tensor x = to(make<double>({eps / 4, eps / 2}), DType::bf16), g = random({2}, DType::f64);
  const auto with = [](std::optional<double> value) {
    return [value](const Tensors& in) { return rms_norm(in[0], {2}, {}, value, DType::f64); };
  };
  EXPECT_TRUE(same_bits(evaluate(with({}), {x}, g), evaluate(with(eps), {x}, g)));
}

TEST(RmsNorm, TakesTheEpsilonOfTheDtypeWhenNoneIsGivenAndOfF32For16Bits) {
  for (const DType dtype : {DType::f32, DType::f64, DType::bf16, DType::f16}) {
    const double eps = info(dtype == DType::f64 ? DType::f64 : DType::f32).eps;
    const Tensor x = to(make<double>({eps / 4, eps / 2}), dtype);
    EXPECT_TRUE(same_bits(rms_norm(x, {2}), rms_norm(x, {2}, {}, eps))) << to_string(dtype);
    EXPECT_FALSE(same_bits(rms_norm(x, {2}), rms_norm(x, {2}, {}, 2 * eps))) << to_string(dtype);
  }
}

TEST(LayerNorm, RefusesWhatDoesNotFit) {
  const Tensor x = zeros({2, 3});
  EXPECT_EQ(message_of<ShapeError>([&] { (void)layer_norm(x, {4}); }),
            "layer_norm: expected x of shape [..., 4], got [2, 3]; normalized_shape are the sizes of x's "
            "last dims");
  EXPECT_EQ(message_of<ShapeError>([&] {
              (void)layer_norm(x, {1, 2, 3});
            }),
            "layer_norm: expected x of shape [..., 1, 2, 3], got [2, 3]; normalized_shape are the sizes of "
            "x's last dims");
  EXPECT_EQ(
      message_of<ShapeError>([&] { (void)rms_norm(x, {}); }),
      "rms_norm: expected a normalized_shape of at least 1 dim, got []; name the sizes of x's last dims");
  EXPECT_EQ(message_of<ShapeError>([&] { (void)layer_norm(x, {3}, zeros({2})); }),
            "layer_norm: expected a weight of shape [3], got [2]; reshape it, or leave it out");
  EXPECT_EQ(message_of<ShapeError>([&] { (void)layer_norm(x, {3}, {}, zeros({1})); }),
            "layer_norm: expected a bias of shape [3], got [1]; reshape it, or leave it out");
  EXPECT_EQ(message_of<DTypeError>([&] {
              (void)layer_norm(zeros({2, 3}, {.dtype = DType::i64}), {3});
            }),
            "layer_norm: expected a floating tensor, got i64; convert it with to(DType::f32)");
  EXPECT_EQ(message_of<DTypeError>([&] { (void)layer_norm(x, {3}, {}, {}, 1e-5, DType::i32); }),
            "layer_norm: expected a floating dtype, got i32; use f32 or another");
  EXPECT_EQ(message_of<DTypeError>([&] { (void)rms_norm(x, {3}, zeros({3}, {.dtype = DType::f64})); }),
            "rms_norm: expected a weight in f16, bf16 or f32, got f64; convert it to the dtype of x");
  EXPECT_EQ(message_of<DTypeError>([&] { (void)layer_norm(x, {3}, {}, zeros({3}, {.dtype = DType::i32})); }),
            "layer_norm: expected a bias in f16, bf16 or f32, got i32; convert it to the dtype of x");
}

}  // namespace
}  // namespace mezzo
