// Gradient clipping against the norm computed in a plain loop.
#include "mezzo/optim/clip.h"

#include <array>
#include <cmath>

#include "mezzo/autograd/engine.h"
#include "mezzo/core/backend.h"
#include "mezzo/tests/support/thread_guard.h"
#include "optim/optim_support.h"

namespace mezzo::optim {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

/// Three parameters with gradients of different shapes, one of them strided, and one without a gradient.
struct Gradients {
  explicit Gradients(DType dtype) {
    const Tensor strided = transpose(tensor(values_of(3, 12), {4, 3}, {.dtype = dtype}), 0, 1);
    for (const Tensor& gradient :
         {tensor(values_of(1, 7), {.dtype = dtype}), strided, tensor(0.75, {.dtype = dtype})}) {
      parameters.push_back(zeros(gradient.shape(), {.dtype = dtype, .requires_grad = true}));
      parameters.back().set_grad(gradient);
      for (const double value : gradient.to_vector<double>()) before.push_back(value);
    }
    parameters.push_back(zeros({5}, {.dtype = dtype, .requires_grad = true}));
  }
  [[nodiscard]] std::vector<double> now() const {
    std::vector<double> values;
    for (const Tensor& p : parameters) {
      if (!p.grad().defined()) continue;
      for (const double value : p.grad().to_vector<double>()) values.push_back(value);
    }
    return values;
  }
  [[nodiscard]] double norm(double p) const {
    double total = 0;
    for (const double value : before)
      total = std::isinf(p) ? std::max(total, std::abs(value)) : total + std::pow(std::abs(value), p);
    return std::isinf(p) ? total : std::pow(total, 1 / p);
  }
  std::vector<Tensor> parameters;
  std::vector<double> before;
};

TEST(ClipGradNorm, ScalesAllGradientsByOneFactor) {  // G-71
  for (const DType dtype : {DType::f64, DType::f32, DType::f16, DType::bf16}) {
    for (const double p : {1.0, 2.0, 3.0, kInf}) {
      for (const double share : {0.1, 0.9, 3.0}) {  // of the norm; the last bound is not reached
        Gradients g(dtype);
        const double norm = g.norm(p), bound = share * norm;
        const Tensor total = clip_grad_norm_(g.parameters, bound, p);
        EXPECT_EQ(total.dtype(), dtype == DType::f64 ? DType::f64 : DType::f32);
        EXPECT_EQ(total.dim(), 0);
        const double wide = dtype == DType::f64 ? 1e-14 : 1e-6;
        EXPECT_NEAR(total.item(), norm, wide * norm);
        const double factor = std::min(1.0, bound / (norm + 1e-6));
        const std::vector<double> now = g.now();
        ASSERT_EQ(now.size(), g.before.size());
        for (std::size_t i = 0; i < now.size(); ++i)
          EXPECT_NEAR(now[i], g.before[i] * factor,
                      std::max(wide, info(dtype).eps / 2) * std::abs(g.before[i]));
      }
    }
  }
}

TEST(ClipGradNorm, ReadsNothingBackUnlessAskedToCheck) {
  const Gradients g(DType::f32);
  const std::uint64_t before = host_reads();
  static_cast<void>(clip_grad_norm_(g.parameters, 0.5));
  EXPECT_EQ(host_reads(), before);
  static_cast<void>(clip_grad_norm_(g.parameters, 0.5, 2, true));
  EXPECT_EQ(host_reads(), before + 1);
}

TEST(ClipGradNorm, DoesNotOverflowInHalfGradients) {
  const Tensor p = zeros({100}, {.dtype = DType::f16, .requires_grad = true});
  p.set_grad(full({100}, 60000.0, {.dtype = DType::f16}));
  EXPECT_NEAR(clip_grad_norm_(std::vector<Tensor>{p}, 10).item(), 600000, 1);
  EXPECT_NEAR(p.grad().to_vector<double>()[0], 1, 0x1p-11);
}

TEST(ClipGradNorm, LetsNonFiniteTotalsThroughUnlessAskedNotTo) {
  for (const double bad : {kInf, kNan}) {
    const Tensor p = zeros({2}, {.requires_grad = true});
    p.set_grad(tensor({bad, 1.0}));
    try {
      static_cast<void>(clip_grad_norm_(std::vector<Tensor>{p}, 1, 2, true));
      ADD_FAILURE() << "not refused";
    } catch (const ValueError& error) {
      EXPECT_NE(std::string(error.what()).find("detect_anomaly"), std::string::npos) << error.what();
    }
    EXPECT_EQ(p.grad().to_vector<double>()[1], 1) << "refused before any change";
    EXPECT_FALSE(std::isfinite(clip_grad_norm_(std::vector<Tensor>{p}, 1).item()));
    EXPECT_FALSE(std::isfinite(p.grad().to_vector<double>()[0])) << "a scaler can still see it";
  }
}

TEST(ClipGradNorm, WithoutGradientsTheNormIsZero) {
  EXPECT_EQ(clip_grad_norm_(std::vector<Tensor>{zeros({2}, {.requires_grad = true})}, 1).item(), 0);
  EXPECT_EQ(clip_grad_norm_({}, 1).item(), 0);
  EXPECT_THROW(static_cast<void>(clip_grad_norm_({}, -1)), ValueError);
  EXPECT_THROW(static_cast<void>(clip_grad_norm_({}, kNan)), ValueError);
}

TEST(ClipGradNorm, WorksOnGradientsWithHistory) {
  const Tensor x = tensor({3.0, 4.0}, {.requires_grad = true});
  sum(x * x * 0.5).backward({.create_graph = true});
  ASSERT_TRUE(x.grad().requires_grad());
  EXPECT_NEAR(clip_grad_norm_(std::vector<Tensor>{x}, 1).item(), 5, 1e-6);
  EXPECT_NEAR(x.grad().to_vector<double>()[0], 0.6, 1e-6);
  x.set_grad({});  // a gradient with history holds its leaf (see autograd/engine.h)
}

/// 800 parameters, more than one launch takes, of all dtypes and with strides, on the best device; and their
/// gradients as plain numbers.
struct Many {
  Many() {
    Generator generator(5);
    const Device device = Device::best();
    constexpr std::array<DType, 4> dtypes{DType::f32, DType::f16, DType::bf16, DType::f64};
    const auto add = [&](const Tensor& values, DType dtype) {
      const Tensor gradient = values.to(dtype).to(device);
      parameters.push_back(
          zeros(gradient.shape(), {.dtype = dtype, .device = device, .requires_grad = true}));
      parameters.back().set_grad(gradient);
      before.push_back(gradient.to_vector<double>());
    };
    for (int i = 0; i < 800; ++i) add(randn({1 + i % 9}, {}, generator), dtypes[i % 4]);
    add(randn({200000}, {}, generator), DType::f32);  // enough for several threads
    add(transpose(randn({120, 90}, {}, generator), 0, 1), DType::f16);
    add(randn({0, 2}, {}, generator), DType::f32);
    const Tensor wide = randn({50, 60}, {}, generator).to(device);
    parameters.push_back(zeros({50, 20}, {.device = device, .requires_grad = true}));
    parameters.back().set_grad(slice(wide, 1, 0, 60, 3));
    before.push_back(parameters.back().grad().to_vector<double>());
  }
  std::vector<Tensor> parameters;
  std::vector<std::vector<double>> before;
};

TEST(ClipGradNorm, OfManyTensorsIsTheNormOfOneVector) {
  for (const double p : {0.5, 1.0, 2.0, 3.0}) {
    const Many many;
    long double total = 0;
    for (const std::vector<double>& gradient : many.before) {
      for (const double value : gradient) total += std::pow(std::abs(value), p);
    }
    const auto norm = static_cast<double>(std::pow(total, 1 / p));
    const std::uint64_t reads = host_reads();
    const Tensor got = clip_grad_norm_(many.parameters, 0.25 * norm, p);
    EXPECT_EQ(host_reads(), reads);
    EXPECT_EQ(got.dtype(), DType::f64) << "as one gradient is";
    EXPECT_NEAR(got.item(), norm, 1e-12 * norm);
    for (std::size_t i = 0; i < many.before.size(); ++i) {
      const Tensor gradient = many.parameters[i].grad();
      const std::vector<double> after = gradient.to_vector<double>();
      // The factor has one rounding, the product another; f16's subnormals are 2^-24 apart.
      const double close = 2 * info(gradient.dtype()).eps;
      for (std::size_t k = 0; k < after.size(); ++k)
        ASSERT_NEAR(after[k], 0.25 * many.before[i][k], close * std::abs(many.before[i][k]) + 0x1p-24);
    }
  }
}

TEST(ClipGradNorm, HasTheSameBitsForAnyNumberOfThreads) {
  std::vector<std::uint64_t> totals, elements;
  for (const int threads : {1, 2, 5}) {
    const test::ThreadGuard guard(threads);
    const Many many;
    totals.push_back(bits(clip_grad_norm_(many.parameters, 1)).front());
    elements.push_back(bits(many.parameters[800].grad()).back());
  }
  EXPECT_EQ(totals, std::vector<std::uint64_t>(3, totals[0]));
  EXPECT_EQ(elements, std::vector<std::uint64_t>(3, elements[0]));
}

/// Parameters on the best device with these gradients.
std::vector<Tensor> with_gradients(const std::vector<std::vector<double>>& gradients) {
  std::vector<Tensor> parameters;
  for (const std::vector<double>& values : gradients) {
    const Tensor gradient = tensor(values).to(Device::best());
    parameters.push_back(zeros_like(gradient).requires_grad_());
    parameters.back().set_grad(gradient);
  }
  return parameters;
}

TEST(ClipGradNorm, OfUnusualOrdersAsInPyTorch) {
  // torch 2.15, clip_grad_norm_([3, 0, -4], [1, 2]); then with zeros in place of [1, 2].
  const auto total = [](double p, const std::vector<double>& second) {
    return clip_grad_norm_(with_gradients({{3, 0, -4}, second}), 1, p).item();
  };
  EXPECT_EQ(total(0, {1, 2}), 2);
  EXPECT_EQ(total(0, {0, 0}), 1);
  EXPECT_EQ(total(kInf, {1, 2}), 4);
  EXPECT_EQ(total(-kInf, {1, 2}), 0);
  EXPECT_EQ(total(-1, {1, 2}), 0);
  EXPECT_NEAR(total(0.5, {1, 2}), 37.7766, 1e-4);
  EXPECT_NEAR(clip_grad_norm_(with_gradients({{kInf, 1}, {1, 2}}), 1, -1).item(), 0.4, 1e-7);
  const std::vector<Tensor> untouched = with_gradients({{3, 0, -4}, {1, 2}});
  clip_grad_norm_(untouched, 1, -kInf);
  EXPECT_EQ(untouched[0].grad().to_vector<double>(), (std::vector<double>{3, 0, -4}));
}

TEST(ClipGradNorm, OfInfiniteAndNanGradientsAsInPyTorch) {
  for (const double p : {1.0, 2.0, 3.0, kInf}) {
    const std::vector<Tensor> infinite = with_gradients({{kInf, 1}, {1, 2}});
    EXPECT_EQ(clip_grad_norm_(infinite, 1, p).item(), kInf);
    EXPECT_TRUE(std::isnan(infinite[0].grad().to_vector<double>()[0]));
    EXPECT_EQ(infinite[0].grad().to_vector<double>()[1], 0);
    EXPECT_EQ(infinite[1].grad().to_vector<double>(), (std::vector<double>{0, 0}));
    const std::vector<Tensor> bad = with_gradients({{kNan, 1}, {1, 2}});
    EXPECT_TRUE(std::isnan(clip_grad_norm_(bad, 1, p).item())) << p;
    for (const Tensor& parameter : bad) {
      for (const double value : parameter.grad().to_vector<double>()) EXPECT_TRUE(std::isnan(value));
    }
  }
  EXPECT_TRUE(std::isnan(clip_grad_norm_(with_gradients({{kNan, 1}, {1, 2}}), 1, -kInf).item()));
  const std::vector<Tensor> large = with_gradients({{1e30, 1e30}});
  EXPECT_EQ(clip_grad_norm_(large, 1).item(), double(float(std::sqrt(2.0) * double(1e30F))))
      << "no square overflows";
}

TEST(ClipGradNorm, OfEmptyGradients) {
  const std::vector<Tensor> some = with_gradients({{3, -4}, {}});
  EXPECT_EQ(clip_grad_norm_(some, 1).item(), 5);
  EXPECT_EQ(clip_grad_norm_(with_gradients({{}}), 1).item(), 0);
  const std::vector<double> before = some[0].grad().to_vector<double>();
  for (const double p : {kInf, -kInf, -1.0})
    EXPECT_THROW(static_cast<void>(clip_grad_norm_(some, 1, p)), ShapeError) << p;
  EXPECT_EQ(some[0].grad().to_vector<double>(), before);
  EXPECT_NO_THROW(clip_grad_value_(some, 1));
}

TEST(ClipGradNorm, InTwoHalvesAndForOneParameter) {
  const std::vector<Tensor> whole = with_gradients({{3, 0, -4}, {1, 2}}),
                            halves = with_gradients({{3, 0, -4}, {1, 2}});
  const Tensor total = clip_grad_norm_(whole, 2);
  std::vector<Tensor> gradients;
  for (const Tensor& p : halves) gradients.push_back(p.grad());
  EXPECT_EQ(bits(get_total_norm(gradients)), bits(total));
  EXPECT_THROW(static_cast<void>(get_total_norm(with_gradients({{1}}), kNan)), ValueError);
  clip_grads_with_norm_(halves, 2, total);
  for (std::size_t i = 0; i < 2; ++i) EXPECT_EQ(bits(whole[i].grad()), bits(halves[i].grad()));
  clip_grads_with_norm_(halves, 1, full({}, 2, {.dtype = DType::f16, .device = total.device()}));
  EXPECT_NEAR(halves[1].grad().to_vector<double>()[0] * 2, whole[1].grad().to_vector<double>()[0], 1e-6);
  const Tensor one = with_gradients({{3, -4}})[0];
  EXPECT_EQ(clip_grad_norm_(one, 10).item(), 5);
  clip_grad_value_(one, 3.5);
  EXPECT_EQ(one.grad().to_vector<double>(), (std::vector<double>{3, -3.5}));
}

TEST(ClipGrad, BadInputIsRefusedAndNothingHasChanged) {
  const std::vector<Tensor> parameters = with_gradients({{3, -4}});
  const Tensor total = get_total_norm(std::vector<Tensor>{parameters[0].grad()});
  EXPECT_THROW(static_cast<void>(clip_grad_norm_(parameters, -1)), ValueError);
  EXPECT_THROW(static_cast<void>(clip_grad_norm_(parameters, kNan)), ValueError);
  EXPECT_THROW(static_cast<void>(clip_grad_norm_(parameters, 1, kNan)), ValueError);
  EXPECT_THROW(static_cast<void>(clip_grad_norm_(std::vector<Tensor>{Tensor()}, 1)), ValueError);
  EXPECT_THROW(clip_grad_value_(parameters, kNan), ValueError);
  EXPECT_THROW(clip_grads_with_norm_(parameters, kNan, total), ValueError);
  EXPECT_THROW(clip_grads_with_norm_(parameters, 1, {}), ValueError);
  EXPECT_THROW(clip_grads_with_norm_(parameters, 1, ones({2})), ShapeError);
  EXPECT_THROW(clip_grads_with_norm_(parameters, 1, ones({}, {.dtype = DType::i64})), DTypeError);
  EXPECT_THROW(static_cast<void>(get_total_norm(std::vector<Tensor>{ones({2}, {.dtype = DType::i64})})),
               DTypeError);
  EXPECT_THROW(static_cast<void>(get_total_norm(std::vector<Tensor>{Tensor()})), ValueError);
  const Tensor narrow = ones({2}).to(DType::f8_e5m2).requires_grad_();
  narrow.set_grad(ones({2}).to(DType::f8_e5m2));
  EXPECT_THROW(static_cast<void>(get_total_norm(narrow.grad())), DTypeError);
  EXPECT_THROW(static_cast<void>(clip_grad_norm_(narrow, 1)), DTypeError);
  EXPECT_THROW(clip_grad_value_(narrow, 0.5), DTypeError);
  EXPECT_THROW(clip_grads_with_norm_(parameters, 1, ones({}).to(DType::f8_e4m3)), DTypeError);
  EXPECT_EQ(parameters[0].grad().to_vector<double>(), (std::vector<double>{3, -4}));
  const Tensor shared = zeros({3}, {.requires_grad = true});
  shared.set_grad(expand(ones({1}), {3}));
  EXPECT_THROW(static_cast<void>(clip_grad_norm_(shared, 1)), ShapeError);
  EXPECT_THROW(clip_grad_value_(shared, 0.5), ShapeError);
  if (Device::best().is_cpu()) return;
  std::vector<Tensor> two = parameters;
  two.push_back(zeros({1}, {.requires_grad = true}));
  two.back().set_grad(ones({1}));
  EXPECT_THROW(static_cast<void>(clip_grad_norm_(two, 1)), DeviceError);
  EXPECT_THROW(clip_grads_with_norm_(parameters, 1, ones({})), DeviceError);
}

TEST(ClipGradValue, LimitsEveryElementAndKeepsNan) {
  for (const DType dtype : {DType::f64, DType::f32, DType::f16, DType::bf16}) {
    const Tensor p = zeros({2, 3}, {.dtype = dtype, .requires_grad = true});
    p.set_grad(transpose(tensor({-3.0, 0.25, kInf, -kInf, kNan, 0.5}, {3, 2}, {.dtype = dtype}), 0, 1));
    clip_grad_value_(std::vector<Tensor>{p}, 0.5);
    const std::vector<double> now = p.grad().to_vector<double>();
    EXPECT_EQ(now[0], -0.5);
    EXPECT_EQ(now[1], 0.5);
    EXPECT_TRUE(std::isnan(now[2]));
    EXPECT_EQ(now[3], 0.25);
    EXPECT_EQ(now[4], -0.5);
    EXPECT_EQ(now[5], 0.5);
  }
  EXPECT_THROW(clip_grad_value_({}, -1), ValueError);
}

}  // namespace
}  // namespace mezzo::optim
