// The table from the goldens' schedulers to mezzo's options. A case with an argument that its schedule
// does not read is not supported, apart from `verbose` and the default of last_epoch.
#include "golden/schedulers.h"

#include <array>
#include <set>
#include <string_view>

#include "golden/case_file.h"
#include "mezzo/optim/schedules.h"

namespace mezzo::golden {

namespace {

using optim::Schedule;

/// Arguments by name, each of which has to be asked for.
class Arguments {
 public:
  explicit Arguments(const Value& values) : values_(values) {}

  void read(std::string_view name, double& to) {
    if (const Value* value = find(name)) to = value->as_double();
  }
  void read(std::string_view name, std::int64_t& to) {
    if (const Value* value = find(name)) to = value->as_int();
  }
  void read(std::string_view name, bool& to) {
    if (const Value* value = find(name)) to = value->as_bool();
  }
  void read(std::string_view name, optim::PerGroup<double>& to) {
    const Value* value = find(name);
    if (value == nullptr) return;
    if (!value->is_list()) {
      to = value->as_double();
      return;
    }
    std::vector<double> list;
    for (const Value& one : value->as_list()) list.push_back(one.as_double());
    to = std::move(list);
  }
  void read(std::string_view name, std::vector<std::int64_t>& to) {
    const Value* value = find(name);
    if (value == nullptr) return;
    for (const Value& one : value->as_list()) to.push_back(one.as_int());
  }
  void read(std::string_view name, std::vector<Schedule>& to) {
    const Value* value = find(name);
    if (value == nullptr) return;
    for (const Value& one : value->as_list())
      to.push_back(make_schedule(one.at(std::size_t{0}).as_string(), one.at(std::size_t{1})));
  }
  /// Whether the text under `name` is the second and not the first of two.
  bool second(std::string_view name, std::string_view first, std::string_view second) {
    const Value* value = find(name);
    if (value == nullptr || value->as_string() == first) return false;
    if (value->as_string() == second) return true;
    throw NotSupported(std::string(name) + " " + value->as_string());
  }
  /// NotSupported when something was not asked for. Null, `verbose` and the default of last_epoch say
  /// nothing.
  void finish() const {
    for (const auto& [name, value] : values_.as_map()) {
      const bool idle = name == "verbose" || (name == "last_epoch" && value == Value(-1));
      if (!asked_.contains(name) && !idle) throw NotSupported("argument " + name);
    }
  }

 private:
  const Value* find(std::string_view name) {
    asked_.emplace(name);
    const Value* value = values_.find(name);
    return value != nullptr && value->is_null() ? nullptr : value;
  }

  const Value& values_;
  std::set<std::string, std::less<>> asked_;
};

void read(Arguments& args, optim::ConstantLROptions& o) {
  args.read("factor", o.factor);
  args.read("total_iters", o.total_iters);
}
void read(Arguments& args, optim::StepLROptions& o) {
  args.read("step_size", o.step_size);
  args.read("gamma", o.gamma);
}
void read(Arguments& args, optim::MultiStepLROptions& o) {
  args.read("milestones", o.milestones);
  args.read("gamma", o.gamma);
}
void read(Arguments& args, optim::ExponentialLROptions& o) { args.read("gamma", o.gamma); }
void read(Arguments& args, optim::CosineAnnealingLROptions& o) {
  args.read("T_max", o.T_max);
  args.read("eta_min", o.eta_min);
}
void read(Arguments& args, optim::CosineAnnealingWarmRestartsOptions& o) {
  args.read("T_0", o.T_0);
  args.read("T_mult", o.T_mult);
  args.read("eta_min", o.eta_min);
}
void read(Arguments& args, optim::LinearLROptions& o) {
  args.read("start_factor", o.start_factor);
  args.read("end_factor", o.end_factor);
  args.read("total_iters", o.total_iters);
}
void read(Arguments& args, optim::LinearWarmupOptions& o) { args.read("warmup_steps", o.warmup_steps); }
void read(Arguments& args, optim::WarmupCosineOptions& o) {
  args.read("warmup_steps", o.warmup_steps);
  args.read("total_steps", o.total_steps);
  args.read("min_ratio", o.min_ratio);
}
void read(Arguments& args, optim::PolynomialLROptions& o) {
  args.read("total_iters", o.total_iters);
  args.read("power", o.power);
}
void read(Arguments& args, optim::OneCycleLROptions& o) {
  args.read("max_lr", o.max_lr);
  args.read("total_steps", o.total_steps);
  args.read("epochs", o.epochs);
  args.read("steps_per_epoch", o.steps_per_epoch);
  args.read("pct_start", o.pct_start);
  if (args.second("anneal_strategy", "cos", "linear")) o.anneal_strategy = optim::AnnealStrategy::linear;
  args.read("cycle_momentum", o.cycle_momentum);
  args.read("base_momentum", o.base_momentum);
  args.read("max_momentum", o.max_momentum);
  args.read("div_factor", o.div_factor);
  args.read("final_div_factor", o.final_div_factor);
  args.read("three_phase", o.three_phase);
}
void read(Arguments& args, optim::ChainedSchedulerOptions& o) { args.read("schedulers", o.schedulers); }
void read(Arguments& args, optim::SequentialLROptions& o) {
  args.read("schedulers", o.schedulers);
  args.read("milestones", o.milestones);
}

template <class Options>
Schedule make(const Value& values) {
  Arguments args(values);
  Options options;
  read(args, options);
  args.finish();
  return options.schedule();
}

struct ScheduleRow {
  std::string_view name;
  Schedule (*make)(const Value&);
};
constexpr std::array kSchedules{
    ScheduleRow{"ConstantLR", make<optim::ConstantLROptions>},
    ScheduleRow{"StepLR", make<optim::StepLROptions>},
    ScheduleRow{"MultiStepLR", make<optim::MultiStepLROptions>},
    ScheduleRow{"ExponentialLR", make<optim::ExponentialLROptions>},
    ScheduleRow{"CosineAnnealingLR", make<optim::CosineAnnealingLROptions>},
    ScheduleRow{"CosineAnnealingWarmRestarts", make<optim::CosineAnnealingWarmRestartsOptions>},
    ScheduleRow{"LinearLR", make<optim::LinearLROptions>},
    ScheduleRow{"LinearWarmup", make<optim::LinearWarmupOptions>},
    ScheduleRow{"WarmupCosine", make<optim::WarmupCosineOptions>},
    ScheduleRow{"PolynomialLR", make<optim::PolynomialLROptions>},
    ScheduleRow{"OneCycleLR", make<optim::OneCycleLROptions>},
    ScheduleRow{"ChainedScheduler", make<optim::ChainedSchedulerOptions>},
    ScheduleRow{"SequentialLR", make<optim::SequentialLROptions>},
};

}  // namespace

Schedule make_schedule(const std::string& name, const Value& args) {
  for (const ScheduleRow& row : kSchedules) {
    if (row.name == name) return row.make(args);
  }
  throw NotSupported("scheduler " + name);
}

optim::ReduceLROnPlateauOptions plateau_options(const Value& values) {
  Arguments args(values);
  optim::ReduceLROnPlateauOptions o;
  if (args.second("mode", "min", "max")) o.mode = optim::PlateauMode::max;
  args.read("factor", o.factor);
  args.read("patience", o.patience);
  args.read("threshold", o.threshold);
  if (args.second("threshold_mode", "rel", "abs")) o.threshold_mode = optim::ThresholdMode::abs;
  args.read("cooldown", o.cooldown);
  args.read("min_lr", o.min_lr);
  args.read("eps", o.eps);
  args.finish();
  return o;
}

}  // namespace mezzo::golden
