// PLACEHOLDER: direct loops in double, element by element.
#include "mezzo/kernels/cpu/conv.h"

#include <vector>

namespace mezzo::kernels::cpu {
namespace {

double load(const View& view, std::int64_t offset) {
  double value = 0;
  dispatch(view.dtype, [&]<class T>(TypeTag<T>) {
    value = static_cast<double>(static_cast<const T*>(view.data)[offset]);
  });
  return value;
}
void store(const View& view, std::int64_t offset, double value) {
  dispatch(view.dtype, [&]<class T>(TypeTag<T>) {
    if constexpr (sizeof(T) == 2)
      static_cast<T*>(view.data)[offset] = T(static_cast<float>(value));
    else
      static_cast<T*>(view.data)[offset] = static_cast<T>(value);
  });
}
std::int64_t at(const View& v, std::int64_t a, std::int64_t b, const Windows::Sizes& s) {
  return a * v.strides[0] + b * v.strides[1] + s[0] * v.strides[2] + s[1] * v.strides[3] +
         s[2] * v.strides[4];
}
template <class F>
void over(const Windows::Sizes& sizes, const F& f) {
  Windows::Sizes i{};
  for (i[0] = 0; i[0] < sizes[0]; ++i[0])
    for (i[1] = 0; i[1] < sizes[1]; ++i[1])
      for (i[2] = 0; i[2] < sizes[2]; ++i[2]) f(i);
}
/// f(x offset, y offset, w offset) of all products.
template <class F>
void terms(const ConvShape& s, const View& x, const View& y, const View& w, const F& f) {
  const std::int64_t co = s.out_channels / s.groups, ci = s.in_channels / s.groups;
  for (std::int64_t n = 0; n < s.batch; ++n)
    for (std::int64_t o = 0; o < s.out_channels; ++o)
      for (std::int64_t c = 0; c < ci; ++c)
        over(s.windows.output, [&](const Windows::Sizes& t) {
          over(s.windows.kernel, [&](const Windows::Sizes& k) {
            Windows::Sizes p{};
            for (std::size_t d = 0; d < 3; ++d) {
              p[d] = s.windows.position(d, t[d], k[d]);
              if (!s.windows.inside(d, p[d])) return;
            }
            f(at(x, n, o / co * ci + c, p), at(y, n, o, t), at(w, o, c, k));
          });
        });
}
std::int64_t count(const View& v) { return layout::numel(v.shape); }

/// All views are dense, so sums are kept by offset.
void finish(const View& out, const std::vector<double>& sums, const void* bias) {
  const View b{const_cast<void*>(bias), out.dtype, {}, {}};
  for (std::int64_t n = 0; n < out.shape[0]; ++n)
    for (std::int64_t c = 0; c < out.shape[1]; ++c)
      over({out.shape[2], out.shape[3], out.shape[4]}, [&](const Windows::Sizes& i) {
        const std::int64_t offset = at(out, n, c, i);
        store(out, offset, sums[static_cast<std::size_t>(offset)] + (bias != nullptr ? load(b, c) : 0));
      });
}

}  // namespace

void conv_forward(const ConvShape& shape, const View& y, const View& x, const View& weight,
                  const void* bias) {
  std::vector<double> sums(static_cast<std::size_t>(count(y)));
  terms(shape, x, y, weight, [&](std::int64_t i, std::int64_t o, std::int64_t k) {
    sums[static_cast<std::size_t>(o)] += load(x, i) * load(weight, k);
  });
  finish(y, sums, bias);
}

void conv_input_gradient(const ConvShape& shape, const View& x, const View& y, const View& weight,
                         const void* bias) {
  std::vector<double> sums(static_cast<std::size_t>(count(x)));
  terms(shape, x, y, weight, [&](std::int64_t i, std::int64_t o, std::int64_t k) {
    sums[static_cast<std::size_t>(i)] += load(y, o) * load(weight, k);
  });
  finish(x, sums, bias);
}

void conv_weight_gradient(const ConvShape& shape, const View& weight, const View& x, const View& y,
                          void* bias) {
  std::vector<double> sums(static_cast<std::size_t>(count(weight)));
  terms(shape, x, y, weight, [&](std::int64_t i, std::int64_t o, std::int64_t k) {
    sums[static_cast<std::size_t>(k)] += load(y, o) * load(x, i);
  });
  finish(weight, sums, nullptr);
  if (bias == nullptr) return;
  std::vector<double> totals(static_cast<std::size_t>(shape.out_channels));
  for (std::int64_t n = 0; n < shape.batch; ++n)
    for (std::int64_t o = 0; o < shape.out_channels; ++o)
      over(shape.windows.output,
           [&](const Windows::Sizes& t) { totals[static_cast<std::size_t>(o)] += load(y, at(y, n, o, t)); });
  for (std::int64_t o = 0; o < shape.out_channels; ++o)
    store({bias, weight.dtype, {}, {}}, o, totals[static_cast<std::size_t>(o)]);
}

}  // namespace mezzo::kernels::cpu
