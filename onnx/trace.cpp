// An observer of ops that keeps their tensors. Writes in place are no ops; the versions of all tensors tell
// of them in the end.
#include "mezzo/onnx/trace.h"

#include <optional>
#include <utility>

#include "mezzo/amp/autocast.h"
#include "mezzo/autograd/op_observer.h"
#include "mezzo/autograd/registry.h"
#include "mezzo/core/error.h"
#include "mezzo/nn/call.h"
#include "mezzo/ops/cast.h"

namespace mezzo::onnx {

namespace {

class Tracer final : public OpObserver {
 public:
  Tracer(std::int64_t opset, IsMapped is_mapped) : opset_(opset), is_mapped_(is_mapped), guard_(this) {}

  void ran(const OpInfo& /*info*/, Inputs /*inputs*/, std::optional<DType> /*run_dtype*/,
           const Outputs& /*outputs*/) override {}
  void ran_with(const OpInfo& info, Inputs inputs, std::optional<DType> run_dtype, const Outputs& outputs,
                const AttrsView& attrs) override {
    if (OpObserver* const outer = guard_.outer()) outer->ran_with(info, inputs, run_dtype, outputs, attrs);
    TracedOp op{.name = std::string(info.name.value), .attrs = attrs.to_value()};
    for (const TensorRef& input : inputs) op.inputs.push_back(input.get());
    op.outputs.assign(outputs.begin(), outputs.end());
    if (const nn::Module* const module = nn::detail::innermost_call()) {
      op.module = module->path();
      op.place = module->described();
    }
    const RegistryEntry* const entry = is_mapped_(op, opset_) ? nullptr : find_op(op.name);
    if (entry != nullptr && entry->has_reference()) return add_composition(*entry, op, run_dtype);
    add(std::move(op));
  }

  /// The ops, unless one of their tensors was written to behind their back.
  [[nodiscard]] std::vector<TracedOp> finish() {
    std::size_t next = 0;
    for (const TracedOp& op : ops_) {
      for (const auto* tensors : {&op.inputs, &op.outputs}) {
        for (const Tensor& tensor : *tensors) {
          if (!tensor.defined() || tensor.version() == versions_[next++]) continue;
          throw StateError("export_onnx", "a forward that leaves the tensors of its ops as they are",
                           "a write in place into " +
                               std::string(tensors == &op.inputs ? "an input" : "the result") + " of '" +
                               op.name + "'" + (op.place.empty() ? "" : " in " + op.place),
                           "call an op that returns a new tensor: a graph has no writes");
        }
      }
    }
    return std::move(ops_);
  }

 private:
  void add(TracedOp op) {
    for (const auto* tensors : {&op.inputs, &op.outputs}) {
      for (const Tensor& tensor : *tensors) {
        if (tensor.defined()) versions_.push_back(tensor.version());
      }
    }
    ops_.push_back(std::move(op));
  }

  /// The ops of the plain composition, which this observer is told of, then their results under the names of
  /// the op's own.
  void add_composition(const RegistryEntry& entry, TracedOp& op, std::optional<DType> run_dtype) {
    const NoInputHook no_autocast;
    std::vector<Tensor> inputs = op.inputs;
    for (Tensor& input : inputs) {
      if (run_dtype && input.defined() && is_floating(input.dtype())) input = to(input, *run_dtype);
    }
    const SmallVector<TensorRef, 8> refs(inputs.begin(), inputs.end());
    const Outputs results = entry.call_reference(Inputs(refs), op.attrs);
    op.name = kSameValues;
    op.inputs.assign(results.begin(), results.end());
    op.attrs = {};
    add(std::move(op));
  }

  std::int64_t opset_;
  IsMapped is_mapped_;
  std::vector<TracedOp> ops_;
  std::vector<std::uint32_t> versions_;  // of all defined tensors, in the order of the ops
  OpObserverGuard guard_;
};

}  // namespace

Trace trace(const Forward& forward, const std::vector<Tensor>& inputs, DType precision, std::int64_t opset,
            IsMapped is_mapped) {
  Trace result{.inputs = inputs};
  Tracer tracer(opset, is_mapped);
  {
    // Without its cache, so that each use of a weight has its cast in the trace.
    const amp::Autocast autocast(precision, {.enabled = precision != DType::f32, .cache_enabled = false});
    result.outputs = forward.run(inputs);
  }
  result.ops = tracer.finish();
  return result;
}

}  // namespace mezzo::onnx
