// What the tests of recurrent cells and sequences share: a cell's tensors with made values, the three cells,
// and comparisons of two functions of a cell with all their gradients.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <string>
#include <vector>

#include "mezzo/autograd/engine.h"
#include "mezzo/core/error.h"
#include "mezzo/core/random.h"
#include "mezzo/core/threads.h"
#include "mezzo/ops/ops.h"
#include "mezzo/tests/support/thread_guard.h"

namespace mezzo::test::recurrent {

inline Tensor values(std::uint64_t seed, const Shape& shape, DType dtype = DType::f64) {
  Generator generator(seed);
  return uniform(-1, 1, shape, {.dtype = DType::f64}, generator).to(dtype);
}
inline std::vector<double> list(const Tensor& x) { return x.detach().to_vector<double>(); }

inline void expect_near(const Tensor& got, const Tensor& want, double allowed) {
  ASSERT_EQ(got.shape(), want.shape());
  const std::vector<double> a = list(got), b = list(want);
  for (std::size_t i = 0; i < a.size(); ++i) EXPECT_NEAR(a[i], b[i], allowed) << "at " << i;
}

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

  /// Those that are there.
  [[nodiscard]] std::vector<Tensor*> all() {
    std::vector<Tensor*> result{&x, &h, &c, &w_ih, &w_hh, &b_ih, &b_hh};
    std::erase_if(result, [](const Tensor* tensor) { return !tensor->defined(); });
    return result;
  }
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

inline Tensor rnn(const Cell& a) { return rnn_tanh_cell(a.x, a.h, a.w_ih, a.w_hh, a.b_ih, a.b_hh); }
inline Tensor gru(const Cell& a) { return gru_cell(a.x, a.h, a.w_ih, a.w_hh, a.b_ih, a.b_hh); }
inline LstmState lstm(const Cell& a) { return lstm_cell(a.x, {a.h, a.c}, a.w_ih, a.w_hh, a.b_ih, a.b_hh); }

/// Gradients of sum(weights * results) by all tensors of the cell.
inline std::vector<Tensor> gradients_of(Cell cell,
                                        const std::function<std::vector<Tensor>(const Cell&)>& function) {
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
/// The largest element, at least 1: states of relu grow from step to step.
inline double size_of_largest(const Tensor& x) {
  return x.numel() == 0 ? 1 : std::max(1.0, amax(abs(x.detach())).item<double>());
}
inline void expect_same(const Cell& cell, const Function& got, const Function& want) {
  const std::vector<Tensor> a = got(cell), b = want(cell);
  for (std::size_t i = 0; i < a.size(); ++i) expect_near(a[i], b[i], 1e-12 * size_of_largest(b[i]));
  const std::vector<Tensor> da = gradients_of(cell, got), db = gradients_of(cell, want);
  for (std::size_t i = 0; i < da.size(); ++i) {
    ASSERT_EQ(da[i].defined(), db[i].defined()) << "gradient " << i;
    if (da[i].defined()) expect_near(da[i], db[i], 1e-11 * size_of_largest(db[i]));
  }
}

inline void expect_same_bits_on_threads(const Cell& cell, const Function& function) {
  const ThreadGuard threads(1);
  const std::vector<Tensor> one = gradients_of(cell, function);
  set_num_threads(3);
  const std::vector<Tensor> three = gradients_of(cell, function);
  ASSERT_EQ(one.size(), three.size());
  for (std::size_t i = 0; i < one.size(); ++i) EXPECT_EQ(list(one[i]), list(three[i]));
}

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

}  // namespace mezzo::test::recurrent
