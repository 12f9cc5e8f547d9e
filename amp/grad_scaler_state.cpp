// GradScaler on the host: its options, accessors, reports and state dict.
#include <cmath>
#include <locale>
#include <sstream>
#include <tuple>

#include "mezzo/amp/grad_scaler.h"
#include "mezzo/core/backend.h"
#include "mezzo/core/error.h"
#include "mezzo/core/warning.h"
#include "mezzo/kernels/scaler/scaler_math.h"
#include "mezzo/ops/ops.h"

namespace mezzo::amp {

namespace {

void require(bool good, const char* what, double got, const char* fix) {
  if (!good) throw ValueError("GradScaler", what, number_text(got), fix);
}

void check_scale(double scale, const char* what) {
  const auto stored = static_cast<float>(scale);
  require(stored > 0 && std::isfinite(stored), what, scale, "use 65536");
}

void check(const GradScalerOptions& options) {
  check_scale(options.init_scale, "a positive, finite init_scale");
  require(options.growth_factor > 1, "growth_factor > 1", options.growth_factor, "use 2");
  require(options.backoff_factor > 0 && options.backoff_factor < 1, "backoff_factor in (0, 1)",
          options.backoff_factor, "use 0.5");
  require(options.growth_interval >= 1, "growth_interval >= 1", static_cast<double>(options.growth_interval),
          "use 2000");
  require(options.hysteresis >= 1, "hysteresis >= 1", static_cast<double>(options.hysteresis), "use 1 or 2");
  require(options.min_scale >= 0 && options.min_scale <= options.max_scale, "0 <= min_scale <= max_scale",
          options.min_scale, "use 0 for no lower bound");
}

}  // namespace

void detail::warn_below_1(double scale) {
  static WarningSite site("scale_below_1");
  if (scale >= 1 || !site.is_fresh()) return;
  site.warn(
      "GradScaler", "a scale of at least 1", Value(scale).to_string(),
      "gradients overflow without any scaling: look for the source with StepResult::first_nonfinite() and "
      "autograd::detect_anomaly(), or give the loss a smaller weight");
}

namespace {
/// The record in `memory`; `otherwise` where that is undefined.
ScalerRecord read_from(const Tensor& memory, const ScalerRecord& otherwise) {
  if (!memory.defined()) return otherwise;
  const HostRead read("GradScaler.read");
  ScalerRecord record;
  backend(memory.device()).copy_to_host(&record, memory.impl().data(), sizeof(record), memory.device().index);
  detail::warn_below_1(static_cast<double>(record.scale));
  return record;
}
}  // namespace

ScalerRecord StepResult::read() const { return read_from(record_, {}); }

bool StepResult::skipped() const {
  const ScalerRecord record = read();
  return record.found_inf != 0;
}

std::optional<std::size_t> StepResult::first_nonfinite() const {
  const ScalerRecord record = read();
  if (record.first_nonfinite == ScalerRecord::kAllFinite) return std::nullopt;
  return record.first_nonfinite;
}

GradScaler::GradScaler(GradScalerOptions options) : options_(options) {
  if (!options_.enabled) return;
  check(options_);
  detail::warn_below_1(options_.init_scale);
  initial_.scale = static_cast<float>(options_.init_scale);
  initial_.inv_scale = kernels::inverse_scale(initial_.scale);
}

void GradScaler::set_options(const GradScalerOptions& options) {
  if (options.enabled != options_.enabled || options.init_scale != options_.init_scale) {
    throw ValueError("GradScaler.set_options", "enabled and init_scale as they were", "other ones",
                     "make a new scaler, or set the scale with update(new_scale)");
  }
  if (options.enabled) check(options);
  change_options(options);
}

void GradScaler::change_options(const GradScalerOptions& options) {
  const auto rule = [](const GradScalerOptions& o) {
    return std::tuple(o.growth_factor, o.backoff_factor, o.growth_interval, o.hysteresis, o.min_scale,
                      o.max_scale, o.write_unscaled);
  };
  if (changes_ && rule(options) != rule(options_)) ++changes_->count;
  options_ = options;
}

template <class T>
void GradScaler::set_option(T GradScalerOptions::*option, T value) {
  GradScalerOptions options = options_;
  options.*option = value;
  set_options(options);
}
void GradScaler::set_growth_factor(double factor) { set_option(&GradScalerOptions::growth_factor, factor); }
void GradScaler::set_backoff_factor(double factor) { set_option(&GradScalerOptions::backoff_factor, factor); }
void GradScaler::set_growth_interval(std::int64_t interval) {
  set_option(&GradScalerOptions::growth_interval, interval);
}

ScalerRecord GradScaler::read_record() const { return read_from(record_, initial_); }

void GradScaler::write_record(const ScalerRecord& host) const {
  backend(record_.device())
      .copy_from_host(record_.impl().data(), &host, sizeof(host), record_.device().index);
}

double GradScaler::get_scale() const {
  return options_.enabled ? static_cast<double>(read_record().scale) : 1.0;
}
std::int64_t GradScaler::growth_tracker() const { return read_record().growth_tracker; }
std::int64_t GradScaler::steps_ok() const { return static_cast<std::int64_t>(read_record().steps_ok); }
std::int64_t GradScaler::steps_skipped() const {
  return static_cast<std::int64_t>(read_record().steps_skipped);
}
bool GradScaler::at_floor() const { return read_record().at_floor != 0; }

std::string GradScaler::report() const {
  if (!options_.enabled) return "GradScaler: disabled";
  const ScalerRecord record = read_record();
  std::ostringstream text;
  text.imbue(std::locale::classic());
  text << "GradScaler: scale " << record.scale << ", " << record.steps_ok << " steps, "
       << record.steps_skipped << " skipped, " << record.growth_tracker << " of " << options_.growth_interval
       << " towards the next growth";
  if (record.at_floor != 0) {
    text << "; the scale is at its floor " << options_.min_scale
         << " and gradients still overflow: no scale will help, look for the source with "
            "StepResult::first_nonfinite() and "
            "autograd::detect_anomaly()";
  }
  return text.str();
}

Value GradScaler::state_dict() const {
  if (!options_.enabled) return Value(Value::Map{});
  const ScalerRecord record = read_record();
  Value state(Value::Map{{"scale", static_cast<double>(record.scale)},
                         {"growth_factor", options_.growth_factor},
                         {"backoff_factor", options_.backoff_factor},
                         {"growth_interval", options_.growth_interval},
                         {"_growth_tracker", static_cast<std::int64_t>(record.growth_tracker)},
                         {"min_scale", options_.min_scale},
                         {"max_scale", options_.max_scale},
                         {"steps_ok", record.steps_ok},
                         {"steps_skipped", record.steps_skipped}});
  if (options_.hysteresis == 1) return state;  // torch's rule, in torch's keys
  state.set("hysteresis", options_.hysteresis);
  return state.set("_overflows", static_cast<std::int64_t>(record.overflows));
}

void GradScaler::load_state_dict(const Value& state) {
  if (!options_.enabled) return;
  if (state.is_null() || state.size() == 0) {
    throw StateError("GradScaler.load_state_dict", "the state of an enabled scaler", "an empty one",
                     "it was probably saved from a disabled scaler: start with a fresh one instead");
  }
  GradScalerOptions options = options_;
  const auto number = [&](const char* key, double otherwise) {
    const Value* found = state.find(key);
    return found != nullptr ? found->as_double() : otherwise;
  };
  const auto count = [&](const char* key) {
    const Value* found = state.find(key);
    const std::int64_t value = found != nullptr ? found->as_int() : 0;
    require(value >= 0 && value <= ScalerRecord::kLargestTracker, "a counter from 0 to 2^31 - 1",
            static_cast<double>(value), "check the file");
    return value;
  };
  ScalerRecord record;
  check_scale(state.at("scale").as_double(), "a positive, finite scale");
  record.scale = static_cast<float>(state.at("scale").as_double());
  record.inv_scale = kernels::inverse_scale(record.scale);
  record.growth_tracker = static_cast<std::int32_t>(count("_growth_tracker"));
  record.overflows = static_cast<std::int32_t>(count("_overflows"));
  record.steps_ok = static_cast<std::uint64_t>(count("steps_ok"));
  record.steps_skipped = static_cast<std::uint64_t>(count("steps_skipped"));
  options.growth_factor = state.at("growth_factor").as_double();
  options.backoff_factor = state.at("backoff_factor").as_double();
  options.growth_interval = state.at("growth_interval").as_int();
  if (const Value* hysteresis = state.find("hysteresis")) options.hysteresis = hysteresis->as_int();
  options.min_scale = number("min_scale", options.min_scale);
  options.max_scale = number("max_scale", options.max_scale);
  check(options);
  detail::warn_below_1(static_cast<double>(record.scale));
  change_options(options);
  initial_ = record;
  loaded_ = true;
  restart_iteration();
  if (record_.defined()) write_record(record);
}

std::optional<NonFinite> find_nonfinite(const optim::Optimizer& optimizer) {
  const std::vector<Tensor> parameters = optimizer.parameters();
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const Tensor gradient = parameters[i].grad();
    if (!gradient.defined()) continue;
    const Tensor difference = sub(gradient.detach(), gradient.detach());  // 0 where finite, NaN elsewhere
    const auto count = sum(ne(difference, 0.0)).item<std::int64_t>();
    if (count > 0) return NonFinite{i, optimizer.parameter_name(i), count};
  }
  return std::nullopt;
}

}  // namespace mezzo::amp
