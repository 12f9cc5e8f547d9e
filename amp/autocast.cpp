// Autocast as the input hook of a thread (autograd/input_hook.h): casts an op's inputs by the op's
// category. The state of all open regions is packed into one 64-bit context. The end of the outermost
// region drops the 16-bit copies of weights that no optimizer keeps.
#include "mezzo/amp/autocast.h"

#include <algorithm>
#include <array>
#include <unordered_map>
#include <utility>

#include "mezzo/amp/cast_log.h"
#include "mezzo/amp/policy.h"
#include "mezzo/autograd/bind.h"
#include "mezzo/autograd/half_copy.h"
#include "mezzo/autograd/op_observer.h"
#include "mezzo/core/backend.h"
#include "mezzo/core/error.h"
#include "mezzo/core/memory/per_thread.h"
#include "mezzo/ops/cast.h"

namespace mezzo::amp {

namespace {

/// The autocast state of a thread, packed into InputHookState::context so that a node can keep it.
struct State {
  struct Region {
    bool enabled = false;
    DType dtype = DType::bf16;
  };
  std::array<Region, kDeviceTypeCount> regions{Region{false, DType::bf16}, Region{false, DType::f16}};
  bool cache = true;

  [[nodiscard]] Region& at(DeviceType type) { return regions[static_cast<std::size_t>(type)]; }
  [[nodiscard]] const Region& at(DeviceType type) const { return regions[static_cast<std::size_t>(type)]; }
};

constexpr std::uint64_t kSet = 1U << 31;  // tells a packed state from the zero of a thread without regions

std::uint64_t pack(const State& state) {
  std::uint64_t bits = kSet | (state.cache ? 1U : 0U);
  for (std::size_t i = 0; i < state.regions.size(); ++i) {
    const std::uint64_t region =
        (state.regions[i].enabled ? 1U : 0U) | (static_cast<std::uint64_t>(state.regions[i].dtype) << 1);
    bits |= region << (8 * (i + 4));
  }
  return bits;
}

State current() {
  State state;
  const std::uint64_t bits = input_hook_state().context;
  if ((bits & kSet) == 0) return state;
  state.cache = (bits & 1U) != 0;
  for (std::size_t i = 0; i < state.regions.size(); ++i) {
    const std::uint64_t region = bits >> (8 * (i + 4));
    state.regions[i] = {(region & 1U) != 0, static_cast<DType>((region >> 1) & 0x7FU)};
  }
  return state;
}

// Regions open on this thread, disabled ones too, and the leaves whose 16-bit copies were asked for in them.
thread_local int nesting = 0;
constinit detail::PerThread<std::unordered_map<const TensorImpl*, Ref<TensorImpl>>> cached_leaves;

thread_local CastLog* log_of_thread = nullptr;

/// Tells the thread's log of one cast, unless it is a part of an op.
class LoggedCast {
 public:
  LoggedCast(const Tensor& tensor, DType dtype, bool kept)
      : log_(log_of_thread != nullptr && op_observer() != nullptr ? log_of_thread : nullptr) {
    if (log_ != nullptr) log_->begin_cast(tensor, dtype, kept);
  }
  ~LoggedCast() {
    if (log_ != nullptr) log_->end_cast();
  }
  LoggedCast(const LoggedCast&) = delete;
  LoggedCast& operator=(const LoggedCast&) = delete;

 private:
  CastLog* log_;
};

bool eligible(const Tensor& tensor, const State& state) {
  return tensor.defined() && is_floating(tensor.dtype()) && tensor.dtype() != DType::f64 &&
         state.at(tensor.device().type).enabled;
}

/// The cast of a weight: the kept copy with a cast edge of its own, so that nothing runs but history is
/// complete.
Tensor cast_leaf(const Tensor& leaf, DType dtype) {
  cached_leaves.get().emplace(leaf.ref().get(), leaf.ref());
  Outputs cast(half_copy(leaf, dtype));
  if (grad_enabled()) record(to_dtype_descriptor(), {leaf}, ToDTypeAttrs{dtype}, cast);
  return cast[0];
}

Tensor cast(const Tensor& tensor, DType dtype, const State& state) {
  if (tensor.dtype() == dtype) return tensor;
  const bool weight = state.cache && nesting > 0 && tensor.dtype() == DType::f32 && is_16bit(dtype) &&
                      tensor.is_leaf() && tensor.requires_grad() && !tensor.impl().is_view;
  const InputHookGuard no_autocast{InputHookState{}};
  const LoggedCast logged(tensor, dtype, weight);
  return weight ? cast_leaf(tensor, dtype) : to(tensor, dtype);
}

/// Rewrites the eligible inputs with `choose(tensor)`.
template <class F>
void rewrite(HookedCall& call, const State& state, F choose) {
  const bool changes = std::any_of(call.inputs.begin(), call.inputs.end(), [&](const TensorRef& input) {
    return eligible(input, state) && choose(input.get()) != input->dtype();
  });
  if (!changes) return;
  for (const TensorRef& input : call.inputs) {
    call.rewritten.push_back(eligible(input, state) ? cast(input, choose(input.get()), state) : input.get());
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

void autocast_hook(HookedCall& call) {
  const State state = current();
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

}  // namespace

CastLog* set_cast_log(CastLog* log) noexcept { return std::exchange(log_of_thread, log); }

Autocast::Autocast(Device device, std::optional<DType> dtype, AutocastOptions options)
    : previous_(input_hook_state()) {
  static_cast<void>(backend(device));  // throws when the device is not there
  State state = current();
  State::Region& region = state.at(device.type);
  const DType chosen = dtype.value_or(region.dtype);
  if (options.enabled && !is_16bit(chosen) && chosen != DType::f32) {
    throw ValueError("Autocast", "f16, bf16 or f32", mezzo::to_string(chosen), "choose one of them");
  }
  region = {options.enabled, chosen};
  state.cache = options.cache_enabled.value_or(state.cache);
  const bool any =
      std::any_of(state.regions.begin(), state.regions.end(), [](const auto& r) { return r.enabled; });
  ++nesting;
  set_input_hook_state({any ? autocast_hook : nullptr, pack(state)});
}

Autocast::~Autocast() {
  if (--nesting == 0) {
    for (const auto& [key, leaf] : cached_leaves.get()) drop_half_copies(*leaf);
    cached_leaves.get().clear();
  }
  set_input_hook_state(previous_);
}

bool is_autocast_enabled(DeviceType type) { return current().at(type).enabled; }
DType autocast_dtype(DeviceType type) { return current().at(type).dtype; }
bool is_autocast_eligible(const Tensor& tensor) { return eligible(tensor, current()); }
Tensor cast_to_region(const Tensor& tensor) {
  const State state = current();
  return eligible(tensor, state) ? cast(tensor, state.at(tensor.device().type).dtype, state) : tensor;
}
bool is_autocast_cache_enabled() { return current().cache; }

}  // namespace mezzo::amp
