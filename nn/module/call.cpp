// The scopes of the observers of module calls, what a watched call tells whom, and what a running call knows.
#include "mezzo/nn/call.h"

#include <algorithm>
#include <atomic>
#include <string>
#include <utility>
#include <vector>

#include "mezzo/autograd/progress.h"
#include "mezzo/core/memory/scope_list.h"
#include "mezzo/core/warning.h"
#include "mezzo/nn/dropout.h"
#include "mezzo/nn/module.h"

template class mezzo::detail::ScopeGuard<mezzo::nn::CallObserver*, mezzo::nn::detail::call_observers>;

namespace mezzo::nn {

namespace {

using CallScope = mezzo::detail::OpenScope<CallObserver*>;

constinit thread_local mezzo::detail::ScopeList<CallObserver*> observers;
constinit std::atomic<std::uint64_t> observers_made{0};

/// All scopes of this kind are guards'.
[[nodiscard]] CallScope* newest() noexcept { return static_cast<CallScope*>(observers.newest()); }

}  // namespace

mezzo::detail::ScopeList<CallObserver*>& detail::call_observers() noexcept { return observers; }
CallObserver* detail::call_observer() noexcept { return observers.value_or(nullptr); }

CallObserverGuard::CallObserverGuard(CallObserver& observer) : ScopeGuard(&observer) {
  scope_->number = ++observers_made;
}

namespace {

/// The innermost call on this thread.
constinit thread_local const detail::RunningCall* running = nullptr;

/// Whether walks over the model must not miss the module: an optimizer, a checkpoint or `eval()` would. (A
/// frozen model, such as a teacher, may stay outside.)
bool must_be_registered(const Module& module) {
  const std::vector<Tensor> parameters = module.parameters();
  if (!parameters.empty())
    return std::any_of(parameters.begin(), parameters.end(),
                       [](const Tensor& p) { return p.requires_grad(); });
  const auto modules = module.named_modules();
  return std::any_of(modules.begin(), modules.end(), [](const auto& part) {
    return !part.second->buffer_slots().empty() || dynamic_cast<const DropoutLayer*>(part.second) != nullptr;
  });
}

}  // namespace

namespace detail {

RunningCall::RunningCall(const Module& module)
    : module_(module), outer_(running), activity_(ActivityKind::module_call, {}, &module) {
  static constinit WarningSite site("unregistered_module");
  if (outer_ != nullptr && &outer_->module_ != &module && module.holders_.empty() && site.is_fresh() &&
      must_be_registered(module)) {
    const std::string type = module.type_name();
    site.warn(
        outer_->module_.described(), "modules that its slots hold",
        "a call of a " + type + " that no slot holds, so no optimizer, checkpoint or eval() sees it",
        "declare it as nn::Child<nn::" + type + "> name{*this, \"name\", nn::" + type +
            "(...)}, put several into an nn::ModuleList, or requires_grad_(false) if it is to stay outside");
  }
  if (module.region_ != nullptr) region_ = module.region_->begin();
  running = this;
}
RunningCall::~RunningCall() {
  running = outer_;
  if (region_ != nullptr) mezzo::detail::end_input_hook(region_);
}

const std::shared_ptr<CallRegion>& call_region(const Module& module) noexcept { return module.region_; }
void set_call_region(Module& module, std::shared_ptr<CallRegion> region) noexcept {
  module.region_ = std::move(region);
}

const Module* innermost_call() noexcept { return running == nullptr ? nullptr : &running->module(); }
const Module* outermost_call() noexcept {
  const RunningCall* call = running;
  while (call != nullptr && call->outer() != nullptr) call = call->outer();
  return call == nullptr ? nullptr : &call->module();
}

void RunningCall::ends_with(Error& error) const { error.set_place(module_.described()); }

WatchedCall::WatchedCall(const Module& module) : module_(module) {
  const CallScope* const scope = newest();
  if (scope == nullptr) return;
  number_ = scope->number;
  place_ = autograd::progress().place;
  try {
    scope->value->enter(module);
    runs_ = true;
  } catch (...) {
    autograd::progress().place = place_;
    throw;
  }
}

void WatchedCall::leave(const Tensor* output) noexcept {
  // An observer that is no longer on the list has ended. Then the next older one, to which it passed `enter`
  // on, gets `leave`.
  const CallScope* scope = newest();
  while (scope != nullptr && scope->number > number_) scope = static_cast<const CallScope*>(scope->older);
  if (scope != nullptr) scope->value->leave(module_, output);
  autograd::progress().place = place_;
}

}  // namespace detail

}  // namespace mezzo::nn
