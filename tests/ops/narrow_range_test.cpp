// 16-bit values at the ends of their range: gradients of elementwise functions are computed in f32 and
// rounded once, numbers are rounded once on their way into a tensor, and random numbers stay inside their
// interval.
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "mezzo/autograd/engine.h"
#include "mezzo/mezzo.h"

namespace mezzo {
namespace {

double in_f16(double x) { return static_cast<double>(static_cast<float>(Half(x))); }

/// A function of two numbers and its derivatives, in double.
struct Case {
  const char* name;
  double a, b, upstream;
  Tensor (*f)(const Tensor& a, const Tensor& b);
  double (*of_a)(double a, double b);
  double (*of_b)(double a, double b);
  double units =
      1.01;  ///< halves of the last place; more where the gradient is one of the result, which has 16 bits
};

const Case kCases[] = {
    {"div", 1e-4, 1e-3, 100, [](const Tensor& a, const Tensor& b) { return a / b; },
     [](double, double b) { return 1 / b; }, [](double a, double b) { return -a / (b * b); }},
    {"div of large numbers", 6e4, 3e4, 1e-2, [](const Tensor& a, const Tensor& b) { return a / b; },
     [](double, double b) { return 1 / b; }, [](double a, double b) { return -a / (b * b); }},
    {"1e-3 / x", 4e-4, 0, 0.1, [](const Tensor& a, const Tensor&) { return 1e-3 / a; },
     [](double a, double) { return -1e-3 / (a * a); }, nullptr},
    {"60000 / x", 6e4, 0, 1, [](const Tensor& a, const Tensor&) { return 60000.0 / a; },
     [](double a, double) { return -60000 / (a * a); }, nullptr},
    {"x^-2", 0.02, 0, 0.01, [](const Tensor& a, const Tensor&) { return pow(a, -2); },
     [](double a, double) { return -2 / (a * a * a); }, nullptr},
    {"x^2", 4e4, 0, 0.1, [](const Tensor& a, const Tensor&) { return pow(a, 2); },
     [](double a, double) { return 2 * a; }, nullptr},
    {"square", 4e4, 0, 0.1, [](const Tensor& a, const Tensor&) { return square(a); },
     [](double a, double) { return 2 * a; }, nullptr},
    {"2^x", 15.5, 0, 1e-2, [](const Tensor& a, const Tensor&) { return pow(2, a); },
     [](double a, double) { return std::exp2(a) * std::log(2.0); }, nullptr, 3},
    {"a^b", 1e-3, 2.5, 1e4, [](const Tensor& a, const Tensor& b) { return pow(a, b); },
     [](double a, double b) { return b * std::pow(a, b - 1); },
     [](double a, double b) { return std::pow(a, b) * std::log(a); }},
    {"a^-b", 0.02, -2, 0.01, [](const Tensor& a, const Tensor& b) { return pow(a, b); },
     [](double a, double b) { return b * std::pow(a, b - 1); },
     [](double a, double b) { return std::pow(a, b) * std::log(a); }},
    {"sqrt", 1e-4, 0, 600, [](const Tensor& a, const Tensor&) { return sqrt(a); },
     [](double a, double) { return 0.5 / std::sqrt(a); }, nullptr, 3},
    {"rsqrt", 1e-4, 0, 1e-2, [](const Tensor& a, const Tensor&) { return rsqrt(a); },
     [](double a, double) { return -0.5 / (a * std::sqrt(a)); }, nullptr, 7},
    {"reciprocal", 1e-4, 0, 5e-4, [](const Tensor& a, const Tensor&) { return reciprocal(a); },
     [](double a, double) { return -1 / (a * a); }, nullptr, 5},
};

TEST(NarrowRange, GradientsAreRoundedOnce) {
  for (const bool in_region : {false, true}) {
    for (const Case& c : kCases) {
      const Device device = Device::best();
      const Tensor a = full({3}, c.a, {.dtype = DType::f16, .device = device}).requires_grad_();
      const Tensor b = full({3}, c.b, {.dtype = DType::f16, .device = device}).requires_grad_();
      Tensor y;
      {
        const amp::Autocast region(device, DType::f16, {.enabled = in_region});
        y = c.f(a, b);
      }
      y.backward(full({3}, c.upstream, {.dtype = y.dtype(), .device = device}), {});
      const double x = in_f16(c.a), z = in_f16(c.b);
      const double upstream = y.dtype() == DType::f16 ? in_f16(c.upstream) : c.upstream;
      const auto expect = [&](const Tensor& gradient, double want) {
        if (std::isinf(in_f16(want))) {
          EXPECT_EQ(gradient.to_vector<double>()[0], in_f16(want)) << c.name;
          return;
        }
        const double unit = std::ldexp(1, std::max(std::ilogb(want), -14) - 11);
        EXPECT_NEAR(gradient.to_vector<double>()[0], want, c.units * unit)
            << c.name << (in_region ? " in a region" : "");
      };
      expect(a.grad(), upstream * c.of_a(x, z));
      if (c.of_b != nullptr) expect(b.grad(), upstream * c.of_b(x, z));
    }
  }
}

TEST(NarrowRange, NumbersAreRoundedOnce) {
  const Device device = Device::best();
  const TensorOptions f16{.dtype = DType::f16, .device = device},
      bf16{.dtype = DType::bf16, .device = device};
  const double below_inf = 65519.999, above_tie = 1 + 0x1p-11 + 0x1p-40,
               above_bf16_tie = 1 + 0x1p-8 + 0x1p-40;
  struct {
    double value;
    TensorOptions options;
    double want;
  } const cases[] = {{below_inf, f16, 65504},
                     {-below_inf, f16, -65504},
                     {65520, f16, INFINITY},
                     {above_tie, f16, 1 + 0x1p-10},
                     {above_bf16_tie, bf16, 1 + 0x1p-7}};
  for (const auto& c : cases) {
    const double value = c.value, want = c.want;
    const TensorOptions& options = c.options;
    const auto expect = [&](const char* how, const Tensor& x) {
      EXPECT_EQ(x.to_vector<double>(), std::vector<double>(2, want)) << how << " of " << value;
    };
    expect("full", full({2}, value, options));
    expect("fill_", zeros({2}, options).fill_(value));
    Tensor item = zeros({2}, options);
    item[0] = value;
    item[1] = value;
    expect("[]", item);
    const Tensor mask = ones({2}, {.dtype = DType::boolean, .device = device});
    expect("masked_fill", masked_fill(zeros({2}, options), mask, value));
    expect("masked_fill_", zeros({2}, options).masked_fill_(mask, value));
    expect("where", where(mask, value, zeros({2}, options)));
    expect("nan_to_num", nan_to_num(full({2}, NAN, options), value));
    expect("pad", narrow(pad(zeros({1}, options), {0, 2}, PadMode::constant, value), 0, 1, 2));
  }
}

TEST(NarrowRange, UniformNumbersStayInTheirInterval) {
  const Device device = Device::best();
  struct {
    double low, high;
  } const intervals[] = {{0, 1}, {-1, 0}, {0.1, 0.9}, {1000, 1001}, {-3, 5}, {60000, 70000}};
  for (const DType dtype : {DType::f16, DType::bf16, DType::f32, DType::f64}) {
    for (const auto& [low, high] : intervals) {
      Generator generator(5);
      const Tensor x = uniform(low, high, {200000}, {.dtype = dtype, .device = device}, generator);
      const Tensor wide = x.to(DType::f64);
      EXPECT_LT(wide.max().item(), high) << to_string(dtype) << " in [" << low << ", " << high << ")";
      EXPECT_GE(wide.min().item(), low) << to_string(dtype) << " " << low;
      Generator again(5);
      EXPECT_TRUE(equal(x, uniform_(empty({200000}, {.dtype = dtype, .device = device}), low, high, again)));
    }
    Generator generator(6);
    const double mean =
        rand({200000}, {.dtype = dtype, .device = device}, generator).to(DType::f64).mean().item();
    EXPECT_NEAR(mean, 0.5, 4 * std::sqrt(1.0 / 12 / 200000)) << to_string(dtype);
  }
}

/// Gradients of sum(c f(a)) against those of the same in f64.
void expect_gradients_of_f64(const char* name, Tensor (*f)(const Tensor& a, const Tensor& b), double scale) {
  const Tensor a = tensor({{0.3, -0.9, 0.5}, {2.0, 0.25, -1.0}}, DType::f64) * scale;
  const Tensor b = tensor({{1.0, 0.5, -0.25}, {0.5, 2.0, 1.0}}, DType::f64);
  const auto gradients = [&](DType dtype) {
    const Tensor x = a.to(dtype).detach().requires_grad_(), y = b.to(dtype).detach().requires_grad_();
    const Tensor out = f(x, y);
    out.backward(arange(1, out.numel() + 1, {.dtype = dtype}).reshape(out.shape()), {});
    std::vector<double> all = x.grad().to_vector<double>();
    for (double& gradient : all) gradient *= scale;
    if (y.grad().defined()) {
      for (const double gradient : y.grad().to_vector<double>()) all.push_back(gradient);
    }
    return all;
  };
  const std::vector<double> want = gradients(DType::f64), got = gradients(DType::f32);
  ASSERT_EQ(want.size(), got.size());
  // Ten roundings of numbers below 6.
  for (std::size_t i = 0; i < want.size(); ++i)
    EXPECT_NEAR(got[i], want[i], 10 * 6 * 0x1p-24) << name << " " << scale << " " << i;
}
TEST(NarrowRange, DirectionsOfHugeVectors) {
  for (const double scale : {1e-12, 1.0, 1e19, 1e22, 1e25, 1e33}) {
    expect_gradients_of_f64(
        "normalize", [](const Tensor& a, const Tensor&) { return normalize(a); }, scale);
    expect_gradients_of_f64(
        "cosine_similarity", [](const Tensor& a, const Tensor& b) { return cosine_similarity(a, b); }, scale);
  }
}

TEST(NarrowRange, DirectionsOfVectorsThatAreLongerThanTheLargestNumber) {
  const Tensor a = tensor({2.08e38, 3.03e38}, {.requires_grad = true}), b = ones({2});
  const double length = std::hypot(2.08, 3.03), cosine = (2.08 + 3.03) / (length * std::sqrt(2.0));
  const Tensor got = cosine_similarity(a, b, 0);
  EXPECT_NEAR(got.item(), cosine, 0x1p-22);
  (got * 1e30).backward();
  const Tensor want = (b / std::sqrt(2.0) - tensor({2.08, 3.03}) * (cosine / length)) * (1e-8 / length);
  EXPECT_TRUE(allclose(a.grad(), want, 0x1p-20, 0)) << to_string(a.grad());
  for (const double p : {1.0, 2.0, 3.0}) {
    const Tensor direction = normalize(full({1, 8}, 3e38), p, 1);
    EXPECT_NEAR(direction.sum().item(), 8 / std::pow(8.0, 1 / p), 8 * 0x1p-23) << p;
  }
}

// The right values by the exact distribution in f64.
TEST(NarrowRange, GeluInItsTail) {
  for (const double x : {-3.0, -5.09375, -7.5, -10.0, -13.0}) {
    const double cdf = 0.5 * std::erfc(-x / std::sqrt(2.0)),
                 density = std::exp(-x * x / 2) / std::sqrt(2 * M_PI);
    for (const DType dtype : {DType::f32, DType::bf16, DType::f16}) {
      const Tensor in = tensor({x}, {.dtype = dtype, .requires_grad = true});
      const double ulp = dtype == DType::f32 ? 1e-6 : dtype == DType::bf16 ? 0x1p-8 : 0x1p-11;
      const double least = dtype == DType::f16 ? 0x1p-25 : 0x1p-149;
      const Tensor y = gelu(in);
      EXPECT_NEAR(y.item(), x * cdf, ulp * std::fabs(x * cdf) + least) << x << to_string(dtype);
      y.sum().backward();
      const double slope = cdf + x * density;
      EXPECT_NEAR(in.grad().item(), slope, ulp * std::fabs(slope) + least) << x << to_string(dtype);
    }
    const double u = 2 * std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x), sigmoid = 1 / (1 + std::exp(-u));
    const double got = gelu(tensor({x}), GeluApproximation::tanh).item();
    // u is rounded a few times, and its error counts as a factor.
    EXPECT_NEAR(got, x * sigmoid, std::fabs(x * sigmoid * u) * 0x1p-22 + 0x1p-149) << x;
  }
}

TEST(NarrowRange, GeluFarOut) {
  for (const DType dtype : {DType::f32, DType::bf16}) {
    const Tensor x = tensor({3e19, -3e19, 3e38, -3e38, 20.0, -20.0}, {.dtype = dtype, .requires_grad = true});
    gelu(x, GeluApproximation::tanh).sum().backward();
    EXPECT_EQ(x.grad().to_vector<double>(), (std::vector<double>{1, 0, 1, 0, 1, 0})) << to_string(dtype);
  }
}

}  // namespace
}  // namespace mezzo
