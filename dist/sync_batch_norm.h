// SyncBatchNorm: BatchNorm with the statistics of all ranks' samples, and the call that puts it into a model.
//   dist::convert_sync_batchnorm(net);
//   dist::DataParallel parallel(net);
#pragma once

#include <string>

#include "mezzo/dist/collectives.h"
#include "mezzo/nn/norm.h"
#include "mezzo/nn/surgery.h"

namespace mezzo::dist {

/// nn::BatchNorm whose mean and variance in training are those of the samples of all ranks of a group, of
/// which each may have another number: results and gradients are what BatchNorm gives for the whole batch, to
/// rounding. All ranks call it, and its backward, in the same order. Shares parameters and buffers of the
/// layer it is made from, and fits into the same slot. Statistics are computed in f32 (f64 for f64 inputs)
/// and travel as one message in forward and one in backward. In evaluation, and in a group of one process, it
/// is BatchNorm. One value per channel on all ranks together has the variance 0. Twice differentiable.
/// Source: torch.nn.SyncBatchNorm.
template <int kSpatial>
class SyncBatchNorm final : public nn::BatchNorm<kSpatial> {
 public:
  explicit SyncBatchNorm(std::int64_t num_features, const nn::RunningNormOptions& options = {},
                         Group group = world());
  explicit SyncBatchNorm(const nn::BatchNorm<kSpatial>& original, Group group = world());
  [[nodiscard]] Tensor forward(const Tensor& x) override;
  [[nodiscard]] std::string type_name() const override { return "SyncBatchNorm"; }
  [[nodiscard]] const Group& group() const noexcept { return group_; }

 private:
  Group group_;
};

extern template class SyncBatchNorm<1>;
extern template class SyncBatchNorm<2>;
extern template class SyncBatchNorm<3>;

/// Replaces every nn::BatchNorm1d, 2d and 3d below `model` by a SyncBatchNorm with the same parameters and
/// buffers, so optimizers and checkpoints stay valid. `model` itself has no place and stays. Throws: as
/// nn::surgery::replace. Source: torch.nn.SyncBatchNorm.convert_sync_batchnorm.
nn::surgery::Report convert_sync_batchnorm(nn::Module& model, const Group& group = world());

/// Whether a SyncBatchNorm is in a model.
[[nodiscard]] bool has_sync_batchnorm(const nn::Module& model);

}  // namespace mezzo::dist
