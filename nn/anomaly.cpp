// The watcher behind detect_anomaly. It observes module calls, ops and backward, and looks for inf and NaN
// in results and gradients, at a host read each. An op is blamed only if its inputs were finite, or inf
// where it gave NaN.
#include "mezzo/nn/anomaly.h"

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "mezzo/autograd/engine.h"
#include "mezzo/autograd/grad_mode.h"
#include "mezzo/autograd/node.h"
#include "mezzo/autograd/op_observer.h"
#include "mezzo/autograd/progress.h"
#include "mezzo/core/backend.h"
#include "mezzo/core/error.h"
#include "mezzo/kernels/scaler/scaler.h"
#include "mezzo/nn/call.h"
#include "mezzo/nn/module.h"
#include "mezzo/ops/forward.h"
#include "mezzo/ops/ops.h"

namespace mezzo::autograd {

namespace {

/// An output that may be infinite although the inputs are finite: it is what it was asked to be.
struct LegalInfinity {
  std::string_view op;
  std::size_t output;
};
constexpr std::array kLegalInfinities{LegalInfinity{"masked_fill", 0}, LegalInfinity{"pad", 0},
                                      LegalInfinity{"fill", 0},
                                      LegalInfinity{"scaled_dot_product_attention", 1}};

bool may_be_infinite(std::string_view op, std::size_t output) {
  return std::any_of(kLegalInfinities.begin(), kLegalInfinities.end(),
                     [&](const LegalInfinity& legal) { return legal.op == op && legal.output == output; });
}

/// The worst element of a tensor or of several.
enum class Kind : std::uint8_t { finite, infinite, nan };

/// For the watcher's own ops: not recorded by autograd, not cast by autocast, not observed.
struct Quiet : PlainOps {
  OpObserverGuard no_observer{nullptr};
};

/// One pass over all of them and one host read. Tensors that are not floating are finite; all on one device.
bool are_finite(std::span<const Tensor> tensors) {
  std::vector<kernels::View> views;
  Device device;
  for (const Tensor& tensor : tensors) {
    // Of float8 codes the inverse scale beside them tells.
    if (!tensor.defined() || tensor.numel() == 0 || !is_floating(tensor.dtype()) || is_float8(tensor.dtype()))
      continue;
    views.push_back(ops::view_of(tensor));
    device = tensor.device();
  }
  if (views.empty()) return true;
  ScalerRecord found;
  const Tensor record = empty({sizeof(found)}, {.dtype = DType::u8, .device = device});
  auto* const address = static_cast<ScalerRecord*>(record.impl().data());
  backend(device).copy_from_host(address, &found, sizeof(found), device.index);
  kernels::check_finite(device, views, address, {});
  const HostRead read("detect_anomaly");
  backend(device).copy_to_host(&found, address, sizeof(found), device.index);
  return found.found_inf == 0;
}

Kind kind_of(const Tensor& tensor) {
  if (are_finite({&tensor, 1})) return Kind::finite;
  return any(isnan(tensor)).item<bool>() ? Kind::nan : Kind::infinite;
}

template <class List>
Kind worst_of(const List& tensors) {
  Kind worst = Kind::finite;
  for (const Tensor& tensor : tensors) worst = std::max(worst, kind_of(tensor));
  return worst;
}

/// A tensor that is not finite, with all but op and place.
Anomaly anomaly_of(const Tensor& tensor, std::size_t index) {
  // x - x is 0 where x is finite, and NaN elsewhere.
  Anomaly anomaly;
  anomaly.index = index;
  anomaly.shape = tensor.shape();
  anomaly.dtype = tensor.dtype();
  anomaly.count = sum(ne(sub(tensor, tensor), 0.0)).item<std::int64_t>();
  return anomaly;
}

/// The anomaly that an op is to be blamed for, if there is one.
std::optional<Anomaly> blame_forward(std::string_view op, Inputs inputs, const Outputs& outputs) {
  // The first to look at all elements of an input or a weight: what is not finite there is named.
  if (op == "quantize_f8" && kind_of(inputs[0]) != Kind::finite) {
    Anomaly anomaly = anomaly_of(inputs[0], 0);
    anomaly.of_input = true;
    return anomaly;
  }
  std::optional<Kind> got;
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    const Kind kind = kind_of(outputs[i]);
    if (kind == Kind::finite || (kind == Kind::infinite && may_be_infinite(op, i))) continue;
    if (!got) got = worst_of(inputs);
    if (*got < kind) return anomaly_of(outputs[i], i);
  }
  return std::nullopt;
}

}  // namespace

std::string Anomaly::text() const {
  const std::string owner = op + (between_gradients ? " (gradients added up, or a hook)"
                                  : place.empty()   ? ""
                                                    : " in " + place);
  return (of_input                            ? "input "
          : in_backward && !between_gradients ? "the gradient of input "
                                              : "output ") +
         std::to_string(index) + " of " + owner + ", " + mezzo::to_string(dtype) + " " +
         mezzo::to_string(shape) + ", with " + std::to_string(count) + " elements that are inf or NaN";
}

/// Sits in all three seams: modules tell the place, ops what they return, backward the gradients.
/// Whoever is passed a call may end this, so nothing is done after.
class DetectAnomaly::Watch final : public RefCounted, OpObserver, nn::CallObserver, BackwardObserver {
 public:
  explicit Watch(AnomalyOptions options) : options_(options) {
    ops_.emplace(static_cast<OpObserver*>(this));
    calls_.emplace(static_cast<nn::CallObserver&>(*this));
  }
  /// Stops observing; a call of the object may still be running.
  void end() noexcept {
    calls_.reset();
    ops_.reset();
    stop();
  }

  /// WatchedCall restores the place (nn/call.h).
  void enter(const nn::Module& module) override {
    progress().place = interned_place(module.described());
    if (nn::CallObserver* const outer = calls_->outer()) outer->enter(module);
  }
  void leave(const nn::Module& module, const Tensor* output) override {
    if (nn::CallObserver* const outer = calls_->outer()) outer->leave(module, output);
  }

  void ran(const OpInfo& info, Inputs inputs, std::optional<DType> run_dtype,
           const Outputs& outputs) override {
    const Ref<Watch> self(this);
    if (OpObserver* const outer = ops_->outer()) outer->ran(info, inputs, run_dtype, outputs);
    if (!ops_) return;
    const Progress& now = progress();
    // Within a node's gradient function only the gradients that it returns are checked.
    if (found || now.node != nullptr || !(options_.check_forward || now.in_backward)) return;
    const Quiet quiet;
    if (are_finite(outputs)) return;
    std::optional<Anomaly> blamed = blame_forward(info.name.value, inputs, outputs);
    if (!blamed) return;
    blamed->in_backward = blamed->between_gradients = now.in_backward;
    report(std::move(*blamed), info, now.place);
  }

  void after_vjp(const Node& node, std::span<const Tensor> gradients) override {
    const Ref<Watch> self(this);
    if (BackwardObserver* const before = outer()) before->after_vjp(node, gradients);
    if (!ops_ || found) return;
    const Quiet quiet;
    if (are_finite(gradients) || !are_finite(progress().incoming)) return;
    for (std::size_t i = 0; i < gradients.size(); ++i) {
      if (!are_finite(gradients.subspan(i, 1))) {
        Anomaly blamed = anomaly_of(gradients[i], i);
        blamed.in_backward = true;
        return report(std::move(blamed), node.info, node.place);
      }
    }
  }

  std::optional<Anomaly> found;

 private:
  void report(Anomaly anomaly, const OpInfo& info, const std::string* place) {
    anomaly.op = info.name.value;
    if (place != nullptr) anomaly.place = *place;
    found = std::move(anomaly);
    if (!options_.throws) return;
    throw AutogradError("detect_anomaly", "finite values", found->text(),
                        found->in_backward
                            ? "keep this op away from where its slope is infinite (a root or quotient at 0), "
                              "or scale the loss less"
                            : "look at what it is given, or run it in f32 if that is 16-bit");
  }

  AnomalyOptions options_;
  std::optional<OpObserverGuard> ops_;
  std::optional<nn::CallObserverGuard> calls_;
};

DetectAnomaly::DetectAnomaly(AnomalyOptions options) : watch_(make_ref<Watch>(options)) {}
DetectAnomaly::~DetectAnomaly() { watch_->end(); }
const std::optional<Anomaly>& DetectAnomaly::found() const noexcept { return watch_->found; }
void DetectAnomaly::reset() { watch_->found.reset(); }

}  // namespace mezzo::autograd
