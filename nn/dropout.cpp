#include "mezzo/nn/dropout.h"

#include "mezzo/core/error.h"
#include "mezzo/core/value.h"
#include "mezzo/ops/random.h"

namespace mezzo::nn {

Dropout::Dropout(double p, Generator* generator) : p_(p), generator_(generator) {
  if (p >= 0 && p <= 1) return;
  throw ValueError("Dropout", "a probability p in [0, 1]", Value(p).to_string(),
                   "p is the part that is zeroed");
}

Tensor Dropout::forward(const Tensor& x) {
  return dropout(x, p_, is_training(), generator_ != nullptr ? *generator_ : default_generator());
}

std::string Dropout::extra_repr() const { return "p=" + Value(p_).to_string(); }

}  // namespace mezzo::nn
