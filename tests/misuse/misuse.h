// The sweep of misuse: calls with arguments drawn from good and bad ones. Each call ends in success or in one
// mezzo::Error whose text is one line of the form `op: expected ..., got ...; fix`; anything else is a
// finding.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "mezzo/io/idx.h"
#include "mezzo/mezzo.h"

namespace mezzo::misuse {

/// What is wrong with the end of a call; empty: nothing. `call` is also shown when the process dies in it.
[[nodiscard]] std::string fault_of(const std::string& call, const std::function<void()>& run);

/// Fails the running test for each fault.
void expect_sound(const std::string& call, const std::function<void()>& run);

/// Random numbers from the name of a function, so a call that fails can be made again.
class Draw {
 public:
  explicit Draw(std::string_view seed);
  /// In [0, n).
  [[nodiscard]] std::size_t below(std::size_t n);
  [[nodiscard]] bool once_in(std::size_t n) { return below(n) == 0; }
  template <class T>
  [[nodiscard]] T of(const std::vector<T>& values) {
    return values[below(values.size())];
  }
  std::string shown;  ///< the arguments of the call

 private:
  std::uint64_t state_;
};

/// An argument of each type, good or bad.
template <class T>
struct Drawn;

[[nodiscard]] Tensor draw_tensor(Draw& draw);
[[nodiscard]] std::int64_t draw_int(Draw& draw);
[[nodiscard]] double draw_real(Draw& draw);
[[nodiscard]] Dims draw_dims(Draw& draw);

template <>
struct Drawn<Tensor> {
  static Tensor from(Draw& draw) { return draw_tensor(draw); }
};
template <>
struct Drawn<bool> {
  static bool from(Draw& draw) { return draw.once_in(2); }
};
template <>
struct Drawn<Scalar> {
  static Scalar from(Draw& draw) {
    return draw.once_in(2) ? Scalar(draw_int(draw)) : Scalar(draw_real(draw));
  }
};
template <>
struct Drawn<DType> {
  static DType from(Draw& draw) { return kAllDTypes[draw.below(kDTypeCount)]; }
};
template <>
struct Drawn<Device> {
  static Device from(Draw& draw) {
    return draw.of<Device>(
        {Device::cpu(), Device::cpu(), Device::cuda(0), Device::cuda(99), Device::cuda(-1)});
  }
};
template <class T>
requires std::is_integral_v<T>
struct Drawn<T> {
  static T from(Draw& draw) { return static_cast<T>(draw_int(draw)); }
};
template <class T>
requires std::is_floating_point_v<T>
struct Drawn<T> {
  static T from(Draw& draw) { return static_cast<T>(draw_real(draw)); }
};
template <class T>
requires std::is_enum_v<T>
struct Drawn<T> {
  /// The first two of every enumeration here are named.
  static T from(Draw& draw) { return static_cast<T>(draw.below(2)); }
};
template <class T>
requires std::is_base_of_v<Dims, T>
struct Drawn<T> {
  static T from(Draw& draw) { return T(draw_dims(draw)); }
};
template <class T>
struct Drawn<std::optional<T>> {
  static std::optional<T> from(Draw& draw) {
    if (draw.once_in(2)) return std::nullopt;
    return Drawn<T>::from(draw);
  }
};
template <class T>
struct Drawn<std::vector<T>> {
  static std::vector<T> from(Draw& draw) {
    std::vector<T> list;
    for (std::size_t n = draw.below(4); n > 0; --n) list.push_back(Drawn<T>::from(draw));
    return list;
  }
};
template <>
struct Drawn<std::string> {
  static std::string from(Draw& draw) {
    return draw.of<std::string>(
        {"", "f32", "nothing", "[1,", "ij,jk->ik", "i...j", "/nowhere/else", "\n\"\\", "{}"});
  }
};
template <>
struct Drawn<std::string_view> {
  static std::string from(Draw& draw) { return Drawn<std::string>::from(draw); }
};
template <>
struct Drawn<IntList> {
  static IntList from(Draw& draw) {
    IntList list;
    for (std::size_t n = draw.below(4); n > 0; --n) list.push_back(draw_int(draw));
    return list;
  }
};
template <>
struct Drawn<Generator> {
  static std::reference_wrapper<Generator> from(Draw& /*draw*/) { return default_generator(); }
};

/// Options: all as they are by default, or some members drawn.
template <class T, class... M>
[[nodiscard]] T options(Draw& draw, M T::*... members) {
  T result{};
  if (draw.once_in(4)) return result;
  ((draw.once_in(2) ? static_cast<void>(result.*members = Drawn<M>::from(draw)) : void()), ...);
  return result;
}
/// Attributes name their members themselves.
template <class T>
requires requires { T::fields(); }
struct Drawn<T> {
  static T from(Draw& draw) {
    return std::apply([&](const auto&... field) { return options<T>(draw, field.member...); }, T::fields());
  }
};
#define MISUSE_OPTIONS(T, ...)                                          \
  template <>                                                           \
  struct Drawn<T> {                                                     \
    static T from(Draw& draw) { return options<T>(draw, __VA_ARGS__); } \
  }
template <>
struct Drawn<ConvPadding> {
  static ConvPadding from(Draw& draw) {
    return draw.once_in(4) ? ConvPadding("same") : ConvPadding(SpatialSizes(draw_dims(draw)));
  }
};
template <>
struct Drawn<ScaleFactors> {
  static ScaleFactors from(Draw& draw) {
    if (draw.once_in(4)) return {};
    return draw.once_in(2) ? ScaleFactors(draw_real(draw)) : ScaleFactors{draw_real(draw), draw_real(draw)};
  }
};
MISUSE_OPTIONS(FoldOptions, &FoldOptions::kernel_size, &FoldOptions::dilation, &FoldOptions::padding,
               &FoldOptions::stride);
MISUSE_OPTIONS(EmbeddingBagOptions, &EmbeddingBagOptions::mode, &EmbeddingBagOptions::max_norm,
               &EmbeddingBagOptions::norm_type, &EmbeddingBagOptions::scale_grad_by_freq,
               &EmbeddingBagOptions::per_sample_weights, &EmbeddingBagOptions::include_last_offset,
               &EmbeddingBagOptions::padding_idx);
MISUSE_OPTIONS(QuantileOptions, &QuantileOptions::dim, &QuantileOptions::keepdim,
               &QuantileOptions::interpolation);
MISUSE_OPTIONS(UniqueOptions, &UniqueOptions::sorted, &UniqueOptions::return_inverse,
               &UniqueOptions::return_counts, &UniqueOptions::dim);
MISUSE_OPTIONS(UniqueConsecutiveOptions, &UniqueConsecutiveOptions::return_inverse,
               &UniqueConsecutiveOptions::return_counts, &UniqueConsecutiveOptions::dim);
MISUSE_OPTIONS(nn::MaxUnpoolLayerOptions, &nn::MaxUnpoolLayerOptions::stride,
               &nn::MaxUnpoolLayerOptions::padding);
MISUSE_OPTIONS(MaxPoolOptions, &MaxPoolOptions::kernel_size, &MaxPoolOptions::stride,
               &MaxPoolOptions::padding, &MaxPoolOptions::dilation, &MaxPoolOptions::ceil_mode);
MISUSE_OPTIONS(AvgPoolOptions, &AvgPoolOptions::kernel_size, &AvgPoolOptions::stride,
               &AvgPoolOptions::padding, &AvgPoolOptions::ceil_mode, &AvgPoolOptions::count_include_pad,
               &AvgPoolOptions::divisor_override);
MISUSE_OPTIONS(InterpolateOptions, &InterpolateOptions::size, &InterpolateOptions::scale_factor,
               &InterpolateOptions::mode, &InterpolateOptions::align_corners,
               &InterpolateOptions::recompute_scale_factor, &InterpolateOptions::antialias);
MISUSE_OPTIONS(GridSampleOptions, &GridSampleOptions::mode, &GridSampleOptions::padding_mode,
               &GridSampleOptions::align_corners);
MISUSE_OPTIONS(AttentionOptions, &AttentionOptions::attn_mask, &AttentionOptions::dropout_p,
               &AttentionOptions::is_causal, &AttentionOptions::scale, &AttentionOptions::enable_gqa);
MISUSE_OPTIONS(QuantizeF8Options, &QuantizeF8Options::dtype, &QuantizeF8Options::power_of_two,
               &QuantizeF8Options::per_row);
MISUSE_OPTIONS(ValueOptions, &ValueOptions::dtype, &ValueOptions::device, &ValueOptions::requires_grad);
MISUSE_OPTIONS(RandomOptions, &RandomOptions::dtype, &RandomOptions::device, &RandomOptions::requires_grad);
MISUSE_OPTIONS(TensorOptions, &TensorOptions::dtype, &TensorOptions::device, &TensorOptions::requires_grad);
MISUSE_OPTIONS(Correction, &Correction::value);
MISUSE_OPTIONS(io::LoadOptions, &io::LoadOptions::mapped, &io::LoadOptions::names, &io::LoadOptions::prefix);
MISUSE_OPTIONS(LstmState, &LstmState::h, &LstmState::c);
MISUSE_OPTIONS(nn::init::KaimingOptions, &nn::init::KaimingOptions::a, &nn::init::KaimingOptions::mode,
               &nn::init::KaimingOptions::nonlinearity);
MISUSE_OPTIONS(nn::init::TruncNormalOptions, &nn::init::TruncNormalOptions::mean,
               &nn::init::TruncNormalOptions::std, &nn::init::TruncNormalOptions::low,
               &nn::init::TruncNormalOptions::high);
MISUSE_OPTIONS(nn::LinearOptions, &nn::LinearOptions::bias, &nn::LinearOptions::dtype,
               &nn::LinearOptions::device);
MISUSE_OPTIONS(nn::ConvLayerOptions, &nn::ConvLayerOptions::stride, &nn::ConvLayerOptions::padding,
               &nn::ConvLayerOptions::dilation, &nn::ConvLayerOptions::groups, &nn::ConvLayerOptions::bias,
               &nn::ConvLayerOptions::padding_mode, &nn::ConvLayerOptions::dtype,
               &nn::ConvLayerOptions::device);
MISUSE_OPTIONS(nn::ConvTransposeLayerOptions, &nn::ConvTransposeLayerOptions::stride,
               &nn::ConvTransposeLayerOptions::padding, &nn::ConvTransposeLayerOptions::output_padding,
               &nn::ConvTransposeLayerOptions::groups, &nn::ConvTransposeLayerOptions::bias,
               &nn::ConvTransposeLayerOptions::dilation, &nn::ConvTransposeLayerOptions::dtype,
               &nn::ConvTransposeLayerOptions::device);
MISUSE_OPTIONS(nn::MaxPoolLayerOptions, &nn::MaxPoolLayerOptions::stride);
MISUSE_OPTIONS(nn::AvgPoolLayerOptions, &nn::AvgPoolLayerOptions::stride);
MISUSE_OPTIONS(nn::LayerNormOptions, &nn::LayerNormOptions::eps, &nn::LayerNormOptions::elementwise_affine,
               &nn::LayerNormOptions::bias, &nn::LayerNormOptions::dtype, &nn::LayerNormOptions::device);
MISUSE_OPTIONS(nn::RMSNormOptions, &nn::RMSNormOptions::eps);
MISUSE_OPTIONS(nn::GroupNormOptions, &nn::GroupNormOptions::eps, &nn::GroupNormOptions::affine,
               &nn::GroupNormOptions::bias, &nn::GroupNormOptions::dtype, &nn::GroupNormOptions::device);
MISUSE_OPTIONS(nn::RunningNormOptions, &nn::RunningNormOptions::eps, &nn::RunningNormOptions::momentum,
               &nn::RunningNormOptions::affine, &nn::RunningNormOptions::bias,
               &nn::RunningNormOptions::track_running_stats, &nn::RunningNormOptions::dtype,
               &nn::RunningNormOptions::device);
MISUSE_OPTIONS(nn::InstanceNormOptions, &nn::InstanceNormOptions::eps, &nn::InstanceNormOptions::momentum,
               &nn::InstanceNormOptions::affine, &nn::InstanceNormOptions::bias,
               &nn::InstanceNormOptions::track_running_stats, &nn::InstanceNormOptions::dtype,
               &nn::InstanceNormOptions::device);
MISUSE_OPTIONS(nn::EmbeddingOptions, &nn::EmbeddingOptions::padding_idx);
MISUSE_OPTIONS(nn::RecurrentOptions, &nn::RecurrentOptions::num_layers, &nn::RecurrentOptions::bias,
               &nn::RecurrentOptions::batch_first, &nn::RecurrentOptions::dropout,
               &nn::RecurrentOptions::bidirectional, &nn::RecurrentOptions::dtype,
               &nn::RecurrentOptions::device);
MISUSE_OPTIONS(nn::MultiheadAttentionOptions, &nn::MultiheadAttentionOptions::dropout,
               &nn::MultiheadAttentionOptions::bias, &nn::MultiheadAttentionOptions::kdim,
               &nn::MultiheadAttentionOptions::vdim);
MISUSE_OPTIONS(nn::TransformerEncoderLayerOptions, &nn::TransformerEncoderLayerOptions::dim_feedforward,
               &nn::TransformerEncoderLayerOptions::dropout,
               &nn::TransformerEncoderLayerOptions::layer_norm_eps,
               &nn::TransformerEncoderLayerOptions::batch_first,
               &nn::TransformerEncoderLayerOptions::norm_first, &nn::TransformerEncoderLayerOptions::bias,
               &nn::TransformerEncoderLayerOptions::dtype, &nn::TransformerEncoderLayerOptions::device);
MISUSE_OPTIONS(nn::BCELossOptions, &nn::BCELossOptions::weight);
MISUSE_OPTIONS(nn::BCEWithLogitsLossOptions, &nn::BCEWithLogitsLossOptions::weight);
MISUSE_OPTIONS(nn::CrossEntropyLossOptions, &nn::CrossEntropyLossOptions::weight);
MISUSE_OPTIONS(nn::NLLLossOptions, &nn::NLLLossOptions::weight);
MISUSE_OPTIONS(nn::MultiMarginLossOptions, &nn::MultiMarginLossOptions::p,
               &nn::MultiMarginLossOptions::margin, &nn::MultiMarginLossOptions::weight);
MISUSE_OPTIONS(optim::ConstantLROptions, &optim::ConstantLROptions::factor,
               &optim::ConstantLROptions::total_iters);
MISUSE_OPTIONS(optim::StepLROptions, &optim::StepLROptions::step_size, &optim::StepLROptions::gamma);
MISUSE_OPTIONS(optim::MultiStepLROptions, &optim::MultiStepLROptions::milestones,
               &optim::MultiStepLROptions::gamma);
MISUSE_OPTIONS(optim::ExponentialLROptions, &optim::ExponentialLROptions::gamma);
MISUSE_OPTIONS(optim::CosineAnnealingLROptions, &optim::CosineAnnealingLROptions::T_max,
               &optim::CosineAnnealingLROptions::eta_min);
MISUSE_OPTIONS(optim::CosineAnnealingWarmRestartsOptions, &optim::CosineAnnealingWarmRestartsOptions::T_0,
               &optim::CosineAnnealingWarmRestartsOptions::T_mult,
               &optim::CosineAnnealingWarmRestartsOptions::eta_min);
MISUSE_OPTIONS(optim::LinearLROptions, &optim::LinearLROptions::start_factor,
               &optim::LinearLROptions::end_factor, &optim::LinearLROptions::total_iters);
MISUSE_OPTIONS(optim::LinearWarmupOptions, &optim::LinearWarmupOptions::warmup_steps);
MISUSE_OPTIONS(optim::WarmupCosineOptions, &optim::WarmupCosineOptions::warmup_steps,
               &optim::WarmupCosineOptions::total_steps, &optim::WarmupCosineOptions::min_ratio);
MISUSE_OPTIONS(optim::WarmupStableDecayOptions, &optim::WarmupStableDecayOptions::warmup_steps,
               &optim::WarmupStableDecayOptions::stable_steps, &optim::WarmupStableDecayOptions::decay_steps,
               &optim::WarmupStableDecayOptions::decay, &optim::WarmupStableDecayOptions::min_ratio);
MISUSE_OPTIONS(optim::PolynomialLROptions, &optim::PolynomialLROptions::total_iters,
               &optim::PolynomialLROptions::power);
MISUSE_OPTIONS(optim::OneCycleLROptions, &optim::OneCycleLROptions::total_steps,
               &optim::OneCycleLROptions::epochs, &optim::OneCycleLROptions::steps_per_epoch,
               &optim::OneCycleLROptions::pct_start, &optim::OneCycleLROptions::anneal_strategy,
               &optim::OneCycleLROptions::cycle_momentum, &optim::OneCycleLROptions::div_factor,
               &optim::OneCycleLROptions::final_div_factor, &optim::OneCycleLROptions::three_phase);
MISUSE_OPTIONS(io::JsonLimits, &io::JsonLimits::max_depth, &io::JsonLimits::max_values);

/// What is kept for an argument of type T while the call runs.
template <class T>
struct Kept {
  using type = decltype(Drawn<std::remove_cvref_t<T>>::from(std::declval<Draw&>()));
};
template <class T>
struct Kept<std::span<const T>> {
  using type = std::vector<T>;
};
template <>
struct Kept<TensorList> {
  using type = std::vector<Tensor>;
};
template <class T>
[[nodiscard]] typename Kept<T>::type kept(Draw& draw) {
  if constexpr (std::is_same_v<T, TensorList> || std::is_same_v<T, std::span<const Tensor>>)
    return Drawn<std::vector<Tensor>>::from(draw);
  else
    return Drawn<std::remove_cvref_t<T>>::from(draw);
}

/// Calls a function when it is made. In braces arguments are drawn from left to right by every compiler.
template <class... A>
struct WithArguments {
  template <class F>
  WithArguments(const F& function, typename Kept<A>::type... arguments) {
    static_cast<void>(function(arguments...));
  }
};

/// A function with its name, which calls it once with arguments drawn.
struct Function {
  std::string name;
  std::function<void(Draw&)> call;
};
/// By the type of the function, which chooses the overload.
template <class F>
struct Caller;
template <class R, class... A>
struct Caller<R(A...)> {
  static Function of(const char* name, R (*function)(A...)) {
    return {name, [function](Draw& draw) { WithArguments<A...>{function, kept<A>(draw)...}; }};
  }
};

/// Calls each function `times` times.
void sweep(const std::vector<Function>& functions, int times);

}  // namespace mezzo::misuse
