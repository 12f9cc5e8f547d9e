// The two calls that a step and an evaluation make in the precision's autocast region, the model and the
// loss; and guards for what an evaluation puts back.
#pragma once

#include <optional>

#include "mezzo/amp/autocast.h"
#include "mezzo/amp/precision.h"
#include "mezzo/amp/summary.h"
#include "mezzo/core/error.h"
#include "mezzo/nn/module/evaluation.h"
#include "mezzo/nn/norm.h"
#include "mezzo/train/functions.h"

namespace mezzo::train::detail {

struct ModelCall {
  ModelRef model;
  Forward forward_function;
  Loss loss_function;
  amp::Precision precision = amp::Precision::fp32;
  Device device = Device::cpu();
  LossWeight weigh_by = {};
  TokenCount tokens = {};

  /// The dtype of the region; none: there is no region.
  [[nodiscard]] std::optional<DType> region_dtype() const noexcept;
  /// The model's output; undefined where the loss calls the model itself.
  [[nodiscard]] Tensor forward(const AnyBatch& batch) const;
  [[nodiscard]] Tensor loss(const Tensor& output, const AnyBatch& batch) const;
  /// The weight of that loss in a mean over batches, f64, 0-dim: a number of the host is on the CPU.
  [[nodiscard]] Tensor weight(const AnyBatch& batch) const;
  /// Whether it is the number of samples, whatever the batch; or another number of the host.
  [[nodiscard]] bool weighs_samples() const noexcept;
  [[nodiscard]] bool weighs_on_host() const noexcept {
    return weighs_samples() || weigh_by.function().call || weigh_by.by() == WeighBy::tokens;
  }
  /// Throws, in the name of `op`: ValueError for functions that do not take batches of this type, and for a
  /// model that is no Layer where there is no forward.
  void check(std::string_view op, const std::type_info& batch) const;
};

/// Throws, in the name of `op`: ValueError unless a function that takes batches of type `taken` (nullptr:
/// those with an input and a target) takes this one.
void check_batch(std::string_view op, std::string_view function, const std::type_info* taken,
                 const std::type_info& batch);

using amp::detail::device_of;

/// The module as a BatchNorm of 1, 2 or 3 dims (SyncBatchNorm too) that has running statistics; else nullptr.
[[nodiscard]] nn::RunningNorm* batch_norm(nn::Module& module);

/// Calls f at its end, to put something back. That cannot fail: an Error is dropped.
template <class F>
class AtEnd : mezzo::detail::NoCopy {
 public:
  explicit AtEnd(F f) : f_(std::move(f)) {}
  ~AtEnd() {
    try {
      f_();
    } catch (const Error&) {  // what was there before has been refused
    }
  }

 private:
  F f_;
};

}  // namespace mezzo::train::detail
