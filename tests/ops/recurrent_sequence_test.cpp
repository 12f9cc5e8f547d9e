// Cells over whole sequences, each one op, against loops of cells: values, gradients, dtypes, and what is
// refused.
#include <gtest/gtest.h>

#include <array>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "mezzo/amp/autocast.h"
#include "mezzo/autograd/registry.h"
#include "mezzo/tests/ops/recurrent_cells.h"

namespace mezzo {
namespace {

using namespace test::recurrent;

/// Output and final states with cell.x [L, N, I], by the op or by cells.
using Sequence = std::function<std::vector<Tensor>(const Cell&, bool reverse)>;

std::vector<Tensor> lstm_by_op(const Cell& a, bool reverse) {
  const LstmSequence found = lstm_sequence(a.x, {a.h, a.c}, a.w_ih, a.w_hh, a.b_ih, a.b_hh, reverse);
  return {found.output, found.state.h, found.state.c};
}
/// The same of cells whose state is h alone.
template <auto op>
std::vector<Tensor> by_op(const Cell& a, bool reverse) {
  const Tensor output = op(a.x, a.h, a.w_ih, a.w_hh, a.b_ih, a.b_hh, reverse);
  return {output, select(output, 0, reverse ? 0 : output.size(0) - 1)};
}
/// Calls step(cell), which moves the cell's states on, for each step of cell.x; returns h of all steps.
template <class Step>
Tensor by_cells(Cell& cell, bool reverse, const Step& step) {
  const Tensor x = cell.x;
  const std::int64_t length = x.size(0);
  std::vector<Tensor> steps(static_cast<std::size_t>(length));
  for (std::int64_t k = 0; k < length; ++k) {
    const std::int64_t t = reverse ? length - 1 - k : k;
    cell.x = select(x, 0, t);
    step(cell);
    steps[static_cast<std::size_t>(t)] = cell.h;
  }
  return stack(steps);
}
std::vector<Tensor> lstm_by_cells(const Cell& a, bool reverse) {
  Cell cell = a;
  const Tensor output = by_cells(cell, reverse, [](Cell& at) {
    const LstmState next = lstm(at);
    at.h = next.h, at.c = next.c;
  });
  return {output, cell.h, cell.c};
}
template <auto op>
std::vector<Tensor> by_cells_of(const Cell& a, bool reverse) {
  Cell cell = a;
  const Tensor output =
      by_cells(cell, reverse, [](Cell& at) { at.h = op(at.x, at.h, at.w_ih, at.w_hh, at.b_ih, at.b_hh); });
  return {output, cell.h};
}

struct Kind {
  std::string name;
  std::int64_t gates;
  Sequence by_op, by_cells;
  [[nodiscard]] Cell inputs(std::int64_t length, std::int64_t n, std::int64_t features, std::int64_t hidden,
                            DType dtype = DType::f64) const {
    Cell cell(gates, n, features, hidden, dtype);
    cell.x = values(1, {length, n, features}, dtype);
    if (name != "lstm") cell.c = Tensor();
    return cell;
  }
};

class RecurrentSequence : public ::testing::TestWithParam<Kind> {};
INSTANTIATE_TEST_SUITE_P(
    Kinds, RecurrentSequence,
    ::testing::Values(Kind{"lstm", 4, lstm_by_op, lstm_by_cells},
                      Kind{"gru", 3, by_op<gru_sequence>, by_cells_of<gru_cell>},
                      Kind{"rnn_tanh", 1, by_op<rnn_tanh_sequence>, by_cells_of<rnn_tanh_cell>},
                      Kind{"rnn_relu", 1, by_op<rnn_relu_sequence>, by_cells_of<rnn_relu_cell>}),
    [](const auto& kind) { return kind.param.name; });

TEST_P(RecurrentSequence, IsALoopOfCells) {
  const Kind& kind = GetParam();
  for (const bool reverse : {false, true}) {
    const Function got = [&](const Cell& a) { return kind.by_op(a, reverse); };
    const Function want = [&](const Cell& a) { return kind.by_cells(a, reverse); };
    // 37 samples of 300 features are more than a thread and a piece of a row take at once.
    for (const auto& [length, n, hidden] : {std::array{5, 37, 300}, {1, 3, 4}, {4, 0, 3}})
      expect_same(kind.inputs(length, n, 6, hidden), got, want);
    // The gradient of the last state alone: those of the output are none.
    expect_same(
        kind.inputs(3, 2, 3, 4), [&](const Cell& a) { return std::vector{kind.by_op(a, reverse).back()}; },
        [&](const Cell& a) { return std::vector{kind.by_cells(a, reverse).back()}; });
    // Samples first, and weights that lie by columns.
    Cell strided = kind.inputs(3, 2, 3, 4);
    strided.x = transpose(values(1, {2, 3, 3}), 0, 1);
    strided.w_hh = transpose(values(2, {4, kind.gates * 4}), 0, 1);
    expect_same(strided, got, want);
  }
}

TEST_P(RecurrentSequence, RoundsLikeCellsIn16Bits) {
  for (const DType dtype : {DType::f16, DType::bf16}) {
    // Products this small are the same sums in the same order, however many rows they have.
    const Cell cell = GetParam().inputs(6, 3, 5, 4, dtype);
    const std::vector<Tensor> got = GetParam().by_op(cell, false), want = GetParam().by_cells(cell, false);
    for (std::size_t i = 0; i < got.size(); ++i) {
      EXPECT_EQ(got[i].dtype(), dtype);
      EXPECT_EQ(list(got[i]), list(want[i]));
    }
  }
}

TEST_P(RecurrentSequence, GradientsIn16BitsAreThoseInF64WithinAFewRoundings) {
  for (const auto& [dtype, unit] : {std::pair{DType::f16, 0x1p-11}, {DType::bf16, 0x1p-8}}) {
    Cell low = GetParam().inputs(6, 3, 5, 4, dtype), exact = low;
    for (Tensor* tensor : exact.all()) *tensor = tensor->to(DType::f64);
    for (Cell* cell : {&low, &exact}) {
      cell->make_leaves();
      sum(GetParam().by_op(*cell, false)[0].to(DType::f64)).backward();
    }
    const std::vector<Tensor*> got = low.all(), want = exact.all();
    for (std::size_t i = 0; i < got.size(); ++i) {
      const double size = amax(abs(want[i]->grad())).item<double>();
      // A rounding at each of the six steps.
      expect_near(got[i]->grad().to(DType::f64), want[i]->grad(), 6 * unit * size);
    }
  }
}

TEST_P(RecurrentSequence, HasTheSameBitsOnEveryNumberOfThreads) {
  expect_same_bits_on_threads(GetParam().inputs(3, 64, 20, 270, DType::f32),
                              [](const Cell& a) { return GetParam().by_op(a, false); });
}

TEST_P(RecurrentSequence, GivesWeightsUnderAutocastTheirGradientsUnrounded) {
  Cell cell = GetParam().inputs(4, 8, 20, 16, DType::f32);
  cell.make_leaves();
  Tensor output;
  {
    const amp::Autocast region(Device::cpu(), DType::bf16);
    output = GetParam().by_op(cell, false)[0];
  }
  EXPECT_EQ(output.dtype(), DType::bf16);
  sum(output.to(DType::f32)).backward();
  for (Tensor* tensor : cell.all()) {
    EXPECT_EQ(tensor->grad().dtype(), DType::f32);
    EXPECT_NE(list(tensor->grad()), list(tensor->grad().to(DType::bf16))) << to_string(tensor->shape());
  }
}

TEST(LstmSequence, RefusesWhatDoesNotFit) {
  const auto message = [](auto change) {
    Cell cell = Kind{"lstm", 4, {}, {}}.inputs(3, 2, 4, 5);
    change(cell);
    return refusal([&] { (void)lstm_by_op(cell, false); });
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
      {backward(states, c, states, c, w), "gates [3, 2, 20], got [2, 5]"},
      {backward(states, gates, c, c, w), "gates [2, 20], got [3, 2, 20]"},
      {backward(states, gates, f64({5}), c, w),
       "states [N, H], or [L, N, H] with at least one step, got [5]"},
      {backward(states, gates, f64({0, 2, 5}), c, w), "states [N, H], or [L, N, H] with at least one step"},
      {backward(c, gates, states, c, w), "the gradient of h' [3, 2, 5], got [2, 5]"},
      {backward(states, gates, states, states, w), "the first state [2, 5], got [3, 2, 5]"},
      {backward(states, gates, states, c, c), "w_hh [20, 5], got [2, 5]"},
  };
  for (const auto& [got, text] : refusals)
    EXPECT_NE(got.find("lstm_sequence_backward: expected " + text), got.npos) << got;
}

TEST(GruSequence, RefusesWhatDoesNotFit) {
  const auto f64 = [](const Shape& shape) { return zeros(shape, {.dtype = DType::f64}); };
  const Tensor x = f64({3, 2, 4}), h = f64({2, 5}), w_ih = f64({15, 4}), w_hh = f64({15, 5});
  const Tensor gates = f64({3, 2, 20}), output = f64({3, 2, 5});
  const auto forward = [&](const Tensor& steps, const Tensor& state, const Tensor& weight,
                           const Tensor& bias) {
    return refusal([&] { (void)gru_sequence(steps, state, weight, w_hh, bias); });
  };
  const auto backward = [](const Tensor& of_output, const Tensor& gate, const Tensor& states,
                           const Tensor& first, const Tensor& weight) {
    return refusal([&] {
      (void)call_op("gru_sequence_backward", {of_output, Tensor(), gate, states, first, weight});
    });
  };
  EXPECT_EQ(forward(x, h, w_ih, {}), "");
  EXPECT_EQ(backward(output, gates, output, h, w_hh), "");
  const std::string op = "gru_sequence: expected ", back = "gru_sequence_backward: expected ";
  const std::vector<std::pair<std::string, std::string>> refusals{
      {forward(f64({2, 4}), h, w_ih, {}), op + "x [L, N, I] with at least one step, got [2, 4]"},
      {forward(f64({0, 2, 4}), h, w_ih, {}), op + "x [L, N, I] with at least one step, got [0, 2, 4]"},
      {forward(f64({3, 1, 4}), h, w_ih, {}), op + "h [1, 5], got [2, 5]"},
      {forward(x, h, f64({20, 4}), {}), op + "w_ih [15, 4], got [20, 4]"},
      {forward(x, h, w_ih, f64({5})), op + "b_ih [15], got [5]"},
      {forward(x, h.to(DType::f32), w_ih, {}), op + "operands of one dtype"},
      {backward(output, h, output, h, w_hh), back + "gates [3, 2, 20], got [2, 5]"},
      {backward(output, gates, h, h, w_hh), back + "gates [2, 20], got [3, 2, 20]"},
      {backward(h, gates, output, h, w_hh), back + "the gradient of h' [3, 2, 5], got [2, 5]"},
      {backward(output, gates, output, output, w_hh), back + "the first state [2, 5], got [3, 2, 5]"},
      {backward(output, gates, output, h, h), back + "w_hh [15, 5], got [2, 5]"},
  };
  for (const auto& [got, text] : refusals) EXPECT_NE(got.find(text), got.npos) << got << "\nwanted " << text;
}

TEST(RnnSequence, RefusesWhatDoesNotFit) {
  const auto f64 = [](const Shape& shape) { return zeros(shape, {.dtype = DType::f64}); };
  const Tensor x = f64({3, 2, 4}), h = f64({2, 5}), w_ih = f64({5, 4}), w_hh = f64({5, 5});
  const Tensor output = f64({3, 2, 5});
  const auto backward = [](const Tensor& of_output, const Tensor& states, const Tensor& weight) {
    return refusal([&] { (void)call_op("rnn_relu_sequence_backward", {of_output, states, weight}); });
  };
  EXPECT_EQ(refusal([&] { (void)rnn_tanh_sequence(x, h, w_ih, w_hh); }), "");
  EXPECT_EQ(backward(output, output, w_hh), "");
  const std::string back = "rnn_relu_sequence_backward: expected ";
  const std::vector<std::pair<std::string, std::string>> refusals{
      {refusal([&] {
         (void)rnn_tanh_sequence(f64({2, 4}), h, w_ih, w_hh);
       }),
       "rnn_tanh_sequence: expected x [L, N, I] with at least one step, got [2, 4]"},
      {refusal([&] {
         (void)rnn_relu_sequence(x, h, f64({5, 3}), w_hh);
       }),
       "rnn_relu_sequence: expected w_ih [5, 4], got [5, 3]"},
      {backward(output, f64({5}), w_hh),
       back + "states [N, H], or [L, N, H] with at least one step, got [5]"},
      {backward(h, output, w_hh), back + "the gradient of h' [3, 2, 5], got [2, 5]"},
      {backward(output, output, w_ih), back + "w_hh [5, 5], got [5, 4]"},
  };
  for (const auto& [got, text] : refusals) EXPECT_NE(got.find(text), got.npos) << got << "\nwanted " << text;
}

}  // namespace
}  // namespace mezzo
