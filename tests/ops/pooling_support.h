// Poolings and columns written down plainly: one loop over all places of all windows, in f64, which knows
// nothing of layouts. The tests of poolings, fold and unfold compare with it.
#pragma once

#include <array>
#include <cmath>
#include <functional>
#include <limits>
#include <vector>

#include "mezzo/core/layout.h"
#include "mezzo/core/tensor.h"

namespace mezzo::test {

using Sizes3 = std::array<std::int64_t, 3>;

/// The spatial sizes of a shape behind two dims, missing ones in front as 1.
inline Sizes3 spatial3(const Shape& shape) {
  Sizes3 sizes{1, 1, 1};
  for (std::size_t d = 2; d < shape.size(); ++d) sizes[3 - shape.size() + d] = shape[d];
  return sizes;
}
inline std::int64_t volume(const Sizes3& sizes) { return sizes[0] * sizes[1] * sizes[2]; }

/// The positions that window o covers along dim d, in order, those outside of the input too.
using Positions = std::function<std::vector<std::int64_t>(std::size_t d, std::int64_t o)>;

/// Positions of windows at even distances.
struct PlainWindows {
  Sizes3 kernel{1, 1, 1}, stride{1, 1, 1}, padding{0, 0, 0}, dilation{1, 1, 1};
  std::vector<std::int64_t> operator()(std::size_t d, std::int64_t o) const {
    std::vector<std::int64_t> result;
    for (std::int64_t k = 0; k < kernel[d]; ++k)
      result.push_back(o * stride[d] - padding[d] + k * dilation[d]);
    return result;
  }
};
/// Those of adaptive ones.
struct PlainShares {
  Sizes3 input, output;
  std::vector<std::int64_t> operator()(std::size_t d, std::int64_t o) const {
    const auto in = static_cast<double>(input[d]), out = static_cast<double>(output[d]);
    std::vector<std::int64_t> result;
    for (auto i = static_cast<std::int64_t>(std::floor(static_cast<double>(o) * in / out));
         static_cast<double>(i) < std::ceil(static_cast<double>(o + 1) * in / out); ++i)
      result.push_back(i);
    return result;
  }
};

/// Calls f(window, place) for all places of windows that lie in an input, windows and places numbered in
/// row-major order.
inline void each_place(const Sizes3& input, const Sizes3& output, const Positions& positions,
                       const std::function<void(std::size_t window, std::size_t place)>& f) {
  const auto inside = [&](std::size_t d, std::int64_t i) { return i >= 0 && i < input[d]; };
  std::size_t window = 0;
  for (std::int64_t a = 0; a < output[0]; ++a) {
    for (std::int64_t b = 0; b < output[1]; ++b) {
      for (std::int64_t c = 0; c < output[2]; ++c, ++window) {
        for (const std::int64_t d : positions(0, a)) {
          for (const std::int64_t h : positions(1, b)) {
            for (const std::int64_t w : positions(2, c)) {
              if (!inside(0, d) || !inside(1, h) || !inside(2, w)) continue;
              f(window, static_cast<std::size_t>((d * input[1] + h) * input[2] + w));
            }
          }
        }
      }
    }
  }
}

struct PlainPooled {
  std::vector<double> values, indices, gradient;
};

/// The largest of each window over all images of x [N, C, spatial...], their places, and the gradient that
/// `grad` gives.
inline PlainPooled naive_max(const Tensor& x, const Tensor& grad, const Positions& positions) {
  const Sizes3 input = spatial3(x.shape()), output = spatial3(grad.shape());
  const std::vector<double> in = x.to_vector<double>(), g = grad.to_vector<double>();
  PlainPooled result{std::vector<double>(g.size(), -std::numeric_limits<double>::infinity()),
                     std::vector<double>(g.size(), -1), std::vector<double>(in.size(), 0)};
  const auto places = static_cast<std::size_t>(volume(input)),
             windows = static_cast<std::size_t>(volume(output));
  for (std::size_t image = 0; image * places < in.size(); ++image) {
    each_place(input, output, positions, [&](std::size_t window, std::size_t place) {
      const double value = in[image * places + place];
      double& best = result.values[image * windows + window];
      double& at = result.indices[image * windows + window];
      if (at >= 0 && !(value > best) && !std::isnan(value)) return;
      best = value;
      at = static_cast<double>(place);
    });
    for (std::size_t o = image * windows; o < (image + 1) * windows; ++o)
      result.gradient[image * places + static_cast<std::size_t>(result.indices[o])] += g[o];
  }
  return result;
}

/// The mean of each window, its sum divided by divisors[window], and the gradient that `grad` gives.
inline PlainPooled naive_mean(const Tensor& x, const Tensor& grad, const Positions& positions,
                              const std::vector<double>& divisors) {
  const Sizes3 input = spatial3(x.shape()), output = spatial3(grad.shape());
  const std::vector<double> in = x.to_vector<double>(), g = grad.to_vector<double>();
  PlainPooled result{std::vector<double>(g.size(), 0), {}, std::vector<double>(in.size(), 0)};
  const auto places = static_cast<std::size_t>(volume(input)),
             windows = static_cast<std::size_t>(volume(output));
  for (std::size_t image = 0; image * places < in.size(); ++image) {
    each_place(input, output, positions, [&](std::size_t window, std::size_t place) {
      const std::size_t o = image * windows + window, i = image * places + place;
      result.values[o] += in[i];
      result.gradient[i] += g[o] / divisors[window];
    });
    for (std::size_t window = 0; window < windows; ++window)
      result.values[image * windows + window] /= divisors[window];
  }
  return result;
}

/// How many places of each window lie in the input.
inline std::vector<double> places_inside(const Sizes3& input, const Sizes3& output,
                                         const Positions& positions) {
  std::vector<double> counts(static_cast<std::size_t>(volume(output)), 0);
  each_place(input, output, positions, [&](std::size_t window, std::size_t /*place*/) { ++counts[window]; });
  return counts;
}

}  // namespace mezzo::test
