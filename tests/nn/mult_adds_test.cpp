// Multiplications per op, against counts by hand. A number with "torchinfo" is that of torchinfo 1.8 too.
#include "mezzo/nn/summary/mult_adds.h"

#include <gtest/gtest.h>

#include "mezzo/autograd/bind.h"
#include "mezzo/nn/recurrent.h"
#include "mezzo/ops/ops.h"

namespace mezzo::nn {
namespace {

/// Adds up what runs.
struct Counter final : OpObserver {
  void ran(const OpInfo& info, Inputs inputs, std::optional<DType> /*run_dtype*/,
           const Outputs& outputs) override {
    const std::optional<std::int64_t> count = mult_adds(info, inputs, outputs);
    known = known && count.has_value();
    total += count.value_or(0);
  }
  std::int64_t total = 0;
  bool known = true;
};

template <class F>
std::int64_t count_of(F action) {
  Counter counter;
  const OpObserverGuard guard(&counter);
  static_cast<void>(action());
  EXPECT_TRUE(counter.known);
  return counter.total;
}

Tensor t(const Shape& shape) { return zeros(shape); }

TEST(MultAdds, OfMatrixProductsAreRowsTimesInnerTimesColumns) {
  EXPECT_EQ(count_of([] { return mm(t({2, 3}), t({3, 5})); }), 2 * 3 * 5);
  EXPECT_EQ(count_of([] { return bmm(t({7, 2, 3}), t({7, 3, 5})); }), 7 * 2 * 3 * 5);
  EXPECT_EQ(count_of([] { return mv(t({2, 3}), t({3})); }), 2 * 3);
  EXPECT_EQ(count_of([] { return matmul(t({4, 1, 2, 3}), t({7, 3, 5})); }), 4 * 7 * 2 * 3 * 5);
  EXPECT_EQ(count_of([] { return matmul(t({3}), t({3, 5})); }), 3 * 5);
  EXPECT_EQ(count_of([] { return matmul(t({2, 3}), t({3})); }), 2 * 3);
  EXPECT_EQ(count_of([] { return matmul(t({3}), t({3})); }), 3);
  EXPECT_EQ(count_of([] { return dot(t({6}), t({6})); }), 6);
  EXPECT_EQ(count_of([] { return vdot(t({6}), t({6})); }), 6);
  EXPECT_EQ(count_of([] { return outer(t({2}), t({5})); }), 2 * 5);
}

TEST(MultAdds, OfSumsOfProductsAreThoseOfTheProducts) {
  EXPECT_EQ(count_of([] { return addmm(t({2, 5}), t({2, 3}), t({3, 5})); }), 2 * 3 * 5);
  EXPECT_EQ(count_of([] { return addmv(t({2}), t({2, 3}), t({3})); }), 2 * 3);
  EXPECT_EQ(count_of([] { return addr(t({2, 5}), t({2}), t({5})); }), 2 * 5);
  EXPECT_EQ(count_of([] { return baddbmm(t({7, 2, 5}), t({7, 2, 3}), t({7, 3, 5})); }), 7 * 2 * 3 * 5);
  EXPECT_EQ(count_of([] { return addbmm(t({2, 5}), t({7, 2, 3}), t({7, 3, 5})); }), 7 * 2 * 3 * 5);
}

TEST(MultAdds, OfLinearLeaveTheBiasOut) {
  EXPECT_EQ(count_of([] { return linear(t({16, 3}), t({5, 3})); }), 240) << "torchinfo";
  EXPECT_EQ(count_of([] { return linear(t({2, 8, 3}), t({5, 3}), t({5})); }), 240);
  EXPECT_EQ(count_of([] { return linear(t({3}), t({5, 3}), t({5})); }), 15);
}

TEST(MultAdds, OfTensorProducts) {
  EXPECT_EQ(count_of([] { return tensordot(t({2, 3, 4}), t({4, 5, 3}), {1, 2}, {2, 0}); }), 2 * 12 * 5);
  EXPECT_EQ(count_of([] { return bilinear(t({6, 3}), t({6, 4}), t({5, 3, 4})); }), 6 * 5 * 3 * 4);
}

TEST(MultAdds, OfConvolutionsArePerPlaceOfTheResult) {
  // [2, 8, 9, 8] results, each of 3 channels of 3 x 5.
  EXPECT_EQ(count_of([] {
              return conv2d(t({2, 3, 9, 8}), t({8, 3, 3, 5}), t({8}), {.padding = {1, 2}});
            }),
            2 * 8 * 9 * 8 * 3 * 3 * 5)
      << "51840, torchinfo";
  // Groups: each result sees 6 / 2 channels. Output length (11 - 3) / 2 + 1 = 5.
  EXPECT_EQ(count_of([] {
              return conv1d(t({2, 6, 11}), t({4, 3, 3}), {}, {.stride = 2, .groups = 2});
            }),
            2 * 4 * 5 * 3 * 3)
      << "360, torchinfo";
  EXPECT_EQ(count_of([] { return conv3d(t({1, 4, 4, 4}), t({2, 1, 2, 2, 2})); }), 2 * 27 * 8);
  // Transposed: each of the 2 * 3 * 5 * 4 inputs goes to 8 / 2 channels of 3 x 2.
  EXPECT_EQ(count_of([] {
              return conv_transpose2d(t({2, 4, 5, 4}), t({4, 4, 3, 2}), {}, {.stride = 2, .groups = 2});
            }),
            2 * 4 * 5 * 4 * 4 * 3 * 2);
  EXPECT_EQ(count_of([] { return conv_transpose1d(t({2, 4, 5}), t({4, 3, 3})); }), 2 * 4 * 5 * 3 * 3);
  EXPECT_EQ(count_of([] { return conv_transpose3d(t({4, 5, 2, 2}), t({4, 3, 1, 1, 2})); }), 4 * 20 * 3 * 2);
}

TEST(MultAdds, OfAttentionAreThoseOfItsTwoProducts) {
  // 2 x 3 heads of 5 queries, 7 keys: scores over 4 features, results of 6.
  EXPECT_EQ(count_of([] {
              return scaled_dot_product_attention(t({2, 3, 5, 4}), t({2, 3, 7, 4}), t({2, 3, 7, 6}));
            }),
            2 * 3 * 5 * 7 * (4 + 6));
  EXPECT_EQ(count_of([] {
              return scaled_dot_product_attention(t({2, 3, 5, 4}), t({2, 1, 5, 4}), t({2, 1, 5, 4}),
                                                  {.is_causal = true});
            }),
            2 * 3 * 5 * 5 * (4 + 4))
      << "heads broadcast, what is left out counts";
}

TEST(MultAdds, OfRecurrentCellsAreThoseOfTheirTwoProducts) {
  const Tensor x = t({5, 3}), h = t({5, 4}), one = t({3}), state = t({4});
  EXPECT_EQ(count_of([&] { return rnn_tanh_cell(x, h, t({4, 3}), t({4, 4})); }), 5 * (4 * 3 + 4 * 4));
  EXPECT_EQ(count_of([&] { return rnn_relu_cell(one, state, t({4, 3}), t({4, 4})); }), 4 * 3 + 4 * 4);
  EXPECT_EQ(count_of([&] {
              return gru_cell(x, h, t({12, 3}), t({12, 4}), t({12}), t({12}));
            }),
            5 * (12 * 3 + 12 * 4));
  EXPECT_EQ(count_of([&] { return lstm_cell(x, {h, h}, t({16, 3}), t({16, 4})).h; }), 5 * (16 * 3 + 16 * 4));
}

TEST(MultAdds, OfSequencesAreThoseOfAllSteps) {
  const Tensor x = t({7, 5, 3});
  EXPECT_EQ(count_of([&] { return RNN(3, 4).forward(x).output; }), 35 * (4 * 3 + 4 * 4));
  EXPECT_EQ(count_of([&] { return GRU(3, 4).forward(x).output; }), 35 * (12 * 3 + 12 * 4));
  EXPECT_EQ(count_of([&] { return LSTM(3, 4).forward(x).output; }), 35 * (16 * 3 + 16 * 4));
}

/// Of a backward alone, through all inputs.
std::int64_t count_of_backward(const std::vector<Tensor>& inputs, Tensor (*f)(const std::vector<Tensor>&)) {
  for (const Tensor& input : inputs) Tensor(input).requires_grad_();
  const Tensor y = f(inputs);
  const Tensor gradient = ones_like(y);
  return count_of([&] {
    y.backward(gradient);
    return y;
  });
}

TEST(MultAdds, OfGradientsAreThoseOfEachFactor) {
  using List = const std::vector<Tensor>&;
  EXPECT_EQ(
      count_of_backward({t({16, 3}), t({5, 3}), t({5})}, [](List x) { return linear(x[0], x[1], x[2]); }),
      2 * 16 * 3 * 5);
  EXPECT_EQ(count_of_backward({t({16, 3}), t({3, 5})}, [](List x) { return mm(x[0], x[1]); }),
            2 * 16 * 3 * 5);
  const std::int64_t convolution = 2 * 8 * 9 * 8 * 3 * 3 * 5;
  EXPECT_EQ(count_of_backward({t({2, 3, 9, 8}), t({8, 3, 3, 5})},
                              [](List x) {
                                return conv2d(x[0], x[1], {}, {.padding = {1, 2}});
                              }),
            2 * convolution);
  EXPECT_EQ(
      count_of_backward({t({2, 4, 5, 4}), t({4, 4, 3, 2})},
                        [](List x) { return conv_transpose2d(x[0], x[1], {}, {.stride = 2, .groups = 2}); }),
      2 * 2 * 4 * 5 * 4 * 4 * 3 * 2);
  // Scores of 4 features three times, results of 6 twice.
  EXPECT_EQ(count_of_backward({t({2, 3, 5, 4}), t({2, 3, 7, 4}), t({2, 3, 7, 6})},
                              [](List x) { return scaled_dot_product_attention(x[0], x[1], x[2]); }),
            2 * 3 * 5 * 7 * (3 * 4 + 2 * 6));
}

TEST(MultAdds, OfGradientsOfSequencesAreThoseOfBothFactors) {
  using List = const std::vector<Tensor>&;
  const auto inputs = [](std::int64_t gates) {
    return std::vector<Tensor>{t({5, 7, 3}), t({7, 4}), t({gates * 4, 3}), t({gates * 4, 4})};
  };
  const auto twice = [](std::int64_t gates) { return 2 * 35 * gates * 4 * (3 + 4); };
  EXPECT_EQ(count_of_backward(inputs(1), [](List x) { return rnn_tanh_sequence(x[0], x[1], x[2], x[3]); }),
            twice(1));
  EXPECT_EQ(count_of_backward(inputs(1), [](List x) { return rnn_relu_sequence(x[0], x[1], x[2], x[3]); }),
            twice(1));
  EXPECT_EQ(count_of_backward(inputs(3), [](List x) { return gru_sequence(x[0], x[1], x[2], x[3]); }),
            twice(3));
  const auto lstm = [](List x) { return lstm_sequence(x[0], {x[1], x[1]}, x[2], x[3]).output; };
  EXPECT_EQ(count_of_backward(inputs(4), lstm), twice(4));
}

TEST(MultAdds, OfEverythingElseAreNone) {
  const Tensor x = t({2, 4, 3});
  EXPECT_EQ(count_of([&] { return sum(softmax(relu(x) * x + 2.0, 1)); }), 0);
  EXPECT_EQ(count_of([&] { return layer_norm(x, {3}); }), 0);
}

TEST(MultAdds, OfNothingAreNone) {
  EXPECT_EQ(count_of([] { return mm(t({0, 3}), t({3, 5})); }), 0);
  EXPECT_EQ(count_of([] { return mm(t({2, 0}), t({0, 5})); }), 0);
  EXPECT_EQ(count_of([] { return linear(t({0, 3}), t({5, 3})); }), 0);
  EXPECT_EQ(count_of([] { return tensordot(t({2, 0}), t({0, 3}), {1}, {0}); }), 0);
  EXPECT_EQ(count_of([] { return conv1d(t({0, 2, 5}), t({3, 2, 3})); }), 0);
}

TEST(MultAdds, OfEinsumAndChainsAreUnknown) {
  Counter counter;
  {
    const OpObserverGuard guard(&counter);
    static_cast<void>(einsum("bij,bjk->bik", {t({2, 3, 4}), t({2, 4, 5})}));
  }
  EXPECT_FALSE(counter.known);
  EXPECT_EQ(counter.total, 0);
}

// An op of the program's own that has the name of one of the library's.
Outputs one_forward(const ForwardArgs<NoAttrs>& args) { return args.in(0) * 1.0; }
std::vector<Sample<NoAttrs>> no_samples() { return {}; }
constexpr Op<NoAttrs> namesake_op{
    .info = {.name = "linear", .category = Category::passthrough},
    .samples = no_samples,
    .forward = one_forward,
    .vjp = NotDifferentiable{"a test"},
};

TEST(MultAdds, OfAnotherOpWithAKnownNameAreNone) {
  EXPECT_EQ(count_of([] { return bind(namesake_op, {t({2, 2})}); }), 0);
}

}  // namespace
}  // namespace mezzo::nn
