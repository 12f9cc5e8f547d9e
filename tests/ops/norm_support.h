// What the tests of normalizations share: the formula and its gradients in double, for any way to group
// elements.
#pragma once

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
    }
  }
  NormFormula& uncentered() {
    centered_ = false;
    return *this;
  }

  [[nodiscard]] Doubles forward(const Tensor& x, const Tensor& weight, const Tensor& bias) const {
    Doubles y = normalized(list(x));
    const Doubles w = parameter(weight, 1), b = parameter(bias, 0);
    for (std::size_t i = 0; i < y.size(); ++i) y[i] = y[i] * w[channel_[i]] + b[channel_[i]];
    return y;
  }

  /// The gradients of x, weight and bias.
  [[nodiscard]] std::vector<Doubles> backward(const Tensor& grad, const Tensor& x,
                                              const Tensor& weight) const {
    const Doubles g = list(grad), values = list(x), w = parameter(weight, 1), z = normalized(values);
    const Doubles scale = rstd(values);
    Doubles mean(rows()), dot(rows()), dx(values.size()), dw(channels()), db(channels());
    const Doubles n = counts();
    for (std::size_t i = 0; i < values.size(); ++i) {
      mean[row_[i]] += g[i] * w[channel_[i]] / n[row_[i]];
      dot[row_[i]] += g[i] * w[channel_[i]] * z[i] / n[row_[i]];
      dw[channel_[i]] += g[i] * z[i];
      db[channel_[i]] += g[i];
    }
    for (std::size_t i = 0; i < values.size(); ++i) {
      const double rest = g[i] * w[channel_[i]] - (centered_ ? mean[row_[i]] : 0) - z[i] * dot[row_[i]];
      dx[i] = scale[row_[i]] * rest;
    }
    return {dx, dw, db};
  }

  [[nodiscard]] std::size_t row_of(std::size_t i) const { return row_[i]; }
  [[nodiscard]] std::size_t channel_of(std::size_t i) const { return channel_[i]; }
  [[nodiscard]] std::size_t rows() const { return limit(row_); }
  [[nodiscard]] std::size_t channels() const { return limit(channel_); }
  /// Per channel.
  [[nodiscard]] Doubles parameter(const Tensor& given, double otherwise) const {
    return given.defined() ? list(given) : Doubles(channels(), otherwise);
  }
  /// Per row: elements, and 1 / sqrt(variance + eps).
  [[nodiscard]] Doubles counts() const {
    Doubles n(rows());
    for (const std::size_t r : row_) ++n[r];
    return n;
  }
  [[nodiscard]] Doubles rstd(const Doubles& x) const {
    const Doubles mean = means(x), n = counts();
    Doubles result(rows());
    for (std::size_t i = 0; i < x.size(); ++i)
      result[row_[i]] += (x[i] - mean[row_[i]]) * (x[i] - mean[row_[i]]);
    for (std::size_t r = 0; r < result.size(); ++r) result[r] = 1 / std::sqrt(result[r] / n[r] + eps_);
    return result;
  }
  /// Per element, before weight and bias.
  [[nodiscard]] Doubles normalized(const Doubles& x) const {
    const Doubles mean = means(x), scale = rstd(x);
    Doubles z(x.size());
    for (std::size_t i = 0; i < x.size(); ++i) z[i] = (x[i] - mean[row_[i]]) * scale[row_[i]];
    return z;
  }
  [[nodiscard]] bool centered() const { return centered_; }

 private:
  [[nodiscard]] static std::size_t limit(const std::vector<std::size_t>& ids) {
    return ids.empty() ? 0 : *std::max_element(ids.begin(), ids.end()) + 1;
  }
  [[nodiscard]] Doubles means(const Doubles& x) const {
    Doubles mean(rows());
    const Doubles n = counts();
    for (std::size_t i = 0; centered_ && i < x.size(); ++i) mean[row_[i]] += x[i];
    for (std::size_t r = 0; r < mean.size(); ++r) mean[r] /= n[r];
    return mean;
  }

  double eps_;
  bool centered_ = true;
  std::vector<std::size_t> row_, channel_;
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
