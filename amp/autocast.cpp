// Autocast as the input hook of a thread (autograd/input_hook.h): casts an op's inputs by the op's
// category. The state of all open regions is packed into one 64-bit context. The end of the outermost
// region drops the 16-bit copies of weights that no optimizer keeps.
#include "mezzo/amp/autocast.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <unordered_map>
#include <utility>

#include "mezzo/amp/detail/cast_log.h"
#include "mezzo/amp/module_precision.h"
#include "mezzo/amp/policy.h"
#include "mezzo/autograd/bind.h"
#include "mezzo/autograd/half_copy.h"
#include "mezzo/autograd/op_observer.h"
#include "mezzo/core/backend.h"
#include "mezzo/core/error.h"
#include "mezzo/core/memory/per_thread.h"
#include "mezzo/core/memory/scope_list.h"
#include "mezzo/ops/cast.h"
#include "mezzo/ops/linalg/float8.h"

namespace mezzo::amp {

namespace {

/// The autocast state of a thread, or the options of one region. Its bytes are InputHookState::context, so
/// that a node can keep it.
struct State {
  struct Region {
    bool enabled = false;
    DType dtype = DType::bf16;
    std::uint8_t float8 = 0;  ///< number of its float8 options (amp/float8.h); 0: none
  };
  std::array<Region, kDeviceTypeCount> regions{Region{false, DType::bf16, 0}, Region{false, DType::f16, 0}};
  bool is_set : 1 = true;  ///< tells it from the zero of a thread without regions
  bool cache : 1 = true;
  // Of a region's options: those of `types` count, a bit for each type of device.
  bool sets_cache : 1 = false;
  bool keeps_dtype : 1 = false;  ///< that of an enabled 16-bit region around it counts
  std::uint8_t types : 4 = 0;
  std::uint8_t asks_float8 = 0;  ///< InputHookState::kAsksFloat8

  /// The remainder, as g++ leaves whatever it is in the upper bits of a byte that it passes, and clang, which
  /// may have compiled the library, believes that they are 0.
  [[nodiscard]] const Region& at(DeviceType type) const {
    return regions[static_cast<std::size_t>(type) % regions.size()];
  }
  [[nodiscard]] std::uint64_t context() const { return std::bit_cast<std::uint64_t>(*this); }
  [[nodiscard]] static State of(std::uint64_t context) {
    const auto state = std::bit_cast<State>(context);
    return state.is_set ? state : State();
  }
};
static_assert(sizeof(State) == 8 && std::endian::native == std::endian::little);
constexpr std::uint8_t kAsksFloat8 = InputHookState::kAsksFloat8 >> 56U;
static_assert(detail::kMostFloat8Options <= 255);

State current() { return State::of(input_hook_state().context); }

void autocast_hook(HookedCall& call);

/// The state inside of a region, from the state around it: a region is for some types of devices, and may set
/// `cache_enabled`.
InputHookState derived_state(const InputHookState& before, const InputHookState& region) noexcept {
  State state = State::of(before.context);
  const State own = State::of(region.context);
  for (std::size_t type = 0; type < state.regions.size(); ++type) {
    if (((own.types >> type) & 1U) == 0) continue;
    const State::Region around = std::exchange(state.regions[type], own.regions[type]);
    if (!own.keeps_dtype) continue;
    const bool is_kept = around.enabled && is_16bit(around.dtype);
    state.regions[type].dtype = is_kept ? around.dtype : State().regions[type].dtype;
  }
  if (own.sets_cache) state.cache = own.cache;
  const bool any =
      std::any_of(state.regions.begin(), state.regions.end(), [](const auto& r) { return r.enabled; });
  const bool float8 = std::any_of(state.regions.begin(), state.regions.end(),
                                  [](const auto& r) { return r.enabled && r.float8 != 0; });
  state.asks_float8 = float8 ? kAsksFloat8 : 0;
  return {any ? autocast_hook : nullptr, state.context()};
}

/// The leaves whose 16-bit copies were asked for in the regions that are open on a thread, disabled ones too.
class CachedLeaves {
 public:
  ~CachedLeaves() { drop(); }
  void add(const Tensor& leaf) { leaves_.try_emplace(&leaf.impl(), leaf.ref()); }
  void drop() noexcept {
    for (const auto& [impl, leaf] : leaves_) drop_half_copies(*leaf);
    leaves_.clear();
  }

 private:
  std::unordered_map<const TensorImpl*, Ref<TensorImpl>> leaves_;
};
constinit mezzo::detail::PerThread<CachedLeaves> cached_leaves;

void region_gone() noexcept {
  if (mezzo::detail::derived_input_hooks() == 0) cached_leaves.get().drop();
}

// Read only where there are observers, so it need not be at a fixed offset.
constinit mezzo::detail::PerThread<mezzo::detail::ScopeList<CastLog*>> logs;
constinit std::atomic<std::uint64_t> logs_made{0};

template <class F>
void each_log(F tell) noexcept {
  for (mezzo::detail::Scope<CastLog*>* scope = logs.get().newest(); scope != nullptr; scope = scope->older)
    tell(static_cast<mezzo::detail::OpenScope<CastLog*>&>(*scope));
}

/// Reports one cast to the thread's logs, unless it is a part of an op. Logs may end while the cast runs.
class LoggedCast : mezzo::detail::NoCopy {
 public:
  LoggedCast(const Tensor& tensor, DType dtype, bool kept)
      : last_(op_observer() != nullptr && logs.get().newest() != nullptr ? logs_made.load() : 0) {
    if (last_ == 0) return;
    each_log([&](auto& scope) { scope.value->begin_cast(tensor, dtype, kept); });
  }
  ~LoggedCast() {
    if (last_ == 0) return;
    each_log([&](auto& scope) {
      if (scope.number <= last_) scope.value->end_cast();
    });
  }

 private:
  std::uint64_t last_;  // number of the newest log that was told; 0: none was
};

bool eligible(const Tensor& tensor, const State& state) {
  return tensor.defined() && (tensor.dtype() == DType::f32 || is_16bit(tensor.dtype())) &&
         state.at(tensor.device().type).enabled;
}

/// Whether the copies of a tensor may be kept for the region.
bool is_cached(const Tensor& tensor, const State& state) {
  return state.cache && tensor.dtype() == DType::f32 && tensor.is_leaf() && tensor.requires_grad() &&
         !tensor.impl().is_view && !tensor.is_inference() && mezzo::detail::derived_input_hooks() > 0;
}

/// The cast of a weight: the cached copy with a history of its own, so that no kernel runs. `for_call`: an op
/// is called with it, and nobody else gets it.
Tensor cast_leaf(const Tensor& leaf, DType dtype, bool for_call) {
  bool to_drop = false;
  Outputs cast(for_call ? half_copy_for_call(leaf, dtype, &to_drop) : half_copy(leaf, dtype, &to_drop));
  if (to_drop) cached_leaves.get().add(leaf);
  if (!for_call && grad_enabled()) record(to_dtype_descriptor(), {leaf}, ToDTypeAttrs{dtype}, cast);
  return std::move(cast[0]);
}

Tensor cast(const Tensor& tensor, DType dtype, const State& state, bool for_call) {
  if (tensor.dtype() == dtype) return tensor;
  const bool weight = is_16bit(dtype) && is_cached(tensor, state);
  const LoggedCast logged(tensor, dtype, weight);
  if (weight) return cast_leaf(tensor, dtype, for_call);
  const NoInputHook no_autocast;
  return to(tensor, dtype);
}

/// Rewrites the eligible inputs with `choose(tensor)`.
template <class F>
void rewrite(HookedCall& call, const State& state, F choose) {
  const bool changes = std::any_of(call.inputs.begin(), call.inputs.end(), [&](const TensorRef& input) {
    return eligible(input, state) && choose(input.get()) != input->dtype();
  });
  if (!changes) return;
  for (const TensorRef& input : call.inputs) {
    if (eligible(input, state))
      call.rewritten.push_back(cast(input, choose(input.get()), state, true));
    else
      call.rewritten.push_back(input.get());
  }
}

void run_in_f32(HookedCall& call, const State& state) {
  if (call.explicit_dtype) return;
  const bool has_f64 = std::any_of(call.inputs.begin(), call.inputs.end(), [](const TensorRef& input) {
    return input->defined() && input->dtype() == DType::f64;
  });
  const bool any_16bit = std::any_of(call.inputs.begin(), call.inputs.end(), [&](const TensorRef& input) {
    return eligible(input, state) && is_16bit(input->dtype());
  });
  if (call.info.reads_16bit && !has_f64) {
    if (any_16bit) call.run_dtype = DType::f32;
  } else {
    rewrite(call, state, [](const Tensor& /*input*/) { return DType::f32; });
  }
}

void promote_inputs(HookedCall& call, const State& state) {
  std::optional<DType> widest;
  for (const TensorRef& input : call.inputs) {
    if (eligible(input, state)) widest = widest ? promote(*widest, input->dtype()) : input->dtype();
  }
  if (widest) rewrite(call, state, [&](const Tensor& /*input*/) { return *widest; });
}

void refuse_if_enabled(const HookedCall& call, const State& state) {
  for (const TensorRef& input : call.inputs) {
    if (!input->defined() || !state.at(input->device().type).enabled) continue;
    throw StateError(call.info.name.value, "a call outside of an autocast region",
                     "one inside (its gradient may not be representable in 16 bits)", call.info.banned_fix);
  }
}

/// Has the operands of a product quantised where it is to run in float8.
void answer(Float8Request& request, const OpInfo& info, const State& state) {
  const Float8Product& product = request.product;
  const State::Region& region = state.at(product.x.device().type);
  const Fp8* const options = detail::float8_options(region.float8);
  const bool eligible_all = eligible(product.x, state) && eligible(product.weight, state) &&
                            (!product.bias.defined() || eligible(product.bias, state));
  if (options == nullptr || !eligible_all || effective_category(info) != Category::lower_precision ||
      !detail::why_not_float8(*options, product.n(), product.k()).empty())
    return;
  request.granted = true;
  request.dtype = region.dtype;
  request.recipe = {options->gradients, options->power_of_two, options->gradient_weight};
  {
    const LoggedCast logged(product.x, DType::f8_e4m3, false);
    ops::quantize_input(request);
  }
  const bool kept = is_cached(product.weight, state);
  const LoggedCast logged(product.weight, DType::f8_e4m3, kept);
  if (kept) cached_leaves.get().add(product.weight);
  ops::quantize_weight(request, kept);
}

void autocast_hook(HookedCall& call) {
  const State state = current();
  if (op_observer() != nullptr) each_log([](auto& scope) { scope.value->begin_op(); });
  if (call.float8 != nullptr) return answer(*call.float8, call.info, state);
  const std::optional<Category> overridden = category_override(call.info);
  if (call.info.cast_inputs && !overridden) {
    rewrite(call, state, [&](const Tensor& /*input*/) { return *call.info.cast_inputs; });
    return;
  }
  switch (overridden.value_or(call.info.category.value)) {
    case Category::lower_precision:
      rewrite(call, state, [&](const Tensor& input) { return state.at(input.device().type).dtype; });
      return;
    case Category::fp32:
      run_in_f32(call, state);
      return;
    case Category::promote:
      promote_inputs(call, state);
      return;
    case Category::banned:
      refuse_if_enabled(call, state);
      return;
    case Category::passthrough:
      return;
  }
}

mezzo::detail::OpenScope<InputHookState>* begin_region(const State& options) {
  return mezzo::detail::begin_input_hook({nullptr, options.context()}, derived_state, region_gone);
}
/// For the types of devices that `types` has the bits of.
mezzo::detail::OpenScope<InputHookState>* begin_region(std::uint8_t types, DType dtype,
                                                       const AutocastOptions& options) {
  if (options.enabled && !is_16bit(dtype) && dtype != DType::f32) {
    throw ValueError("Autocast", "f16, bf16 or f32", mezzo::to_string(dtype), "choose one of them");
  }
  if (options.enabled && options.fp8 && !is_16bit(dtype)) {
    throw ValueError("Autocast", "f16 or bf16 beside fp8", mezzo::to_string(dtype), "choose one of them");
  }
  State state;
  state.regions.fill(
      {options.enabled, dtype, static_cast<std::uint8_t>(options.fp8 ? detail::number_of(*options.fp8) : 0)});
  state.types = types;
  state.sets_cache = options.cache_enabled.has_value();
  state.cache = options.cache_enabled.value_or(false);
  return begin_region(state);
}

/// The bit of a device's type. Throws when casts are to be made on a device that is not there.
std::uint8_t type_of(Device device, const AutocastOptions& options) {
  if (options.enabled) static_cast<void>(backend(device));
  return static_cast<std::uint8_t>(1U << static_cast<unsigned>(device.type));
}

constexpr std::uint8_t kAllTypes = (1U << kDeviceTypeCount) - 1;

}  // namespace

CastLogGuard::CastLogGuard(CastLog& log) : scope_(logs.get().begin(&log)) { scope_->number = ++logs_made; }
CastLogGuard::~CastLogGuard() { logs.get().end(scope_); }

Autocast::Autocast(Device device, std::optional<DType> dtype, const AutocastOptions& options)
    : scope_(
          begin_region(type_of(device, options), dtype.value_or(current().at(device.type).dtype), options)) {}

Autocast::Autocast(DType dtype, const AutocastOptions& options)
    : scope_(begin_region(kAllTypes, dtype, options)) {}

Autocast::~Autocast() { mezzo::detail::end_input_hook(scope_); }

mezzo::detail::OpenScope<InputHookState>* detail::begin_rule(const PrecisionRule& rule,
                                                             std::uint64_t float8) {
  if (rule.dtype) return begin_region(kAllTypes, *rule.dtype, {});
  if (!rule.float8) return begin_region(kAllTypes, DType::f32, {.enabled = false});
  State state;
  state.regions.fill({true, DType::bf16, static_cast<std::uint8_t>(float8)});
  state.types = kAllTypes;
  state.keeps_dtype = true;
  return begin_region(state);
}

bool is_autocast_enabled(DeviceType type) { return current().at(type).enabled; }
DType autocast_dtype(DeviceType type) { return current().at(type).dtype; }
bool is_autocast_eligible(const Tensor& tensor) { return eligible(tensor, current()); }
Tensor cast_to_region(const Tensor& tensor) {
  const State state = current();
  return eligible(tensor, state) ? cast(tensor, state.at(tensor.device().type).dtype, state, false) : tensor;
}
const Fp8* autocast_fp8(DeviceType type) {
  const State state = current();
  return state.at(type).enabled ? detail::float8_options(state.at(type).float8) : nullptr;
}
bool is_autocast_cache_enabled() { return current().cache; }

}  // namespace mezzo::amp
