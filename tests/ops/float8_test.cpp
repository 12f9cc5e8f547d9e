// Float8 is for storage: what works with it, and that everything else refuses it and changes nothing.
// tests/sweep/float8.cpp has the registered ops.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "mezzo/autograd/engine.h"
#include "mezzo/core/error.h"
#include "mezzo/core/promotion.h"
#include "mezzo/ops/compare.h"
#include "mezzo/ops/factory.h"
#include "mezzo/ops/ops.h"
#include "mezzo/tests/support/message_of.h"

namespace mezzo {
namespace {

using test::message_of;
using Doubles = std::vector<double>;
using Calls = std::vector<std::pair<const char*, std::function<void()>>>;

constexpr DType kFloat8[]{DType::f8_e4m3, DType::f8_e5m2};

/// Each call throws DTypeError and says how to cast.
void expect_refused(const Calls& calls) {
  for (const auto& [name, run] : calls) {
    try {
      run();
      ADD_FAILURE() << name << " is not refused";
    } catch (const DTypeError& error) {
      EXPECT_NE(error.fix().find(".to("), std::string::npos) << name << ": " << error.what();
    }
  }
}

TEST(Float8Ops, EqualComparesValuesOfOneDType) {
  for (const DType dtype : kFloat8) {
    const Tensor x = tensor({1.0, -2.0, 0.0}, dtype);
    EXPECT_TRUE(equal(x, x.clone()));
    EXPECT_TRUE(equal(x, tensor({1.0, -2.0, -0.0}, dtype))) << "-0 is 0";
    EXPECT_TRUE(x.unsqueeze(0).t().equal(x.unsqueeze(1)));
    EXPECT_FALSE(equal(x, tensor({1.0, -2.0, 1.0}, dtype)));
    EXPECT_FALSE(equal(x, tensor({1.0, -2.0}, dtype)));
    const Tensor nan = tensor({std::nan("")}, dtype);
    EXPECT_FALSE(equal(nan, nan)) << "NaN equals nothing";
    const DType other = dtype == DType::f8_e4m3 ? DType::f8_e5m2 : DType::f8_e4m3;
    EXPECT_EQ(message_of<DTypeError>([&] { (void)equal(ones({3}), x); }),
              "equal: expected a dtype to compute with, got " + to_string(dtype) +
                  ", which is for storage; cast it: x.to(DType::bf16)");
    expect_refused({{"equal, other float8", [&] { (void)equal(x, x.to(DType::f32).to(other)); }},
                    {"equal, f32", [&] { (void)equal(x, x.to(DType::f32)); }},
                    {"isclose", [&] { (void)isclose(x, x); }},
                    {"allclose", [&] { (void)allclose(x, x); }},
                    {"eq", [&] { (void)eq(x, x); }}});
  }
}

TEST(Float8Ops, WhatIsNotFiniteIsFound) {
  const double inf = INFINITY, nan = std::nan("");
  const Tensor e4m3 = tensor({448.0, 0.0, nan, inf, 1e9}, DType::f8_e4m3);
  EXPECT_EQ(isfinite(e4m3).to_vector<int>(), (std::vector<int>{1, 1, 0, 0, 1}));
  EXPECT_EQ(e4m3.isnan().to_vector<int>(), (std::vector<int>{0, 0, 1, 1, 0})) << "infinity becomes NaN";
  EXPECT_EQ(e4m3.isinf().to_vector<int>(), (std::vector<int>{0, 0, 0, 0, 0}));
  const Tensor e5m2 = tensor({57344.0, 0.0, nan, -inf, 1e9}, DType::f8_e5m2);
  EXPECT_EQ(e5m2.isfinite().to_vector<int>(), (std::vector<int>{1, 1, 0, 0, 0}));
  EXPECT_EQ(isnan(e5m2).to_vector<int>(), (std::vector<int>{0, 0, 1, 0, 0}));
  EXPECT_EQ(isinf(e5m2).to_vector<int>(), (std::vector<int>{0, 0, 0, 1, 1}));
}

TEST(Float8Ops, DoNotPromote) {
  for (const DType dtype : kFloat8) {
    EXPECT_EQ(promote(dtype, dtype), dtype);
    const Tensor x = tensor({1.0}, dtype);
    for (const DType other : kAllDTypes) {
      if (other == dtype) continue;
      const Tensor y = tensor({1.0}, other);
      EXPECT_THROW((void)promote(dtype, other), DTypeError) << to_string(other);
      EXPECT_THROW((void)promote(other, dtype), DTypeError) << to_string(other);
      if (is_floating(other)) {
        EXPECT_THROW((void)result_type({&x, &y}), DTypeError) << to_string(other);
      }
    }
  }
  EXPECT_EQ(message_of<DTypeError>([] { (void)promote(DType::f8_e4m3, DType::f32); }),
            "promote: expected dtypes that promote, got f8_e4m3 and f32; cast the float8 one with to(dtype) "
            "first");
}

TEST(Float8Ops, FactoriesThatComputeValuesRefuse) {
  for (const DType dtype : kFloat8) {
    const Tensor x = tensor({1.0, 2.0}, dtype);
    expect_refused({{"zeros", [&] { (void)zeros({2}, dtype); }},
                    {"ones", [&] { (void)ones({2}, dtype); }},
                    {"full", [&] { (void)full({2}, 1.5, dtype); }},
                    {"arange", [&] { (void)arange(3, dtype); }},
                    {"arange", [&] { (void)arange(0.5, 3.0, dtype); }},
                    {"eye", [&] { (void)eye(2, dtype); }},
                    {"zeros_like", [&] { (void)zeros_like(x); }},
                    {"ones_like", [&] { (void)ones_like(x); }},
                    {"full_like", [&] { (void)full_like(x, 2); }},
                    {"full_like", [&] { (void)full_like(ones({2}), 2, dtype); }},
                    {"rand", [&] { (void)rand({2}, dtype); }},
                    {"randn", [&] { (void)randn({2}, dtype); }},
                    {"rand_like", [&] { (void)rand_like(x); }},
                    {"randint", [&] { (void)randint(0, 3, {2}, {.dtype = dtype}); }},
                    {"randperm", [&] { (void)randperm(3, {.dtype = dtype}); }}});
    expect_refused({{"bernoulli", [&] { (void)bernoulli(x); }},
                    {"multinomial", [&] { (void)multinomial(x, 1); }},
                    {"histc", [&] { (void)histc(x, 2); }}});
    EXPECT_EQ(empty({2, 3}, dtype).dtype(), dtype);
    EXPECT_EQ(empty_like(x).dtype(), dtype);
  }
}

/// All in-place members but copy_, on x.
Calls in_place_calls(const Tensor& x) {
  const Tensor y = ones({2, 2}), index = zeros({2, 2}, DType::i64), mask = y.to(DType::boolean);
  return {{"add_", [=] { x.add_(y); }},
          {"add_ number", [=] { x.add_(1); }},
          {"sub_", [=] { x.sub_(y); }},
          {"sub_ number", [=] { x.sub_(1); }},
          {"mul_", [=] { x.mul_(y); }},
          {"mul_ number", [=] { x.mul_(2); }},
          {"div_", [=] { x.div_(y); }},
          {"div_ number", [=] { x.div_(2); }},
          {"pow_", [=] { x.pow_(2); }},
          {"clamp_", [=] { x.clamp_(0, 1); }},
          {"clamp_min_", [=] { x.clamp_min_(0); }},
          {"clamp_max_", [=] { x.clamp_max_(0); }},
          {"neg_", [=] { x.neg_(); }},
          {"abs_", [=] { x.abs_(); }},
          {"exp_", [=] { x.exp_(); }},
          {"log_", [=] { x.log_(); }},
          {"sqrt_", [=] { x.sqrt_(); }},
          {"floor_", [=] { x.floor_(); }},
          {"round_", [=] { x.round_(); }},
          {"relu_", [=] { x.relu_(); }},
          {"sigmoid_", [=] { x.sigmoid_(); }},
          {"tanh_", [=] { x.tanh_(); }},
          {"addcmul_", [=] { x.addcmul_(y, y); }},
          {"addcdiv_", [=] { x.addcdiv_(y, y); }},
          {"lerp_", [=] { x.lerp_(y, 0.5); }},
          {"masked_fill_", [=] { x.masked_fill_(mask, 0); }},
          {"scatter_", [=] { x.scatter_(0, index, y); }},
          {"scatter_ number", [=] { x.scatter_(0, index, 1); }},
          {"scatter_add_", [=] { x.scatter_add_(0, index, y); }},
          {"index_add_", [=] { x.index_add_(0, index[0], y); }},
          {"addmm_", [=] { x.addmm_(y, y); }},
          {"fill_", [=] { x.fill_(1); }},
          {"zero_", [=] { x.zero_(); }},
          {"uniform_", [=] { x.uniform_(); }},
          {"normal_", [=] { x.normal_(); }},
          {"a number at a place", [=] { x[0] = 1; }},
          {"a number at a mask", [=] { x[mask] = 0; }},
          {"values at a mask", [=] { x[mask] = ones({4}); }},
          {"index_put_", [=] { x.index_put_({mask}, ones({4}).to(x.dtype())); }},
          {"index_put_ number", [=] { x.index_put_({mask}, 1); }},
          {"into a float8 tensor's place", [=] { x[0] += y[0]; }},
          {"a float8 operand", [=] { y.add_(x); }}};
}

TEST(Float8Ops, InPlaceMembersRefuseAndChangeNothing) {
  for (const DType dtype : kFloat8) {
    const Tensor x = tensor({{1.0, -2.0}, {0.5, 4.0}}, dtype);
    const std::uint32_t version = x.version();
    expect_refused(in_place_calls(x));
    EXPECT_EQ(x.to_vector<double>(), (Doubles{1, -2, 0.5, 4}));
    EXPECT_EQ(x.version(), version);
  }
}

TEST(Float8Ops, CopiesConvertBothWaysWithOneRounding) {
  for (const DType dtype : kFloat8) {
    const Tensor x = empty({2, 2}, dtype);
    x.copy_(tensor({1.0, 500.0}));
    EXPECT_EQ(x.to_vector<double>(),
              dtype == DType::f8_e4m3 ? (Doubles{1, 448, 1, 448}) : (Doubles{1, 512, 1, 512}));
    const Tensor wide = ones({2, 2}, DType::bf16);
    wide.copy_(x.t());
    EXPECT_EQ(wide.to_vector<double>(), x.t().to(DType::f64).to_vector<double>());
    x.copy_(tensor({{1, 2}, {3, 4}}));
    x[1] = x[0];
    x[{0, 0}] = tensor(8.0);
    EXPECT_EQ(x.to_vector<double>(), (Doubles{8, 2, 1, 2}));
    // Just above the middle of 1 and the next value, by less than f32 can see.
    const double above = 1 + info(dtype).eps / 2 + 0x1p-40;
    EXPECT_EQ(empty({1}, dtype).copy_(tensor({above}, DType::f64)).item(), 1 + info(dtype).eps);
  }
}

TEST(Float8Ops, AGradientPassesACastAsItIsAndAViewInFloat8) {
  for (const DType dtype : kFloat8) {
    const Tensor w = tensor({0.3, 0.7}), rounded = w.to(dtype);
    const Tensor x = tensor({1.5, 3.3}, {.requires_grad = true});
    (x.to(dtype).to(DType::f32) * w).sum().backward();
    EXPECT_TRUE(x.grad().equal(w)) << x.grad();
    x.set_grad({});
    (x.to(dtype).unsqueeze(0).to(DType::f32) * w).sum().backward();
    EXPECT_TRUE(x.grad().equal(rounded.to(DType::f32))) << x.grad() << ", which PyTorch gives in both cases";
    const Tensor leaf = tensor({1.5, 3.0}, {.dtype = dtype, .requires_grad = true});
    (leaf.to(DType::f32) * w).sum().backward();
    EXPECT_TRUE(leaf.grad().equal(rounded)) << leaf.grad();
  }
}

}  // namespace
}  // namespace mezzo
