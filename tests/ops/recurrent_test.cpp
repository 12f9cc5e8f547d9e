// Recurrent cells: values by hand, the formulas in plain ops at sizes that large products and several threads
// take, one sample, dtypes of gradients, and what is refused. lstm_sequence against a loop of lstm_cell.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "mezzo/amp/autocast.h"
#include "mezzo/autograd/engine.h"
#include "mezzo/autograd/registry.h"
#include "mezzo/core/error.h"
#include "mezzo/core/random.h"
#include "mezzo/core/threads.h"
#include "mezzo/ops/ops.h"
#include "mezzo/tests/support/thread_guard.h"

namespace mezzo {
namespace {

Tensor values(std::uint64_t seed, const Shape& shape, DType dtype = DType::f64) {
  Generator generator(seed);
  return uniform(-1, 1, shape, {.dtype = DType::f64}, generator).to(dtype);
}
std::vector<double> list(const Tensor& x) { return x.detach().to_vector<double>(); }

void expect_near(const Tensor& got, const Tensor& want, double allowed) {
  ASSERT_EQ(got.shape(), want.shape());
  const std::vector<double> a = list(got), b = list(want);
  for (std::size_t i = 0; i < a.size(); ++i) EXPECT_NEAR(a[i], b[i], allowed) << "at " << i;
}

double sigmoid_of(double x) { return 1 / (1 + std::exp(-x)); }

/// The tensors of a cell with that many gates.
struct Cell {
  Cell(std::int64_t gates, std::int64_t n, std::int64_t features, std::int64_t hidden,
       DType dtype = DType::f64)
      : x(values(1, {n, features}, dtype)),
        h(values(2, {n, hidden}, dtype)),
        c(values(3, {n, hidden}, dtype)),
        w_ih(values(4, {gates * hidden, features}, dtype)),
        w_hh(values(5, {gates * hidden, hidden}, dtype)),
        b_ih(values(6, {gates * hidden}, dtype)),
        b_hh(values(7, {gates * hidden}, dtype)) {}

  [[nodiscard]] std::vector<Tensor*> all() { return {&x, &h, &c, &w_ih, &w_hh, &b_ih, &b_hh}; }
  void make_leaves() {
    for (Tensor* tensor : all()) tensor->requires_grad_();
  }
  /// Gate k of x w_ih^T + b_ih and of h w_hh^T + b_hh.
  [[nodiscard]] Tensor of_x(std::int64_t k) const { return rows(linear(x, w_ih, b_ih), k); }
  [[nodiscard]] Tensor of_h(std::int64_t k) const { return rows(linear(h, w_hh, b_hh), k); }

  Tensor x, h, c, w_ih, w_hh, b_ih, b_hh;

 private:
  [[nodiscard]] Tensor rows(const Tensor& all, std::int64_t k) const {
    return narrow(all, 1, k * h.size(1), h.size(1));
  }
};

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

Tensor rnn(const Cell& a) { return rnn_tanh_cell(a.x, a.h, a.w_ih, a.w_hh, a.b_ih, a.b_hh); }
Tensor gru(const Cell& a) { return gru_cell(a.x, a.h, a.w_ih, a.w_hh, a.b_ih, a.b_hh); }
LstmState lstm(const Cell& a) { return lstm_cell(a.x, {a.h, a.c}, a.w_ih, a.w_hh, a.b_ih, a.b_hh); }

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

/// Gradients of sum(weights * results) by all tensors of the cell.
std::vector<Tensor> gradients_of(Cell cell, const std::function<std::vector<Tensor>(const Cell&)>& function) {
  cell.make_leaves();
  Tensor total;
  std::uint64_t seed = 100;
  for (const Tensor& result : function(cell)) {
    const Tensor part = sum(result * values(seed++, result.shape(), result.dtype()));
    total = total.defined() ? total + part : part;
  }
  std::vector<Tensor> leaves;
  for (Tensor* tensor : cell.all()) leaves.push_back(*tensor);
  const Tensors found = grad({&total, 1}, leaves, {}, {.allow_unused = true});
  return {found.begin(), found.end()};
}

using Function = std::function<std::vector<Tensor>(const Cell&)>;
void expect_same(const Cell& cell, const Function& got, const Function& want) {
  const std::vector<Tensor> a = got(cell), b = want(cell);
  for (std::size_t i = 0; i < a.size(); ++i) expect_near(a[i], b[i], 1e-12);
  const std::vector<Tensor> da = gradients_of(cell, got), db = gradients_of(cell, want);
  for (std::size_t i = 0; i < da.size(); ++i) {
    ASSERT_EQ(da[i].defined(), db[i].defined()) << "gradient " << i;
    if (da[i].defined()) expect_near(da[i], db[i], 1e-11);
  }
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

void expect_same_bits_on_threads(const Cell& cell, const Function& function) {
  const test::ThreadGuard threads(1);
  const std::vector<Tensor> one = gradients_of(cell, function);
  set_num_threads(3);
  const std::vector<Tensor> three = gradients_of(cell, function);
  ASSERT_EQ(one.size(), three.size());
  for (std::size_t i = 0; i < one.size(); ++i) EXPECT_EQ(list(one[i]), list(three[i]));
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

TEST(RecurrentCells, BackwardGivesTheStateItsDtype) {
  const Tensor gates = values(1, {3, 8}, DType::f16), state = values(2, {3, 2}, DType::f16);
  const Value f64 = Value::Map{{"state_dtype", "f64"}};
  const Outputs of_lstm = call_op("lstm_cell_backward", {state, state, Tensor(), gates, state, state}, f64);
  EXPECT_EQ(of_lstm[0].dtype(), DType::f16);
  EXPECT_EQ(of_lstm[1].dtype(), DType::f64);
  EXPECT_EQ(call_op("gru_cell_backward", {state, Tensor(), gates, state}, f64)[2].dtype(), DType::f64);
}

// --- lstm_sequence

/// Output and final state with cell.x [L, N, I], by the op or by cells.
std::vector<Tensor> sequence(const Cell& a, bool reverse) {
  const LstmSequence found = lstm_sequence(a.x, {a.h, a.c}, a.w_ih, a.w_hh, a.b_ih, a.b_hh, reverse);
  return {found.output, found.state.h, found.state.c};
}
std::vector<Tensor> by_cells(const Cell& a, bool reverse) {
  const std::int64_t length = a.x.size(0);
  std::vector<Tensor> steps(static_cast<std::size_t>(length));
  Cell cell = a;
  for (std::int64_t k = 0; k < length; ++k) {
    const std::int64_t t = reverse ? length - 1 - k : k;
    cell.x = select(a.x, 0, t);
    const LstmState next = lstm(cell);
    cell.h = next.h, cell.c = next.c;
    steps[static_cast<std::size_t>(t)] = next.h;
  }
  return {stack(steps), cell.h, cell.c};
}
Cell sequence_inputs(std::int64_t length, std::int64_t n, std::int64_t features, std::int64_t hidden,
                     DType dtype = DType::f64) {
  Cell cell(4, n, features, hidden, dtype);
  cell.x = values(1, {length, n, features}, dtype);
  return cell;
}

TEST(LstmSequence, IsALoopOfCells) {
  for (const bool reverse : {false, true}) {
    const Function got = [&](const Cell& a) { return sequence(a, reverse); };
    const Function want = [&](const Cell& a) { return by_cells(a, reverse); };
    // 37 samples of 300 features are more than a thread and a piece of a row take at once.
    for (const auto& [length, n, hidden] : {std::array{5, 37, 300}, {1, 3, 4}, {4, 0, 3}})
      expect_same(sequence_inputs(length, n, 6, hidden), got, want);
    // The gradient of the last c alone: those of the output are none.
    expect_same(
        sequence_inputs(3, 2, 3, 4), [&](const Cell& a) { return std::vector{sequence(a, reverse)[2]}; },
        [&](const Cell& a) { return std::vector{by_cells(a, reverse)[2]}; });
    // Samples first, and weights that lie by columns.
    Cell strided = sequence_inputs(3, 2, 3, 4);
    strided.x = transpose(values(1, {2, 3, 3}), 0, 1);
    strided.w_hh = transpose(values(2, {4, 16}), 0, 1);
    expect_same(strided, got, want);
  }
}

TEST(LstmSequence, RoundsLikeCellsIn16Bits) {
  for (const DType dtype : {DType::f16, DType::bf16}) {
    // Products this small are the same sums in the same order, however many rows they have.
    const Cell cell = sequence_inputs(6, 3, 5, 4, dtype);
    const std::vector<Tensor> got = sequence(cell, false), want = by_cells(cell, false);
    for (std::size_t i = 0; i < got.size(); ++i) {
      EXPECT_EQ(got[i].dtype(), dtype);
      EXPECT_EQ(list(got[i]), list(want[i]));
    }
  }
}

TEST(LstmSequence, HasTheSameBitsOnEveryNumberOfThreads) {
  expect_same_bits_on_threads(sequence_inputs(3, 64, 20, 270, DType::f32),
                              [](const Cell& a) { return sequence(a, false); });
}

TEST(LstmSequence, GivesWeightsUnderAutocastTheirGradientsUnrounded) {
  Cell cell = sequence_inputs(4, 8, 20, 16, DType::f32);
  cell.make_leaves();
  Tensor output;
  {
    const amp::Autocast region(Device::cpu(), DType::bf16);
    output = sequence(cell, false)[0];
  }
  EXPECT_EQ(output.dtype(), DType::bf16);
  sum(output.to(DType::f32)).backward();
  for (Tensor* tensor : cell.all()) {
    EXPECT_EQ(tensor->grad().dtype(), DType::f32);
    EXPECT_NE(list(tensor->grad()), list(tensor->grad().to(DType::bf16))) << to_string(tensor->shape());
  }
}

// --- refusals

/// The error that f throws, or "".
template <class F>
std::string refusal(const F& f) {
  try {
    f();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

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

TEST(LstmSequence, RefusesWhatDoesNotFit) {
  const auto message = [](auto change) {
    Cell cell = sequence_inputs(3, 2, 4, 5);
    change(cell);
    return refusal([&] { (void)sequence(cell, false); });
  };
  const auto expect = [](const std::string& got, const std::string& text) {
    EXPECT_NE(got.find("lstm_sequence: expected " + text), got.npos) << got;
  };
  const auto f64 = [](const Shape& shape) { return zeros(shape, {.dtype = DType::f64}); };
  expect(message([&](Cell& a) { a.x = f64({2, 4}); }), "x [L, N, I] with at least one step, got [2, 4]");
  expect(message([&](Cell& a) {
           a.x = f64({0, 2, 4});
         }),
         "x [L, N, I] with at least one step, got [0, 2, 4]");
  expect(message([&](Cell& a) { a.x = f64({3, 1, 4}); }), "h [1, 5], got [2, 5]");
  expect(message([&](Cell& a) { a.x = f64({3, 2, 3}); }), "w_ih [20, 3], got [20, 4]");
  expect(message([&](Cell& a) { a.c = f64({2, 4}); }), "c [2, 5], got [2, 4]");
  expect(message([&](Cell& a) { a.b_ih = f64({5}); }), "b_ih [20], got [5]");
  expect(message([](Cell& a) { a.c = a.c.to(DType::f32); }), "operands of one dtype");
  expect(message([](Cell& a) {
           for (Tensor* tensor : a.all()) *tensor = tensor->to(DType::i64);
         }),
         "a floating tensor");
  // The backward op by itself.
  const Tensor states = f64({3, 2, 5}), gates = f64({3, 2, 20}), c = f64({2, 5}), w = f64({20, 5});
  const auto backward = [](const Tensor& of_h, const Tensor& gate, const Tensor& cells, const Tensor& first,
                           const Tensor& weight) {
    return refusal([&] {
      (void)call_op("lstm_sequence_backward", {of_h, Tensor(), Tensor(), gate, cells, first, weight});
    });
  };
  EXPECT_EQ(backward(states, gates, states, c, w), "");
  const std::vector<std::pair<std::string, std::string>> refusals{
      {backward(states, c, states, c, w), "gates [L, N, 4 H] with at least one step, got [2, 5]"},
      {backward(states, gates, c, c, w), "cells [3, 2, 5], got [2, 5]"},
      {backward(c, gates, states, c, w), "the gradient of the output [3, 2, 5], got [2, 5]"},
      {backward(states, gates, states, states, w), "c [N, H], got [3, 2, 5]"},
      {backward(states, gates, states, c, c), "w_hh [20, 5], got [2, 5]"},
  };
  for (const auto& [got, text] : refusals)
    EXPECT_NE(got.find("lstm_sequence_backward: expected " + text), got.npos) << got;
}

}  // namespace
}  // namespace mezzo
