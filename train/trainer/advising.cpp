// Advice on a trainer's steps: they are made on what is trained, which is then put back.
#include <utility>

#include "mezzo/core/error.h"
#include "mezzo/train/trainer/core.h"
#include "mezzo/train/trainer/snapshot.h"

namespace mezzo::train {

namespace {

/// What clones of the model are tried with; without `clone` where there can be none, and why.
amp::detail::AdvisedModel advised_model(const Loss& loss, const detail::ModelCall& call,
                                        const AnyBatch& batch, std::string& why_not) {
  if (call.model.layer() == nullptr || call.forward_function.call || loss.calls_model() ||
      loss.function().batch != nullptr || !detail::has_input_and_target(batch.type())) {
    why_not = "the model or its loss takes more than an input and a target";
    return {};
  }
  try {
    static_cast<void>(call.model.module()->clone());
  } catch (const StateError& error) {
    why_not = std::string("the model cannot be cloned: ") + error.what();
    return {};
  }
  return {.clone = [module = call.model.module()] { return module->clone(); },
          .forward = [](nn::Module& copy, const Tensor& x) { return dynamic_cast<nn::Layer&>(copy)(x); },
          .input = detail::input_of(batch),
          .target = detail::target_of(batch),
          .loss =
              [&loss](const Tensor& output, const Tensor& target) {
                return loss.function().call(output, AnyBatch(data::Example{output, target}));
              }};
}

}  // namespace

amp::Advisory TrainerCore::advise(const amp::AdviseOptions& options) {
  if (!options_.train_loader.defined())
    throw ValueError("Trainer::advise", "a train_loader", "none", "give .train_loader = loader");
  if (!parallel_.is_alone())
    throw ValueError("Trainer::advise", "a training in one process", "one in several",
                     "ask it in a trainer without .parallel");
  const bool is_f16 = options.dtype ? *options.dtype == DType::f16
                      : state_.precision == amp::Precision::fp32
                          ? !state_.device.is_cpu()
                          : state_.precision == amp::Precision::amp_fp16;
  const Snapshot before(options_);
  const detail::AtEnd restore([&before] { before.restore(GradientsAfter::as_before); });
  const AnyBatch batch = first_batch();
  before.drop_gradients();
  state_.model.train();
  detail::ModelCall call = call_;
  amp::GradScalerOptions scaling = options_.scaler;
  scaling.enabled = is_f16;
  amp::GradScaler scaler(scaling);
  amp::detail::AdvisedStep step{
      .step =
          [&](bool autocast) {
            call.precision = !autocast                                     ? amp::Precision::fp32
                             : is_f16                                      ? amp::Precision::amp_fp16
                             : state_.precision == amp::Precision::amp_fp8 ? amp::Precision::amp_fp8
                                                                           : amp::Precision::amp_bf16;
            zero_grad();
            const Tensor loss = call.loss(call.forward(batch), batch);
            scaler.scale(loss).backward();
            if (state_.optimizer == nullptr) return;
            if (options_.clip_norm) {
              scaler.unscale_(*state_.optimizer);
              static_cast<void>(
                  clip_gradients(state_.optimizer, options_.optimizer.parameters(), *options_.clip_norm));
            }
            scaler.step(*state_.optimizer);
            scaler.update();
          },
      .model = &state_.model};
  const amp::detail::AdvisedModel model = advised_model(options_.loss, call, batch, step.why_no_model);
  amp::Advisory advisory = amp::detail::advise_step(step, model, options);
  if (state_.optimizer == nullptr)
    advisory.untried.emplace_back("the optimizer's step: it evaluates a closure, and is left out");
  return advisory;
}

}  // namespace mezzo::train
