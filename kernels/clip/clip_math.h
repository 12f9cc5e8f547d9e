// The arithmetic of gradient clipping, for every device: functors on one element in the compute type, and
// which reducer a norm is.
#pragma once

#include <limits>

#include "mezzo/core/host_device.h"
#include "mezzo/kernels/reduce/reducers.h"
#include "mezzo/kernels/view.h"

namespace mezzo::kernels {

/// A reducer of elements whose map is made in their own type and carried on in f64, so that tensors of all
/// dtypes have one sum.
template <class R>
struct InF64 {
  R reducer;
  template <class T>
  using Acc = double;
  static constexpr bool kShifted = false;
  static constexpr int kLanes = 32;
  template <class T = double>
  MEZZO_HD MEZZO_ALWAYS_INLINE double identity() const {
    return reducer.template identity<double>();
  }
  template <class T>
  MEZZO_HD MEZZO_ALWAYS_INLINE double map(T x) const {
    return static_cast<double>(reducer.map(x));
  }
  MEZZO_HD MEZZO_ALWAYS_INLINE double combine(double a, double b) const { return reducer.combine(a, b); }
};

/// Calls f(reducer, what the reduced value ends in) for the p-norm, p not 0.
template <class F>
void with_norm(double p, const F& f) {
  if (p == std::numeric_limits<double>::infinity())
    f(InF64<Extremum<false, Magnitude>>{}, kKeepSum);
  else if (p == -std::numeric_limits<double>::infinity())
    f(InF64<Extremum<true, Magnitude>>{}, kKeepSum);
  else if (p == 1)
    f(InF64<Sum<Magnitude>>{}, kKeepSum);
  else if (p == 2)
    f(InF64<Sum<WideSquare>>{}, root_of_sum(2));
  else
    f(InF64<Sum<WidePower>>{{{p}}}, root_of_sum(p));
}

/// min(1, max_norm / (total + 1e-6)) in the dtype of `total`; NaN for a total that is.
struct NormFactor {
  const void* total;
  bool wide;  ///< f64, else f32
  double max_norm;

  [[nodiscard]] MEZZO_HD double operator()() const {
    if (wide) return of(*static_cast<const double*>(total));
    return static_cast<double>(of(*static_cast<const float*>(total)));
  }

 private:
  template <class T>
  [[nodiscard]] MEZZO_HD T of(T norm) const {
    const T factor = static_cast<T>(max_norm) / (norm + static_cast<T>(1e-6));
    return factor > T(1) ? T(1) : factor;
  }
};

/// The change to each element: `change` is made on the device, once per thread.
struct ScaleToNorm {
  NormFactor factor;
  struct Change {
    double factor;
    [[nodiscard]] MEZZO_HD bool changes() const { return factor != 1; }
    template <class T>
    MEZZO_HD MEZZO_ALWAYS_INLINE T operator()(T x) const {
      return x * static_cast<T>(factor);
    }
  };
  [[nodiscard]] MEZZO_HD Change change() const { return {factor()}; }
};
struct LimitValues {
  double limit;
  [[nodiscard]] MEZZO_HD bool changes() const { return true; }
  [[nodiscard]] MEZZO_HD LimitValues change() const { return *this; }
  template <class T>
  MEZZO_HD MEZZO_ALWAYS_INLINE T operator()(T x) const {
    const T high = static_cast<T>(limit);
    const T capped = x > high ? high : x;
    return capped < -high ? -high : capped;
  }
};

}  // namespace mezzo::kernels
