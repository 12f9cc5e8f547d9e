// Random tensors from the words of a Philox sequence. Arguments are checked before words are drawn, so
// that a refused call changes nothing. randperm shuffles on the CPU.
#include "mezzo/ops/random.h"

#include <cmath>
#include <limits>
#include <span>
#include <string>
#include <type_traits>
#include <utility>

#include "mezzo/core/current_op.h"
#include "mezzo/kernels/random/generate.h"
#include "mezzo/kernels/random/random.h"
#include "mezzo/ops/forward.h"
#include "mezzo/ops/shape/copy_into.h"

namespace mezzo {

namespace {

using namespace ops;

/// The words for n elements on a device, each of which takes one or two of a block's four.
kernels::RandomWords draw(std::string_view op, Generator& generator, std::int64_t n, int words_each,
                          Device device) {
  const detail::OpScope names(op);
  const std::int64_t per_block = 4 / words_each;
  return kernels::RandomWords(
      generator.draw(static_cast<std::uint64_t>((n + per_block - 1) / per_block), device));
}

struct Interval {
  double low, high;
};
struct Bell {
  double mean, deviation;
};
struct Decay {
  double lambda;
};

Generator& generator_of(const RandomOptions& options, Generator& other) {
  return options.generator != nullptr ? *options.generator : other;
}
/// A new tensor for random numbers.
Tensor new_tensor(const Shape& shape, const RandomOptions& options, DType natural) {
  return empty(shape, {.dtype = options.dtype.value_or(natural),
                       .device = options.device,
                       .requires_grad = options.requires_grad,
                       .memory_format = options.memory_format});
}

/// The neighbour of x among the values of its type.
template <class T>
T next(T x, bool upwards) {
  if constexpr (std::is_floating_point_v<T>) {
    return std::nextafter(x,
                          upwards ? std::numeric_limits<T>::infinity() : -std::numeric_limits<T>::infinity());
  } else {
    if ((x.bits & 0x7fff) == 0) return T::from_bits(upwards ? 0x0001 : 0x8001);
    const bool outwards = ((x.bits & 0x8000) == 0) == upwards;
    return T::from_bits(static_cast<std::uint16_t>(x.bits + (outwards ? 1 : -1)));
  }
}

/// The smallest and the largest value of the type in [low, high); low, rounded, as both where there is none.
template <class T>
std::pair<double, double> ends_of(const Interval& interval) {
  const T rounded(static_cast<T>(interval.low));
  T first = rounded, last(static_cast<T>(interval.high));
  if (static_cast<double>(first) < interval.low) first = next(first, true);
  if (static_cast<double>(last) >= interval.high) last = next(last, false);
  if (static_cast<double>(first) > static_cast<double>(last)) first = last = rounded;
  return {static_cast<double>(first), static_cast<double>(last)};
}

template <class T>
kernels::UniformBlocks<T> blocks_of(const Interval& interval, DType dtype, kernels::RandomWords words) {
  const auto [first, last] = dtype == DType::f16    ? ends_of<Half>(interval)
                             : dtype == DType::bf16 ? ends_of<BFloat16>(interval)
                                                    : ends_of<T>(interval);
  return {words, static_cast<T>(interval.low), static_cast<T>(interval.high - interval.low),
          static_cast<T>(first), static_cast<T>(last)};
}
template <class T>
kernels::NormalBlocks<T> blocks_of(const Bell& bell, DType /*dtype*/, kernels::RandomWords words) {
  return {words, static_cast<T>(bell.mean), static_cast<T>(bell.deviation)};
}
template <class T>
kernels::ExponentialBlocks<T> blocks_of(const Decay& decay, DType /*dtype*/, kernels::RandomWords words) {
  return {{words, 0, 1, 0, 1}, static_cast<T>(decay.lambda)};
}

void check(std::string_view op, const Interval& interval) {
  if (interval.low <= interval.high && std::isfinite(static_cast<float>(interval.high - interval.low)))
    return;
  throw ValueError(op, "low <= high, both finite in f32",
                   number_text(interval.low) + ", " + number_text(interval.high), "check the bounds");
}
void check(std::string_view op, const Bell& bell) {
  if (std::isfinite(bell.mean) && std::isfinite(bell.deviation) && bell.deviation >= 0) return;
  throw ValueError(op, "a finite mean and a finite deviation of at least 0",
                   number_text(bell.mean) + ", " + number_text(bell.deviation), "check the arguments");
}
void check(std::string_view op, const Decay& decay) {
  if (std::isfinite(decay.lambda) && decay.lambda > 0) return;
  throw ValueError(op, "a finite lambda above 0", number_text(decay.lambda), "it is 1 / mean");
}

/// x, overwritten with samples. Validated before a counter is drawn, so that a refused call changes nothing.
template <class Distribution>
const Tensor& sampled(std::string_view op, const Tensor& x, const Distribution& distribution,
                      Generator& generator) {
  require_floating(op, x);
  check(op, distribution);
  const bool is_f64 = x.dtype() == DType::f64;
  const kernels::RandomWords words = draw(op, generator, x.numel(), is_f64 ? 2 : 1, x.device());
  if (x.numel() == 0) return x;
  if (is_f64)
    kernels::generate<double>(x.device(), blocks_of<double>(distribution, x.dtype(), words), view_of(x));
  else
    kernels::generate<float>(x.device(), blocks_of<float>(distribution, x.dtype(), words), view_of(x));
  return x;
}

/// The same of a tensor that the program has.
template <class Distribution>
const Tensor& overwrite_with_samples(std::string_view op, const Tensor& x, const Distribution& distribution,
                                     Generator& generator) {
  check_writable(op, x);
  sampled(op, x, distribution, generator).impl().storage->bump_version();
  return x;
}

/// 1 with a probability of threshold * 2^-32, else 0.
struct MaskBlocks {
  kernels::RandomWords words;
  std::uint64_t threshold;
  MEZZO_HD MEZZO_ALWAYS_INLINE void operator()(std::int64_t block, float* values) const {
    const PhiloxBlock four = words(block);
    for (int i = 0; i < 4; ++i) values[i] = four[i] < threshold ? 1.0F : 0.0F;
  }
};

/// Whether every integer in [low, high] is a value of the dtype.
bool holds(DType dtype, std::int64_t low, std::int64_t high) {
  if (is_floating(dtype)) {
    const auto limit = static_cast<std::int64_t>(2 / info(dtype).eps);  // 2^(digits), where gaps of 2 begin
    return low >= -limit && high <= limit;
  }
  if (dtype == DType::boolean) return low >= 0 && high <= 1;
  return dispatch(dtype, [&]<class T>(TypeTag<T>) {
    if constexpr (std::is_integral_v<T> && !std::is_same_v<T, bool>)
      return std::in_range<T>(low) && std::in_range<T>(high);
    else
      return false;
  });
}

}  // namespace

const Tensor& uniform_(const Tensor& x, double low, double high, Generator& generator) {
  return overwrite_with_samples("uniform_", x, Interval{low, high}, generator);
}
const Tensor& normal_(const Tensor& x, double mean, double std, Generator& generator) {
  return overwrite_with_samples("normal_", x, Bell{mean, std}, generator);
}
const Tensor& exponential_(const Tensor& x, double lambda, Generator& generator) {
  return overwrite_with_samples("exponential_", x, Decay{lambda}, generator);
}

TensorOptions::operator RandomOptions() const {
  return {.dtype = dtype, .device = device, .requires_grad = requires_grad, .memory_format = memory_format};
}
ValueOptions::operator RandomOptions() const {
  return {.dtype = dtype, .device = device, .requires_grad = requires_grad};
}

Tensor uniform(double low, double high, const Shape& shape, const RandomOptions& options,
               Generator& generator) {
  return sampled("uniform", new_tensor(shape, options, DType::f32), Interval{low, high},
                 generator_of(options, generator));
}
Tensor rand(const Shape& shape, const RandomOptions& options, Generator& generator) {
  return uniform(0, 1, shape, options, generator);
}

Tensor normal(double mean, double std, const Shape& shape, const RandomOptions& options,
              Generator& generator) {
  return sampled("normal", new_tensor(shape, options, DType::f32), Bell{mean, std},
                 generator_of(options, generator));
}
Tensor randn(const Shape& shape, const RandomOptions& options, Generator& generator) {
  return normal(0, 1, shape, options, generator);
}

Tensor rand_like(const Tensor& x, Generator& generator) {
  require_defined("rand_like", x);
  return rand(x.shape(), {.dtype = x.dtype(), .device = x.device()}, generator);
}
Tensor randn_like(const Tensor& x, Generator& generator) {
  require_defined("randn_like", x);
  return randn(x.shape(), {.dtype = x.dtype(), .device = x.device()}, generator);
}

Tensor randint(std::int64_t low, std::int64_t high, const Shape& shape, const RandomOptions& options,
               Generator& generator) {
  const DType dtype = options.dtype.value_or(DType::i64);
  require_compute_dtype("randint", dtype);
  const std::string got = std::string("[") + std::to_string(low) + ", " + std::to_string(high) + ")";
  if (low >= high) throw ValueError("randint", "low < high", got, "high itself is never drawn");
  if (!holds(dtype, low, high - 1)) {
    throw ValueError("randint", "integers that " + to_string(dtype) + " holds exactly", got,
                     "use a wider dtype");
  }
  Tensor out = new_tensor(shape, options, dtype);
  const kernels::RandomWords words =
      draw("randint", generator_of(options, generator), out.numel(), 2, out.device());
  const std::uint64_t range = static_cast<std::uint64_t>(high) - static_cast<std::uint64_t>(low);
  if (out.numel() > 0)
    kernels::generate<std::int64_t>(out.device(), kernels::IntegerBlocks{words, low, range}, view_of(out));
  return out;
}

Tensor random_mask(double probability, const Shape& shape, Device device, Generator& generator) {
  if (!(probability >= 0 && probability <= 1)) {
    throw ValueError("random_mask", "a probability in [0, 1]", number_text(probability), "check it");
  }
  Tensor out = empty(shape, {.dtype = DType::boolean, .device = device});
  const kernels::RandomWords words = draw("random_mask", generator, out.numel(), 1, device);
  const auto threshold = static_cast<std::uint64_t>(std::llround(probability * 0x1p32));
  if (out.numel() > 0) kernels::generate<float>(device, MaskBlocks{words, threshold}, view_of(out));
  return out;
}

Tensor randperm(std::int64_t n, const RandomOptions& options, Generator& generator) {
  if (n < 0) throw ValueError("randperm", "a count of at least 0", std::to_string(n), "check the count");
  require_compute_dtype("randperm", options.dtype.value_or(DType::i64));
  if (options.dtype && n > 0 && !holds(*options.dtype, 0, n - 1)) {
    throw ValueError("randperm", "integers that " + to_string(*options.dtype) + " holds exactly",
                     "0 .. " + std::to_string(n - 1), "use a wider dtype");
  }
  static_cast<void>(layout::checked_numel("randperm", {n}));
  // A tensor's memory: where there is none, the error is ours.
  const Tensor numbers = empty({n}, {.dtype = DType::i64});
  const std::span<std::int64_t> order = numbers.mutable_data<std::int64_t>();
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = static_cast<std::int64_t>(i);
  const kernels::RandomWords words = draw("randperm", generator_of(options, generator), n, 2, Device::cpu());
  // Element i changes places with an element up to and including itself, from the last on.
  for (std::int64_t i = n - 1; i > 0; --i) {
    const PhiloxBlock four = words(i / 2);
    const int first = static_cast<int>(i % 2) * 2;
    const auto range = static_cast<std::uint64_t>(i) + 1;
    const std::int64_t other = kernels::IntegerBlocks{words, 0, range}.value(four[first], four[first + 1]);
    std::swap(order[static_cast<std::size_t>(i)], order[static_cast<std::size_t>(other)]);
  }
  return detail::from_host(
      order.data(), DType::i64, n, {n}, DType::i64,
      {.dtype = options.dtype, .device = options.device, .requires_grad = options.requires_grad});
}

}  // namespace mezzo
