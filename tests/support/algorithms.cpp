// The optimizers and their options by name; see algorithms.h.
#include "mezzo/tests/support/algorithms.h"

#include <string_view>
#include <utility>

#include "mezzo/optim/adadelta.h"
#include "mezzo/optim/adagrad.h"
#include "mezzo/optim/adam.h"
#include "mezzo/optim/adamax.h"
#include "mezzo/optim/lion.h"
#include "mezzo/optim/nadam.h"
#include "mezzo/optim/radam.h"
#include "mezzo/optim/rmsprop.h"
#include "mezzo/optim/sgd.h"

namespace mezzo::optim {

namespace {

template <class O, class Options>
Algorithm algorithm(std::string name, const Options& options) {
  const auto changed = [options](const Value& changes) {
    Value all = attrs_to_value(options);
    for (const auto& [key, value] : changes.as_map()) all.set(key, value);
    return attrs_from_value<Options>("test", all);
  };
  return {.name = std::move(name),
          .optimizer = std::string(Options::kOptimizer),
          .options = attrs_to_value(options),
          .make_groups =
              [changed](const std::vector<NamedTensors>& groups, const Value& changes) {
                std::vector<ParamGroup<Options>> typed;
                for (const NamedTensors& group : groups) typed.push_back({group, changed(changes)});
                return std::make_unique<O>(typed);
              },
          .add_group =
              [changed](Optimizer& optimizer, const NamedTensors& group, const Value& changes) {
                dynamic_cast<O&>(optimizer).add_param_group({group, changed(changes)});
              }};
}

}  // namespace

std::vector<Algorithm> algorithms() {
  return {
      algorithm<SGD>("SgdPlain", SGDOptions{.lr = 0.1, .weight_decay = 0.1}),
      algorithm<SGD>("SgdMomentum",
                     SGDOptions{.lr = 0.1, .momentum = 0.9, .dampening = 0.1, .maximize = true}),
      algorithm<SGD>("SgdNesterov",
                     SGDOptions{.lr = 0.1, .momentum = 0.9, .weight_decay = 0.01, .nesterov = true}),
      algorithm<Adam>("Adam", AdamOptions{.lr = 0.01, .weight_decay = 0.1}),
      algorithm<Adam>("AdamAmsgrad", AdamOptions{.lr = 0.01, .amsgrad = true, .maximize = true}),
      algorithm<AdamW>("AdamW", AdamWOptions{.lr = 0.01}),
      algorithm<RMSprop>("RmspropPlain", RMSpropOptions{.weight_decay = 0.1}),
      algorithm<RMSprop>("RmspropMomentum", RMSpropOptions{.alpha = 0.9, .momentum = 0.8, .maximize = true}),
      algorithm<RMSprop>("RmspropCentered", RMSpropOptions{.alpha = 0.9, .centered = true}),
      algorithm<RMSprop>(
          "RmspropAll", RMSpropOptions{.alpha = 0.8, .weight_decay = 0.1, .momentum = 0.9, .centered = true}),
      algorithm<Adagrad>(
          "Adagrad",
          AdagradOptions{.lr = 0.1, .lr_decay = 0.2, .weight_decay = 0.1, .initial_accumulator_value = 0.3}),
      algorithm<Adadelta>("Adadelta", AdadeltaOptions{.weight_decay = 0.1}),
      algorithm<Adamax>("Adamax", AdamaxOptions{.lr = 0.02, .beta2 = 0.9, .weight_decay = 0.1}),
      algorithm<NAdam>("NadamCoupled", NAdamOptions{.lr = 0.02, .weight_decay = 0.1}),
      algorithm<NAdam>("NadamDecoupled", NAdamOptions{.lr = 0.02,
                                                      .weight_decay = 0.1,
                                                      .momentum_decay = 0.1,
                                                      .decoupled_weight_decay = true,
                                                      .maximize = true,
                                                      .pytorch_1_13 = true}),
      // With these beta2 the mean square is divided by from the sixth step on.
      algorithm<RAdam>("RadamCoupled", RAdamOptions{.lr = 0.02, .beta2 = 0.9, .weight_decay = 0.1}),
      algorithm<RAdam>(
          "RadamDecoupled",
          RAdamOptions{.lr = 0.02, .beta2 = 0.99, .weight_decay = 0.1, .decoupled_weight_decay = true}),
      algorithm<Lion>("Lion", LionOptions{.lr = 0.01, .weight_decay = 0.1}),
  };
}

}  // namespace mezzo::optim
