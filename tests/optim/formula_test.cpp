// The optimizers against their published formulas, written out for one element in f64. SGD, Adam and AdamW
// have files of their own.
#include <algorithm>
#include <array>
#include <cmath>

#include "mezzo/optim/adadelta.h"
#include "mezzo/optim/adagrad.h"
#include "mezzo/optim/adamax.h"
#include "mezzo/optim/lion.h"
#include "mezzo/optim/nadam.h"
#include "mezzo/optim/radam.h"
#include "mezzo/optim/rmsprop.h"
#include "mezzo/tests/support/algorithms.h"
#include "optim/optim_support.h"

namespace mezzo::optim {
namespace {

constexpr std::size_t kCount = 1500;  // longer than a tile of the kernel (1024 elements)
constexpr std::uint64_t kSteps = 12;

/// A parameter of one element and what is kept for it.
struct Element {
  double p;
  std::array<double, 3> s{};
  double product = 1;
};

double sign_of(bool maximize) { return maximize ? -1 : 1; }
/// beta * average + (1 - beta) * x.
double mixed(double beta, double average, double x) { return beta * average + (1 - beta) * x; }

/// Graves 2013, equations 38 to 43, whose first moment is left out unless centered.
void step(const RMSpropOptions& o, Element& e, double gradient, int /*t*/) {
  const double g = sign_of(o.maximize) * gradient + o.weight_decay * e.p;
  e.s[0] = mixed(o.alpha, e.s[0], g * g);
  e.s[1] = mixed(o.alpha, e.s[1], g);
  const double variance = o.centered ? e.s[0] - e.s[1] * e.s[1] : e.s[0];
  e.s[2] = o.momentum * e.s[2] + g / (std::sqrt(variance) + o.eps);
  e.p -= o.lr * e.s[2];
}

/// Duchi, Hazan & Singer 2011, the diagonal form.
void step(const AdagradOptions& o, Element& e, double gradient, int t) {
  if (t == 1) e.s[0] = o.initial_accumulator_value;
  const double g = sign_of(o.maximize) * gradient + o.weight_decay * e.p;
  e.s[0] += g * g;
  e.p -= o.lr / (1 + (t - 1) * o.lr_decay) * g / (std::sqrt(e.s[0]) + o.eps);
}

/// Zeiler 2012, algorithm 1.
void step(const AdadeltaOptions& o, Element& e, double gradient, int /*t*/) {
  const auto rms = [&](double mean_square) { return std::sqrt(mean_square + o.eps); };
  const double g = sign_of(o.maximize) * gradient + o.weight_decay * e.p;
  e.s[0] = mixed(o.rho, e.s[0], g * g);
  const double change = -rms(e.s[1]) / rms(e.s[0]) * g;
  e.s[1] = mixed(o.rho, e.s[1], change * change);
  e.p += o.lr * change;
}

/// Kingma & Ba 2015, algorithm 2.
void step(const AdamaxOptions& o, Element& e, double gradient, int t) {
  const double g = sign_of(o.maximize) * gradient + o.weight_decay * e.p;
  e.s[0] = mixed(o.beta1, e.s[0], g);
  e.s[1] = std::max(o.beta2 * e.s[1], std::abs(g) + o.eps);
  e.p -= o.lr / (1 - std::pow(o.beta1, t)) * e.s[0] / e.s[1];
}

/// A decay that a gradient carries, or that shrinks the parameter.
template <class Options>
double decayed(const Options& o, Element& e, double gradient) {
  const double g = sign_of(o.maximize) * gradient;
  if (!o.decoupled_weight_decay) return g + o.weight_decay * e.p;
  e.p *= 1 - o.lr * o.weight_decay;
  return g;
}

/// Dozat 2016, algorithm 2, with its schedule of mu (section 4.1 of his report).
void step(const NAdamOptions& o, Element& e, double gradient, int t) {
  const auto mu = [&](int i) { return o.beta1 * (1 - 0.5 * std::pow(0.96, i * o.momentum_decay)); };
  const double g = decayed(o, e, gradient);
  e.product *= mu(t);
  e.s[0] = mixed(o.beta1, e.s[0], g);
  e.s[1] = mixed(o.beta2, e.s[1], g * g);
  const double next = e.product * mu(t + 1) * (o.pytorch_1_13 ? mu(t) : 1);
  const double mean = mu(t + 1) * e.s[0] / (1 - next) + (1 - mu(t)) * g / (1 - e.product);
  e.p -= o.lr * mean / (std::sqrt(e.s[1] / (1 - std::pow(o.beta2, t))) + o.eps);
}

/// Liu et al. 2020, algorithm 2.
void step(const RAdamOptions& o, Element& e, double gradient, int t) {
  const double g = decayed(o, e, gradient);
  e.s[0] = mixed(o.beta1, e.s[0], g);
  e.s[1] = mixed(o.beta2, e.s[1], g * g);
  const double mean = e.s[0] / (1 - std::pow(o.beta1, t));
  const double rho_inf = 2 / (1 - o.beta2) - 1;
  const double rho = rho_inf - 2 * t * std::pow(o.beta2, t) / (1 - std::pow(o.beta2, t));
  double factor = 1;
  if (rho > 5) {
    const double r = std::sqrt((rho - 4) * (rho - 2) * rho_inf / ((rho_inf - 4) * (rho_inf - 2) * rho));
    factor = r * std::sqrt(1 - std::pow(o.beta2, t)) / (std::sqrt(e.s[1]) + o.eps);
  }
  e.p -= o.lr * factor * mean;
}

/// Chen et al. 2023, algorithm 2.
void step(const LionOptions& o, Element& e, double gradient, int /*t*/) {
  const double g = sign_of(o.maximize) * gradient;
  const double c = mixed(o.beta1, e.s[0], g);
  e.p -= o.lr * ((c > 0 ? 1 : c < 0 ? -1 : 0) + o.weight_decay * e.p);
  e.s[0] = mixed(o.beta2, e.s[0], g);
}

/// Sizes in [0.5, 1], signs at random: with decays of at most 0.3 * |p| no gradient cancels its decay.
std::vector<double> gradient_of(std::uint64_t step) {
  std::vector<double> values = values_of(50 + step, kCount);
  for (double& value : values) value = std::copysign(0.5 + 0.5 * std::abs(value), value);
  return values;
}

template <class O, class Options>
void check_formula(const Options& options) {
  SCOPED_TRACE(attrs_to_value(options).to_string());
  for (const DType dtype : {DType::f64, DType::f32}) {
    const Tensor p = parameter_of(values_of(3, kCount), dtype);
    std::vector<Element> elements;
    for (const double value : p.to_vector<double>()) elements.push_back({value});
    O optimizer(std::vector<Tensor>{p}, options);
    std::vector<double> way(kCount);
    for (std::uint64_t i = 0; i < kSteps; ++i) {
      const Tensor gradient = tensor(gradient_of(i), {.dtype = dtype});
      p.set_grad(gradient);
      optimizer.step();
      const std::vector<double> g = gradient.to_vector<double>();
      for (std::size_t k = 0; k < kCount; ++k) {
        const double before = elements[k].p;
        step(options, elements[k], g[k], static_cast<int>(i) + 1);
        way[k] += std::abs(elements[k].p - before);
      }
    }
    // In f32 each step rounds the parameter, which is below 2 and so has half an ulp of 2^-24; and some ten
    // roundings go into a change.
    const std::vector<double> got = p.to_vector<double>();
    for (std::size_t k = 0; k < kCount; ++k) {
      const double rounding = 0x1p-24 * (kSteps + 10 * way[k]);
      ASSERT_NEAR(got[k], elements[k].p, dtype == DType::f64 ? 1e-12 : rounding)
          << to_string(dtype) << " " << k;
    }
    EXPECT_GT(*std::max_element(way.begin(), way.end()), 1e-3) << "little to compare";
  }
}

TEST(Formula, RMSprop) {
  check_formula<RMSprop>(RMSpropOptions{});
  check_formula<RMSprop>(RMSpropOptions{.lr = 0.02, .alpha = 0.8, .eps = 1e-3, .weight_decay = 0.3});
  check_formula<RMSprop>(RMSpropOptions{.momentum = 0.7, .maximize = true});
  check_formula<RMSprop>(RMSpropOptions{.alpha = 0.9, .centered = true});
  check_formula<RMSprop>(
      RMSpropOptions{.alpha = 0.7, .weight_decay = 0.2, .momentum = 0.5, .centered = true, .maximize = true});
}

TEST(Formula, Adagrad) {
  check_formula<Adagrad>(AdagradOptions{});
  check_formula<Adagrad>(AdagradOptions{.lr = 0.1, .lr_decay = 0.3, .weight_decay = 0.2});
  check_formula<Adagrad>(
      AdagradOptions{.lr = 0.1, .initial_accumulator_value = 0.7, .eps = 0.1, .maximize = true});
}

TEST(Formula, Adadelta) {
  check_formula<Adadelta>(AdadeltaOptions{});
  check_formula<Adadelta>(AdadeltaOptions{.lr = 0.5, .rho = 0.6, .eps = 1e-2, .weight_decay = 0.3});
  check_formula<Adadelta>(AdadeltaOptions{.eps = 1e-3, .maximize = true});
}

TEST(Formula, Adamax) {
  check_formula<Adamax>(AdamaxOptions{});
  check_formula<Adamax>(
      AdamaxOptions{.lr = 0.05, .beta1 = 0.6, .beta2 = 0.7, .eps = 0.1, .weight_decay = 0.3});
  check_formula<Adamax>(AdamaxOptions{.beta1 = 0, .beta2 = 0.9, .maximize = true});
}

TEST(Formula, NAdam) {
  check_formula<NAdam>(NAdamOptions{});
  check_formula<NAdam>(NAdamOptions{.lr = 0.05, .beta1 = 0.6, .beta2 = 0.9, .eps = 0.1, .weight_decay = 0.3});
  check_formula<NAdam>(
      NAdamOptions{.weight_decay = 0.3, .momentum_decay = 0.2, .decoupled_weight_decay = true});
  check_formula<NAdam>(NAdamOptions{.momentum_decay = 0, .maximize = true, .pytorch_1_13 = true});
}

TEST(Formula, RAdam) {
  check_formula<RAdam>(RAdamOptions{});
  check_formula<RAdam>(RAdamOptions{.lr = 0.05, .beta1 = 0.6, .beta2 = 0.9, .eps = 0.1, .weight_decay = 0.3});
  check_formula<RAdam>(RAdamOptions{.beta2 = 0.8, .weight_decay = 0.3, .decoupled_weight_decay = true});
  check_formula<RAdam>(RAdamOptions{.beta2 = 0.5, .maximize = true});  // never divides
}

TEST(Formula, Lion) {
  check_formula<Lion>(LionOptions{});
  check_formula<Lion>(LionOptions{.lr = 0.05, .beta1 = 0.6, .beta2 = 0.7, .weight_decay = 0.3});
  check_formula<Lion>(LionOptions{.lr = 0.05, .maximize = true});
}

TEST(Formula, AZeroGradientMovesNothingInLion) {
  const Tensor p = parameter_of({2});
  p.set_grad(zeros({1}, {.dtype = DType::f64}));
  Lion(std::vector<Tensor>{p}, {.lr = 0.5}).step();
  EXPECT_EQ(p.item(), 2);
}

TEST(Formula, ANanStaysInAdamaxsMaximum) {
  const Tensor p = parameter_of({1});
  Adamax adamax(std::vector<Tensor>{p});
  for (const double gradient : {1.0, std::numeric_limits<double>::quiet_NaN(), 1.0}) {
    p.set_grad(tensor({gradient}, {.dtype = DType::f64}));
    adamax.step();
  }
  EXPECT_TRUE(std::isnan(state_of(adamax, "0.exp_inf").item()));
}

TEST(Formula, DefaultsArePyTorchs) {  // Lion: those of its paper
  const auto is = [](const Value& options, const Value::Map& expected) {
    for (const auto& [name, value] : expected) EXPECT_EQ(options.at(name), value) << name;
    const bool has_bits = options.contains("state_bits");
    if (has_bits) {
      EXPECT_EQ(options.at("state_bits"), Value(32));
    }
    EXPECT_EQ(options.as_map().size(), expected.size() + (has_bits ? 4 : 3)) << options.to_string();
    for (const char* flag : {"maximize", "master_weights", "stochastic_rounding"})
      EXPECT_EQ(options.at(flag), Value(false));
  };
  is(attrs_to_value(RMSpropOptions{}), {{"lr", 1e-2},
                                        {"alpha", 0.99},
                                        {"eps", 1e-8},
                                        {"weight_decay", 0.0},
                                        {"momentum", 0.0},
                                        {"centered", false}});
  is(attrs_to_value(AdagradOptions{}), {{"lr", 1e-2},
                                        {"lr_decay", 0.0},
                                        {"weight_decay", 0.0},
                                        {"initial_accumulator_value", 0.0},
                                        {"eps", 1e-10}});
  is(attrs_to_value(AdadeltaOptions{}), {{"lr", 1.0}, {"rho", 0.9}, {"eps", 1e-6}, {"weight_decay", 0.0}});
  is(attrs_to_value(AdamaxOptions{}),
     {{"lr", 2e-3}, {"beta1", 0.9}, {"beta2", 0.999}, {"eps", 1e-8}, {"weight_decay", 0.0}});
  is(attrs_to_value(NAdamOptions{}), {{"lr", 2e-3},
                                      {"beta1", 0.9},
                                      {"beta2", 0.999},
                                      {"eps", 1e-8},
                                      {"weight_decay", 0.0},
                                      {"momentum_decay", 4e-3},
                                      {"decoupled_weight_decay", false},
                                      {"pytorch_1_13", false}});
  is(attrs_to_value(RAdamOptions{}), {{"lr", 1e-3},
                                      {"beta1", 0.9},
                                      {"beta2", 0.999},
                                      {"eps", 1e-8},
                                      {"weight_decay", 0.0},
                                      {"decoupled_weight_decay", false}});
  is(attrs_to_value(LionOptions{}), {{"lr", 1e-4}, {"beta1", 0.9}, {"beta2", 0.99}, {"weight_decay", 0.0}});
}

TEST(Formula, BuffersHavePyTorchsNames) {
  const auto names = [](const Optimizer& optimizer) {
    std::vector<std::string> result;
    for (const auto& [name, tensor] : optimizer.state_dict().tensors) result.push_back(name.substr(2));
    std::sort(result.begin(), result.end());
    return result;
  };
  const std::vector<std::pair<std::string, std::vector<std::string>>> expected{
      {"RmspropPlain", {"square_avg", "step"}},
      {"RmspropAll", {"grad_avg", "momentum_buffer", "square_avg", "step"}},
      {"Adagrad", {"step", "sum"}},
      {"Adadelta", {"acc_delta", "square_avg", "step"}},
      {"Adamax", {"exp_avg", "exp_inf", "step"}},
      {"NadamCoupled", {"exp_avg", "exp_avg_sq", "mu_product", "step"}},
      {"RadamCoupled", {"exp_avg", "exp_avg_sq", "step"}},
      {"Lion", {"exp_avg", "step"}}};
  for (const auto& [name, buffers] : expected) {
    for (const Algorithm& algorithm : algorithms()) {
      if (algorithm.name != name) continue;
      const Tensor p = parameter_of({1});
      p.set_grad(ones({1}, {.dtype = DType::f64}));
      const auto optimizer = algorithm.make({p});
      optimizer->step();
      EXPECT_EQ(names(*optimizer), buffers) << name;
    }
  }
}

}  // namespace
}  // namespace mezzo::optim
