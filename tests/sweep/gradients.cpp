// Derivatives against finite differences. One routine serves both orders: a derivative of order two is one of
// order one of the function that gives the gradients.
#include <cmath>

#include "mezzo/autograd/engine.h"
#include "mezzo/autograd/grad_mode.h"
#include "sweep/checks.h"
#include "sweep/compare.h"

namespace mezzo::sweep {

namespace {

/// Tensors in, differentiable tensors out.
using Map = std::function<Tensors(const Tensors&)>;

double weighted_difference(const Tensors& plus, const Tensors& minus, const Tensors& weights) {
  double sum = 0;
  for (std::size_t i = 0; i < weights.size(); ++i) {
    const std::vector<double> a = numbers(plus[i]), b = numbers(minus[i]), w = numbers(weights[i]);
    for (std::size_t j = 0; j < w.size(); ++j) sum += w[j] * (a[j] - b[j]);
  }
  return sum;
}

/// d sum_i <map(arguments)_i, weights_i> / d arguments[which], by the five-point rule.
std::vector<double> numeric_gradient(const Map& map, const Tensors& arguments, std::size_t which,
                                     const Tensors& weights) {
  std::vector<double> slopes(static_cast<std::size_t>(arguments[which].numel()));
  const auto moved = [&](std::size_t element, double by) {
    Tensors shifted = arguments;
    const NoGrad no_grad;
    shifted[which] = arguments[which].detach().clone();
    shifted[which].mutable_data<double>()[element] += by;
    return shifted;
  };
  for (std::size_t i = 0; i < slopes.size(); ++i) {
    const double near = weighted_difference(map(moved(i, kStep)), map(moved(i, -kStep)), weights);
    const double far = weighted_difference(map(moved(i, 2 * kStep)), map(moved(i, -2 * kStep)), weights);
    slopes[i] = (8 * near - far) / (12 * kStep);
  }
  return slopes;
}

Difference differs_from_numeric(const std::string& what, const Tensor& analytic,
                                const std::vector<double>& numeric) {
  const std::vector<double> values =
      analytic.defined() ? numbers(analytic) : std::vector<double>(numeric.size(), 0.0);
  if (values.size() != numeric.size()) return what + ": wrong number of elements";
  double scale = 1;
  for (const double value : numeric) scale = std::max(scale, std::abs(value));
  for (std::size_t i = 0; i < values.size(); ++i) {
    const double allowed = kDifferenceTolerance * scale;
    if (std::abs(values[i] - numeric[i]) <= allowed) continue;
    return what + "[" + std::to_string(i) + "]: " + std::to_string(values[i]) + ", finite differences say " +
           std::to_string(numeric[i]) + " within " + std::to_string(allowed);
  }
  return std::nullopt;
}

/// Inputs as leaves, and which of them have a gradient.
struct Leaves {
  Tensors all;
  std::vector<std::size_t> wanted;
};
Leaves grad_leaves_of(const Case& one, const Tensors& values) {
  Leaves leaves;
  for (std::size_t i = 0; i < values.size(); ++i) {
    leaves.all.push_back(values[i].defined() ? values[i].detach() : Tensor());
    if (!values[i].defined() || !one.inputs[i].grad || !is_floating(values[i].dtype())) continue;
    leaves.all[i].requires_grad_();
    leaves.wanted.push_back(i);
  }
  return leaves;
}
Tensors wanted_of(const Leaves& leaves) {
  Tensors list;
  for (const std::size_t i : leaves.wanted) list.push_back(leaves.all[i]);
  return list;
}

Tensors differentiable(const Outputs& outputs) {
  Tensors list;
  for (const Tensor& output : outputs) {
    if (output.defined() && output.requires_grad()) list.push_back(output);
  }
  return list;
}

Tensors directions_like(const Tensors& tensors, std::uint64_t stream) {
  Tensors list;
  for (const Tensor& x : tensors) list.push_back(direction(x.shape(), x.dtype(), stream++));
  return list;
}

bool has_gradient(const Case& one) { return one.op->no_gradient_because().empty(); }

/// The gradient of input i where no other input requires one, so that an op saves no more than this one
/// reads.
Tensor gradient_alone(const Case& one, const Tensors& inputs, std::size_t i, const Tensors& weights) {
  Tensors alone;
  for (const Tensor& input : inputs) alone.push_back(input.defined() ? input.detach() : Tensor());
  alone[i].requires_grad_();
  const Tensors roots = differentiable(call(forward_of(one), alone));
  if (roots.empty()) return {};
  return grad(roots, {alone[i]}, weights, {.allow_unused = true})[0];
}

/// The first gradients as a function of [inputs..., upstream gradients...]. Undefined ones are left out, as
/// `keep` says.
Map gradient_map(const Case& one, std::size_t num_inputs, const std::vector<bool>& keep) {
  return [&one, num_inputs, keep](const Tensors& arguments) {
    Tensors inputs, upstream;
    for (std::size_t i = 0; i < arguments.size(); ++i)
      (i < num_inputs ? inputs : upstream).push_back(arguments[i]);
    const Leaves leaves = grad_leaves_of(one, inputs);
    const Tensors roots = differentiable(call(forward_of(one), leaves.all));
    const Tensors all = grad(roots, wanted_of(leaves), upstream, {.allow_unused = true});
    Tensors kept;
    for (std::size_t i = 0; i < all.size(); ++i) {
      if (keep[i]) kept.push_back(all[i]);
    }
    return kept;
  };
}

/// Everything the second derivative needs, from one recorded first derivative.
struct Recorded {
  Tensors arguments;                ///< inputs, then upstream gradients
  std::vector<std::size_t> wanted;  ///< those to differentiate by, as positions in `arguments`
  std::vector<bool> keep;           ///< which first gradients are there
  Tensors gradients;                ///< these
};
Recorded record_first(const Case& one) {
  Recorded r;
  const Leaves leaves = grad_leaves_of(one, make_inputs(one, DType::f64));
  const Tensors roots = differentiable(call(forward_of(one), leaves.all));
  if (roots.empty() || leaves.wanted.empty()) return r;
  const Tensors upstream = directions_like(roots, 0);
  for (const Tensor& u : upstream) u.requires_grad_();
  const Tensors all = grad(roots, wanted_of(leaves), upstream, {.create_graph = true, .allow_unused = true});
  for (const Tensor& gradient : all) {
    r.keep.push_back(gradient.defined());
    if (gradient.defined()) r.gradients.push_back(gradient);
  }
  r.arguments = leaves.all;
  r.wanted = leaves.wanted;
  for (const Tensor& u : upstream) {
    r.wanted.push_back(r.arguments.size());
    r.arguments.push_back(u);
  }
  return r;
}

}  // namespace

void check_gradient(const Case& one, Findings& findings) {
  if (!has_gradient(one)) return;
  const Leaves leaves = grad_leaves_of(one, make_inputs(one, DType::f64));
  const Tensors roots = differentiable(call(forward_of(one), leaves.all));
  if (leaves.wanted.empty() || roots.empty()) return;
  findings.ran(Check::gradient);
  const Tensors weights = directions_like(roots, 0);
  const Tensors analytic = grad(roots, wanted_of(leaves), weights, {.allow_unused = true});
  const Map map = [&](const Tensors& inputs) {
    return differentiable(call(forward_of(one), grad_leaves_of(one, inputs).all));
  };
  for (std::size_t k = 0; k < leaves.wanted.size(); ++k) {
    const std::size_t i = leaves.wanted[k];
    const std::string what = one.label + ": gradient of input " + std::to_string(i);
    if (analytic[k].defined() && analytic[k].shape() != leaves.all[i].shape())
      findings.fail(Check::gradient, what + " has shape " + to_string(analytic[k].shape()));
    const auto numeric = numeric_gradient(map, leaves.all, i, weights);
    if (auto found = differs_from_numeric(what, analytic[k], numeric)) findings.fail(Check::gradient, *found);
    if (leaves.wanted.size() == 1) continue;
    const Tensor alone = gradient_alone(one, leaves.all, i, weights);
    if (auto found = differs_from_numeric(what + " alone", alone, numeric))
      findings.fail(Check::gradient, *found);
  }
}

void check_second_gradient(const Case& one, Findings& findings) {
  if (!has_gradient(one)) return;
  const Recorded r = record_first(one);
  if (r.gradients.empty()) return;
  findings.ran(Check::second_gradient);
  const Tensors v = directions_like(r.gradients, 100);
  Tensors roots, directions, wanted;
  for (std::size_t i = 0; i < r.gradients.size(); ++i) {
    if (!r.gradients[i].requires_grad()) continue;  // a constant
    roots.push_back(r.gradients[i]);
    directions.push_back(v[i]);
  }
  for (const std::size_t i : r.wanted) wanted.push_back(r.arguments[i]);
  Tensors analytic(wanted.size());
  if (!roots.empty()) analytic = grad(roots, wanted, directions, {.allow_unused = true});
  const Map map = gradient_map(one, one.inputs.size(), r.keep);
  for (std::size_t k = 0; k < r.wanted.size(); ++k) {
    const std::size_t i = r.wanted[k];
    const bool input = i < one.inputs.size();
    const std::string what = one.label + ": second gradient of " + (input ? "input " : "upstream ") +
                             std::to_string(input ? i : i - one.inputs.size());
    const auto numeric = numeric_gradient(map, r.arguments, i, v);
    if (auto found = differs_from_numeric(what, analytic[k], numeric))
      findings.fail(Check::second_gradient, *found);
  }
}

}  // namespace mezzo::sweep
