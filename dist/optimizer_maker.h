// How a trainer is told of an optimizer that is made of its DataParallel (dist::sharded).
#pragma once

#include <memory>

#include "mezzo/core/function.h"

namespace mezzo::nn {
class Module;
}  // namespace mezzo::nn
namespace mezzo::optim {
class Optimizer;
}  // namespace mezzo::optim

namespace mezzo::dist {

class DataParallel;

/// Makes an optimizer of a model's parameters.
struct OptimizerMaker {
  mezzo::detail::Function<std::shared_ptr<optim::Optimizer>(DataParallel& parallel, const nn::Module& model)>
      make = {};
};

}  // namespace mezzo::dist
