// The training loop, timed after up to three warm-up steps: model, surgery on its norms, then steps under
// autocast, with a GradScaler for f16. Activation memory is what forward adds to the allocator's count.
#include "experiment.h"

#include <algorithm>
#include <chrono>
#include <optional>

#include "models.h"

namespace norm_surgery {

using namespace mezzo;

namespace {

/// The mean of losses [begin, end).
double mean_of(const std::vector<Tensor>& losses, std::size_t begin, std::size_t end) {
  double sum = 0;
  for (std::size_t i = begin; i < end; ++i) sum += losses[i].item();
  return sum / static_cast<double>(end - begin);
}

}  // namespace

std::string name_of(Norms norms) {
  switch (norms) {
    case Norms::no_autocast:
      return "f32, no autocast";
    case Norms::f32:
      return "autocast, f32 norms";
    case Norms::low_precision:
      return "autocast, low-precision norms";
    case Norms::fused:
      return "autocast, fused norms";
  }
  return {};
}

nn::surgery::Report operate(nn::Module& model, Norms norms, const Settings& settings,
                            const amp::Optimizers& optimizers) {
  if (norms == Norms::fused) return amp::apply_fused_layernorm(model, settings.precision, optimizers);
  if (norms != Norms::low_precision) return {};
  if (nn::surgery::count<nn::GroupNorm>(model) > 0)
    return amp::apply_low_precision_groupnorm(model, settings.precision, optimizers);
  return amp::apply_low_precision_layernorm(model, settings.precision, optimizers);
}

Result train(const std::string& name, Norms norms, const Settings& settings,
             const std::vector<Batch>& batches) {
  manual_seed(settings.seed + 1);  // the same first weights in every run
  const std::shared_ptr<nn::Layer> model = make_model(name, batches.front().images.size(-1));
  model->to(settings.device);
  optim::AdamW optimizer(model->parameters(), {.lr = settings.lr});
  static_cast<void>(operate(*model, norms, settings, {&optimizer}));
  amp::GradScaler scaler({.enabled = norms != Norms::no_autocast && settings.dtype() == DType::f16});

  Result result;
  result.norms = norms;
  std::vector<Tensor> losses;
  const std::int64_t warm_up = std::min<std::int64_t>(3, settings.steps - 1);
  for (std::int64_t step = 0; step < settings.steps; ++step) {
    const Batch& batch = batches[static_cast<std::size_t>(step) % batches.size()];
    const auto start = std::chrono::steady_clock::now();
    const std::int64_t before = memory_stats(settings.device).current;
    Tensor loss;
    {
      std::optional<amp::Autocast> autocast;
      if (norms != Norms::no_autocast) autocast.emplace(settings.device, settings.dtype());
      loss = cross_entropy((*model)(batch.images), batch.classes);
      // In the region, whose 16-bit copies of weights count: they are there for backward.
      result.activation_bytes = memory_stats(settings.device).current - before;
    }
    scaler.scale(loss).backward();
    scaler.step(optimizer);
    scaler.update();
    optimizer.zero_grad();
    losses.push_back(loss.detach());
    synchronize(settings.device);
    const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - start;
    if (step >= warm_up) result.step_seconds.push_back(taken.count());
  }
  const std::size_t tenth = std::max<std::size_t>(losses.size() / 10, 1);
  result.first_loss = mean_of(losses, 0, tenth);
  result.last_loss = mean_of(losses, losses.size() - tenth, losses.size());
  result.steps_skipped = scaler.is_enabled() ? scaler.steps_skipped() : 0;
  return result;
}

}  // namespace norm_surgery
