// The formula of the normalizations in plain loops.
#include "mezzo/tests/ops/norm_support.h"

#include <cmath>

namespace mezzo::test {

Doubles NormFormula::forward(const Tensor& x, const Tensor& weight, const Tensor& bias) const {
  Doubles y = normalized(list(x));
  const Doubles w = parameter(weight, 1), b = parameter(bias, 0);
  for (std::size_t i = 0; i < y.size(); ++i) y[i] = y[i] * w[channel_[i]] + b[channel_[i]];
  return y;
}

std::vector<Doubles> NormFormula::backward(const Tensor& grad, const Tensor& x, const Tensor& weight) const {
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

Doubles NormFormula::parameter(const Tensor& given, double otherwise) const {
  return given.defined() ? list(given) : Doubles(channels(), otherwise);
}
Doubles NormFormula::counts() const {
  Doubles n(rows());
  for (const std::size_t r : row_) ++n[r];
  return n;
}
Doubles NormFormula::rstd(const Doubles& x) const {
  const Doubles mean = means(x), n = counts();
  Doubles result(rows());
  for (std::size_t i = 0; i < x.size(); ++i)
    result[row_[i]] += (x[i] - mean[row_[i]]) * (x[i] - mean[row_[i]]);
  for (std::size_t r = 0; r < result.size(); ++r) result[r] = 1 / std::sqrt(result[r] / n[r] + eps_);
  return result;
}
Doubles NormFormula::normalized(const Doubles& x) const {
  const Doubles mean = means(x), scale = rstd(x);
  Doubles z(x.size());
  for (std::size_t i = 0; i < x.size(); ++i) z[i] = (x[i] - mean[row_[i]]) * scale[row_[i]];
  return z;
}
Doubles NormFormula::means(const Doubles& x) const {
  Doubles mean(rows());
  const Doubles n = counts();
  for (std::size_t i = 0; centered_ && i < x.size(); ++i) mean[row_[i]] += x[i];
  for (std::size_t r = 0; r < mean.size(); ++r) mean[r] /= n[r];
  return mean;
}

}  // namespace mezzo::test
