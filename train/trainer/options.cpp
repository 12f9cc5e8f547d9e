// Options of a trainer that are given as text.
#include "mezzo/core/error.h"
#include "mezzo/train/trainer.h"

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

}  // namespace mezzo::train
