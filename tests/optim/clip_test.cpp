// Gradient clipping against the norm computed in a plain loop.
#include "mezzo/optim/clip.h"

#include <cmath>

#include "mezzo/autograd/engine.h"
#include "mezzo/core/backend.h"
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
      EXPECT_NE(std::string(error.what()).find("find_nonfinite"), std::string::npos) << error.what();
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
