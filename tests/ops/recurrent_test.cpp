// Recurrent cells: values by hand, the formulas in plain ops at sizes that large products and several threads
// take, one sample, dtypes of gradients, and what is refused.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "mezzo/amp/autocast.h"
#include "mezzo/autograd/registry.h"
#include "mezzo/tests/ops/recurrent_cells.h"

namespace mezzo {
namespace {

using namespace test::recurrent;

double sigmoid_of(double x) { return 1 / (1 + std::exp(-x)); }

// PyTorch's documented formulas.
Tensor naive_rnn(const Cell& cell) { return tanh(cell.of_x(0) + cell.of_h(0)); }
Tensor naive_gru(const Cell& cell) {
  const Tensor r = sigmoid(cell.of_x(0) + cell.of_h(0)), z = sigmoid(cell.of_x(1) + cell.of_h(1));
  const Tensor n = tanh(cell.of_x(2) + r * cell.of_h(2));
  return (1 - z) * n + z * cell.h;
}
LstmState naive_lstm(const Cell& cell) {
  const auto sum = [&](std::int64_t k) { return cell.of_x(k) + cell.of_h(k); };
  const Tensor c = sigmoid(sum(1)) * cell.c + sigmoid(sum(0)) * tanh(sum(2));
  return {sigmoid(sum(3)) * tanh(c), c};
}

// --- values

TEST(RecurrentCells, OfOneElementAreTheFormulasByHand) {
  const auto one = [](double value) { return tensor({value}, {1, 1}, {.dtype = DType::f64}); };
  const auto column = [](std::vector<double> rows) {
    const auto n = static_cast<std::int64_t>(rows.size());
    return tensor(rows, {n, 1}, {.dtype = DType::f64});
  };
  const Tensor x = one(0.5), h = one(-0.25), c = one(2);
  EXPECT_NEAR(rnn_tanh_cell(x, h, one(2), one(3)).item(), std::tanh(1 - 0.75), 1e-15);
  EXPECT_EQ(rnn_relu_cell(x, h, one(2), one(3)).item(), 0.25);
  EXPECT_EQ(rnn_relu_cell(x, h, one(2), one(5)).item(), 0);

  const Tensor w = column({1, 2, 3}), u = column({4, 5, 6});
  const double r = sigmoid_of(0.5 - 1), z = sigmoid_of(1 - 1.25), n = std::tanh(1.5 - 1.5 * r);
  EXPECT_NEAR(gru_cell(x, h, w, u).item(), (1 - z) * n - 0.25 * z, 1e-15);

  const LstmState next = lstm_cell(x, {h, c}, column({1, 2, 3, 4}), column({4, 3, 2, 1}));
  const double new_c = sigmoid_of(1 - 0.75) * 2 + sigmoid_of(0.5 - 1) * std::tanh(1.5 - 0.5);
  EXPECT_NEAR(next.c.item(), new_c, 1e-15);
  EXPECT_NEAR(next.h.item(), sigmoid_of(2 - 0.25) * std::tanh(new_c), 1e-15);
}

TEST(RecurrentCells, AreTheirFormulasInPlainOps) {
  // Rows of several pieces, the last one not full, and more of them than a thread takes at once.
  expect_same(
      Cell(1, 37, 5, 300), [](const Cell& a) { return std::vector{rnn(a)}; },
      [](const Cell& a) { return std::vector{naive_rnn(a)}; });
  expect_same(
      Cell(3, 37, 5, 300), [](const Cell& a) { return std::vector{gru(a)}; },
      [](const Cell& a) { return std::vector{naive_gru(a)}; });
  const auto both = [](const LstmState& state) { return std::vector{state.h, state.c}; };
  expect_same(
      Cell(4, 37, 5, 300), [&](const Cell& a) { return both(lstm(a)); },
      [&](const Cell& a) { return both(naive_lstm(a)); });
  // The gradient of c' alone: that of h' is none.
  expect_same(
      Cell(4, 2, 3, 4), [](const Cell& a) { return std::vector{lstm(a).c}; },
      [](const Cell& a) { return std::vector{naive_lstm(a).c}; });
}

TEST(RecurrentCells, HaveTheSameBitsOnEveryNumberOfThreads) {
  expect_same_bits_on_threads(Cell(4, 64, 20, 270, DType::f32), [](const Cell& a) {
    return std::vector{lstm(a).h, gru(Cell(3, 64, 20, 270))};
  });
}

TEST(RecurrentCells, TakeOneBiasWithoutTheOther) {
  Cell cell(3, 2, 3, 4);
  cell.b_hh = zeros({12}, {.dtype = DType::f64});
  const Tensor want = gru(cell);
  cell.b_hh = Tensor();
  EXPECT_EQ(list(gru(cell)), list(want));
}

TEST(RecurrentCells, TakeOneSample) {
  const Cell batch(4, 1, 3, 5), simple(1, 1, 3, 5), gated(3, 1, 3, 5);
  const auto sample = [](Cell cell) {
    for (Tensor* tensor : {&cell.x, &cell.h, &cell.c}) *tensor = squeeze(*tensor, 0);
    return cell;
  };
  EXPECT_EQ(rnn(sample(simple)).shape(), Shape({5}));
  EXPECT_EQ(list(rnn(sample(simple))), list(rnn(simple)));
  EXPECT_EQ(list(gru(sample(gated))), list(gru(gated)));
  EXPECT_EQ(list(lstm(sample(batch)).h), list(lstm(batch).h));
  EXPECT_EQ(list(lstm(sample(batch)).c), list(lstm(batch).c));
  EXPECT_EQ(lstm(sample(batch)).c.shape(), Shape({5}));
}

TEST(RecurrentCells, TakeSizesOfZero) {
  EXPECT_EQ(rnn(Cell(1, 0, 3, 4)).shape(), Shape({0, 4}));
  EXPECT_EQ(lstm(Cell(4, 2, 3, 0)).c.shape(), Shape({2, 0}));
  Cell cell(3, 2, 0, 4);  // no features: the biases and the state's product are left
  expect_near(gru(cell), naive_gru(cell), 1e-15);
  const Tensor none = gradients_of(Cell(3, 0, 2, 4), [](const Cell& a) { return std::vector{gru(a)}; })[3];
  EXPECT_EQ(list(none), std::vector<double>(24, 0.0));
}

// --- dtypes

TEST(RecurrentCells, RoundSixteenBitSumsOnlyAfterTheNonlinearities) {
  for (const DType dtype : {DType::f16, DType::bf16}) {
    const Cell cell(4, 8, 20, 16, dtype);
    Cell wide = cell;
    for (Tensor* tensor : wide.all()) *tensor = tensor->to(DType::f32);
    const LstmState got = lstm(cell), want = lstm(wide);
    EXPECT_EQ(got.h.dtype(), dtype);
    EXPECT_EQ(list(got.h), list(want.h.to(dtype)));
    EXPECT_EQ(list(got.c), list(want.c.to(dtype)));
  }
}

TEST(RecurrentCells, GiveWeightsUnderAutocastTheirGradientsUnrounded) {
  Cell cell(4, 8, 20, 16, DType::f32);
  cell.make_leaves();
  LstmState next;
  {
    const amp::Autocast region(Device::cpu(), DType::bf16);
    next = lstm(cell);
  }
  EXPECT_EQ(next.h.dtype(), DType::bf16);
  sum(next.h.to(DType::f32)).backward();
  for (Tensor* tensor : cell.all()) {
    EXPECT_EQ(tensor->grad().dtype(), DType::f32);
    EXPECT_NE(list(tensor->grad()), list(tensor->grad().to(DType::bf16))) << to_string(tensor->shape());
  }
}

TEST(RecurrentCells, BackwardGivesTheGradientOfTheStateUnrounded) {
  const Tensor gates = values(1, {3, 8}, DType::f16), state = values(2, {3, 2}, DType::f16);
  const Tensor w_lstm = values(3, {8, 2}, DType::f16), w_gru = values(3, {6, 2}, DType::f16);
  const Outputs of_lstm =
      call_op("lstm_sequence_backward", {state, state, Tensor(), gates, state, state, w_lstm});
  const Outputs of_gru = call_op("gru_sequence_backward", {state, Tensor(), gates, state, state, w_gru});
  for (const Outputs* found : {&of_lstm, &of_gru}) {
    EXPECT_EQ((*found)[0].dtype(), DType::f16);
    EXPECT_EQ(found->back().dtype(), DType::f32);
  }
  // One step is a sequence of one.
  const auto one = [](const Tensor& x) { return unsqueeze(x, 0); };
  const Outputs sequence = call_op("lstm_sequence_backward",
                                   {one(state), one(state), Tensor(), one(gates), one(state), state, w_lstm});
  EXPECT_EQ(list(sequence[0]), list(one(of_lstm[0])));
  EXPECT_EQ(list(sequence[1]), list(of_lstm[1]));
  EXPECT_EQ(list(sequence[2]), list(of_lstm[2]));
}

// --- refusals

TEST(RecurrentCells, RefuseSizesThatDoNotFit) {
  using Change = std::function<void(Cell&)>;
  const std::vector<std::pair<Change, std::string>> changes{
      {[](Cell& a) {
         a.x = zeros({2, 4});
       },
       "w_ih [16, 4], got [16, 3]"},
      {[](Cell& a) { a.x = zeros({3}); }, "x [N, I], got [3]"},
      {[](Cell& a) {
         a.h = zeros({3, 4});
       },
       "h [2, 4], got [3, 4]"},
      {[](Cell& a) {
         a.h = zeros({2, 5});
       },
       "w_ih [20, 3], got [16, 3]"},
      {[](Cell& a) {
         a.h = zeros({2, 4, 1});
       },
       "h [N, H], got [2, 4, 1]"},
      {[](Cell& a) {
         a.c = zeros({1, 4});
       },
       "c [2, 4], got [1, 4]"},
      {[](Cell& a) {
         a.w_ih = zeros({12, 3});
       },
       "w_ih [16, 3], got [12, 3]"},
      {[](Cell& a) {
         a.w_hh = zeros({16, 3});
       },
       "w_hh [16, 4], got [16, 3]"},
      {[](Cell& a) { a.b_ih = zeros({4}); }, "b_ih [16], got [4]"},
      {[](Cell& a) {
         a.b_hh = zeros({16, 1});
       },
       "b_hh [16], got [16, 1]"},
  };
  for (const auto& [change, text] : changes) {
    Cell cell(4, 2, 3, 4, DType::f32);
    change(cell);
    const std::string message = refusal([&] { (void)lstm(cell); });
    EXPECT_NE(message.find("lstm_cell: expected " + text + "; "), message.npos) << message << " for " << text;
  }
}

TEST(RecurrentCells, RefuseIntegersAndMixedDtypes) {
  Cell cell(3, 2, 3, 4, DType::f32);
  for (Tensor* part : {&cell.x, &cell.h, &cell.w_ih, &cell.w_hh, &cell.b_ih, &cell.b_hh}) {
    const Tensor kept = *part;
    for (const DType other : {DType::f64, DType::f16, DType::i64}) {
      *part = kept.to(other);
      EXPECT_THROW((void)gru(cell), DTypeError);
    }
    *part = kept;
  }
  for (Tensor* part : cell.all()) *part = part->to(DType::i32);
  EXPECT_THROW((void)gru(cell), DTypeError);
  EXPECT_THROW((void)rnn(Cell(1, 2, 3, 4, DType::i64)), DTypeError);
}

}  // namespace
}  // namespace mezzo
