// Trainer's members, which its core does.
#include "mezzo/train/trainer.h"

#include "mezzo/core/error.h"
#include "mezzo/train/trainer/core.h"

namespace mezzo::train {

Trainer::Trainer(TrainerOptions options) : core_(std::make_unique<TrainerCore>(std::move(options))) {}
Trainer::~Trainer() = default;

FitEnd Trainer::fit() {
  const auto& end = core_->options().max_duration;
  if (!end)
    throw ValueError("Trainer::fit", "a max_duration", "none",
                     "give .max_duration = \"3ep\", or fit(\"3ep\")");
  return core_->fit(*end, false);
}

FitEnd Trainer::fit(const Time& duration) {
  if (duration.unit() == TimeUnit::duration || !(duration.value() > 0))
    throw ValueError("Trainer::fit", "a duration above 0 in another unit than dur", to_string(duration),
                     "name one, such as \"1ep\"");
  return core_->fit(core_->state().time.get(duration.unit()) + duration, true);
}

EvalResults Trainer::eval() { return core_->evaluate(core_->options().eval_loader); }
EvalResults Trainer::eval(const AnyLoader& loader) { return core_->evaluate(loader); }
std::vector<Tensor> Trainer::predict(const AnyLoader& loader) { return core_->predict(loader); }

State& Trainer::state() noexcept { return core_->state(); }
const State& Trainer::state() const noexcept { return core_->state(); }
void Trainer::save_checkpoint(const std::string& path) { core_->save(path); }
void Trainer::load_checkpoint(const std::string& path) { core_->load(path); }
const Parts& Trainer::parts() const noexcept { return core_->parts(); }

}  // namespace mezzo::train
