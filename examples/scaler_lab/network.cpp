// Faults as factors: one on a layer's result, or one on its gradient. The gradient is multiplied by an op
// inside the layer, so that anomaly detection names that layer. The data are noisy points around one
// centre per class.
#include "network.h"

namespace scaler_lab {

using namespace mezzo;

namespace {

constexpr double kLargestF16 = 65504;
/// Brings the smallest gradient that f16 holds, 2^-24, beyond the largest.
constexpr double kOverflow = 0x1p41;
/// Brings gradients of this network, which are below 2^-5, to where f16 rounds to 0, unless they were scaled
/// before.
constexpr double kUnderflow = 0x1p-20;

/// x, whose gradient will be multiplied by `factor`. The second term is 0; its gradient is made by an op of
/// this stage, so that a report of the first op names the stage. (A hook on x would do the same to the
/// gradient, but belong to no op.)
Tensor with_gradient_times(double factor, const Tensor& x) {
  const Tensor value = x.detach();
  return value + (x - value) * factor;
}

}  // namespace

Stage::Stage(std::int64_t in, std::int64_t out, bool last)
    : fc(*this, "fc", nn::Linear(in, out)), last_(last) {}

Tensor Stage::forward(const Tensor& x) {
  Tensor result = fc(x);
  if (!last_) result = gelu(result);
  if (overflows_) result = result * (2 * kLargestF16 / max(abs(result.detach())).item());
  if (gradient_factor_ != 1) {
    result.register_hook([this](const Tensor& gradient) {
      gradient_ = gradient;
      return Tensor();  // leaves it as it is
    });
    result = with_gradient_times(gradient_factor_, result);
  }
  return result;
}

void Stage::set_faults(const std::vector<FaultKind>& faults) {
  overflows_ = false;
  gradient_factor_ = 1;
  for (const FaultKind fault : faults) {
    if (fault == FaultKind::overflow_forward) overflows_ = true;
    if (fault == FaultKind::overflow_backward) gradient_factor_ *= kOverflow;
    if (fault == FaultKind::underflow) gradient_factor_ *= kUnderflow;
  }
}

const std::vector<std::string>& layer_names() {
  static const std::vector<std::string> names = {"embed", "hidden1", "hidden2", "head"};
  return names;
}

std::shared_ptr<nn::Sequential> make_network() {
  constexpr std::int64_t width = 64;
  auto net = nn::make<nn::Sequential>();
  for (const std::string& name : layer_names()) {
    const bool first = name == layer_names().front(), last = name == layer_names().back();
    net->push_back(name, nn::make<Stage>(first ? kFeatures : width, last ? kClasses : width, last));
  }
  return net;
}

std::vector<Batch> make_batches(std::int64_t count, std::int64_t batch_size, Device device) {
  std::vector<Batch> batches;
  const Tensor centres = randn({kClasses, kFeatures}) * 0.6;
  for (std::int64_t i = 0; i < count; ++i) {
    const Tensor classes = randint(0, kClasses, {batch_size});
    const Tensor features = index_select(centres, 0, classes) + randn({batch_size, kFeatures});
    batches.push_back({features.to(device), classes.to(device)});
  }
  return batches;
}

}  // namespace scaler_lab
