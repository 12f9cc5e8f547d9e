// Saving and restoring an LBFGS.
#include <string>

#include "mezzo/core/error.h"
#include "mezzo/ops/cast.h"
#include "mezzo/optim/detail/saved_state.h"
#include "mezzo/optim/lbfgs.h"

namespace mezzo::optim {

namespace {

constexpr std::string_view kLoadLbfgs = "LBFGS.load_state_dict";

std::string numbered(const char* name, std::size_t i) { return name + std::to_string(i); }

}  // namespace

OptimizerState LBFGS::state_dict() const {
  OptimizerState state;
  Value& options = state.options;
  options.set("optimizer", "LBFGS")
      .set("num_parameters", static_cast<std::int64_t>(parameters_.size()))
      .set("lr", options_.lr)
      .set("max_iter", options_.max_iter)
      .set("max_eval", options_.max_eval ? Value(*options_.max_eval) : Value())
      .set("tolerance_grad", options_.tolerance_grad)
      .set("tolerance_change", options_.tolerance_change)
      .set("history_size", options_.history_size)
      .set("line_search_fn", options_.line_search_fn == LineSearch::none ? "none" : "strong_wolfe")
      .set("n_iter", history_.iterations)
      .set("func_evals", history_.evaluations)
      .set("t", history_.step)
      .set("H_diag", history_.scale);
  Value inverses{Value::List{}};
  for (std::size_t i = 0; i < history_.memories.size(); ++i) {
    inverses.push_back(history_.memories[i].inverse);
    state.tensors.emplace_back(numbered("old_dirs.", i), history_.memories[i].gradients);
    state.tensors.emplace_back(numbered("old_stps.", i), history_.memories[i].parameters);
  }
  options.set("ro", std::move(inverses));
  if (history_.direction.defined()) {
    state.tensors.emplace_back("d", history_.direction);
    state.tensors.emplace_back("prev_flat_grad", history_.gradient);
  }
  return state;
}

void LBFGS::load_state_dict(const OptimizerState& state) {
  const Value& saved = state.options;
  if (const std::string& kind = saved.at("optimizer").as_string(); kind != "LBFGS")
    throw StateError(kLoadLbfgs, "the state of LBFGS", kind, "load it into an optimizer of that kind");
  if (const std::int64_t count = saved.at("num_parameters").as_int(); count != std::ssize(parameters_)) {
    throw StateError(kLoadLbfgs, std::to_string(parameters_.size()) + " parameters", std::to_string(count),
                     "make the optimizer with the same parameters");
  }
  const std::string& search = saved.at("line_search_fn").as_string();
  if (search != "none" && search != "strong_wolfe")
    throw ValueError(kLoadLbfgs, "line_search_fn none or strong_wolfe", search, "check the file");
  LBFGSOptions options{.lr = saved.at("lr").as_double(),
                       .max_iter = saved.at("max_iter").as_int(),
                       .max_eval = {},
                       .tolerance_grad = saved.at("tolerance_grad").as_double(),
                       .tolerance_change = saved.at("tolerance_change").as_double(),
                       .history_size = saved.at("history_size").as_int(),
                       .line_search_fn = search == "none" ? LineSearch::none : LineSearch::strong_wolfe};
  if (const Value& most = saved.at("max_eval"); !most.is_null()) options.max_eval = most.as_int();
  check(options);
  History history{.iterations = saved_count(kLoadLbfgs, saved, "n_iter"),
                  .evaluations = saved_count(kLoadLbfgs, saved, "func_evals"),
                  .direction = {},
                  .gradient = {},
                  .step = saved.at("t").as_double(),
                  .scale = saved.at("H_diag").as_double(),
                  .memories = {}};
  std::int64_t length = 0;
  for (const auto& [name, tensor] : parameters_) length += tensor.numel();
  SavedState tensors(kLoadLbfgs, state);
  const auto take = [&](const std::string& key) {
    const Tensor tensor = tensors.take(key, {length}, true);
    if (!tensor.defined()) throw StateError(kLoadLbfgs, "a tensor " + key, "none", "check the file");
    return clone(to(to(tensor.detach(), parameters_.front().second.device()), dtype_));
  };
  const Value::List& inverses = saved.at("ro").as_list();
  if (std::ssize(inverses) > options.history_size || (history.iterations == 0 && !inverses.empty()))
    throw StateError(kLoadLbfgs, "at most history_size memories", std::to_string(inverses.size()),
                     "check the file");
  for (std::size_t i = 0; i < inverses.size(); ++i) {
    history.memories.push_back(
        {take(numbered("old_dirs.", i)), take(numbered("old_stps.", i)), inverses[i].as_double()});
  }
  if (history.iterations > 0) {
    history.direction = take("d");
    history.gradient = take("prev_flat_grad");
  }
  tensors.require_empty();
  options_ = options;
  history_ = std::move(history);
}

}  // namespace mezzo::optim
