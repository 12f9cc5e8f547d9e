// Trainer's members, which its core does, and options that are given as text.
#include "mezzo/train/trainer.h"

#include "mezzo/core/error.h"
#include "mezzo/train/trainer/core.h"

namespace mezzo::train {

TrainerPrecision::TrainerPrecision(std::string_view name) : value_(amp::precision_from_string(name)) {
  if (*value_ == amp::Precision::fp16) value_ = amp::Precision::amp_fp16;
}

Microbatch::Microbatch(std::int64_t samples) : samples_(samples) {
  if (samples < 1)
    throw ValueError("Microbatch", "at least 1 sample, or \"auto\"", std::to_string(samples),
                     "name a larger size");
}

Microbatch::Microbatch(std::string_view name) : auto_(name == "auto") {
  if (!auto_)
    throw ValueError("Microbatch", "a number of samples, or \"auto\"", "'" + std::string(name) + "'",
                     "write \"auto\"");
}

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
amp::Advisory Trainer::advise(const amp::AdviseOptions& options) { return core_->advise(options); }

State& Trainer::state() noexcept { return core_->state(); }
const State& Trainer::state() const noexcept { return core_->state(); }
void Trainer::save_checkpoint(const std::string& path) { core_->save(path); }
void Trainer::load_checkpoint(const std::string& path) { core_->load(path); }
const Parts& Trainer::parts() const noexcept { return core_->parts(); }

}  // namespace mezzo::train
