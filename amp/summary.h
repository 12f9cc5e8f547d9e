// The summary of a model (nn/summary.h) as it runs under autocast, with two more columns: the dtypes that
// each layer runs in, and the precision of its norm.
//   std::cout << amp::summary(net, Shape{1, 3, 32, 32}, {.dtype = DType::f16});
#pragma once

#include <optional>

#include "mezzo/amp/float8.h"
#include "mezzo/core/device.h"
#include "mezzo/core/dtype.h"
#include "mezzo/nn/summary.h"

namespace mezzo::amp {

/// Options of amp::summary. The region is Autocast(device, dtype, {.enabled = enabled,
/// .fp8 = fp8}).
struct SummaryOptions {
  std::optional<Device> device = {};  ///< default: the input's; without one, the first parameter's
  std::optional<DType> dtype = {};
  bool enabled = true;
  Fp8Option fp8 = {};
  nn::SummaryOptions table = {};
};

namespace detail {
[[nodiscard]] nn::Summary summarize(nn::Module& net, const nn::detail::SummaryRun& run, Device device,
                                    const SummaryOptions& options);
/// Where the first parameter is, else the CPU.
[[nodiscard]] Device device_of(const nn::Module& net);
}  // namespace detail

// nn::summary inside of an autocast region. The two columns are made from the ops that ran, so they are right
// for modules of a user's own too:
//
// "Runs in": the dtypes of the ops in the module and below it, f16 first. An op runs in the widest floating
// dtype of its inputs, after autocast's casts, or in the dtype that autocast asks for; a norm runs in its
// input's dtype. Casts, copies to a device and view ops (reshape) do not count; "--" when nothing else ran.
// "f8": products in float8. Where a linear of a region with fp8 stays in 16 bits, the reason follows: "bf16:
// K = 100 is no multiple of 16". A module with a rule of amp::ModulePrecision: "f32 (rule: f32)".
//
// "Norm": of modules with a norm op of their own, the dtypes of its input and result and, unless all are the
// same, of statistics and parameters: "f32 in and out", "f16 in, f32 out, f32 statistics and parameters",
// "f16 in and out, f32 statistics, f16 parameters". Several that differ are separated by "; ".

/// The summary of `run`, any function that runs the model: see nn::summary.
template <std::invocable F>
[[nodiscard]] nn::Summary summary(nn::Module& net, F&& run, const SummaryOptions& options = {}) {
  return detail::summarize(net, nn::detail::summary_run(run), options.device.value_or(detail::device_of(net)),
                           options);
}
/// The summary of net(x). Throws: what nn::summary and Autocast throw.
template <nn::UnaryModule M>
[[nodiscard]] nn::Summary summary(M& net, const Tensor& x, const SummaryOptions& options = {}) {
  const auto forward = [&] { return nn::call(net, x); };
  const nn::detail::SummaryRun run = nn::detail::summary_run(forward, x);
  return detail::summarize(net, run, options.device.value_or(x.device()), options);
}
/// The summary of net(x) for x = zeros of a shape, whose dtype and device are options of the table.
template <nn::UnaryModule M>
[[nodiscard]] nn::Summary summary(M& net, const Shape& input, const SummaryOptions& options = {}) {
  return amp::summary(net, nn::detail::summary_input(net, input, options.table), options);
}

}  // namespace mezzo::amp
