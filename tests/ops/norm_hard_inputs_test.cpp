// layer_norm, rms_norm and group_norm on inputs that cost digits, forward and backward, against their
// formulas in double, on the CPU and on the CUDA device where there is one; and the digits of known cases.
//
// The bounds follow from how the contract says that statistics are taken, with u half of f32's epsilon. A sum
// of terms in f32 has at most 64 additions in a place before it goes on in f64, four more to fold the places,
// and terms of at most two roundings: kRoundings = 128 u is more than any of these sums loses, relative to
// the sum of its terms' magnitudes, and twice what the square root of a variance loses.
//
// The mean that deviations are taken around is off by at most kRoundings mean|x|, which is `shift` below in
// units of the deviation, 1 / rstd. It moves both the deviations and their sum, and is taken back exactly but
// for kRoundings of that.
//
// A normalized z is off by at most kRoundings (|z| (1 + shift)^2 + 1 + shift), see z_error.
//
// The gradient rstd (g w - mean(g w) - z mean(g w z)) has means of at most A = max |g w| over the row. Each
// of its three parts, and mean(g w z) once more for z's own error, loses z_error A rstd: five in all.
//
// Results are rounded once, which adds half of their epsilon, and values below the smallest normal number are
// off by half of the smallest one.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <functional>
#include <utility>

#include "mezzo/core/cuda.h"
#include "mezzo/ops/ops.h"
#include "mezzo/tests/ops/norm_support.h"
#include "mezzo/tests/support/sanitizer.h"

namespace mezzo {
namespace {

using namespace test;

constexpr double kRoundings = 128 * 0x1p-24;

class HardNorm : public ::testing::TestWithParam<Device> {
 protected:
  void SetUp() override {
    if (GetParam().is_cuda() && !cuda::is_available()) GTEST_SKIP() << cuda::why_unavailable();
  }
  [[nodiscard]] Tensor here(const Tensor& x) const { return x.defined() ? x.to(GetParam()) : x; }
  [[nodiscard]] Evaluated run(const Function& f, const Tensors& inputs, const Tensor& g) const {
    Tensors at;
    for (const Tensor& input : inputs) at.push_back(here(input));
    return evaluate(f, at, here(g));
  }
};
INSTANTIATE_TEST_SUITE_P(Devices, HardNorm, ::testing::Values(Device::cpu(), Device::cuda(0)),
                         [](const auto& device) { return device.param.is_cuda() ? "cuda" : "cpu"; });

// --- Bounds

/// Half of the distance from 0 to the next number of a dtype.
double half_of_smallest(DType dtype) {
  return dtype == DType::f16 ? 0x1p-25 : dtype == DType::bf16 ? 0x1p-134 : 0x1p-150;
}

/// |got - want| <= bound and what rounding to got's dtype adds, element by element.
void expect_within(const Tensor& got, const Doubles& want, const Doubles& bound, const std::string& what) {
  const Doubles values = list(got);
  ASSERT_EQ(values.size(), want.size()) << what;
  for (std::size_t i = 0; i < want.size(); ++i) {
    const double allowed =
        bound[i] + info(got.dtype()).eps / 2 * (std::abs(want[i]) + bound[i]) + half_of_smallest(got.dtype());
    ASSERT_LE(std::abs(values[i] - want[i]), allowed) << what << ", element " << i << ": " << values[i];
  }
}

/// What is known of a case in double, and how far results may be from it.
class Bounds {
 public:
  Bounds(const NormFormula& formula, const Tensor& x, const Tensor& w, const Tensor& b, const Tensor& g)
      : formula_(formula),
        z_(formula.normalized(list(x))),
        rstd_(formula.rstd(list(x))),
        w_(formula.parameter(w, 1)),
        b_(formula.parameter(b, 0)),
        g_(list(g)),
        shift_(formula.rows()),
        largest_(formula.rows()) {
    const Doubles values = list(x), n = formula.counts();
    for (std::size_t i = 0; i < values.size(); ++i) {
      const std::size_t r = formula.row_of(i);
      if (formula.centered()) shift_[r] += kRoundings * std::abs(values[i]) / n[r] * rstd_[r];
      largest_[r] = std::max(largest_[r], std::abs(g_[i] * w_[formula.channel_of(i)]));
    }
  }

  [[nodiscard]] Doubles forward() const {
    return each([&](std::size_t i, std::size_t /*row*/, std::size_t c) {
      return z_error(i) * std::abs(w_[c]) + kRoundings * std::abs(b_[c]);
    });
  }
  [[nodiscard]] Doubles input() const {
    return each([&](std::size_t i, std::size_t row, std::size_t /*channel*/) {
      return 5 * z_error(i) * largest_[row] * rstd_[row];
    });
  }
  /// Sums over rows, which are added up in f32 by the CPU's and the device's parts.
  [[nodiscard]] Doubles weight() const {
    return sums([&](std::size_t i) { return std::abs(g_[i]) * (z_error(i) + kRoundings * std::abs(z_[i])); });
  }
  [[nodiscard]] Doubles bias() const {
    return sums([&](std::size_t i) { return kRoundings * std::abs(g_[i]); });
  }

 private:
  /// The last term: what underflows in a deviation of subnormal size.
  [[nodiscard]] double z_error(std::size_t i) const {
    const std::size_t r = formula_.row_of(i);
    const double moved = 1 + shift_[r];
    return kRoundings * (std::abs(z_[i]) * moved * moved + moved) + 0x1p-149 * rstd_[r];
  }
  template <class F>
  [[nodiscard]] Doubles each(const F& f) const {
    Doubles result;
    for (std::size_t i = 0; i < z_.size(); ++i)
      result.push_back(f(i, formula_.row_of(i), formula_.channel_of(i)));
    return result;
  }
  template <class F>
  [[nodiscard]] Doubles sums(const F& f) const {
    Doubles result(formula_.channels());
    for (std::size_t i = 0; i < z_.size(); ++i) result[formula_.channel_of(i)] += f(i);
    return result;
  }

  const NormFormula& formula_;
  Doubles z_, rstd_, w_, b_, g_, shift_, largest_;
};

void expect_within(const Evaluated& found, const NormFormula& formula, const Tensor& x, const Tensor& w,
                   const Tensor& b, const Tensor& g) {
  const Bounds bounds(formula, x, w, b, g);
  expect_within(found.y, formula.forward(x, w, b), bounds.forward(), "result");
  const std::vector<Doubles> want = formula.backward(g, x, w);
  expect_within(found.gradients[0], want[0], bounds.input(), "gradient of x");
  std::size_t next = 1;
  if (w.defined()) expect_within(found.gradients[next++], want[1], bounds.weight(), "gradient of weight");
  if (b.defined()) expect_within(found.gradients[next++], want[2], bounds.bias(), "gradient of bias");
}

// --- Inputs

/// The last three are near the dtype's largest number: rows whose sum is beyond it, rows of both signs, and
/// rows with one element whose deviation is beyond it.
enum class Hard { ordinary, large_mean, constant, outlier, subnormal, largest, opposite, far };
constexpr std::array kAllHard{Hard::ordinary,  Hard::large_mean, Hard::constant, Hard::outlier,
                              Hard::subnormal, Hard::largest,    Hard::opposite, Hard::far};

double largest_of(DType dtype) {
  return dtype == DType::f16 ? 65504 : dtype == DType::bf16 ? 0x1.FEp127 : 0x1.FFFFFEp127;
}

/// Rows of n elements, `rows` of them.
Tensor hard(Hard kind, std::int64_t rows, std::int64_t n, DType dtype) {
  const double smallest_normal = dtype == DType::f16 ? 0x1p-14 : 0x1p-126;
  const double spreads = kind == Hard::large_mean  ? std::sqrt(3.0)  // of variance 1
                         : kind == Hard::subnormal ? smallest_normal / 4
                                                   : 4;
  Doubles values = spread(static_cast<std::size_t>(rows * n), -spreads, spreads);
  constexpr std::array kConstants{12345.678, -0.1, 3e-5};
  for (std::size_t i = 0; i < values.size(); ++i) {
    const std::size_t row = i / static_cast<std::size_t>(n), place = i % static_cast<std::size_t>(n);
    if (kind == Hard::large_mean) values[i] += 1e4;
    if (kind == Hard::constant) values[i] = kConstants[row % kConstants.size()];
    if (kind == Hard::outlier && place == static_cast<std::size_t>(n) / 2)
      values[i] = dtype == DType::f16 ? 6e4 : 1e30;
    const double near_largest = 0.99 * largest_of(dtype) * (1 - std::abs(values[i]) / 40);
    if (kind == Hard::largest) values[i] = near_largest;
    if (kind == Hard::opposite) values[i] = place % 2 == 0 ? near_largest : -near_largest;
    if (kind == Hard::far)
      values[i] = place == static_cast<std::size_t>(n) / 2 ? -near_largest : near_largest;
  }
  return to(make<double>({rows, n}, values), dtype);
}

struct DTypePair {
  DType values, parameters;
};
constexpr std::array kPairs{DTypePair{DType::f32, DType::f32},   DTypePair{DType::f32, DType::bf16},
                            DTypePair{DType::f16, DType::f16},   DTypePair{DType::f16, DType::f32},
                            DTypePair{DType::bf16, DType::bf16}, DTypePair{DType::bf16, DType::f32}};

Tensor weight_of(std::int64_t n, DType dtype) { return random({n}, dtype, 0.5, 2); }
Tensor bias_of(std::int64_t n, DType dtype) { return random({n}, dtype, -1, 1, 0.4); }
std::string label(Hard kind, const DTypePair& pair) {
  return "input " + std::to_string(static_cast<int>(kind)) + " in " + to_string(pair.values) +
         ", parameters in " + to_string(pair.parameters);
}

NormFormula rows_of(const Tensor& x, std::int64_t n) {
  return NormFormula(
      x.numel(), 1e-5, [n](std::int64_t i) { return i / n; }, [n](std::int64_t i) { return i % n; });
}

// --- Row norms

class HardRowNorm : public HardNorm {
 protected:
  void expect_rows(Hard kind, std::int64_t rows, std::int64_t n, const DTypePair& pair, bool weighted,
                   bool biased) const {
    SCOPED_TRACE(label(kind, pair) + ", rows of " + std::to_string(n) + (weighted ? ", weight" : "") +
                 (biased ? ", bias" : ""));
    const Tensor x = hard(kind, rows, n, pair.values), g = random({rows, n}, pair.values, -1, 1, 0.7);
    const Tensor w = weighted ? weight_of(n, pair.parameters) : Tensor();
    const Tensor b = biased ? bias_of(n, pair.parameters) : Tensor();
    const Function layer = [n](const Tensors& in) { return layer_norm(in[0], {n}, in[1], in[2]); };
    expect_within(run(layer, {x, w, b}, g), rows_of(x, n), x, w, b, g);
    if (biased) return;
    const Function rms = [n](const Tensors& in) { return rms_norm(in[0], {n}, in[1], 1e-5); };
    expect_within(run(rms, {x, w}, g), rows_of(x, n).uncentered(), x, w, b, g);
  }
};
INSTANTIATE_TEST_SUITE_P(Devices, HardRowNorm, ::testing::Values(Device::cpu(), Device::cuda(0)),
                         [](const auto& device) { return device.param.is_cuda() ? "cuda" : "cpu"; });

TEST_P(HardRowNorm, KeepsItsDigitsForEveryWidthAndDType) {
  for (const Hard kind : kAllHard) {
    for (const std::int64_t n : {1, 3, 17, 1023, 4097}) {
      for (const DTypePair& pair : kPairs) {
        expect_rows(kind, 3, n, pair, true, true);
        expect_rows(kind, 3, n, pair, true, false);
      }
    }
  }
}
TEST_P(HardRowNorm, KeepsItsDigitsWithAndWithoutParameters) {
  for (const Hard kind : kAllHard) {
    for (const DTypePair& pair : kPairs) {
      expect_rows(kind, 5, 17, pair, false, false);
      expect_rows(kind, 5, 17, pair, false, true);
    }
  }
}
TEST_P(HardRowNorm, KeepsItsDigitsInLongRows) {
  // Longer than the device's registers hold; more takes a minute on the emulated one.
  const bool is_slow = GetParam().is_cuda() && test::under_sanitizer();
  const std::int64_t length = is_slow ? 16387 : 65537, more = is_slow ? 33001 : 200001;
  for (const Hard kind : kAllHard) {
    for (const DTypePair& pair : {kPairs[0], kPairs[3], kPairs[5]})
      expect_rows(kind, 2, length, pair, true, true);
  }
  for (const Hard kind : {Hard::large_mean, Hard::outlier}) {
    expect_rows(kind, 2, more, kPairs[0], true, false);
    expect_rows(kind, 1, more, kPairs[5], true, true);
  }
}

// --- group_norm

class HardGroupNorm : public HardNorm {
 protected:
  /// x [2, channels, length] in both formats.
  void expect_groups(Hard kind, std::int64_t groups, std::int64_t channels, std::int64_t length,
                     const DTypePair& pair) const {
    SCOPED_TRACE(label(kind, pair) + ", " + std::to_string(channels) + " channels of " +
                 std::to_string(length) + " in " + std::to_string(groups) + " groups");
    const std::int64_t row = channels / groups * length;
    const Shape shape{2, channels, length};
    const Tensor x = reshape(hard(kind, 2 * groups, row, pair.values), shape);
    const Tensor g = random(shape, pair.values, -1, 1, 0.7);
    const Tensor w = weight_of(channels, pair.parameters), b = bias_of(channels, pair.parameters);
    const NormFormula formula(
        x.numel(), 1e-5, [=](std::int64_t i) { return i / row; },
        [=](std::int64_t i) { return i / length % channels; });
    const Function f = [=](const Tensors& in) { return group_norm(in[0], groups, in[1], in[2]); };
    for (const MemoryFormat format : {MemoryFormat::contiguous, MemoryFormat::channels_last}) {
      SCOPED_TRACE(format == MemoryFormat::contiguous ? "contiguous" : "channels last");
      expect_within(run(f, {x.to(format), w, b}, g.to(format)), formula, x, w, b, g);
    }
  }
};
INSTANTIATE_TEST_SUITE_P(Devices, HardGroupNorm, ::testing::Values(Device::cpu(), Device::cuda(0)),
                         [](const auto& device) { return device.param.is_cuda() ? "cuda" : "cpu"; });

TEST_P(HardGroupNorm, KeepsItsDigitsForEveryLengthAndDType) {
  for (const Hard kind : kAllHard) {
    for (const DTypePair& pair : kPairs) {
      for (const std::int64_t length : {1, 3, 17, 1023}) expect_groups(kind, 3, 6, length, pair);
      expect_groups(kind, 1, 3, 4097, pair);
    }
  }
}
TEST_P(HardGroupNorm, KeepsItsDigitsInLongRows) {
  for (const Hard kind : {Hard::large_mean, Hard::constant, Hard::outlier, Hard::largest, Hard::far}) {
    expect_groups(kind, 1, 2, 65537, kPairs[0]);
    if (test::under_sanitizer() && kind != Hard::outlier) continue;  // it takes half a minute there
    expect_groups(kind, 2, 2, 200001, kPairs[5]);
  }
}

// --- batch_norm, instance_norm, and second gradients

/// Of f32 rows near the largest number, against the same op in f64.
class WideNorm : public HardNorm {
 protected:
  /// f of x and g, `tolerance` beside the largest element of each result.
  void expect_as_in_double(const std::function<Tensor(const Tensor&, const Tensor&)>& f, const Shape& shape,
                           double tolerance) const {
    for (const Hard kind : {Hard::ordinary, Hard::largest, Hard::opposite, Hard::far}) {
      SCOPED_TRACE("input " + std::to_string(static_cast<int>(kind)) + ", shape " + to_string(shape));
      const Tensor x = reshape(hard(kind, 2, layout::numel(shape) / 2, DType::f32), shape);
      const Tensor g = random(shape, DType::f32, -1, 1, 0.7);
      const auto [wanted, scale] = [&] {
        const Doubles values = list(f(here(to(x, DType::f64)), here(to(g, DType::f64))));
        double most = 0;
        for (const double value : values) most = std::max(most, std::abs(value));
        return std::pair(values, most);
      }();
      const Doubles got = list(f(here(x), here(g)));
      ASSERT_EQ(got.size(), wanted.size());
      ASSERT_GT(scale, 0);
      for (std::size_t i = 0; i < got.size(); ++i)
        ASSERT_LE(std::abs(got[i] - wanted[i]), tolerance * scale + 0x1p-140)
            << "element " << i << ": " << got[i];
    }
  }
};
INSTANTIATE_TEST_SUITE_P(Devices, WideNorm, ::testing::Values(Device::cpu(), Device::cuda(0)),
                         [](const auto& device) { return device.param.is_cuda() ? "cuda" : "cpu"; });

TEST_P(WideNorm, BatchAndInstanceNormStayFinite) {
  for (const MemoryFormat format : {MemoryFormat::contiguous, MemoryFormat::channels_last}) {
    const auto batch = [&](const Tensor& x, const Tensor& /*g*/) {
      return batch_norm(x.to(format), {}, {}, {}, {}, true);
    };
    const auto instance = [&](const Tensor& x, const Tensor& /*g*/) { return instance_norm(x.to(format)); };
    expect_as_in_double(batch, {1000, 4, 3}, 1e-4);  // channels of many samples
    for (const Shape& shape : {Shape{2, 3, 5}, Shape{40, 3, 7}, Shape{2, 3, 9000}}) {
      expect_as_in_double(batch, shape, 1e-4);
      expect_as_in_double(instance, shape, 1e-4);
    }
  }
}

TEST_P(WideNorm, RunningMeansAreThoseOfTheRows) {
  const Tensor x = here(full({4, 2, 300}, 3e38)), mean = here(zeros({2})), variance = here(ones({2}));
  const Tensor y = batch_norm(x, mean, variance, {}, {}, true, 1.0);
  EXPECT_EQ(list(mean), (Doubles{3e38F, 3e38F}));
  EXPECT_EQ(list(variance), (Doubles{0, 0}));
  EXPECT_EQ(list(y), Doubles(static_cast<std::size_t>(y.numel()), 0));
}

TEST_P(WideNorm, SecondGradientsStayFinite) {
  /// d of (the gradient of norm(x) . g) . g, with respect to g: normalized rows once more, of rows of 1e38
  /// too.
  const auto second = [](const auto& norm) {
    return [=](const Tensor& x, const Tensor& g) {
      const Tensor leaf = x.detach().requires_grad_(), upstream = g.detach().requires_grad_();
      const Tensor first = grad(sum(norm(leaf) * upstream), {leaf}, {.create_graph = true})[0];
      // The gradient is of the size of 1 / x: brought back to that of g.
      const Tensor weighted = sum(first * (x.detach() * 0.25) * g.detach());
      return cat({flatten(grad(weighted, {upstream}, {.retain_graph = true})[0]),
                  flatten(grad(weighted, {leaf})[0] * (x.detach() * 0.25))});
    };
  };
  for (const Shape& shape : {Shape{2, 2, 6}, Shape{2, 4, 40}}) {
    const std::int64_t length = shape.back();
    expect_as_in_double(second([=](const Tensor& x) { return layer_norm(x, {length}); }), shape, 1e-4);
    expect_as_in_double(second([](const Tensor& x) { return rms_norm(x, {x.size(-1)}, {}, 1e-5); }), shape,
                        1e-4);
    expect_as_in_double(second([](const Tensor& x) { return group_norm(x, 2); }), shape, 1e-4);
    expect_as_in_double(second([](const Tensor& x) { return batch_norm(x, {}, {}, {}, {}, true); }), shape,
                        1e-4);
  }
}

// --- Digits

TEST_P(HardNorm, LayerNormGivesTheDigitsOfOneToFour) {
  const Tensor x = make<double>({1, 2, 3, 4});
  const auto normalized = [&](DType dtype) { return list(layer_norm(here(to(x, dtype)), {4})); };
  const Doubles y = normalized(DType::f64);
  expect_near(make<double>(y),
              {-1.3416354199689269, -0.447211806656309, 0.447211806656309, 1.3416354199689269}, 1e-15);
  EXPECT_NEAR(y[3] / 1.5, 0.894423613312618, 1e-15);  // rstd
  EXPECT_EQ(normalized(DType::f16), (Doubles{-1.341796875, -0.447265625, 0.447265625, 1.341796875}));
  EXPECT_EQ(normalized(DType::bf16), (Doubles{-1.34375, -0.447265625, 0.447265625, 1.34375}));
}

TEST_P(HardNorm, LayerNormRoundsOnceAndNotBeforeTheParameters) {
  const Tensor x = to(make<double>({1, 2, 3, 4}), DType::f16);
  const Tensor gamma = to(make<double>({0.1, 0.2, 0.3, 0.4}), DType::f16),
               beta = full({4}, 0.5, options_of(x));
  const Tensor y = layer_norm(here(x), {4}, here(gamma), here(beta));
  EXPECT_EQ(y.dtype(), DType::f16);
  EXPECT_EQ(list(y), (Doubles{0.365966796875, 0.41064453125, 0.63427734375, 1.0361328125}));
}

TEST_P(HardNorm, LayerNormGivesTheDigitsOfAGradient) {
  const Tensor x = make<double>({1, 2, 3, 4}), ones = make<double>({1, 1, 1, 1}),
               zero = zeros({4}, options_of(x));
  const Tensor g = make<double>({0.5, -1, 1.5, -2});
  const Function layer = [](const Tensors& in) { return layer_norm(in[0], {4}, in[1], in[2]); };
  const Evaluated found = run(layer, {x, ones, zero}, g);
  expect_near(found.gradients[1], {-0.67081770998, 0.44721180666, 0.67081770998, -2.68327083994}, 0, 1e-11);
  EXPECT_EQ(list(found.gradients[2]), list(g));
  const Tensor gamma = make<double>({0.1, 0.2, 0.3, 0.4});
  const Evaluated scaled = run(layer, {x, gamma, zero}, g);
  expect_near(scaled.gradients[0], {-0.09838455819, -0.15205133451, 0.59926314116, -0.34882724846}, 0, 1e-11);
}

}  // namespace
}  // namespace mezzo
