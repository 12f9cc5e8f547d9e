// Passes of an update that moves numbers from one place to another: kernels/optim knows how they are kept.
#include "mezzo/optim/detail/packed_state.h"

#include "mezzo/kernels/optim/moments_8bit.h"
#include "mezzo/kernels/optim/update.h"
#include "mezzo/ops/forward.h"
#include "mezzo/ops/ops.h"

namespace mezzo::optim {

namespace {

/// Which of value, gradient and state the two others become; the gradient stays.
enum class Source : std::uint8_t { value, gradient, state };
template <class T, int S>
struct MoveFn : kernels::UpdateRule<S> {
  Source source;

  MEZZO_HD static MoveFn at(const Source& source, const kernels::StepNow& /*now*/) { return {{}, source}; }
  MEZZO_HD MEZZO_ALWAYS_INLINE void operator()(T& p, T gradient, T* state) const {
    if constexpr (S > 0) {
      if (source == Source::state) p = state[0];
    }
    if (source == Source::gradient) p = gradient;
    if constexpr (S > 0) state[0] = p;
  }
};
template <class T>
using MoveValueFn = MoveFn<T, 0>;
template <class T>
using MoveStateFn = MoveFn<T, 1>;

void move(Device device, kernels::ParameterUpdate& update, Source source) {
  const Tensor rates = zeros({2}, {.dtype = DType::f64, .device = device});
  const Tensor counts = zeros({2}, {.dtype = DType::i64, .device = device});  // a step count and a ticket
  auto* const numbers = static_cast<std::int64_t*>(counts.impl().data());
  update.step = numbers;
  const kernels::UpdateControl control{.rates = static_cast<const kernels::Rates*>(rates.impl().data()),
                                       .ticket = reinterpret_cast<std::uint32_t*>(numbers + 1)};
  if (update.state[0].data == nullptr)
    kernels::update<MoveValueFn>(device, std::span(&update, 1), source, control);
  else
    kernels::update<MoveStateFn>(device, std::span(&update, 1), source, control);
}

/// An update of the masters that these are.
kernels::ParameterUpdate update_of_halves(const Tensor& parameter, const Tensor& remainder) {
  kernels::ParameterUpdate update;
  update.value = ops::view_of(parameter);
  update.copies[2] = ops::view_of(remainder);
  update.is_split = true;
  return update;
}
/// An update whose state is the moments.
kernels::ParameterUpdate update_of(const PackedMoments& moments, bool nonnegative) {
  kernels::ParameterUpdate update;
  update.state[0] = ops::view_of(moments.codes);
  update.scales[0] = static_cast<float*>(moments.scales.impl().data());
  update.nonnegative = nonnegative ? 1 : 0;
  return update;
}

}  // namespace

Tensor joined_masters(const Tensor& parameter, const Tensor& remainder) {
  const Tensor master = empty_like(parameter, DType::f32);
  kernels::ParameterUpdate update = update_of_halves(parameter, remainder);
  update.gradient = update.value;
  update.copies[0] = ops::view_of(master);
  move(parameter.device(), update, Source::value);
  return master;
}

Tensor split_masters(const Tensor& master, const Tensor& parameter) {
  const Tensor remainder = zeros_like(parameter, DType::i16);
  kernels::ParameterUpdate update = update_of_halves(parameter, remainder);
  update.gradient = ops::view_of(master);
  move(parameter.device(), update, Source::gradient);
  parameter.impl().storage->bump_version();
  return remainder;
}

Tensor followed_masters(const Tensor& master, const Tensor& parameter) {
  Tensor follows = eq(to(master, parameter.dtype()), parameter);
  if (parameter.dtype() == DType::bf16) {
    const Tensor away = empty_like(parameter);
    static_cast<void>(split_masters(master, away));
    follows = logical_or(follows, eq(away, parameter));
  }
  return where(follows, master, to(parameter, DType::f32));
}

bool takes_8_bits(const Tensor& parameter) {
  return parameter.numel() >= kernels::Moments8::kLeast && parameter.dtype() != DType::f64;
}

bool is_nonnegative(std::string_view moments) { return moments.ends_with("_sq") || moments == "square_avg"; }

PackedMoments zero_moments(const Tensor& parameter, bool nonnegative) {
  using kernels::Moments8;
  return {full(parameter.shape(), static_cast<std::int64_t>(Moments8::zero(!nonnegative)),
               {.dtype = DType::u8, .device = parameter.device()}),
          full({Moments8::blocks(parameter.numel())}, Moments8::kLeastScale, {.device = parameter.device()})};
}

PackedMoments packed_moments(const Tensor& moments, bool nonnegative) {
  PackedMoments packed = zero_moments(moments, nonnegative);
  kernels::ParameterUpdate update = update_of(packed, nonnegative);
  const Tensor values = moments.to(DType::f32).clone();
  update.value = update.gradient = ops::view_of(values);
  move(moments.device(), update, Source::value);
  return packed;
}

Tensor unpacked_moments(const PackedMoments& moments, bool nonnegative) {
  const PackedMoments copy{moments.codes.clone(), moments.scales.clone()};  // which the pass writes again
  const Tensor values = zeros_like(moments.codes, DType::f32);
  kernels::ParameterUpdate update = update_of(copy, nonnegative);
  update.value = update.gradient = ops::view_of(values);
  move(values.device(), update, Source::state);
  return values;
}

}  // namespace mezzo::optim
