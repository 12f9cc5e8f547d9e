// Gradients against finite differences, for ops and functions of a program's own:
//   autograd::gradcheck([](const Tensor& x, const Tensor& w) { return my_op(x, w); }, {x, w});
#pragma once

#include <concepts>
#include <type_traits>
#include <utility>

#include "mezzo/core/function.h"
#include "mezzo/core/tensor.h"

namespace mezzo::autograd {

/// Options of gradcheck and gradgradcheck.
struct GradCheckOptions {
  double eps = 1e-6;   ///< elements of inputs are moved by this much both ways
  double atol = 1e-5;  ///< what may be off, beside rtol of the finite difference
  double rtol = 1e-3;
  bool raise_exception = true;  ///< throw at the first that is off; else return false
};

/// A function of tensors: of a TensorList, or of one to four tensors. Gives a tensor or several.
using TensorFunction = mezzo::detail::Function<Tensors(TensorList)>;

namespace detail {
template <std::size_t... I, class F>
decltype(auto) call_with(F& function, TensorList x, std::index_sequence<I...>) {
  return function(x[I]...);
}
[[noreturn]] void refuse_count(std::size_t expected, std::size_t got);

template <class F>
TensorFunction as_tensor_function(F function) {
  return [function = std::move(function)](TensorList x) mutable -> Tensors {
    const auto of = [](auto&& result) -> Tensors {
      if constexpr (std::derived_from<std::remove_cvref_t<decltype(result)>, Tensor>)
        return {result};
      else
        return {result.begin(), result.end()};
    };
    const auto call = [&]<std::size_t kCount>(std::integral_constant<std::size_t, kCount>) {
      if (x.size() != kCount) refuse_count(kCount, x.size());
      return of(call_with(function, x, std::make_index_sequence<kCount>()));
    };
    using T = const Tensor&;
    if constexpr (std::invocable<F&, TensorList>)
      return of(function(x));
    else if constexpr (std::invocable<F&, T>)
      return call(std::integral_constant<std::size_t, 1>());
    else if constexpr (std::invocable<F&, T, T>)
      return call(std::integral_constant<std::size_t, 2>());
    else if constexpr (std::invocable<F&, T, T, T>)
      return call(std::integral_constant<std::size_t, 3>());
    else
      return call(std::integral_constant<std::size_t, 4>());
  };
}

bool gradcheck(const TensorFunction& function, TensorList inputs, const GradCheckOptions& options);
bool gradgradcheck(const TensorFunction& function, TensorList inputs, TensorList grad_outputs,
                   const GradCheckOptions& options);
}  // namespace detail

/// Compares d function(inputs)_i / d inputs_j, element by element, with (f(x + eps) - f(x - eps)) / (2 eps):
/// for each floating result and each input that requires grad. `function` is called twice for each element of
/// these inputs, so it must give the same for the same inputs, and they should be small. Dtypes: inputs that
/// require grad f64 (DTypeError), as finite differences of others say little. Throws: AutogradError, naming
/// result, input and element, at the first derivative that is off by more than atol + rtol |difference|;
/// ValueError where no input requires grad or no result depends on one. Source: torch.autograd.gradcheck.
template <class F>
bool gradcheck(F function, TensorList inputs, const GradCheckOptions& options = {}) {
  return detail::gradcheck(detail::as_tensor_function(std::move(function)), inputs, options);
}
/// gradcheck of the gradients, as a function of inputs and of what comes into backward: of second
/// derivatives. `grad_outputs`: what comes in, for each result that requires grad; by default values between
/// -1 and 1. Source: torch.autograd.gradgradcheck.
template <class F>
bool gradgradcheck(F function, TensorList inputs, TensorList grad_outputs = {},
                   const GradCheckOptions& options = {}) {
  return detail::gradgradcheck(detail::as_tensor_function(std::move(function)), inputs, grad_outputs,
                               options);
}

}  // namespace mezzo::autograd
