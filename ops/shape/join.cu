// Joining tensors into a new one: cat, stack, repeat.
#include <algorithm>

#include "mezzo/ops/ops.h"
#include "mezzo/ops/shape/copy_into.h"

namespace mezzo {

namespace {

using namespace ops;

/// dtype and device of a join. Throws for an empty list and several devices.
TensorOptions joined_options(std::string_view op, Inputs inputs) {
  if (inputs.empty()) throw ShapeError(op, "at least one tensor", "an empty list", "pass tensors");
  ResultType result;
  for (const TensorRef& input : inputs) {
    if (!(input->device() == inputs[0]->device())) {
      throw DeviceError(op, "all tensors on one device",
                        to_string(inputs[0]->device()) + " and " + to_string(input->device()),
                        "move them together with to(device)");
    }
    result.add(input.get());
  }
  return {.dtype = result.get(), .device = inputs[0]->device()};
}

// --- cat

/// PyTorch's exception: a tensor of shape [0] joins anything and adds nothing.
bool adds_nothing(const Shape& shape) { return shape == Shape{0}; }

/// Shape of the result; throws when the inputs do not fit.
Shape cat_shape(Inputs inputs, std::int64_t asked_dim) {
  const Shape* first = nullptr;
  Shape total{0};
  std::size_t dim = 0;
  for (const TensorRef& input : inputs) {
    const Shape& shape = input->shape();
    if (shape.empty()) throw ShapeError("cat", "tensors with at least 1 dim", "a 0-dim tensor", "use stack");
    if (adds_nothing(shape)) continue;
    if (first == nullptr) {
      first = &shape;
      dim = static_cast<std::size_t>(layout::wrap_dim("cat", asked_dim, shape.size()));
      total = shape;
      continue;
    }
    Shape like = shape;
    if (like.size() == first->size()) like[dim] = (*first)[dim];
    if (like != *first) {
      throw ShapeError("cat", "sizes that agree but for dim " + std::to_string(dim),
                       to_string(*first) + " and " + to_string(shape), "check the shapes and the dim");
    }
    total[dim] += shape[dim];
    layout::checked_numel("cat", total);
  }
  if (first == nullptr) static_cast<void>(layout::wrap_dim("cat", asked_dim, 1));
  return total;
}

Outputs cat_forward(const ForwardArgs<AlongAttrs>& args) {
  TensorOptions options = joined_options("cat", args.inputs);
  if (std::any_of(args.inputs.begin(), args.inputs.end(), [](const TensorRef& input) {
        return input->suggest_memory_format() == MemoryFormat::channels_last;
      }))
    options.memory_format = MemoryFormat::channels_last;
  Tensor out = empty(cat_shape(args.inputs, args.attrs.dim), options);
  const auto dim = static_cast<std::size_t>(layout::wrap_dim("cat", args.attrs.dim, out.shape().size()));
  std::int64_t at = 0;
  for (const TensorRef& input : args.inputs) {
    if (adds_nothing(input->shape())) continue;
    copy_into(alias(out, input->shape(), out.strides(), at * out.strides()[dim], false), input.get());
    at += input->shape()[dim];
  }
  return out;
}
Gradients cat_vjp(const VjpArgs<AlongAttrs>& args) {
  Gradients result;
  const Tensor grad = args.grad();
  const std::int64_t dim = layout::wrap_dim("cat", args.attrs.dim, grad.shape().size());
  std::int64_t at = 0;
  for (std::size_t i = 0; i < args.num_inputs(); ++i) {
    const Shape& shape = args.in_shape(i);
    if (adds_nothing(shape)) {
      result.push_back(args.needs(i) ? zeros(shape, options_of(grad)) : Tensor());
      continue;
    }
    const std::int64_t length = shape[static_cast<std::size_t>(dim)];
    result.push_back(args.needs(i) ? narrow(grad, dim, at, length) : Tensor());
    at += length;
  }
  return result;
}
std::vector<Sample<AlongAttrs>> cat_samples() {
  return {{{op_samples::real({2, 3}), op_samples::real({4, 3})}, {0}},
          {{op_samples::real({2, 3}), op_samples::real({2, 1}), op_samples::real({2, 4})}, {-1}},
          {{op_samples::real({0}), op_samples::real({2, 2})}, {1}}};
}
constexpr Op<AlongAttrs> cat_op = taking_list(
    plain_op<AlongAttrs>("cat", Category::passthrough, cat_samples, cat_forward, cat_vjp, kSaveNothing));

// --- stack

Outputs stack_forward(const ForwardArgs<AlongAttrs>& args) {
  const TensorOptions options = joined_options("stack", args.inputs);
  const Shape& shape = args.in(0).shape();
  for (const TensorRef& input : args.inputs) {
    if (input->shape() == shape) continue;
    throw ShapeError("stack", "tensors of one shape", to_string(shape) + " and " + to_string(input->shape()),
                     "use cat, or check the shapes");
  }
  const auto dim = static_cast<std::size_t>(layout::wrap_dim("stack", args.attrs.dim, shape.size() + 1));
  Shape all = shape;
  all.insert(dim, static_cast<std::int64_t>(args.inputs.size()));
  Tensor out = empty(all, options);
  Dims strides = out.strides();
  strides.erase(dim);
  std::int64_t at = 0;
  for (const TensorRef& input : args.inputs) {
    copy_into(alias(out, shape, strides, at, false), input.get());
    at += out.strides()[dim];
  }
  return out;
}
Gradients stack_vjp(const VjpArgs<AlongAttrs>& args) {
  Gradients result;
  const Tensor grad = args.grad();
  for (std::size_t i = 0; i < args.num_inputs(); ++i) {
    result.push_back(args.needs(i) ? select(grad, args.attrs.dim, static_cast<std::int64_t>(i)) : Tensor());
  }
  return result;
}
std::vector<Sample<AlongAttrs>> stack_samples() {
  return {{{op_samples::real({2, 3}), op_samples::real({2, 3})}, {0}},
          {{op_samples::real({2, 3}), op_samples::real({2, 3}), op_samples::real({2, 3})}, {-1}},
          {{op_samples::real({}), op_samples::real({})}, {0}}};
}
constexpr Op<AlongAttrs> stack_op = taking_list(plain_op<AlongAttrs>(
    "stack", Category::passthrough, stack_samples, stack_forward, stack_vjp, kSaveNothing));

// --- repeat

struct RepeatAttrs {
  Dims reps;
  MEZZO_FIELDS(RepeatAttrs, reps)
};

/// A repetition of up to three dims, as a reshape between tensors of at most eight dims: each repeated dim of
/// size s is a pair (copies, s), and what lies between the pairs is merged.
struct RepeatStep {
  Shape from, to;  ///< pairs (1, s) and (copies, s)
  Dims copies;     ///< positions of the copies in `to`
  Shape result;    ///< the shape after the step
};
/// The steps, at least one, that take `shape`, which has a size for each of `reps`, to its repetition.
SmallVector<RepeatStep, 3> repeat_steps(Shape shape, const Dims& reps) {
  constexpr std::int64_t kPairs = 3;
  SmallVector<RepeatStep, 3> steps;
  const auto repeated = std::count_if(reps.begin(), reps.end(), [](std::int64_t n) { return n != 1; });
  for (std::int64_t done = 0; done == 0 || done < repeated; done += kPairs) {
    RepeatStep step{.from = {1}, .to = {1}, .copies = {}, .result = shape};
    std::int64_t seen = 0;  // repeated dims before d
    for (std::size_t d = 0; d < shape.size(); ++d) {
      const bool is_pair = reps[d] != 1 && seen >= done && seen < done + kPairs;
      seen += reps[d] != 1 ? 1 : 0;
      if (is_pair) {
        step.copies.push_back(static_cast<std::int64_t>(step.to.size()));
        for (const std::int64_t size : {std::int64_t{1}, shape[d]}) step.from.push_back(size);
        for (const std::int64_t size : {reps[d], shape[d]}) step.to.push_back(size);
        step.result[d] = reps[d] * shape[d];
      } else {
        step.from.back() *= shape[d];
        step.to.back() *= shape[d];
      }
    }
    shape = step.result;
    steps.push_back(step);
  }
  return steps;
}
/// x's shape with dims of size 1 put in front until it has as many as `reps`.
Shape padded(const Shape& shape, const Dims& reps) {
  Shape result(reps.size() - shape.size(), 1);
  for (const std::int64_t size : shape) result.push_back(size);
  return result;
}
Outputs repeat_forward(const ForwardArgs<RepeatAttrs>& args) {
  const Tensor& x = args.in(0);
  const Dims& reps = args.attrs.reps;
  if (reps.size() < x.shape().size()) {
    throw ShapeError("repeat", "a number for each of the " + std::to_string(x.dim()) + " dims",
                     to_string(reps), "use 1 for dims that stay");
  }
  if (std::any_of(reps.begin(), reps.end(), [](std::int64_t count) { return count < 0; }))
    throw ValueError("repeat", "numbers of at least 0", to_string(reps), "use 0 for an empty result");
  Tensor y = reshape(x, padded(x.shape(), reps));
  Shape whole;
  for (std::size_t d = 0; d < reps.size(); ++d) {
    layout::checked_numel("repeat", {reps[d], y.shape()[d]});
    whole.push_back(reps[d] * y.shape()[d]);
  }
  layout::checked_numel("repeat", whole);
  for (const RepeatStep& step : repeat_steps(y.shape(), reps))
    y = reshape(clone(expand(reshape(y, step.from), step.to)), step.result);
  return alias(y, y.shape(), y.strides(), 0, false);  // the memory is new: not a view
}
Gradients repeat_vjp(const VjpArgs<RepeatAttrs>& args) {
  const Shape shape = padded(args.in_shape(0), args.attrs.reps);
  const auto steps = repeat_steps(shape, args.attrs.reps);
  // 16-bit sums are rounded once and not after each step.
  Tensor grad = steps.size() > 1 ? widened(args.grad()) : args.grad();
  for (std::size_t i = steps.size(); i-- > 0;) {
    const Shape& before = i == 0 ? shape : steps[i - 1].result;
    grad = reshape(grad, steps[i].to);
    if (!steps[i].copies.empty()) grad = sum(grad, steps[i].copies);
    grad = reshape(grad, before);
  }
  return {reshape(grad, args.in_shape(0))};
}
std::vector<Sample<RepeatAttrs>> repeat_samples() {
  return {{{op_samples::real({2, 3})}, {{2, 1}}},
          {{op_samples::real({3})}, {{2, 2}}},
          {{op_samples::real({})}, {{3}}},
          {{op_samples::real({1, 2, 1, 2})}, {{2, 2, 1, 2, 2}}}};
}
constexpr Op<RepeatAttrs> repeat_op = plain_op<RepeatAttrs>("repeat", Category::passthrough, repeat_samples,
                                                            repeat_forward, repeat_vjp, kSaveNothing);

const Registered join_registered{cat_op, stack_op, repeat_op};

}  // namespace

Tensor cat(TensorList tensors, std::int64_t dim) { return bind_list(cat_op, tensors, {dim}); }
Tensor stack(TensorList tensors, std::int64_t dim) { return bind_list(stack_op, tensors, {dim}); }
Tensor repeat(const Tensor& x, const Dims& reps) { return bind(repeat_op, {x}, {reps}); }

}  // namespace mezzo
