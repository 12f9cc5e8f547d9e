// What the tests of normalizations share: the formula and its gradients in double, for any way to group
// elements.
#pragma once

#include <algorithm>

#include "mezzo/ops/factory.h"
#include "mezzo/ops/norm.h"
#include "mezzo/ops/shape.h"
#include "mezzo/tests/ops/loss_support.h"

namespace mezzo::test {

/// y = (x - mean) * rstd * weight + bias, where element i is normalized with all of its row and has the
/// parameters of its channel.
class NormFormula {
 public:
  template <class RowOf, class ChannelOf>
  NormFormula(std::int64_t count, double eps, const RowOf& row_of, const ChannelOf& channel_of) : eps_(eps) {
    for (std::int64_t i = 0; i < count; ++i) {
      row_.push_back(static_cast<std::size_t>(row_of(i)));
      channel_.push_back(static_cast<std::size_t>(channel_of(i)));
      rows_ = std::max(rows_, row_.back() + 1);
      channels_ = std::max(channels_, channel_.back() + 1);
    }
  }
  NormFormula& uncentered() {
    centered_ = false;
    return *this;
  }

  [[nodiscard]] Doubles forward(const Tensor& x, const Tensor& weight, const Tensor& bias) const;
  /// The gradients of x, weight and bias.
  [[nodiscard]] std::vector<Doubles> backward(const Tensor& grad, const Tensor& x,
                                              const Tensor& weight) const;

  [[nodiscard]] std::size_t row_of(std::size_t i) const { return row_[i]; }
  [[nodiscard]] std::size_t channel_of(std::size_t i) const { return channel_[i]; }
  [[nodiscard]] std::size_t rows() const { return rows_; }
  [[nodiscard]] std::size_t channels() const { return channels_; }
  /// Per channel.
  [[nodiscard]] Doubles parameter(const Tensor& given, double otherwise) const;
  /// Per row: elements, and 1 / sqrt(variance + eps).
  [[nodiscard]] Doubles counts() const;
  [[nodiscard]] Doubles rstd(const Doubles& x) const;
  /// Per element, before weight and bias.
  [[nodiscard]] Doubles normalized(const Doubles& x) const;
  [[nodiscard]] bool centered() const { return centered_; }

 private:
  [[nodiscard]] Doubles means(const Doubles& x) const;

  double eps_;
  bool centered_ = true;
  std::vector<std::size_t> row_, channel_;
  std::size_t rows_ = 0, channels_ = 0;
};

/// Result and gradients of f at leaves, for an upstream gradient `g`; absent inputs stay absent.
struct Evaluated {
  Tensor y;
  Tensors gradients;
};
inline Evaluated evaluate(const Function& f, const Tensors& inputs, const Tensor& g) {
  Tensors at, leaves;
  for (const Tensor& input : inputs) {
    at.push_back(input.defined() ? input.detach().requires_grad_() : Tensor());
    if (input.defined()) leaves.push_back(at[at.size() - 1]);
  }
  const Tensor y = f(at);
  return {y.detach(), grad({&y, 1}, leaves, {&g, 1})};
}
inline bool same_bits(const Evaluated& a, const Evaluated& b) {
  bool same = same_bits(a.y, b.y);
  for (std::size_t i = 0; i < a.gradients.size(); ++i)
    same = same && same_bits(a.gradients[i], b.gradients[i]);
  return same;
}

}  // namespace mezzo::test
