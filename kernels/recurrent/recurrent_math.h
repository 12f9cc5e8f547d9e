// The scalar math of recurrent cells: what one element of a state costs forward and backward, once for both
// devices. The matrix products are done before it; here are biases, nonlinearities and the mixing of states.
#pragma once

#include <cstddef>

#include "mezzo/kernels/math/activation_math.h"

namespace mezzo::kernels::scalar {

/// The numbers that belong to one element of a state, from as many arrays.
template <class T, std::size_t N>
struct Numbers {
  T at[N];
};

/// h' = act(pre + b_ih + b_hh). Inputs: pre, b_ih, b_hh. Results: h'.
template <class Activation>
struct RnnCellFn {
  static constexpr std::size_t kInputs = 3, kResults = 1;
  template <class T>
  MEZZO_HD MEZZO_ALWAYS_INLINE Numbers<T, kResults> operator()(const Numbers<T, kInputs>& x) const {
    return {{Activation{}(x.at[0] + (x.at[1] + x.at[2]))}};
  }
};

/// Inputs: the sums of both products for the gates i, f, g, o, then b_ih and b_hh for each of them, and c.
/// Results: i, f, g, o, and h' = o tanh(c'), c' = f c + i g.
struct LstmCellFn {
  static constexpr std::size_t kInputs = 13, kResults = 6;
  template <class T>
  MEZZO_HD MEZZO_ALWAYS_INLINE Numbers<T, kResults> operator()(const Numbers<T, kInputs>& x) const {
    const T i = math::sigmoid(x.at[0] + (x.at[4] + x.at[8]));
    const T f = math::sigmoid(x.at[1] + (x.at[5] + x.at[9]));
    const T g = math::tanh(x.at[2] + (x.at[6] + x.at[10]));
    const T o = math::sigmoid(x.at[3] + (x.at[7] + x.at[11]));
    const T c = f * x.at[12] + i * g;
    return {{i, f, g, o, o * math::tanh(c), c}};
  }
};

/// Inputs: the gradients of h', of c' and of the gates i, f, g, o; the gates; c and c'. Results: the
/// gradients of the four sums that went into the gates, and that of c.
struct LstmCellBackwardFn {
  static constexpr std::size_t kInputs = 12, kResults = 5;
  template <class T>
  MEZZO_HD MEZZO_ALWAYS_INLINE Numbers<T, kResults> operator()(const Numbers<T, kInputs>& x) const {
    const T i = x.at[6], f = x.at[7], g = x.at[8], o = x.at[9];
    const T t = math::tanh(x.at[11]);
    const T of_c = x.at[1] + TanhBackwardFn{}(x.at[0] * o, t);
    return {{SigmoidBackwardFn{}(x.at[2] + of_c * g, i), SigmoidBackwardFn{}(x.at[3] + of_c * x.at[10], f),
             TanhBackwardFn{}(x.at[4] + of_c * i, g), SigmoidBackwardFn{}(x.at[5] + x.at[0] * t, o),
             of_c * f}};
  }
};

/// Inputs: the product of x for the gates r, z, n, that of h, b_ih and b_hh for each gate, and h. Results: r,
/// z, n and the part m of n that r scales, and h' = (1 - z) n + z h, where n = tanh(.. + r m).
struct GruCellFn {
  static constexpr std::size_t kInputs = 13, kResults = 5;
  template <class T>
  MEZZO_HD MEZZO_ALWAYS_INLINE Numbers<T, kResults> operator()(const Numbers<T, kInputs>& x) const {
    const T r = math::sigmoid((x.at[0] + x.at[6]) + (x.at[3] + x.at[9]));
    const T z = math::sigmoid((x.at[1] + x.at[7]) + (x.at[4] + x.at[10]));
    const T m = x.at[5] + x.at[11];
    const T n = math::tanh((x.at[2] + x.at[8]) + r * m);
    return {{r, z, n, m, n + z * (x.at[12] - n)}};
  }
};

/// Inputs: the gradients of h' and of r, z, n, m; then r, z, n, m and h. Results: the gradients of x's three
/// products, of h's, and of the h that is mixed in.
struct GruCellBackwardFn {
  static constexpr std::size_t kInputs = 10, kResults = 7;
  template <class T>
  MEZZO_HD MEZZO_ALWAYS_INLINE Numbers<T, kResults> operator()(const Numbers<T, kInputs>& x) const {
    const T grad = x.at[0], r = x.at[5], z = x.at[6], n = x.at[7], m = x.at[8];
    const T of_n = TanhBackwardFn{}(x.at[3] + grad * (T(1) - z), n);
    const T of_r = SigmoidBackwardFn{}(x.at[1] + of_n * m, r);
    const T of_z = SigmoidBackwardFn{}(x.at[2] + grad * (x.at[9] - n), z);
    return {{of_r, of_z, of_n, of_r, of_z, x.at[4] + of_n * r, grad * z}};
  }
};

}  // namespace mezzo::kernels::scalar
