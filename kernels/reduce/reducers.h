// Reducers: the functors that a reduction accumulates with, on the compute type T, written once for all
// devices. Apart from the loops so that an op names a reducer and never sees a loop.
//
// A reducer has: Acc<T>, the accumulator; identity<T>(); map(x...) from elements to Acc<T>; combine(a, b),
// called in a fixed order; finish(a, n), the value to store for n elements. `kShifted` reducers map (x,
// shift) with one f64 number per output.
#pragma once

#include <cstdint>
#include <limits>
#include <type_traits>

#include "mezzo/core/host_device.h"
#include "mezzo/kernels/math/math.h"

namespace mezzo::kernels {

/// The type that numbers of a compute type are added up in: f64, or i64 for integers.
template <class T>
using Wide = std::conditional_t<std::is_integral_v<T>, std::int64_t, double>;

// --- maps

struct SameValue {
  template <class T>
  MEZZO_HD T operator()(T x) const {
    return x;
  }
};
struct Magnitude {
  template <class T>
  MEZZO_HD T operator()(T x) const {
    return x < T(0) ? -x : x;
  }
};
/// 1 for every value but 0.
struct NonZero {
  template <class T>
  MEZZO_HD T operator()(T x) const {
    return x != T(0) ? T(1) : T(0);
  }
};
/// x * x in the accumulator's type, where no f32 overflows.
struct WideSquare {
  template <class T>
  MEZZO_HD Wide<T> operator()(T x) const {
    return Wide<T>(x) * Wide<T>(x);
  }
};
/// |x|^p in f64.
struct WidePower {
  double p;
  template <class T>
  MEZZO_HD double operator()(T x) const {
    const double magnitude = x < T(0) ? -double(x) : double(x);
    return math::pow(magnitude, p);
  }
};

// --- last steps

/// The last step of a sum over n values. A value and not a type: sums that differ in nothing else share their
/// loops.
struct LastStep {
  enum class Kind : std::uint8_t {
    keep_sum,
    divide_by_count,
    divide_by_value,
    root,
    any_counted,
    all_counted
  };
  Kind kind = Kind::keep_sum;
  double p = 2;                   ///< of a root
  const double* value = nullptr;  ///< on the device where the sum is made
  /// For integers only what makes sense of them: no root.
  template <class A>
  MEZZO_HD A operator()(A sum, std::int64_t n) const {
    switch (kind) {
      case Kind::keep_sum:
        break;
      case Kind::divide_by_count:
        return sum / static_cast<A>(n);
      case Kind::divide_by_value:
        return sum / static_cast<A>(*value);
      case Kind::root:
        if constexpr (!std::is_integral_v<A>) return p == 2 ? math::sqrt(sum) : math::pow(sum, 1.0 / p);
        break;
      case Kind::any_counted:
        return sum > A(0) ? A(1) : A(0);
      case Kind::all_counted:
        return sum == static_cast<A>(n) ? A(1) : A(0);
    }
    return sum;
  }
};
inline constexpr LastStep kKeepSum{};
/// The mean; NaN over nothing.
inline constexpr LastStep kDivideByCount{LastStep::Kind::divide_by_count};
[[nodiscard]] constexpr LastStep divide_by(const double* value) {
  return {LastStep::Kind::divide_by_value, 2, value};
}
/// Whether any (all) of n values counted.
inline constexpr LastStep kAnyCounted{LastStep::Kind::any_counted};
inline constexpr LastStep kAllCounted{LastStep::Kind::all_counted};
[[nodiscard]] constexpr LastStep root_of_sum(double p) { return {LastStep::Kind::root, p}; }
/// Sum of squared deviations to variance (0/0 where n does not exceed the correction), or to its root.
struct Deviation {
  std::int64_t correction;
  bool root;
  template <class A>
  MEZZO_HD A operator()(A sum, std::int64_t n) const {
    const A variance = sum / static_cast<A>(n > correction ? n - correction : 0);
    return root ? math::sqrt(variance) : variance;
  }
};

// --- reducers

/// last(sum of Map(x...), n).
template <class Map = SameValue>
struct Sum {
  Map mapping = {};
  LastStep last = {};
  template <class T>
  using Acc = Wide<T>;
  static constexpr bool kShifted = false;
  static constexpr int kLanes = 32;
  template <class T>
  MEZZO_HD Acc<T> identity() const {
    return 0;
  }
  template <class T, class... Rest>
  MEZZO_HD Acc<T> map(T x, Rest... rest) const {
    return static_cast<Acc<T>>(mapping(x, rest...));
  }
  MEZZO_HD double combine(double a, double b) const { return a + b; }
  /// Modulo 2^64.
  MEZZO_HD std::int64_t combine(std::int64_t a, std::int64_t b) const {
    return static_cast<std::int64_t>(static_cast<std::uint64_t>(a) + static_cast<std::uint64_t>(b));
  }
  template <class A>
  MEZZO_HD A finish(A sum, std::int64_t n) const {
    return last(sum, n);
  }
};

/// The product, in f64 or modulo 2^64.
struct Product {
  template <class T>
  using Acc = Wide<T>;
  static constexpr bool kShifted = false;
  static constexpr int kLanes = 32;
  template <class T>
  MEZZO_HD Acc<T> identity() const {
    return 1;
  }
  template <class T>
  MEZZO_HD Acc<T> map(T x) const {
    return static_cast<Acc<T>>(x);
  }
  MEZZO_HD double combine(double a, double b) const { return a * b; }
  MEZZO_HD std::int64_t combine(std::int64_t a, std::int64_t b) const {
    return static_cast<std::int64_t>(static_cast<std::uint64_t>(a) * static_cast<std::uint64_t>(b));
  }
  template <class A>
  MEZZO_HD A finish(A product, std::int64_t /*n*/) const {
    return product;
  }
};

/// end(sum of (x - shift)^2, n).
struct SumOfSquaredDeviations : Sum<> {
  Deviation end;
  constexpr explicit SumOfSquaredDeviations(Deviation to) : end(to) {}
  static constexpr bool kShifted = true;
  template <class T>
  MEZZO_HD double map(T x, double shift) const {
    const double deviation = static_cast<double>(x) - shift;
    return deviation * deviation;
  }
  template <class A>
  MEZZO_HD A finish(A sum, std::int64_t n) const {
    return end(sum, n);
  }
};

/// Whether a is ahead of b: larger (or smaller, for Least), and NaN ahead of every number.
template <bool Least>
struct Ahead {
  template <class T>
  MEZZO_HD bool operator()(T a, T b) const {
    const bool further = Least ? a < b : a > b;
    return further || (a != a && b == b);
  }
};

/// The largest (or least) Map(x); NaN when there is one.
template <bool Least, class Map = SameValue>
struct Extremum {
  Map mapping = {};
  template <class T>
  using Acc = T;
  static constexpr bool kShifted = false;
  static constexpr int kLanes = 64;
  template <class T>
  MEZZO_HD T identity() const {
    using Limits = std::numeric_limits<T>;
    if constexpr (Limits::has_infinity)
      return Least ? Limits::infinity() : -Limits::infinity();
    else
      return Least ? Limits::max() : Limits::min();
  }
  template <class T>
  MEZZO_HD T map(T x) const {
    return mapping(x);
  }
  template <class T>
  MEZZO_HD T combine(T a, T b) const {
    const bool further = Least ? b < a : b > a;
    const bool better = further | (b != b);  // not ||: both sides are masks in a vector loop
    return better ? b : a;
  }
  template <class T>
  MEZZO_HD T finish(T a, std::int64_t /*n*/) const {
    return a;
  }
};

}  // namespace mezzo::kernels
