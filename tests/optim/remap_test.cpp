// optim::remap: successors of parameters go on as these would have, bit for bit, and what is refused changes
// nothing.
#include "mezzo/optim/remap.h"

#include <memory>

#include "mezzo/autograd/autograd_meta.h"
#include "mezzo/autograd/half_copy.h"
#include "mezzo/core/cuda.h"
#include "mezzo/optim/adam.h"
#include "mezzo/optim/sgd.h"
#include "mezzo/tests/support/algorithms.h"
#include "mezzo/tests/support/message_of.h"
#include "optim/optim_support.h"

namespace mezzo::optim {
namespace {

using test::message_of;

constexpr std::size_t kCount = 20;

Tensor parameter(std::uint64_t seed, DType dtype = DType::f32, std::size_t count = kCount) {
  return parameter_of(values_of(seed, count), dtype);
}

Tensor copy_of(const Tensor& original) {
  const NoGrad no_grad;
  return original.detach().clone().requires_grad_();
}

/// Steps whose gradients depend on the step and the parameter's number only.
void run(Optimizer& optimizer, std::uint64_t from, std::uint64_t to) {
  for (std::uint64_t step = from; step < to; ++step) {
    std::uint64_t seed = 100 * step;
    for (const Tensor& p : optimizer.parameters())
      p.set_grad(tensor(values_of(++seed, static_cast<std::size_t>(p.numel())), {.dtype = p.dtype()}));
    optimizer.step();
    optimizer.zero_grad();
  }
}

bool has(const std::string& text, const char* part) { return text.find(part) != std::string::npos; }

TEST(Remap, ACopyGoesOnAsTheOriginalWouldHave) {
  for (const Algorithm& algorithm : algorithms()) {
    for (const DType dtype : {DType::f32, DType::f64, DType::bf16}) {
      const std::vector<Tensor> straight{parameter(1, dtype), parameter(2, dtype)};
      const std::vector<Tensor> before{copy_of(straight[0]), copy_of(straight[1])};
      const auto a = algorithm.make(straight, kMasters), b = algorithm.make(before, kMasters);
      run(*a, 0, 3);
      run(*b, 0, 3);
      const Tensor after = copy_of(before[0]);
      EXPECT_EQ(remap(*b, {{before[0], after}}), (RemapReport{.moved = 1}));
      run(*a, 3, 6);
      run(*b, 3, 6);
      EXPECT_EQ(bits(after), bits(straight[0])) << algorithm << " " << to_string(dtype);
      EXPECT_EQ(bits(before[1]), bits(straight[1])) << algorithm << " " << to_string(dtype);
      EXPECT_EQ(state_bits(*b), state_bits(*a)) << algorithm;
      EXPECT_NE(bits(before[0]), bits(after)) << "the former one is not trained any more";
    }
  }
}

TEST(Remap, KeepsGroupPositionAndName) {
  const Tensor a = parameter(1), b = parameter(2), c = parameter(3), after = parameter(4);
  SGD sgd({{NamedTensors{{"a", a}}, SGDOptions{.lr = 1}},
           {NamedTensors{{"b", b}, {"c", c}}, SGDOptions{.lr = 2}}});
  static_cast<void>(remap(sgd, {{b, after}}));
  const std::vector<Tensor> now = sgd.parameters();
  ASSERT_EQ(now.size(), 3U);
  EXPECT_TRUE(now[0].is_same(a) && now[1].is_same(after) && now[2].is_same(c));
  EXPECT_EQ(sgd.parameter_name(1), "b");
  const Tensor start = copy_of(after);
  after.set_grad(ones({kCount}));
  sgd.step();
  EXPECT_EQ(bits(after), bits(start.detach() - 2.0)) << "the second group's learning rate";
}

TEST(Remap, AnotherShapeBeginsAnew) {
  const Tensor small = parameter(1), other = parameter(2), large = parameter(3, DType::f32, 2 * kCount);
  Adam adam(std::vector<Tensor>{small, other}, {.lr = 0.1});
  run(adam, 0, 3);
  static_cast<void>(remap(adam, {{small, large}}));
  EXPECT_FALSE(state_of(adam, "0.step").defined());
  EXPECT_EQ(state_of(adam, "1.step").item<std::int64_t>(), 3);
  // From here on as a new optimizer would do with it.
  const Tensor twin = copy_of(large);
  Adam fresh(std::vector<Tensor>{twin}, {.lr = 0.1});
  run(adam, 0, 2);
  run(fresh, 0, 2);
  EXPECT_EQ(bits(large), bits(twin));
}

TEST(Remap, TakesParametersOutAndAddsNewOnesBehindTheirNeighbours) {
  const Tensor a = parameter(1), b = parameter(2), c = parameter(3), fresh = parameter(4),
               more = parameter(5);
  SGD sgd({{unnamed({a, b}), SGDOptions{.lr = 1}}, {unnamed({c}), SGDOptions{.lr = 2}}});
  EXPECT_EQ(remap(sgd, {{a, Tensor()}, {Tensor(), fresh}, {c, c}, {Tensor(), more}}),
            (RemapReport{.removed = 1, .added = 2}));
  const std::vector<Tensor> now = sgd.parameters();
  ASSERT_EQ(now.size(), 4U);
  EXPECT_TRUE(now[0].is_same(b) && now[1].is_same(fresh) && now[2].is_same(c) && now[3].is_same(more));
  const OptimizerState state = sgd.state_dict();
  const Value::List& groups = state.options.at("param_groups").as_list();
  EXPECT_EQ(groups[0].at("num_parameters").as_int(), 2);
  EXPECT_EQ(groups[1].at("num_parameters").as_int(), 2);
}

TEST(Remap, ANewParameterJoinsTheOnlyGroup) {
  const Tensor a = parameter(1), fresh = parameter(2);
  SGD sgd(std::vector<Tensor>{a}, SGDOptions{});
  EXPECT_EQ(remap(sgd, {{Tensor(), fresh}}), (RemapReport{.added = 1}));
  EXPECT_EQ(sgd.parameters().size(), 2U);
}

TEST(Remap, AGroupMayBecomeEmptyAndParametersMayChangePlaces) {
  const Tensor a = parameter(1), b = parameter(2);
  SGD sgd({{unnamed({a}), SGDOptions{.lr = 1}}, {unnamed({b}), SGDOptions{.lr = 2}}});
  static_cast<void>(remap(sgd, {{a, b}, {b, a}}));
  EXPECT_TRUE(sgd.parameters()[0].is_same(b));
  static_cast<void>(remap(sgd, {{b, Tensor()}}));
  EXPECT_EQ(sgd.num_groups(), 2U);
  EXPECT_TRUE(sgd.parameters()[0].is_same(a));
  run(sgd, 0, 1);
}

TEST(Remap, StateIsConvertedToTheNewDtype) {
  const Tensor before = parameter(1), other = parameter(2);
  SGD sgd(std::vector<Tensor>{before, other}, {.lr = 0.1, .momentum = 0.9});
  run(sgd, 0, 2);
  const std::vector<std::uint64_t> momentum = bits(state_of(sgd, "0.momentum_buffer"));
  const Tensor wide = before.detach().to(DType::f64).requires_grad_();
  static_cast<void>(remap(sgd, {{before, wide}}));
  EXPECT_EQ(state_of(sgd, "0.momentum_buffer").dtype(), DType::f64);
  EXPECT_EQ(bits(state_of(sgd, "0.momentum_buffer")), momentum);
  run(sgd, 2, 3);
  const Tensor half = wide.detach().to(DType::f16).requires_grad_();
  static_cast<void>(remap(sgd, {{wide, half}}));
  EXPECT_EQ(state_of(sgd, "0.momentum_buffer").dtype(), DType::f32);
  run(sgd, 3, 4);
}

TEST(Remap, AMasterFollowsValuesThatDiffer) {
  const Tensor before = parameter(1, DType::bf16);
  SGD sgd(std::vector<Tensor>{before}, {.lr = 1e-3, .master_weights = true});
  run(sgd, 0, 5);
  const std::vector<double> master = state_of(sgd, "0.master").to_vector<double>();
  std::vector<double> values = before.to_vector<double>();
  values[0] = 3;
  const Tensor after = parameter_of(values, DType::bf16);
  static_cast<void>(remap(sgd, {{before, after}}));
  after.set_grad(zeros({kCount}, {.dtype = DType::bf16}));
  sgd.step();
  const std::vector<double> now = state_of(sgd, "0.master").to_vector<double>();
  EXPECT_EQ(now[0], 3);
  EXPECT_EQ(std::vector<double>(now.begin() + 1, now.end()),
            std::vector<double>(master.begin() + 1, master.end()));
}

TEST(Remap, SeveralOptimizersTakeTheirOwn) {
  const Tensor a = parameter(1), b = parameter(2), c = parameter(3), d = parameter(4);
  const Tensor a2 = copy_of(a), b2 = copy_of(b), fresh = parameter(5), stray = parameter(6);
  SGD sgd(std::vector<Tensor>{a, c}, {.momentum = 0.9});
  Adam adam(std::vector<Tensor>{b}, {});
  run(sgd, 0, 1);
  run(adam, 0, 1);
  EXPECT_EQ(remap({&sgd, &adam}, {{a, a2}, {b, b2}, {Tensor(), fresh}, {d, Tensor()}, {Tensor(), stray}}),
            (RemapReport{.moved = 2, .added = 1, .left_out = 1}));
  EXPECT_TRUE(sgd.parameters()[0].is_same(a2));
  ASSERT_EQ(adam.parameters().size(), 2U);
  EXPECT_TRUE(adam.parameters()[0].is_same(b2) && adam.parameters()[1].is_same(fresh));
  EXPECT_EQ(sgd.parameters().size(), 2U);
  EXPECT_TRUE(state_of(sgd, "0.momentum_buffer").defined());
  EXPECT_EQ(remap(sgd, {{b, a}}), RemapReport{}) << "a pair of somebody else";
}

TEST(Remap, GivesUpThe16BitCopiesOfWhatGoes) {
  const Tensor before = parameter(1), other = parameter(2);
  SGD sgd(std::vector<Tensor>{before, other}, {.lr = 0.1});
  for (const Tensor& p : {before, other}) static_cast<void>(half_copy(p, DType::f16));
  run(sgd, 0, 1);
  EXPECT_TRUE(autograd::meta_of(before)->half_copies[0].storage);
  static_cast<void>(remap(sgd, {{before, copy_of(before)}}));
  EXPECT_FALSE(autograd::meta_of(before)->half_copies[0].storage);
  EXPECT_TRUE(autograd::meta_of(other)->half_copies[0].storage);
}

// --- refusals

class RemapRefusal : public ::testing::Test {
 protected:
  Tensor a = parameter(1), b = parameter(2), c = parameter(3), fresh = parameter(4);
  SGD sgd{{{unnamed({a, b}), SGDOptions{.momentum = 0.9}}, {unnamed({c}), SGDOptions{}}}};
  SGD second{std::vector<Tensor>{parameter(5)}, SGDOptions{}};

  template <class E>
  void expect_refused(const ParameterPairs& pairs, const char* part) {
    run(sgd, 0, 1);
    const auto state = state_bits(sgd);
    const std::string message = message_of<E>([&] { static_cast<void>(remap({&second, &sgd}, pairs)); });
    EXPECT_TRUE(has(message, part)) << message;
    EXPECT_EQ(state_bits(sgd), state);
    const std::vector<Tensor> now = sgd.parameters();
    ASSERT_EQ(now.size(), 3U);
    EXPECT_TRUE(now[0].is_same(a) && now[1].is_same(b) && now[2].is_same(c));
    EXPECT_EQ(second.parameters().size(), 1U);
  }
};

TEST_F(RemapRefusal, SameTensorTwice) {
  expect_refused<ValueError>({{a, fresh}, {a, Tensor()}}, "each tensor once before");
  expect_refused<ValueError>({{a, fresh}, {b, fresh}}, "each tensor once after");
  expect_refused<ValueError>({{a, c}}, "each parameter once in an optimizer");
  expect_refused<ValueError>({{a, fresh}, {Tensor(), b}}, "each parameter once in an optimizer");
  expect_refused<ValueError>({{a, fresh}, {Tensor(), Tensor()}}, "got neither");
}

TEST_F(RemapRefusal, AGroupThatCannotBeTold) {
  expect_refused<ValueError>({{Tensor(), fresh}, {a, Tensor()}}, "a pair ahead of a new parameter");
  EXPECT_THROW(static_cast<void>(remap(sgd, {{Tensor(), fresh}})), ValueError);
}

TEST_F(RemapRefusal, NothingLeft) {
  expect_refused<ValueError>({{a, Tensor()}, {b, Tensor()}, {c, Tensor()}}, "at least one parameter left");
}

TEST_F(RemapRefusal, WhatCannotBeAParameter) {
  expect_refused<DTypeError>({{b, Tensor()}, {a, ones({kCount}, {.dtype = DType::i64})}},
                             "floating parameters");
  expect_refused<AutogradError>({{a, mul(fresh, fresh)}}, "leaf parameters");
  expect_refused<ShapeError>({{a, expand(ones({1}), {kCount})}}, "memory of its own");
  if (cuda::is_available())
    expect_refused<DeviceError>({{a, fresh.detach().to(Device::cuda(0))}}, "all parameters on cpu");
}

TEST_F(RemapRefusal, OptimizersThatAreNone) {
  EXPECT_THROW(static_cast<void>(remap({&sgd, nullptr}, {})), ValueError);
  EXPECT_THROW(static_cast<void>(remap({&sgd, &sgd}, {})), ValueError);
  EXPECT_EQ(remap(std::vector<Optimizer*>{}, {}), RemapReport{});
}

}  // namespace
}  // namespace mezzo::optim
