// bind: the one path every op takes. Input hook (autocast), then forward with recording off, then record. A
// breakpoint here shows the whole library at work.
#pragma once

#include "mezzo/autograd/float8.h"
#include "mezzo/autograd/grad_mode.h"
#include "mezzo/autograd/op_observer.h"
#include "mezzo/autograd/vjp_args.h"
#include "mezzo/core/activity.h"
#include "mezzo/core/current_op.h"

namespace mezzo {

namespace detail {

/// A call after the input hook: which inputs to run on and how.
class BoundCall {
 public:
  BoundCall(const OpInfo& info, Inputs inputs, std::optional<DType> explicit_dtype);
  [[nodiscard]] Inputs inputs() const { return refs_.empty() ? given_ : Inputs(refs_); }
  [[nodiscard]] std::optional<DType> run_dtype() const { return run_dtype_; }
  /// Whether recording is on and an input requires grad.
  [[nodiscard]] bool records() const;

 private:
  Inputs given_;
  SmallVector<Tensor, 4> rewritten_;
  SmallVector<TensorRef, 4> refs_;
  std::optional<DType> run_dtype_;
};

/// Recording off, no observer, and no input hook unless the op asked to run under it. Errors of the device
/// name the op.
class ForwardScope {
 public:
  explicit ForwardScope(const OpInfo& info) noexcept
      : hook_(info.runs_under_autocast ? input_hook_state() : InputHookState{}),
        name_(info.name.value),
        activity_(ActivityKind::op, info.name.value, &info) {}

 private:
  GradModeFrame no_grad_{false};
  InputHookGuard hook_;
  OpObserverFrame observer_{nullptr};
  OpScope name_;
  Activity activity_;
};

template <class A>
class OpNode final : public autograd::Node {
 public:
  OpNode(const Op<A>& op, const A& attrs) : Node(op.info), op_(op), attrs_(attrs) {}
  [[nodiscard]] Gradients apply(std::span<const Tensor> grads, std::span<const bool> needs) override {
    return op_.vjp.value.function(VjpArgs<A>(VjpContext(*this, grads, needs), op_, attrs_));
  }

 private:
  const Op<A>& op_;
  A attrs_;
};

}  // namespace detail

/// Makes `op` the history of `outputs`, as if it had computed them from `inputs`. For ops whose result is at
/// hand already (a cached cast, an in-place write); bind does it for all others.
template <class A>
void record(const Op<A>& op, Inputs inputs, const A& attrs, Outputs& outputs,
            std::optional<DType> run_dtype = {}) {
  if (op.vjp.value.function == nullptr) return;
  Ref<autograd::Node> node(new detail::OpNode<A>(op, attrs));
  node->run_dtype = run_dtype;
  if (op.info.runs_under_autocast) node->input_hook = input_hook_state();
  autograd::attach(node, inputs, outputs, op.saves);
}

/// Calls an op: autocast rewrites the inputs as its category says, forward runs unrecorded, and the call is
/// recorded when recording is on and an input requires grad. Throws: what the op's checks throw.
template <class A>
Outputs bind(const Op<A>& op, Inputs inputs, const A& attrs = {}) {
  if (op.float8 != nullptr && input_hook_state().asks_float8()) [[unlikely]] {
    const Float8Product product = op.float8->product(ForwardArgs<A>{inputs, attrs});
    Float8Request request{product};
    if (detail::ask_for_float8(op.info, request)) return op.float8->run(request);
  }
  const detail::BoundCall call(op.info, inputs, explicit_dtype(attrs));
  Outputs outputs = [&] {
    const detail::ForwardScope scope(op.info);
    return op.forward.value(ForwardArgs<A>{call.inputs(), attrs, call.run_dtype()});
  }();
  if (call.records()) record(op, call.inputs(), attrs, outputs, call.run_dtype());
  if (OpObserver* const observer = op_observer(); observer != nullptr)
    observer->ran_with(op.info, call.inputs(), call.run_dtype(), outputs, AttrsView(attrs));
  return outputs;
}

/// For ops that take a list of tensors (cat, stack, ...).
template <class A>
Outputs bind_list(const Op<A>& op, std::span<const Tensor> tensors, const A& attrs = {}) {
  const SmallVector<TensorRef, 8> refs(tensors.begin(), tensors.end());
  return bind(op, Inputs(refs), attrs);
}

}  // namespace mezzo
