// Finite differences: one element of an input at a time is moved, on whatever device it is.
#include "mezzo/autograd/gradcheck.h"

#include <cmath>

#include "mezzo/autograd/engine.h"
#include "mezzo/core/error.h"
#include "mezzo/core/value.h"
#include "mezzo/ops/factory.h"

namespace mezzo::autograd::detail {

void refuse_count(std::size_t expected, std::size_t got) {
  throw ValueError("gradcheck", std::to_string(expected) + " inputs, which the function takes",
                   std::to_string(got), "give one for each argument");
}

namespace {

/// Inputs as leaves of their own, and those that require grad.
struct Leaves {
  Tensors all, wanted;
  std::vector<std::size_t> places;  ///< of `wanted` among `all`
};

Leaves leaves_of(const char* op, TensorList inputs) {
  Leaves leaves;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const Tensor& input = inputs[i];
    leaves.all.push_back(input.defined() ? input.detach().clone() : input);
    if (!input.defined() || !input.requires_grad()) continue;
    if (input.dtype() != DType::f64) {
      throw DTypeError(op, "inputs of f64", std::string(info(input.dtype()).name),
                       "finite differences of other dtypes say little: x.to(DType::f64)");
    }
    leaves.all.back().requires_grad_();
    leaves.wanted.push_back(leaves.all.back());
    leaves.places.push_back(i);
  }
  if (!leaves.wanted.empty()) return leaves;
  throw ValueError(op, "an input that requires grad", "none",
                   "call requires_grad_() on what to differentiate by");
}

/// The results that depend on the inputs.
Tensors differentiable(const char* op, const Tensors& results) {
  Tensors list;
  for (const Tensor& result : results) {
    if (result.defined() && result.requires_grad()) list.push_back(result);
  }
  if (!list.empty()) return list;
  throw ValueError(op, "a result that depends on an input that requires grad", "none", "check the function");
}

/// Values, row-major, as a tensor of the shape, dtype and device of another.
Tensor tensor_like(const Tensor& like, const std::vector<double>& values) {
  return tensor(values, like.shape(), {.dtype = like.dtype(), .device = like.device()});
}

/// The results, in f64 on the host, with one element of an input moved.
std::vector<std::vector<double>> moved(const TensorFunction& function, const Leaves& leaves,
                                       std::size_t place, std::int64_t index, double by) {
  Tensors inputs = leaves.all;
  std::vector<double> values = leaves.all[place].to_vector<double>();
  values[static_cast<std::size_t>(index)] += by;
  inputs[place] = tensor_like(leaves.all[place], values).requires_grad_();
  std::vector<std::vector<double>> results;
  for (const Tensor& result : function(inputs)) {
    if (result.defined() && result.requires_grad())
      results.push_back(result.detach().to(DType::f64).to_vector<double>());
  }
  return results;
}

/// The derivatives of one element of a result by all elements of the wanted inputs.
std::vector<std::vector<double>> derivatives(const Tensor& result, std::int64_t index, const Leaves& leaves) {
  std::vector<double> one(static_cast<std::size_t>(result.numel()), 0.0);
  one[static_cast<std::size_t>(index)] = 1;
  const Tensor direction = tensor_like(result, one);
  const Tensors gradients =
      mezzo::grad({result}, leaves.wanted, {direction}, {.retain_graph = true, .allow_unused = true});
  std::vector<std::vector<double>> list;
  for (std::size_t k = 0; k < leaves.wanted.size(); ++k) {
    list.push_back(gradients[k].defined()
                       ? gradients[k].detach().to_vector<double>()
                       : std::vector<double>(static_cast<std::size_t>(leaves.wanted[k].numel()), 0.0));
  }
  return list;
}

bool check(const char* op, const TensorFunction& function, TensorList inputs,
           const GradCheckOptions& options) {
  const Leaves leaves = leaves_of(op, inputs);
  const Tensors results = differentiable(op, function(leaves.all));
  // analytic[i][j][k]: of element j of result i, by the elements of wanted input k.
  std::vector<std::vector<std::vector<std::vector<double>>>> analytic(results.size());
  for (std::size_t i = 0; i < results.size(); ++i) {
    for (std::int64_t j = 0; j < results[i].numel(); ++j)
      analytic[i].push_back(derivatives(results[i], j, leaves));
  }
  for (std::size_t k = 0; k < leaves.wanted.size(); ++k) {
    for (std::int64_t e = 0; e < leaves.wanted[k].numel(); ++e) {
      const auto above = moved(function, leaves, leaves.places[k], e, options.eps);
      const auto below = moved(function, leaves, leaves.places[k], e, -options.eps);
      for (std::size_t i = 0; i < results.size(); ++i) {
        for (std::size_t j = 0; j < analytic[i].size(); ++j) {
          const double numeric = (above.at(i).at(j) - below.at(i).at(j)) / (2 * options.eps);
          const double got = analytic[i][j][k][static_cast<std::size_t>(e)];
          if (std::abs(got - numeric) <= options.atol + options.rtol * std::abs(numeric)) continue;
          if (!options.raise_exception) return false;
          throw AutogradError(op,
                              "d result " + std::to_string(i) + "[" + std::to_string(j) + "] / d input " +
                                  std::to_string(leaves.places[k]) + "[" + std::to_string(e) + "] of " +
                                  Value(numeric).to_string() + ", which finite differences say",
                              Value(got).to_string(), "check the gradient; elements are numbered row-major");
        }
      }
    }
  }
  return true;
}

}  // namespace

bool gradcheck(const TensorFunction& function, TensorList inputs, const GradCheckOptions& options) {
  return check("gradcheck", function, inputs, options);
}

bool gradgradcheck(const TensorFunction& function, TensorList inputs, TensorList grad_outputs,
                   const GradCheckOptions& options) {
  const Leaves leaves = leaves_of("gradgradcheck", inputs);
  const Tensors results = differentiable("gradgradcheck", function(leaves.all));
  Tensors arguments = leaves.all;
  if (!grad_outputs.empty() && grad_outputs.size() != results.size()) {
    throw ValueError("gradgradcheck", std::to_string(results.size()) + " grad_outputs, one for each result",
                     std::to_string(grad_outputs.size()), "leave them out for values between -1 and 1");
  }
  for (std::size_t i = 0; i < results.size(); ++i) {
    std::vector<double> values(static_cast<std::size_t>(results[i].numel()));
    for (std::size_t e = 0; e < values.size(); ++e) values[e] = std::cos(1.0 + 2.0 * static_cast<double>(e));
    const Tensor direction =
        grad_outputs.empty() ? tensor_like(results[i], values) : grad_outputs[i].detach().clone();
    arguments.push_back(direction.requires_grad_());
  }
  const std::size_t count = leaves.all.size();
  const auto gradients = [&](TensorList x) {
    const TensorList of_inputs(x.begin(), count), directions(x.begin() + count, x.size() - count);
    Tensors wanted;
    for (const std::size_t place : leaves.places) wanted.push_back(x[place]);
    const Tensors all = mezzo::grad(differentiable("gradgradcheck", function(of_inputs)), wanted, directions,
                                    {.create_graph = true, .allow_unused = true});
    Tensors defined;
    for (const Tensor& gradient : all) {
      if (gradient.defined()) defined.push_back(gradient);
    }
    return defined;
  };
  return check("gradgradcheck", gradients, arguments, options);
}

}  // namespace mezzo::autograd::detail
