// Learning-rate schedules: the rates of every group after construction and after every step.
#include <functional>

#include "golden/compare.h"
#include "golden/kinds.h"
#include "golden/schedulers.h"
#include "mezzo/ops/shape.h"
#include "mezzo/optim/lr_scheduler.h"
#include "mezzo/optim/sgd.h"

namespace mezzo::golden {

namespace {

/// SGD without gradients, a group per base rate. Its momentum, of which the file does not tell, is the one
/// that the reference starts with.
optim::SGD optimizer_of(const CaseFile& file, std::size_t index) {
  optim::SGDOptions options;
  if (file.has(index, "out.momentum"))
    options.momentum = file.tensor(index, "out.momentum").to_vector<double>().front();
  std::vector<optim::ParamGroup<optim::SGDOptions>> groups;
  for (const Value& base : file.meta(index).at("base_lrs").as_list()) {
    options.lr = base.as_double();
    const Tensor parameter = zeros({1}, {.device = run_device(), .requires_grad = true});
    groups.push_back({optim::unnamed({parameter}), options});
  }
  return optim::SGD(groups);
}

/// `stored`: by step, or by step and group.
void check(const char* what, double got, const Tensor& stored, std::int64_t step, std::size_t group,
           const Tolerance& allowed) {
  Tensor want = select(stored, 0, step);
  if (want.dim() > 0) want = select(want, 0, static_cast<std::int64_t>(group));
  const std::string where = " of group " + std::to_string(group) + " at step " + std::to_string(step);
  expect_close(what + where, got, want.item<double>(), allowed);
}

void check_rates(const CaseFile& file, std::size_t index, const optim::Optimizer& optimizer,
                 std::int64_t step) {
  const Tolerance allowed = tolerance(file.meta(index), "out");
  for (std::size_t group = 0; group < optimizer.num_groups(); ++group) {
    check("out.lr", optimizer.lr(group), file.tensor(index, "out.lr"), step, group, allowed);
    if (!file.has(index, "out.momentum")) continue;
    check("out.momentum", optimizer.momentum(group).value(), file.tensor(index, "out.momentum"), step, group,
          allowed);
  }
}

void run(const CaseFile& file, std::size_t index, optim::Optimizer& optimizer,
         const std::function<void(std::int64_t)>& advance) {
  check_rates(file, index, optimizer, 0);
  const std::int64_t steps = file.meta(index).at("steps").as_int();
  for (std::int64_t step = 0; step < steps; ++step) {
    optimizer.step();
    advance(step);
    check_rates(file, index, optimizer, step + 1);
  }
}

}  // namespace

void run_scheduler(const CaseFile& file, std::size_t index) {
  const Value& meta = file.meta(index);
  const std::string& name = meta.at("scheduler").as_string();
  optim::SGD optimizer = optimizer_of(file, index);
  if (name == "ReduceLROnPlateau") {
    optim::ReduceLROnPlateau scheduler(optimizer, plateau_options(meta.at("args")));
    const Tensor metric = file.tensor(index, "in.metric");
    run(file, index, optimizer, [&](std::int64_t step) { scheduler.step(select(metric, 0, step)); });
    return;
  }
  optim::LRScheduler scheduler(optimizer, make_schedule(name, meta.at("args")));
  run(file, index, optimizer, [&](std::int64_t) { scheduler.step(); });
}

}  // namespace mezzo::golden
