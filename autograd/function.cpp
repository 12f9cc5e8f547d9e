// Ops as closures: a node that calls one of them.
#include "mezzo/autograd/function.h"

#include <algorithm>
#include <vector>

#include "mezzo/autograd/bind.h"
#include "mezzo/autograd/region.h"
#include "mezzo/core/error.h"

namespace mezzo::autograd {

namespace {
constexpr OpInfo kFunctionInfo{.name = "autograd::function",
                               .category = Category::passthrough,
                               .optional_inputs = ~0U,
                               .runs_under_autocast = true};
}  // namespace

class FunctionNode final : public Node {
 public:
  explicit FunctionNode(FunctionBackward backward) : Node(kFunctionInfo), backward_(std::move(backward)) {
    input_hook = input_hook_state();
  }

  /// Keeps tensors that forward has saved, after attach.
  void save(const Tensors& tensors, TensorList inputs, const Outputs& results) {
    const auto place_in = [](const Tensor& tensor, const auto& list) {
      const auto found = std::find_if(list.begin(), list.end(), [&](const Tensor& other) {
        return other.defined() && tensor.defined() && tensor.is_same(other);
      });
      return static_cast<std::size_t>(found - list.begin());
    };
    for (const Tensor& tensor : tensors) {
      const std::size_t result = place_in(tensor, results), input = place_in(tensor, inputs);
      if (result < results.size()) {
        saved_outputs[result] = {tensor.detach(), tensor.version()};
        places_.push_back({true, result});
      } else if (input < inputs.size()) {
        saved_inputs[input] = {with_present_history(tensor), tensor.version()};
        places_.push_back({false, input});
      } else {
        places_.push_back({false, saved_inputs.size()});
        saved_inputs.push_back({tensor, tensor.defined() ? tensor.version() : 0});
      }
    }
  }

  [[nodiscard]] Gradients apply(std::span<const Tensor> grads, std::span<const bool> needs) override {
    FunctionContext context;
    context.needs_ = needs;
    for (const auto& [is_result, index] : places_)
      context.saved_.push_back(is_result ? unpack_output(index) : unpack_input(index));
    Tensors given;
    for (std::size_t i = 0; i < grads.size(); ++i)
      given.push_back(grads[i].defined() ? grads[i] : mezzo::detail::zero_gradient(outputs[i]));
    const Tensors gradients = backward_(context, given);
    if (gradients.size() == edges.size()) return {gradients.begin(), gradients.end()};
    throw AutogradError(info.name.value, std::to_string(edges.size()) + " gradients, one for each input",
                        std::to_string(gradients.size()), "leave those that are not needed undefined");
  }

 private:
  struct Place {
    bool is_result;
    std::size_t index;
  };
  FunctionBackward backward_;
  std::vector<Place> places_;
};

Tensors function(TensorList inputs, const FunctionForward& forward, const FunctionBackward& backward) {
  const SmallVector<TensorRef, 8> refs(inputs.begin(), inputs.end());
  const mezzo::detail::BoundCall call(kFunctionInfo, Inputs(refs), {});
  FunctionContext context;
  Outputs results = [&] {
    const mezzo::detail::ForwardScope scope(kFunctionInfo);
    const Tensors made = forward(context, inputs);
    return Outputs(made.begin(), made.end());
  }();
  if (call.records()) {
    const Ref<FunctionNode> node(new FunctionNode(backward));
    const Outputs before = results;  // attach gives an input that was returned another handle
    attach(node, call.inputs(), results, kSaveNothing);
    node->save(context.saved_, inputs, before);
  }
  if (OpObserver* const observer = op_observer(); observer != nullptr)
    observer->ran_with(kFunctionInfo, call.inputs(), {}, results, AttrsView(NoAttrs{}));
  return {results.begin(), results.end()};
}

}  // namespace mezzo::autograd
