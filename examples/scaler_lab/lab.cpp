// The training loop of the lab. A skipped step runs again under detect_anomaly, which finds the first op
// at fault. A step with an underflow runs again with scale 1, to count zero gradients there too.
#include "lab.h"

#include <algorithm>

#include "network.h"

namespace scaler_lab {

using namespace mezzo;

namespace {

/// From the output to the input, which is the order in which backward reaches them: so the first parameter
/// that is not finite is the one that became so first.
optim::NamedTensors parameters_from_the_output(const nn::Module& net) {
  optim::NamedTensors parameters = net.named_parameters();
  std::reverse(parameters.begin(), parameters.end());
  return parameters;
}

class Lab {
 public:
  explicit Lab(const Settings& settings)
      : settings_(settings),
        net_(make_network()),
        optimizer_(parameters_from_the_output(net_->to(settings.device)), {.lr = settings.lr}),
        scaler_(settings.scaler) {}

  [[nodiscard]] Row step(std::int64_t number, const Batch& batch) {
    Row row;
    row.step = number;
    row.scale = scaler_.get_scale();
    inject(row);
    const Tensor loss = loss_of(batch);
    scaler_.scale(loss).backward();
    const amp::StepResult result = scaler_.step(optimizer_);
    row.loss = loss.item();
    row.skipped = result.skipped();
    if (const auto first = result.first_nonfinite()) row.parameter = optimizer_.parameter_name(*first);
    if (underflows(number)) row.zeros = {.scaled = zero_share(number)};
    optimizer_.zero_grad();
    if (row.skipped) row.first = first_anomaly(batch, row.scale);
    if (row.zeros) row.zeros->unscaled = unscaled_zero_share(number, batch);
    scaler_.update();
    return row;
  }

 private:
  void inject(Row& row) {
    for (std::size_t i = 0; i < net_->size(); ++i) {
      std::vector<FaultKind> kinds;
      for (const Fault& fault : settings_.faults) {
        if (fault.layer != layer_names()[i] || !fault.acts_at(row.step)) continue;
        kinds.push_back(fault.kind);
        row.injected += (row.injected.empty() ? "" : "; ") + to_string(fault);
      }
      net_->at<Stage>(i).set_faults(kinds);
    }
  }

  [[nodiscard]] Tensor loss_of(const Batch& batch) {
    const amp::Autocast region(settings_.device, DType::f16);
    return cross_entropy((*net_)(batch.features), batch.classes);
  }

  /// The second look: the same step again, with every op watched.
  [[nodiscard]] std::optional<autograd::Anomaly> first_anomaly(const Batch& batch, double scale) {
    const auto watch = autograd::detect_anomaly({.throws = false});
    (loss_of(batch) * scale).backward();
    optimizer_.zero_grad();
    return watch.found();
  }

  [[nodiscard]] bool underflows(std::int64_t step, const std::string& layer = {}) const {
    return std::any_of(settings_.faults.begin(), settings_.faults.end(), [&](const Fault& fault) {
      return fault.kind == FaultKind::underflow && fault.acts_at(step) &&
             (layer.empty() || fault.layer == layer);
    });
  }

  [[nodiscard]] double zero_share(std::int64_t step) const {
    double zeros = 0, all = 0;
    for (std::size_t i = 0; i < net_->size(); ++i) {
      if (!underflows(step, layer_names()[i])) continue;
      const Tensor& gradient = net_->at<Stage>(i).gradient();
      zeros += sum(eq(gradient, 0.0)).item();
      all += static_cast<double>(gradient.numel());
    }
    return zeros / all;
  }

  [[nodiscard]] double unscaled_zero_share(std::int64_t step, const Batch& batch) {
    loss_of(batch).backward();
    const double share = zero_share(step);
    optimizer_.zero_grad();
    return share;
  }

  const Settings& settings_;
  std::shared_ptr<nn::Sequential> net_;
  optim::AdamW optimizer_;
  amp::GradScaler scaler_;
};

}  // namespace

std::vector<Row> run(const Settings& settings) {
  manual_seed(settings.seed);
  constexpr std::int64_t kMostBatches = 32;
  const std::vector<Batch> batches =
      make_batches(std::min(settings.steps, kMostBatches), settings.batch_size, settings.device);
  Lab lab(settings);
  std::vector<Row> rows;
  for (std::int64_t step = 1; step <= settings.steps; ++step) {
    const Batch& batch = batches[static_cast<std::size_t>(step - 1) % batches.size()];
    rows.push_back(lab.step(step, batch));
  }
  return rows;
}

}  // namespace scaler_lab
