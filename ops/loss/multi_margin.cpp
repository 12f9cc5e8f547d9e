// multi_margin_loss and multilabel_margin_loss: compositions over classes.
#include "mezzo/ops/loss/class_target.h"
#include "mezzo/ops/ops.h"

namespace mezzo {

namespace {

using namespace ops;
using op_samples::absent;
using op_samples::index;
using op_samples::mask;
using op_samples::real;

/// dtype of the loss, which the target has no part in.
template <class A>
DType result_of(std::string_view op, const ForwardArgs<A>& args) {
  require_floating(op, args.in(0));
  const DType x = args.in(0).dtype();
  return args.run_dtype ? promote(x, *args.run_dtype) : x;
}

/// The classes are the last dim of at most two.
ClassDims last_dim_classes(std::string_view op, const Shape& shape) {
  if (shape.size() > 2)
    throw ShapeError(op, "an input of shape [N, C] or [C]", to_string(shape), "flatten the dims before");
  return class_dims(op, shape);
}

// --- multi_margin_loss. Inputs: x, target, weight

constexpr const char* kMultiMargin = "multi_margin_loss";
using MultiMarginArgs = ForwardArgs<MultiMarginLossAttrs>;

Outputs multi_margin_composition(const MultiMarginArgs& args) {
  const DType result = result_of(kMultiMargin, args), compute = compute_dtype(result);
  const ClassDims dims = class_dims(kMultiMargin, args.in(0).shape());
  const Tensor x = input_as(args, 0, compute), weight = input_as(args, 2, compute);
  const Tensor own = class_masks(dims, args.in(1), -1).own;
  const auto at_target = [&](const Tensor& values) {
    return sum(where(own, values, 0.0), class_dim(dims), true);
  };
  const Tensor excess = relu(x - at_target(x) + args.attrs.margin);
  const Tensor powers = args.attrs.p == 1 ? excess : square(excess);
  const Tensor weighted = weight.defined() ? powers * at_target(along_classes(dims, weight)) : powers;
  const Tensor losses = sum(where(own, 0.0, weighted), class_dim(dims)) / static_cast<double>(dims.classes);
  return to(reduced(losses, args.attrs.reduction), result);
}

Outputs multi_margin_forward(const MultiMarginArgs& args) {
  const DType result = result_of(kMultiMargin, args);
  const ClassDims dims = last_dim_classes(kMultiMargin, args.in(0).shape());
  require_class_indices(kMultiMargin, dims, args.in(1));
  require_class_weight(kMultiMargin, dims, args.in(2));
  if (args.attrs.p != 1 && args.attrs.p != 2)
    throw ValueError(kMultiMargin, "p = 1 or 2", number_text(args.attrs.p), "choose one of them");
  // Made for its check of the indices. Its ignore_index is 0, a legal class, so no index outside of the
  // classes passes.
  const PreparedTarget checked(kMultiMargin, dims, args.in(1), {}, 0, compute_dtype(result));
  return multi_margin_composition(args);
}

std::vector<Sample<MultiMarginLossAttrs>> multi_margin_samples() {
  return {{{real({5, 4}), index({5}, 4), absent()}, {}},
          {{real({5, 4}), index({5}, 4), real({4}, 0.5, 2)},
           {.p = 2, .margin = 0.6, .reduction = Reduction::sum}},
          {{real({5, 4}), index({5}, 4), real({4}, 0.5, 2)}, {.reduction = Reduction::none}},
          {{real({4}), index({}, 4), absent()}, {.p = 2}}};
}
constexpr Op<MultiMarginLossAttrs> multi_margin_op =
    fused_op<MultiMarginLossAttrs>(kMultiMargin, Category::fp32, multi_margin_samples, multi_margin_forward,
                                   multi_margin_composition, kDecomposed, {~0U, 0}, tensor_set(2));

// --- multilabel_margin_loss. Inputs: x, target

constexpr const char* kMultilabel = "multilabel_margin_loss";

Outputs multilabel_composition(const ForwardArgs<LossAttrs>& args) {
  const DType result = result_of(kMultilabel, args);
  // Pairs of the j-th target and class k: dims [N, j, k].
  const Tensor x = unsqueeze(input_as(args, 0, compute_dtype(result)), -2);
  const std::int64_t count = x.size(-1);
  const Tensor target = to(args.in(1), DType::i64);
  const Tensor counts = unsqueeze(eq(cumsum(lt(target, 0), -1), 0), -1);  // the first -1 ends the list
  const Tensor classes = arange(0, count, 1, {.dtype = DType::i64, .device = x.device()});
  const Tensor chosen = logical_and(eq(unsqueeze(target, -1), classes), counts);
  const Tensor pairs = logical_and(counts, logical_not(any(chosen, -2, true)));
  const Tensor at_target = sum(where(chosen, x, 0.0), -1, true);
  const Tensor excess = relu(x - at_target + 1.0);
  const Tensor losses = sum(where(pairs, excess, 0.0), {-2, -1}) / static_cast<double>(count);
  return to(reduced(losses, args.attrs.reduction), result);
}

Outputs multilabel_forward(const ForwardArgs<LossAttrs>& args) {
  const Tensor &x = args.in(0), &target = args.in(1);
  const DType result = result_of(kMultilabel, args);
  ClassDims dims = last_dim_classes(kMultilabel, x.shape());
  require_same_shape(kMultilabel, x, target);
  if (is_floating(target.dtype())) {
    throw DTypeError(kMultilabel, "targets of an integer dtype", to_string(target.dtype()),
                     "pass the classes of each row, then -1");
  }
  dims.rows = target.shape();  // every target is an index
  const PreparedTarget checked(kMultilabel, dims, to(target, DType::i64), {}, -1, compute_dtype(result));
  return multilabel_composition(args);
}

std::vector<Sample<LossAttrs>> multilabel_samples() {
  SampleInput classes = op_samples::index({2, 4}, 4);
  classes.low = -1;  // ends a list
  // A mask is a list of the classes 0 and 1.
  return {{{real({2, 4}), mask({2, 4})}, {Reduction::mean}},
          {{real({2, 4}), classes}, {Reduction::none}},
          {{real({3}), mask({3})}, {Reduction::sum}}};
}
constexpr Op<LossAttrs> multilabel_op =
    fused_op<LossAttrs>(kMultilabel, Category::fp32, multilabel_samples, multilabel_forward,
                        multilabel_composition, kDecomposed, {~0U, 0});

const Registered multi_margin_registered{multi_margin_op, multilabel_op};

}  // namespace

Tensor multi_margin_loss(const Tensor& x, const Tensor& target, const Tensor& weight,
                         const MultiMarginLossAttrs& options) {
  return bind(multi_margin_op, {x, target, weight}, options);
}

Tensor multilabel_margin_loss(const Tensor& x, const Tensor& target, Reduction reduction) {
  return bind(multilabel_op, {x, target}, LossAttrs{reduction});
}

}  // namespace mezzo
