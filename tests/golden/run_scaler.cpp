// GradScaler: unscaling, skipped steps, and the course of the scale, all through the public class.
#include <bit>
#include <cmath>
#include <limits>

#include "golden/compare.h"
#include "golden/kinds.h"
#include "golden/optimizers.h"
#include "mezzo/amp/grad_scaler.h"
#include "mezzo/ops/cast.h"
#include "mezzo/ops/factory.h"
#include "mezzo/ops/shape.h"
#include "mezzo/optim/sgd.h"

namespace mezzo::golden {

namespace {

/// Options from a map with PyTorch's names. The goldens know no bounds of the scale, so there are none.
amp::GradScalerOptions scaler_options(const Value& map) {
  amp::GradScalerOptions options;
  options.init_scale = map.at("init_scale").as_double();
  options.growth_factor = map.at("growth_factor").as_double();
  options.backoff_factor = map.at("backoff_factor").as_double();
  options.growth_interval = map.at("growth_interval").as_int();
  options.min_scale = 0;
  return options;
}

Tensor leaf_of(const Tensor& values) {
  const Tensor leaf = values.clone();
  leaf.requires_grad_();
  return leaf;
}

/// Starts an iteration as a training loop does; the loss itself plays no part, the gradients are given.
void start(amp::GradScaler& scaler) { static_cast<void>(scaler.scale(zeros({}, {.device = run_device()}))); }

/// One iteration on a one-parameter optimizer with a finite gradient, or an infinite one.
bool iterate(amp::GradScaler& scaler, optim::Optimizer& optimizer, const Tensor& parameter, bool overflow,
             const Value* new_scale) {
  start(scaler);
  parameter.set_grad(
      full({2}, overflow ? std::numeric_limits<double>::infinity() : 1.0, {.device = run_device()}));
  const bool skipped = scaler.step(optimizer).skipped();
  if (new_scale == nullptr)
    scaler.update();
  else
    scaler.update(new_scale->as_double());
  return skipped;
}

void run_trajectory(const Value& meta) {
  amp::GradScaler scaler(scaler_options(meta));
  const Tensor parameter = zeros({2}, {.device = run_device(), .requires_grad = true});
  optim::SGD optimizer(std::vector<Tensor>{parameter});
  const Value::List& flags = meta.at("found_inf").as_list();
  const Value* new_scales = meta.find("new_scale_at_step");
  for (std::size_t i = 0; i < flags.size(); ++i) {
    const std::string at = " after step " + std::to_string(i);
    const bool overflow = flags[i].as_int() != 0;
    const Value* new_scale = new_scales == nullptr ? nullptr : new_scales->find(std::to_string(i));
    if (iterate(scaler, optimizer, parameter, overflow, new_scale) != overflow)
      throw Mismatch("skipped" + at + ": got " + (overflow ? "no, want yes" : "yes, want no"));
    const auto bits = std::bit_cast<std::uint32_t>(static_cast<float>(scaler.get_scale()));
    if (bits != static_cast<std::uint32_t>(meta.at("scale_bits").at(i).as_int())) {
      throw Mismatch("scale" + at + ": got " + std::to_string(scaler.get_scale()) + ", want " +
                     meta.at("scale").at(i).to_string() + ", bit for bit");
    }
    const std::int64_t want = meta.at("tracker").at(i).as_int();
    if (scaler.growth_tracker() != want) {
      throw Mismatch("tracker" + at + ": got " + std::to_string(scaler.growth_tracker()) + ", want " +
                     std::to_string(want));
    }
  }
}

}  // namespace

void run_unscale(const CaseFile& file, std::size_t index) {
  const Value& meta = file.meta(index);
  const DType dtype = dtype_of_case(meta.at("dtype").as_string());
  std::vector<Tensor> parameters;
  for (const std::string& name : strings(meta, "inputs")) {
    const Tensor gradient = file.tensor(index, "in." + name);
    const Tensor parameter =
        zeros(gradient.shape(), {.dtype = dtype, .device = gradient.device(), .requires_grad = true});
    parameter.set_grad(gradient);
    parameters.push_back(parameter);
  }
  // f16 gradients are accepted where the optimizer keeps f32 masters, and become f32 ones.
  const bool masters = dtype == DType::f16;
  optim::SGD optimizer(parameters, {.master_weights = masters});
  amp::GradScaler scaler({.init_scale = meta.at("args").at("scale").as_double()});
  start(scaler);
  expect_close("inv_scale", scaler.inv_scale_tensor().item(), meta.at("args").at("inv_scale").as_double(),
               {});
  scaler.unscale_(optimizer);
  std::size_t i = 0;
  for (const std::string& name : strings(meta, "inputs")) {
    const Tensor gradient = parameters[i++].grad();
    expect_dtype("out." + name, gradient.dtype(), masters ? DType::f32 : dtype);
    // PyTorch rounds what it has unscaled to the gradient's dtype.
    expect_close("out." + name, to(gradient, dtype), file.tensor(index, "out." + name),
                 tolerance(meta, "out"));
  }
  const bool found = file.tensor(index, "out.found_inf").item() != 0;
  if (scaler.step(optimizer).skipped() != found)
    throw Mismatch(std::string("found_inf: got ") + (found ? "0, want 1" : "1, want 0"));
}

void run_scaler_steps(const CaseFile& file, std::size_t index) {
  const Value& meta = file.meta(index);
  const Tolerance allowed = tolerance(meta, "out");
  const Tensor parameter = leaf_of(file.tensor(index, "in.p0"));
  const auto optimizer =
      make_optimizer(meta.at("optimizer").as_string(), {{{{"p0", parameter}}, {}}}, meta.at("args"));
  amp::GradScaler scaler(scaler_options(meta.at("scaler")));
  const Tensor gradients = file.tensor(index, "scaled_gradseq.p0");
  for (std::int64_t step = 0; step < meta.at("steps").as_int(); ++step) {
    const std::string at = " after step " + std::to_string(step);
    const auto position = static_cast<std::size_t>(step);
    start(scaler);
    parameter.set_grad(select(gradients, 0, step).clone());
    const bool skipped = scaler.step(*optimizer).skipped();
    scaler.update();
    if (skipped != (meta.at("skipped").at(position).as_int() != 0))
      throw Mismatch("skipped" + at + ": got " + (skipped ? "yes" : "no"));
    expect_close("p0" + at, parameter.detach(), select(file.tensor(index, "out.p0"), 0, step), allowed);
    expect_close("scale" + at, scaler.get_scale(), select(file.tensor(index, "out.scale"), 0, step).item(),
                 {});
    if (scaler.growth_tracker() != meta.at("tracker").at(position).as_int())
      throw Mismatch("tracker" + at + ": got " + std::to_string(scaler.growth_tracker()));
  }
}

void run_trajectories(const Value& content, Report& report) {
  for (const Value& one : content.at("cases").as_list())
    report.run(one.at("name").as_string(), [&] { run_trajectory(one); });
}

}  // namespace mezzo::golden
