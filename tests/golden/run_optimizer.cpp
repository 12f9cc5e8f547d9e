// Optimizer trajectories: given gradients step by step, every parameter after every step, and the final
// state; and gradient clipping.
#include <cmath>
#include <map>

#include "golden/compare.h"
#include "golden/kinds.h"
#include "golden/optimizers.h"
#include "mezzo/ops/cast.h"
#include "mezzo/ops/shape.h"
#include "mezzo/optim/clip.h"

namespace mezzo::golden {

namespace {

/// Groups as the case lists them, with a leaf for each stored parameter.
std::vector<GroupSpec> groups_of(const CaseFile& file, std::size_t index) {
  std::vector<GroupSpec> groups;
  for (const Value& group : file.meta(index).at("param_groups").as_list()) {
    GroupSpec spec{.parameters = {}, .overrides = group};
    for (const std::string& name : strings(group, "params")) {
      const Tensor parameter = file.tensor(index, "in." + name);
      parameter.requires_grad_();
      spec.parameters.emplace_back(name, parameter);
    }
    groups.push_back(std::move(spec));
  }
  return groups;
}

/// Compares all that PyTorch kept for parameter number `number`, which the goldens call `name`.
void check_state(const CaseFile& file, std::size_t index, const optim::OptimizerState& state,
                 std::size_t number, const std::string& name) {
  const Tolerance allowed = tolerance(file.meta(index), "out");
  const std::string prefix = "state." + name + ".";
  for (const std::string& buffer : file.names_after(index, prefix)) {
    const std::string key = prefix + buffer;
    const Tensor want = file.tensor(index, key);
    const std::string slot = std::to_string(number) + "." + buffer;
    Tensor got;
    for (const auto& [stored, tensor] : state.tensors) {
      if (stored == slot) got = tensor;
    }
    // PyTorch's None is stored as a single NaN.
    if (!got.defined() && want.dim() == 0 && std::isnan(want.item())) continue;
    if (!got.defined()) throw Mismatch(key + ": the optimizer has no state " + slot);
    expect_close(key, to(got, want.dtype()), want, allowed);
  }
}

}  // namespace

void run_optimizer(const CaseFile& file, std::size_t index) {
  const Value& meta = file.meta(index);
  const Tolerance allowed = tolerance(meta, "out");
  const std::vector<GroupSpec> groups = groups_of(file, index);
  const auto optimizer = make_optimizer(meta.at("optimizer").as_string(), groups, meta.at("args"));
  const std::int64_t steps = meta.at("steps").as_int();
  for (std::int64_t step = 0; step < steps; ++step) {
    for (const GroupSpec& group : groups) {
      for (const auto& [name, parameter] : group.parameters)
        parameter.set_grad(select(file.tensor(index, "gradseq." + name), 0, step).clone());
    }
    optimizer->step();
    for (const GroupSpec& group : groups) {
      for (const auto& [name, parameter] : group.parameters) {
        expect_close("out." + name + " after step " + std::to_string(step + 1), parameter.detach(),
                     select(file.tensor(index, "out." + name), 0, step), allowed);
      }
    }
  }
  const optim::OptimizerState state = optimizer->state_dict();
  std::size_t number = 0;
  for (const GroupSpec& group : groups) {
    for (const auto& [name, parameter] : group.parameters) check_state(file, index, state, number++, name);
  }
}

void run_clip(const CaseFile& file, std::size_t index) {
  const Value& meta = file.meta(index);
  const Value& args = meta.at("args");
  const Tolerance allowed = tolerance(meta, "out");
  std::vector<Tensor> parameters;
  for (const std::string& name : strings(meta, "inputs")) {
    const Tensor gradient = file.tensor(index, "in." + name);
    const Tensor parameter = zeros(
        gradient.shape(), {.dtype = gradient.dtype(), .device = gradient.device(), .requires_grad = true});
    parameter.set_grad(gradient);
    parameters.push_back(parameter);
  }
  if (file.op() == "clip_grad_norm") {
    const Tensor total =
        optim::clip_grad_norm_(parameters, args.at("max_norm").as_double(), args.at("norm_type").as_double());
    expect_close("out.total_norm", total, file.tensor(index, "out.total_norm"), allowed);
  } else if (file.op() == "clip_grad_value") {
    optim::clip_grad_value_(parameters, args.at("clip_value").as_double());
  } else {
    throw NotSupported("clip " + file.op());
  }
  std::size_t i = 0;
  for (const std::string& name : strings(meta, "inputs"))
    expect_close("out." + name, parameters[i++].grad(), file.tensor(index, "out." + name), allowed);
}

}  // namespace mezzo::golden
