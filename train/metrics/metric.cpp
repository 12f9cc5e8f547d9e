// The state of all metrics: made on the device of the first update, added to in place.
#include "mezzo/autograd/input_hook.h"
#include "mezzo/core/error.h"
#include "mezzo/core/inference_mode.h"
#include "mezzo/ops/ops.h"
#include "mezzo/train/metrics.h"

namespace mezzo::train {

namespace {

/// Ops as metrics want them: plain, and of tensors that outlive an InferenceMode.
struct MetricOps {
  PlainOps plain;
  mezzo::detail::InferenceFrame normal{mezzo::detail::Inference::off};
};

}  // namespace

std::vector<Tensor> Metric::empty_state(Device device) const {
  std::vector<Tensor> sums;
  for (const Sum& kind : kinds_) sums.push_back(zeros(kind.shape, {.dtype = kind.dtype, .device = device}));
  return sums;
}

void Metric::settle(Device device) {
  if (!sums_.empty()) {
    if (sums_.front().device() == device) return;
    throw DeviceError(name_, "tensors on " + to_string(sums_.front().device()) + ", as in the first update",
                      to_string(device), "move the input, or count it in a metric of its own and merge()");
  }
  sums_ = empty_state(device);
}

void Metric::count_on(const Tensor& input, const mezzo::detail::Function<void()>& add) {
  const MetricOps plain;
  settle(input.device());
  add();
}

Tensor Metric::compute() const {
  const MetricOps plain;
  return result(sums_.empty() ? empty_state(Device::cpu()) : sums_);
}

Tensor Metric::result(const std::vector<Tensor>& sums) const {
  return sums[0].to(DType::f64) / sums[1].to(DType::f64);
}

double Metric::value() const {
  const Tensor value = compute();
  if (value.numel() != 1) {
    throw ShapeError(name_ + ".value", "a metric of one number", "one of shape " + to_string(value.shape()),
                     "read compute()");
  }
  return value.item();
}

void Metric::reset() {
  const MetricOps plain;
  for (const Tensor& sum : sums_) sum.zero_();
}

void Metric::merge(const Metric& other) {
  if (name_ != other.name_ || signature_ != other.signature_) {
    throw ValueError(name_ + ".merge", "a metric of the same kind and options: " + name_ + signature_,
                     other.name_ + other.signature_, "merge metrics that were made alike");
  }
  if (other.sums_.empty()) return;
  const MetricOps plain;
  if (sums_.empty()) settle(other.sums_.front().device());
  for (std::size_t i = 0; i < sums_.size(); ++i) {
    sums_[i].add_(other.sums_[i].to(sums_[i].device()));
  }
}

}  // namespace mezzo::train
