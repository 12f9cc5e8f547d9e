// Arrays for the tests of convolutions, with guard bytes around them, and the oracle: the three maps of
// kernels/conv/conv.h as plain loops in double over the stored values, with the sums of absolute values that
// the error bounds need.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <random>
#include <vector>

#include "mezzo/core/dtype.h"
#include "mezzo/kernels/conv/conv.h"

namespace mezzo::kernels::test {

/// A dense array of five dims: images, channels-last or not, or a weight.
class ConvArray {
 public:
  ConvArray(DType dtype, const Shape& shape, bool channels_last = false)
      : dtype_(dtype), shape_(shape), bytes_(2 * kGuard, kPattern) {
    const std::int64_t places = shape[2] * shape[3] * shape[4], c = channels_last ? shape[1] : 1;
    strides_ = {shape[1] * places, channels_last ? 1 : places, shape[3] * shape[4] * c, shape[4] * c, c};
    bytes_.resize(bytes_.size() + static_cast<std::size_t>(size() * size_of(dtype)), kPattern);
  }

  [[nodiscard]] std::int64_t size() const { return layout::numel(shape_); }
  [[nodiscard]] View view() { return {bytes_.data() + kGuard, dtype_, shape_, strides_}; }
  [[nodiscard]] const Shape& shape() const { return shape_; }
  [[nodiscard]] const std::vector<std::uint8_t>& bytes() const { return bytes_; }
  [[nodiscard]] bool guards_intact() const {
    const auto is_pattern = [](std::uint8_t byte) { return byte == kPattern; };
    return std::all_of(bytes_.begin(), bytes_.begin() + kGuard, is_pattern) &&
           std::all_of(bytes_.end() - kGuard, bytes_.end(), is_pattern);
  }

  /// Where an element stands, in memory and in values().
  [[nodiscard]] std::int64_t offset(std::int64_t a, std::int64_t b, const Windows::Sizes& at) const {
    return a * strides_[0] + b * strides_[1] + at[0] * strides_[2] + at[1] * strides_[3] +
           at[2] * strides_[4];
  }
  /// All elements, in the order of memory.
  [[nodiscard]] std::vector<double> values() const {
    std::vector<double> result(static_cast<std::size_t>(size()));
    dispatch(dtype_, [&]<class T>(TypeTag<T>) {
      for (std::size_t i = 0; i < result.size(); ++i) {
        T x;
        std::memcpy(&x, bytes_.data() + kGuard + i * sizeof x, sizeof x);
        result[i] = static_cast<double>(x);
      }
    });
    return result;
  }
  void set(std::int64_t offset, double value) {
    dispatch(dtype_, [&]<class T>(TypeTag<T>) {
      const T x = static_cast<T>(value);
      std::memcpy(bytes_.data() + kGuard + offset * size_of(dtype_), &x, sizeof x);
    });
  }
  void randomize(unsigned seed) {
    std::mt19937 generator(seed);
    std::uniform_real_distribution<double> number(-1, 1);
    for (std::int64_t i = 0; i < size(); ++i) set(i, number(generator));
  }
  void fill(double value) {
    for (std::int64_t i = 0; i < size(); ++i) set(i, value);
  }

 private:
  static constexpr std::ptrdiff_t kGuard = 64;
  static constexpr std::uint8_t kPattern = 0xA5;
  DType dtype_;
  Shape shape_;
  Dims strides_;
  std::vector<std::uint8_t> bytes_;
};

/// Results in the order of memory.
struct PlainSums {
  std::vector<double> sums, magnitudes;
  std::int64_t most_terms = 0;  ///< of any sum
};

template <class F>
void for_places(const Windows::Sizes& sizes, const F& f) {
  Windows::Sizes i{};
  for (i[0] = 0; i[0] < sizes[0]; ++i[0])
    for (i[1] = 0; i[1] < sizes[1]; ++i[1])
      for (i[2] = 0; i[2] < sizes[2]; ++i[2]) f(i);
}

/// f(x's offset, y's, the weight's) of every product.
template <class F>
void for_products(const ConvShape& s, const ConvArray& x, const ConvArray& y, const ConvArray& w,
                  const F& f) {
  const std::int64_t outputs = s.out_channels / s.groups, inputs = s.in_channels / s.groups;
  for (std::int64_t n = 0; n < s.batch; ++n) {
    for (std::int64_t o = 0; o < s.out_channels; ++o) {
      for (std::int64_t c = 0; c < inputs; ++c) {
        for_places(s.windows.output, [&](const Windows::Sizes& t) {
          for_places(s.windows.kernel, [&](const Windows::Sizes& k) {
            Windows::Sizes p{};
            for (std::size_t d = 0; d < Windows::kDims; ++d) {
              p[d] = t[d] * s.windows.stride[d] - s.windows.padding[d] + k[d] * s.windows.dilation[d];
              if (p[d] < 0 || p[d] >= s.windows.input[d]) return;
            }
            f(x.offset(n, o / outputs * inputs + c, p), y.offset(n, o, t), w.offset(o, c, k));
          });
        });
      }
    }
  }
}

/// The map that computes `to` (0: x, 1: y, 2: the weight) from the other two.
inline PlainSums naive_conv(const ConvShape& shape, const ConvArray& x, const ConvArray& y,
                            const ConvArray& weight, int to) {
  const std::vector<double> values[3] = {x.values(), y.values(), weight.values()};
  const std::size_t size = values[to].size();
  PlainSums result{std::vector<double>(size), std::vector<double>(size)};
  std::vector<std::int64_t> terms(size);
  for_products(shape, x, y, weight, [&](std::int64_t i, std::int64_t o, std::int64_t k) {
    const std::size_t at[3] = {static_cast<std::size_t>(i), static_cast<std::size_t>(o),
                               static_cast<std::size_t>(k)};
    double product = 1;
    for (int part = 0; part < 3; ++part)
      if (part != to) product *= values[part][at[part]];
    result.sums[at[to]] += product;
    result.magnitudes[at[to]] += std::abs(product);
    ++terms[at[to]];
  });
  for (const std::int64_t count : terms) result.most_terms = std::max(result.most_terms, count);
  return result;
}

}  // namespace mezzo::kernels::test
