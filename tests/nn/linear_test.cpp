// Linear: what it computes (against sums in f64), how it begins, what it refuses.
#include "mezzo/nn/linear.h"

#include <cmath>

#include "mezzo/nn/sequential.h"
#include "mezzo/ops/factory.h"
#include "mezzo/ops/random.h"
#include "mezzo/ops/reduction.h"
#include "mezzo/tests/nn/models.h"

namespace mezzo::nn {

namespace {

using namespace nn::testing;

/// x w^T + b of row-major matrices, in f64.
std::vector<double> product(const Tensor& x, const Tensor& w, const Tensor& b) {
  const auto xs = x.to_vector<double>(), ws = w.to_vector<double>();
  const auto in = static_cast<std::size_t>(w.size(1)), out = static_cast<std::size_t>(w.size(0));
  std::vector<double> result;
  for (std::size_t row = 0; row < xs.size() / in; ++row) {
    for (std::size_t o = 0; o < out; ++o) {
      double sum = b.defined() ? b.to_vector<double>()[o] : 0;
      for (std::size_t i = 0; i < in; ++i) sum += xs[row * in + i] * ws[o * in + i];
      result.push_back(sum);
    }
  }
  return result;
}

TEST(Linear, ComputesTheAffineMapOverTheLastDim) {
  Generator generator(3);
  for (const bool bias : {true, false}) {
    Linear layer(5, 4, {.bias = bias, .dtype = DType::f64, .generator = &generator});
    for (const Shape& shape : {Shape{5}, Shape{3, 5}, Shape{2, 3, 5}, Shape{0, 5}}) {
      const Tensor x = randn(shape, {.dtype = DType::f64}, generator);
      const Tensor y = layer.forward(x);
      Shape expected_shape = shape;
      expected_shape.back() = 4;
      EXPECT_EQ(y.shape(), expected_shape);
      const auto expected = product(x, layer.weight, layer.bias);
      const auto got = y.to_vector<double>();
      ASSERT_EQ(got.size(), expected.size());
      // 5 products and a bias of size below 6: at most 6 roundings of sums below 36, each 2^-53 relative.
      for (std::size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], expected[i], 2 * 6 * 36 * 0x1p-53);
    }
  }
}

TEST(Linear, GivesGradientsToWeightAndBias) {
  Linear layer(2, 3);
  const Tensor x = tensor({2, 2}, {1, 2, 3, 5});
  sum(layer.forward(x)).backward();
  EXPECT_EQ(values(layer.weight->grad()), (std::vector<float>{4, 7, 4, 7, 4, 7}));
  EXPECT_EQ(values(layer.bias->grad()), (std::vector<float>{2, 2, 2}));
}

TEST(Linear, BeginsUniformWithWeightDrawnFirst) {
  Generator generator(11), oracle(11);
  const Linear layer(7, 5, {.generator = &generator});
  const double bound = 1 / std::sqrt(7.0);
  EXPECT_EQ(values(layer.weight), values(uniform(-bound, bound, {5, 7}, {}, oracle)));
  EXPECT_EQ(values(layer.bias), values(uniform(-bound, bound, {5}, {}, oracle)));
  for (const float value : values(layer.weight)) EXPECT_LE(std::abs(value), bound);
}

TEST(Linear, DrawsFromTheDefaultGeneratorUnlessGivenOne) {
  manual_seed(5);
  const Linear first(3, 3);
  manual_seed(5);
  Linear second(3, 3);
  EXPECT_EQ(values(first.weight), values(second.weight));
  second.reset_parameters();
  EXPECT_NE(values(first.weight), values(second.weight));
}

TEST(Linear, HasOptions) {
  const Linear layer(2, 3, {.bias = false, .dtype = DType::bf16});
  EXPECT_FALSE(layer.bias.defined());
  EXPECT_EQ(layer.weight->dtype(), DType::bf16);
  EXPECT_EQ(layer.num_parameters(), 6);
  EXPECT_EQ(to_string(layer), "Linear(in_features=2, out_features=3, bias=false)");
  EXPECT_EQ(to_string(Linear(4, 1)), "Linear(in_features=4, out_features=1, bias=true)");
  EXPECT_EQ(names(Linear(4, 1).state_dict()), (std::vector<std::string>{"weight", "bias"}));
}

TEST(Linear, RefusesSizesBelowOne) {
  EXPECT_TRUE(contains(message_of<ValueError>([] { Linear(0, 3); }), "in_features of at least 1, got 0"));
  EXPECT_TRUE(contains(message_of<ValueError>([] { Linear(3, -1); }), "out_features of at least 1, got -1"));
}

TEST(Linear, NamesItsPathWhenAShapeDoesNotFit) {
  Sequential net(make<Linear>(4, 3), make<Sequential>(make<Linear>(5, 2)));
  const std::string message = message_of<ShapeError>([&] { (void)net.forward(zeros({2, 4})); });
  EXPECT_TRUE(contains(message, "Linear '1.0': expected a last dim of 5 (in_features), got [2, 3]"));
  Linear alone(4, 3);
  EXPECT_TRUE(contains(message_of<ShapeError>([&] { (void)alone.forward(zeros({})); }), "Linear: expected"));
}

TEST(Linear, ClonesWithoutDrawing) {
  const Linear layer(3, 2);
  const GeneratorState before = default_generator().state();
  const auto copy = clone(layer);
  EXPECT_EQ(default_generator().state(), before);
  EXPECT_EQ(values(copy->weight), values(layer.weight));
  EXPECT_EQ(copy->in_features(), 3);
}

}  // namespace

}  // namespace mezzo::nn
