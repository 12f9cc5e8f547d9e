// A step of a DataParallel that is recorded against the same step run eagerly, on the best device: one
// process, whose backwards go to `.grad` or, in deterministic mode, through buckets and the tree.
#include <limits>

#include "dist/parallel_support.h"
#include "mezzo/amp/captured_step.h"
#include "mezzo/amp/grad_scaler.h"
#include "mezzo/core/cuda.h"
#include "mezzo/nn/norm.h"
#include "mezzo/optim/adam.h"
#include "mezzo/optim/clip.h"

namespace mezzo {
namespace {

/// A model with all that it needs; equal ones are equal.
struct RecordedTraining {
  explicit RecordedTraining(int virtual_parts) {
    net = nn::make<nn::Sequential>(nn::make<nn::Linear>(8, 16), nn::make<nn::BatchNorm1d>(16),
                                   nn::make<nn::Tanh>(), nn::make<nn::Linear>(16, 4));
    test::fill(*net, 3);
    net->to(device);
    parallel.emplace(net, dist::DataParallelOptions{.group = dist::Group(),
                                                    .first_bucket_bytes = 100,
                                                    .bucket_bytes = 900,
                                                    .virtual_parts = virtual_parts});
    optimizer.emplace(*net, optim::AdamWOptions{.lr = 0.01});
  }
  Tensor step() {
    optimizer->zero_grad();
    Tensor loss;
    for (int i = 0; i < parallel->parts(); ++i) {
      loss = test::loss_of(*net, test::part_of(batch, i, parallel->parts()));
      scaler.scale(loss).backward();
    }
    scaler.unscale_(*optimizer);
    static_cast<void>(optim::clip_grad_norm_(net->parameters(), 1.0));
    static_cast<void>(scaler.step(*optimizer));
    scaler.update();
    return loss.detach();
  }
  /// The data of call i; that of call 6 overflows.
  void load(int i) const {
    const auto next = test::batch_of(static_cast<std::uint64_t>(i), 16);
    if (i == 6) next.x.narrow(0, 9, 1).fill_(std::numeric_limits<double>::infinity());
    batch.x.copy_(next.x.to(device));
    batch.y.copy_(next.y.to(device));
  }
  [[nodiscard]] std::vector<std::vector<std::uint8_t>> state() const {
    std::vector<Tensor> tensors{scaler.scale_tensor().cpu()};
    for (const Tensor& parameter : net->parameters()) tensors.push_back(parameter.detach().cpu());
    for (const auto& [name, buffer] : net->named_buffers()) tensors.push_back(buffer.cpu());
    for (const Tensor& gradient : test::gradients_of(*net)) tensors.push_back(gradient.cpu());
    return test::bytes_of(tensors);
  }

  Device device = cuda::device_count() > 0 ? Device::cuda() : Device::cpu();
  std::shared_ptr<nn::Sequential> net;
  std::optional<dist::DataParallel> parallel;
  std::optional<optim::AdamW> optimizer;
  amp::GradScaler scaler{{.init_scale = 64, .growth_interval = 3}};
  test::Batch batch{zeros({16, 8}, {.device = device}), zeros({16, 4}, {.device = device})};
};

TEST(CapturedParallel, ReplaysHaveTheBitsOfEagerSteps) {
  for (const int parts : {0, 1, 4}) {
    SCOPED_TRACE(parts);
    RecordedTraining eager(parts), recorded(parts);
    amp::CapturedStep step(recorded.device, [&] { return recorded.step(); });
    for (int i = 0; i < 10; ++i) {
      eager.load(i);
      recorded.load(i);
      static_cast<void>(eager.step());
      static_cast<void>(step());
      ASSERT_TRUE(recorded.state() == eager.state()) << i;
    }
    EXPECT_EQ(step.is_recorded(), !recorded.device.is_cpu());
    EXPECT_EQ(eager.scaler.steps_skipped(), 1);
  }
}

}  // namespace
}  // namespace mezzo
