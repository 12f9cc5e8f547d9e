// Op, the constexpr descriptor of an op: its name, autocast category, samples, forward and gradient. Ops of
// the library and ops of users have the same form and take the same path (autograd/bind.h).
#pragma once

#include <concepts>
#include <optional>
#include <string_view>
#include <vector>

#include "mezzo/autograd/attrs.h"
#include "mezzo/core/tensor.h"

namespace mezzo {

/// What autocast does with an op's floating inputs (f64 excepted) inside an enabled region.
enum class Category : std::uint8_t {
  lower_precision,  ///< cast to the region's dtype
  fp32,             ///< cast to f32, or read as they are by a kernel that computes and returns f32
  promote,          ///< cast to the widest floating dtype among them
  banned,           ///< refused
  passthrough,      ///< left alone
};
template <>
inline constexpr std::array<std::string_view, 5> kEnumNames<Category>{"lower_precision", "fp32", "promote",
                                                                      "banned", "passthrough"};

/// A value that must be given: a descriptor without it does not compile.
template <class T>
struct Required {
  T value;
  template <class U>
  requires std::is_convertible_v<U, T>
  constexpr Required(U given) : value(given) {}
  constexpr operator T() const { return value; }
};

/// A borrowed tensor argument; lives as long as the caller's tensor.
class TensorRef {
 public:
  TensorRef(const Tensor& tensor) noexcept : tensor_(&tensor) {}
  [[nodiscard]] const Tensor& get() const noexcept { return *tensor_; }
  const Tensor* operator->() const noexcept { return tensor_; }
  operator const Tensor&() const noexcept { return *tensor_; }

 private:
  const Tensor* tensor_;
};

/// Inputs of a call: a borrowed list that lives as long as the call. An undefined tensor stands for an
/// optional input that is not given. (Not a std::span: with an argument of namespace std, a call of `bind`
/// would find std::bind too.)
class Inputs {
 public:
  constexpr Inputs() noexcept = default;
  Inputs(std::initializer_list<TensorRef> list) noexcept : size_(list.size()) { data_ = list.begin(); }
  /// From a std::span or SmallVector of them, say. (A template: with a parameter of type std::span the
  /// compiler would check at each copy of Inputs whether they convert to one.)
  template <class R>
  requires requires(const R& list) {
    { list.data() } -> std::convertible_to<const TensorRef*>;
    list.size();
  }
  Inputs(const R& list) noexcept : data_(list.data()), size_(list.size()) {}
  template <std::size_t N>
  explicit Inputs(const TensorRef (&list)[N]) noexcept : data_(list), size_(N) {}
  [[nodiscard]] std::size_t size() const noexcept { return size_; }
  [[nodiscard]] bool empty() const noexcept { return size_ == 0; }
  [[nodiscard]] const TensorRef* begin() const noexcept { return data_; }
  [[nodiscard]] const TensorRef* end() const noexcept { return data_ + size_; }
  const TensorRef& operator[](std::size_t i) const noexcept { return data_[i]; }

 private:
  const TensorRef* data_ = nullptr;
  std::size_t size_ = 0;
};

/// Results of a call. One that holds a single tensor converts to it.
class Outputs : public Tensors {
 public:
  using Tensors::Tensors;
  Outputs(Tensor single) { push_back(std::move(single)); }
  Outputs(Tensors list) noexcept : Tensors(std::move(list)) {}
  operator Tensor() && { return std::move((*this)[0]); }
};

/// Gradients of a node's inputs, in their order; an undefined tensor is "none".
using Gradients = SmallVector<Tensor, 4>;

/// Reasons why the registry sweep leaves out a check of an op. An empty reason means that the check runs;
/// each reason prints.
struct SweepOptOut {
  std::string_view gradient = {};         ///< finite differences of the first derivative
  std::string_view second_gradient = {};  ///< ... of the second
  std::string_view low_precision = {};    ///< 16-bit results against f64
  std::string_view autocast = {};         ///< result dtype and equality with manual casts
  std::string_view strided = {};          ///< non-contiguous inputs
};

/// A set of tensors by index: bit i is tensor i; bit 31 stands for 31 and beyond.
template <class... I>
constexpr std::uint32_t tensor_set(I... index) {
  return ((1U << index) | ...);
}
/// The set of one tensor, whose index may be beyond 31.
[[nodiscard]] constexpr std::uint32_t set_of(std::size_t index) { return 1U << (index < 31 ? index : 31); }
[[nodiscard]] constexpr bool is_in(std::uint32_t set, std::size_t index) {
  return (set & set_of(index)) != 0;
}

/// The part of a descriptor that does not depend on its attributes.
struct OpInfo {
  Required<std::string_view> name;  ///< unique; torch's name where torch has the op
  Required<Category> category;
  /// The function to call instead; for Category::banned.
  std::string_view banned_fix = {};
  /// Category::fp32 only: the kernel widens 16-bit inputs itself and honours ForwardArgs::run_dtype, so no
  /// f32 copy is made.
  bool reads_16bit = false;
  /// Inputs that may be left out (tensor_set); an undefined tensor elsewhere is refused.
  std::uint32_t optional_inputs = 0;
  /// Runs in float8 where autocast is asked for it (Op::float8).
  bool runs_in_float8 = false;
  /// Moves or casts elements, float8 too; all other ops refuse float8 inputs and results.
  bool takes_float8 = false;
  /// Takes any number of inputs; all other ops take as many as their samples have.
  bool takes_list = false;
  /// Inputs broadcast together and each output element depends on one element of each: lets the sweep derive
  /// shapes.
  bool elementwise = false;
  /// Forward and vjp run under the autocast region of the call instead of none (torch.amp.custom_fwd /
  /// custom_bwd).
  bool runs_under_autocast = false;
  /// Inside an enabled region, cast floating inputs (not f64) to this and run with autocast off
  /// (custom_fwd(cast_inputs)). An amp::PolicyOverride of the op takes its place.
  std::optional<DType> cast_inputs = {};
  SweepOptOut opt_out = {};
};

/// The arguments of a forward.
template <class A>
struct ForwardArgs {
  Inputs inputs;
  const A& attrs;
  /// f32 when autocast asks a `reads_16bit` op for an f32 result of 16-bit inputs.
  std::optional<DType> run_dtype = {};
  [[nodiscard]] const Tensor& in(std::size_t i) const { return inputs[i].get(); }
};

template <class A>
class VjpArgs;  // autograd/vjp_args.h

/// The gradient of an op: a function in public ops only (so that higher derivatives follow), or the reason
/// why there is none.
template <class A>
struct Vjp {
  using Function = Gradients (*)(const VjpArgs<A>&);
  Function function = nullptr;
  std::string_view none_because = {};
  constexpr Vjp(Function f) : function(f) {}
  template <class F>
  requires std::is_convertible_v<F, Function>
  constexpr Vjp(F f) : function(f) {}
  constexpr explicit Vjp(std::string_view reason) : none_because(reason) {}
};
/// For ops whose result has no gradient.
struct NotDifferentiable {
  std::string_view because;
  template <class A>
  constexpr operator Vjp<A>() const {
    return Vjp<A>(because);
  }
};
inline constexpr NotDifferentiable kBoolResult{"the result is bool"};

/// Which inputs and outputs a vjp reads the values of (tensor_set). Shapes and dtypes are always there.
struct Saves {
  std::uint32_t inputs = ~0U;
  std::uint32_t outputs = ~0U;
  /// Saved inputs whose values only the gradients of other saved inputs read. Not saved where no other saved
  /// input requires grad: a layer whose weight is frozen keeps no activations.
  std::uint32_t factors = 0;
};
inline constexpr Saves kSaveAll{};
inline constexpr Saves kSaveNothing{0, 0};
template <class... I>
constexpr Saves save_inputs(I... index) {
  return {tensor_set(index...), 0};
}
/// For a product of these inputs: the gradient of each factor reads the other factors and not itself.
template <class... I>
constexpr Saves save_factors(I... index) {
  return {tensor_set(index...), 0, tensor_set(index...)};
}
template <class... I>
constexpr Saves save_outputs(I... index) {
  return {0, tensor_set(index...)};
}

/// How the sweep fills an input.
enum class SampleKind : std::uint8_t {
  real,
  distinct,
  index,
  mask,
  codes,  ///< f8_e4m3
  f32,    ///< real, in f32 whatever the others are in
  absent
};

/// One input of a sample call.
struct SampleInput {
  SampleKind kind = SampleKind::real;
  Shape shape = {};
  double low = -2, high = 2;    ///< range of a real input; indices are in [0, high), legal in [low, high)
  double kink = 0, margin = 0;  ///< a real input stays `margin` away from `kink`
  bool grad = true;             ///< whether its gradient is checked
};
// These are cold functions, as only tests and the op table call them: functions that call them are cold too
// and compiled for size.
namespace op_samples {
/// Uniform in [low, high].
[[nodiscard, gnu::cold]] inline SampleInput real(Shape shape, double low = -2, double high = 2) {
  return {.shape = shape, .low = low, .high = high};
}
/// Uniform in [-2, 2] but not within 0.1 of a point where the op has no derivative.
[[nodiscard, gnu::cold]] inline SampleInput smooth(Shape shape, double kink = 0) {
  return {.shape = shape, .kink = kink, .margin = 0.1};
}
/// All values differ by at least 0.05: for max, sort and the like.
[[nodiscard, gnu::cold]] inline SampleInput distinct(Shape shape) {
  return {.kind = SampleKind::distinct, .shape = shape};
}
/// i64 in [0, limit).
[[nodiscard, gnu::cold]] inline SampleInput index(Shape shape, std::int64_t limit) {
  return {
      .kind = SampleKind::index, .shape = shape, .low = 0, .high = static_cast<double>(limit), .grad = false};
}
/// i64 in [0, limit) for ops that also take negative indices, which count from the end.
[[nodiscard, gnu::cold]] inline SampleInput index_from_end(Shape shape, std::int64_t limit) {
  SampleInput result = index(shape, limit);
  result.low = -result.high;
  return result;
}
[[nodiscard, gnu::cold]] inline SampleInput mask(Shape shape) {
  return {.kind = SampleKind::mask, .shape = shape, .grad = false};
}
/// A real input that has no gradient.
[[nodiscard, gnu::cold]] inline SampleInput constant(Shape shape, double low = -2, double high = 2) {
  return {.shape = shape, .low = low, .high = high, .grad = false};
}
/// Codes of float8, what they are made of, and their inverse scale.
[[nodiscard, gnu::cold]] inline SampleInput codes(Shape shape) {
  return {.kind = SampleKind::codes, .shape = shape, .grad = false};
}
[[nodiscard, gnu::cold]] inline SampleInput real_f32(Shape shape) {
  return {.kind = SampleKind::f32, .shape = shape, .grad = false};
}
[[nodiscard, gnu::cold]] inline SampleInput factor(Shape shape) {
  return {.kind = SampleKind::f32, .shape = shape, .low = 0.5, .grad = false};
}
/// An optional input that is not given.
[[nodiscard, gnu::cold]] inline SampleInput absent() { return {.kind = SampleKind::absent, .grad = false}; }
}  // namespace op_samples

/// A representative call.
template <class A>
struct Sample {
  std::vector<SampleInput> inputs;
  A attrs = {};
};

template <class A>
struct Float8Form;  // autograd/float8.h

/// The descriptor: everything there is to know about an op. Define it as a constexpr object of static storage
/// duration, as nodes point to it.
template <class A = NoAttrs>
struct Op {
  using Attrs = A;
  using Forward = Outputs (*)(const ForwardArgs<A>&);
  using SampleList = std::vector<Sample<A>> (*)();
  OpInfo info;
  Required<SampleList> samples;
  /// Computes the outputs. Runs with recording and autocast off. Checks its inputs and throws.
  Required<Forward> forward;
  Required<Vjp<A>> vjp;
  Saves saves = kSaveAll;
  /// For fused ops: the plain composition of public ops with the same meaning; the oracle in tests, and what
  /// kDecomposed (autograd/decomposed.h) differentiates.
  Forward reference = nullptr;
  /// For products: the float8 form, which autocast asks for where float8 is on (`info.runs_in_float8`).
  const Float8Form<A>* float8 = nullptr;
};

}  // namespace mezzo
