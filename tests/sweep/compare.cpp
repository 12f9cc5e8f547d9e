// Comparisons on the host: bits as stored bytes in row-major order, values in f64 against an allowed
// error. The first element that differs is reported.
#include "sweep/compare.h"

#include <cmath>
#include <cstdio>
#include <cstring>

#include "mezzo/autograd/grad_mode.h"
#include "support/gpu.h"

namespace mezzo::sweep {

namespace {

std::string text_of(double value) {
  char buffer[40];
  std::snprintf(buffer, sizeof buffer, "%.17g", value);
  return buffer;
}

std::string at(const std::string& what, std::size_t i) { return what + "[" + std::to_string(i) + "]"; }

double largest(const Tensor& x) {
  double result = 0;
  if (!x.defined() || !is_floating(x.dtype())) return result;
  for (const double value : numbers(x)) {
    if (std::isfinite(value)) result = std::max(result, std::abs(value));
  }
  return result;
}

/// The stored bytes in row-major order.
std::vector<std::byte> bytes_of(const Tensor& x) {
  const NoGrad no_grad;
  const Tensor row_major = x.detach().contiguous().to(Device::cpu());
  const auto size = static_cast<std::size_t>(x.numel() * size_of(x.dtype()));
  std::vector<std::byte> bytes(size);
  if (size != 0) std::memcpy(bytes.data(), row_major.impl().data(), size);
  return bytes;
}

}  // namespace

std::vector<double> numbers(const Tensor& x) { return x.to_vector<double>(); }

Difference bits_differ(const std::string& what, const Tensor& got, const Tensor& want) {
  if (!got.defined() && !want.defined()) return std::nullopt;
  if (!got.defined() || !want.defined())
    return what + ": " + (got.defined() ? "a tensor" : "none") + ", want " +
           (want.defined() ? "a tensor" : "none");
  if (got.dtype() != want.dtype())
    return what + ": dtype " + to_string(got.dtype()) + ", want " + to_string(want.dtype());
  if (got.shape() != want.shape())
    return what + ": shape " + to_string(got.shape()) + ", want " + to_string(want.shape());
  const std::vector<std::byte> a = bytes_of(got), b = bytes_of(want);
  const auto size = static_cast<std::size_t>(size_of(got.dtype()));
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (a[i] == b[i]) continue;
    return at(what, i / size) + ": " + text_of(numbers(got)[i / size]) + ", want the bits of " +
           text_of(numbers(want)[i / size]);
  }
  return std::nullopt;
}

Difference bits_differ(const Result& got, const Result& want) {
  if (got.outputs.size() != want.outputs.size()) return std::string("number of outputs");
  for (std::size_t i = 0; i < got.outputs.size(); ++i) {
    if (auto found = bits_differ("output " + std::to_string(i), got.outputs[i], want.outputs[i]))
      return found;
  }
  for (std::size_t i = 0; i < got.gradients.size(); ++i) {
    if (auto found = bits_differ("gradient " + std::to_string(i), got.gradients[i], want.gradients[i]))
      return found;
  }
  return std::nullopt;
}

Difference differs(const std::string& what, const Tensor& got, const Tensor& want, const Accuracy& accuracy,
                   int ways) {
  if (!got.defined() && !want.defined()) return std::nullopt;
  const Tensor& known = got.defined() ? got : want;
  if (got.defined() && want.defined() && got.shape() != want.shape())
    return what + ": shape " + to_string(got.shape()) + ", want " + to_string(want.shape());
  if (got.defined() && want.defined() && is_floating(got.dtype()) != is_floating(want.dtype()))
    return what + ": dtype " + to_string(got.dtype()) + ", want one like " + to_string(want.dtype());
  const std::vector<double> zeros(static_cast<std::size_t>(known.numel()), 0.0);
  const std::vector<double> a = got.defined() ? numbers(got) : zeros,
                            b = want.defined() ? numbers(want) : zeros;
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (std::isnan(a[i]) && std::isnan(b[i])) continue;
    if (a[i] == b[i]) continue;
    const double allowed = is_floating(known.dtype()) ? ways * allowed_error(accuracy, b[i]) : 0;
    if (std::abs(a[i] - b[i]) <= allowed) continue;
    return at(what, i) + ": " + text_of(a[i]) + ", want " + text_of(b[i]) + " within " + text_of(allowed);
  }
  return std::nullopt;
}

bool is_view(const Tensors& inputs, const Tensors& outputs) {
  for (const Tensor& x : inputs) {
    if (!x.defined()) continue;
    for (const Tensor& y : outputs) {
      if (y.defined() && x.impl().storage == y.impl().storage) return true;
    }
  }
  return false;
}

double magnitude_of(const Tensors& tensors) {
  double result = 1;
  for (const Tensor& x : tensors) result = std::max(result, largest(x));
  return result;
}

double magnitude_of_products(const Tensors& tensors) {
  double result = 1;
  for (const Tensor& x : tensors) result *= std::max(1.0, largest(x));
  return result;
}

Difference ways_differ(const OpInfo& info, const Result& got, const Result& want, const Tensors& inputs,
                       bool two_devices) {
  double terms = 1;
  for (const Tensor& x : inputs) terms = std::max(terms, x.defined() ? static_cast<double>(x.numel()) : 1.0);
  const Exactness exactness = exactness_of(info, is_view(inputs, want.outputs));
  const bool cuts =
      two_devices && std::count(kCutsProducts.begin(), kCutsProducts.end(), info.name.value) > 0;
  const double cut = cuts ? kCutProducts * test::float8_cut(Device::cuda()) : 0;
  for (const Tensors Result::*list : {&Result::outputs, &Result::gradients}) {
    const bool gradient = list == &Result::gradients;
    const double size = std::max(magnitude_of_products(inputs), magnitude_of(want.*list));
    if ((got.*list).size() != (want.*list).size()) return "another number of results";
    for (std::size_t i = 0; i < (want.*list).size(); ++i) {
      const Tensor& w = (want.*list)[i];
      if (!w.defined() && !(got.*list)[i].defined()) continue;
      const Accuracy accuracy{
          exactness,
          w.defined() ? w.dtype() : DType::f32,
          size,
          terms,
          gradient || (two_devices && info.name.value == kRoundsFactors),
          two_devices && (info.name.value == kRoundsWeights || info.name.value.starts_with(kRoundsProducts)),
          cut};
      const std::string what = (gradient ? "gradient " : "output ") + std::to_string(i);
      // The allowance of gradients is wide enough for both.
      if (auto found = differs(what, (got.*list)[i], w, accuracy, gradient ? 1 : 2)) return found;
    }
  }
  return std::nullopt;
}

}  // namespace mezzo::sweep
