// nll_loss, a composition, and cross_entropy, which has kernels for class indices and is a composition for
// class probabilities.

#include "mezzo/ops/loss/class_target.h"
#include "mezzo/ops/ops.h"

namespace mezzo {

namespace {

using namespace ops;

// --- nll_loss. Inputs: x, target, weight

constexpr const char* kNll = "nll_loss";
/// dtype of a loss whose target are indices.
DType index_loss_dtype(std::string_view op, const Tensor& x, std::optional<DType> run_dtype) {
  require_floating(op, x);
  return run_dtype ? promote(x.dtype(), *run_dtype) : x.dtype();
}

/// The losses of all rows and the weight of each in the mean, 0 for those that do not count.
struct NllRows {
  Tensor losses, weights;
};
NllRows nll_rows(const ForwardArgs<NllLossAttrs>& args, DType compute) {
  const Tensor &x = args.in(0), &target = args.in(1);
  const ClassDims dims = class_dims(kNll, x.shape());
  const auto dim = static_cast<std::int64_t>(dims.dim);
  const Tensor counts = ne(target, args.attrs.ignore_index), own = where(counts, target, 0);
  const Tensor found = to(squeeze(gather(x, dim, unsqueeze(own, dim)), {dim}), compute);
  const Tensor weight = input_as(args, 2, compute);
  const Tensor weights = where(counts, weight.defined() ? index(weight, {own}) : ones_like(found), 0.0);
  return {where(counts, neg(found), 0.0) * weights, weights};
}

/// Sums and their quotient are in f64, and the loss is rounded once.
Outputs nll_composition(const ForwardArgs<NllLossAttrs>& args) {
  const DType result = index_loss_dtype(kNll, args.in(0), args.run_dtype);
  const NllRows rows = nll_rows(args, compute_dtype(result));
  if (args.attrs.reduction == Reduction::none) return to(rows.losses, result);
  const Tensor total = sum(to(rows.losses, DType::f64));
  if (args.attrs.reduction == Reduction::sum) return to(total, result);
  return to(total / sum(to(rows.weights, DType::f64)), result);
}
Outputs nll_forward(const ForwardArgs<NllLossAttrs>& args) {
  const DType compute = compute_dtype(index_loss_dtype(kNll, args.in(0), args.run_dtype));
  const ClassDims dims = class_dims(kNll, args.in(0).shape());
  require_class_indices(kNll, dims, args.in(1));
  require_class_weight(kNll, dims, args.in(2));
  // Made for its check of the indices.
  const PreparedTarget checked(kNll, dims, args.in(1), args.in(2), args.attrs.ignore_index, compute);
  return nll_composition(args);
}

std::vector<Sample<NllLossAttrs>> nll_samples() {
  const SampleInput weight = op_samples::real({4}, 0.5, 2);
  return {
      {{op_samples::real({5, 4}), op_samples::index({5}, 4), op_samples::absent()}, {}},
      {{op_samples::real({5, 4}), op_samples::index({5}, 4), weight}, {.ignore_index = 3}},
      {{op_samples::real({2, 4, 3}), op_samples::index({2, 3}, 4), weight}, {.reduction = Reduction::none}},
      {{op_samples::real({4}), op_samples::index({}, 4), weight}, {.reduction = Reduction::sum}}};
}
// x is kept for its composition; log_softmax, which mostly made it, keeps the same memory.
constexpr Op<NllLossAttrs> nll_op = fused_op<NllLossAttrs>(
    kNll, Category::fp32, nll_samples, nll_forward, nll_composition, kDecomposed, {~0U, 0}, tensor_set(2));

// --- cross_entropy. Inputs: x, target, weight

constexpr const char* kCross = "cross_entropy";
constexpr const char* kCrossBackward = "cross_entropy_backward";

using CrossEntropyBackwardAttrs = WithDType<CrossEntropyAttrs>;

bool is_probabilities(const Tensor& target) { return is_floating(target.dtype()); }

/// Checks target, weight and options.
void require_cross(const char* op, const ClassDims& dims, const Tensor& x, const Tensor& target,
                   const Tensor& weight, const CrossEntropyAttrs& attrs) {
  require_class_weight(op, dims, weight);
  if (!(attrs.label_smoothing >= 0 && attrs.label_smoothing <= 1)) {
    throw ValueError(op, "a label_smoothing in [0, 1]", number_text(attrs.label_smoothing), "0 turns it off");
  }
  if (!is_probabilities(target)) return require_class_indices(op, dims, target);
  if (target.shape() != x.shape()) {
    throw ShapeError(
        op, "class probabilities of the input's shape " + to_string(x.shape()), to_string(target.shape()),
        "pass i64 class indices of shape " + to_string(dims.rows) + ", or one probability per class");
  }
  if (attrs.ignore_index >= 0) {
    throw ValueError(op, "no ignore_index with class probabilities", std::to_string(attrs.ignore_index),
                     "leave ignore_index at its default, or pass class indices");
  }
}
/// Class indices for the kernels.
PreparedTarget prepared(const char* op, const ClassDims& dims, const Tensor& target, const Tensor& weight,
                        const CrossEntropyAttrs& attrs, DType compute) {
  PreparedTarget result(op, dims, target, weight, attrs.ignore_index, compute);
  result.set_label_smoothing(attrs.label_smoothing);
  return result;
}

DType cross_dtype(const ForwardArgs<CrossEntropyAttrs>& args) {
  return is_probabilities(args.in(1)) ? loss_dtype(kCross, args)
                                      : index_loss_dtype(kCross, args.in(0), args.run_dtype);
}

Outputs cross_reference(const ForwardArgs<CrossEntropyAttrs>& args) {
  const Tensor& target = args.in(1);
  const DType result = cross_dtype(args), compute = compute_dtype(result);
  const ClassDims dims = class_dims(kCross, args.in(0).shape());
  const Tensor log_p = log_softmax(input_as(args, 0, compute), static_cast<std::int64_t>(dims.dim));
  const Tensor weight = input_as(args, 2, compute);
  const Tensor weighted = weight.defined() ? log_p * along_classes(dims, weight) : log_p;
  // q of the contract, and the divisor of a mean.
  const double kept = 1.0 - args.attrs.label_smoothing,
               shared = args.attrs.label_smoothing / static_cast<double>(dims.classes);
  Tensor q, divisor;
  if (is_probabilities(target)) {
    q = to(target, compute) * kept + shared;
  } else {
    const ClassMasks masks = class_masks(dims, target, args.attrs.ignore_index);
    q = where(masks.valid, to(masks.own, compute) * kept + shared, 0.0);
    divisor = to(weight_of_targets(masks, dims, weight, compute), DType::f64);
  }
  const Tensor losses = neg(sum(q * weighted, class_dim(dims)));
  if (args.attrs.reduction == Reduction::none) return to(losses, result);
  const Tensor total = sum(to(losses, DType::f64));
  if (args.attrs.reduction == Reduction::sum) return to(total, result);
  return to(divisor.defined() ? total / divisor : total / static_cast<double>(layout::numel(dims.rows)),
            result);
}

/// Class indices by a kernel, probabilities by the composition.
Outputs cross_forward(const ForwardArgs<CrossEntropyAttrs>& args) {
  const Tensor &x = args.in(0), &target = args.in(1), &weight = args.in(2);
  const DType result = cross_dtype(args);
  const DType compute = compute_dtype(result);
  const ClassDims dims = class_dims(kCross, x.shape());
  require_cross(kCross, dims, x, target, weight, args.attrs);
  if (is_probabilities(target)) return cross_reference(args);
  const PreparedTarget classes = prepared(kCross, dims, target, weight, args.attrs, compute);
  const Tensor losses = empty(dims.rows, {.dtype = compute, .device = x.device()});
  kernels::cross_entropy(x.device(), losses.impl().data(), view_of(x), dims.dim, classes.view(), compute);
  return classes.reduced(losses, args.attrs.reduction, result);
}

/// Inputs: grad, x, target, weight.
Outputs cross_backward_reference(const ForwardArgs<CrossEntropyBackwardAttrs>& args) {
  const DType dtype = args.in(0).dtype(), compute = compute_dtype(dtype);
  const CrossEntropyAttrs& attrs = args.attrs;
  const Tensors found = composed_gradients({input_as(args, 1, compute)}, std::array<bool, 1>{true},
                                           {input_as(args, 0, compute)}, [&](const Tensors& x) {
                                             return cross_reference({{x[0], args.in(2), args.in(3)}, attrs});
                                           });
  return to(found[0], args.attrs.dtype.value_or(dtype));
}
Outputs cross_backward_forward(const ForwardArgs<CrossEntropyBackwardAttrs>& args) {
  const Tensor &grad = args.in(0), &x = args.in(1), &target = args.in(2), &weight = args.in(3);
  require_floating(kCrossBackward, grad);
  require_floating(kCrossBackward, x);
  const DType compute = compute_dtype(grad.dtype());
  const ClassDims dims = class_dims(kCrossBackward, x.shape());
  require_loss_grad(kCrossBackward, grad, args.attrs.reduction, dims.rows);
  require_cross(kCrossBackward, dims, x, target, weight, args.attrs);
  if (is_probabilities(target)) return cross_backward_reference(args);
  const PreparedTarget classes = prepared(kCrossBackward, dims, target, weight, args.attrs, compute);
  const Tensor scales = classes.row_scales(grad, args.attrs.reduction);
  Tensor out = empty_like(x, args.attrs.dtype.value_or(grad.dtype()));
  const std::int64_t step = args.attrs.reduction == Reduction::none ? 1 : 0;
  kernels::cross_entropy_backward(x.device(), view_of(out), {scales.impl().data(), step}, view_of(x),
                                  dims.dim, classes.view(), compute);
  return out;
}

std::vector<Sample<CrossEntropyAttrs>> cross_samples() {
  const SampleInput weight = op_samples::real({4}, 0.5, 2);
  const SampleInput probabilities = op_samples::real({5, 4}, 0, 1);
  return {
      {{op_samples::real({5, 4}), op_samples::index({5}, 4), op_samples::absent()}, {}},
      {{op_samples::real({5, 4}), op_samples::index({5}, 4), weight},
       {.ignore_index = 3, .label_smoothing = 0.2}},
      {{op_samples::real({2, 4, 3}), op_samples::index({2, 3}, 4), weight}, {.reduction = Reduction::none}},
      {{op_samples::real({4}), op_samples::index({}, 4), op_samples::absent()},
       {.reduction = Reduction::sum}},
      {{op_samples::real({5, 4}), probabilities, weight}, {.label_smoothing = 0.1}}};
}
std::vector<Sample<CrossEntropyBackwardAttrs>> cross_backward_samples() {
  std::vector<Sample<CrossEntropyBackwardAttrs>> list;
  for (const Sample<CrossEntropyAttrs>& call : cross_samples()) {
    const bool none = call.attrs.reduction == Reduction::none;
    list.push_back({call.inputs, {call.attrs}});
    list.back().inputs.insert(
        list.back().inputs.begin(),
        op_samples::real(none ? class_dims(kCross, call.inputs[0].shape).rows : Shape{}));
  }
  return list;
}
constexpr Op<CrossEntropyBackwardAttrs> cross_backward_op = gradient_op<CrossEntropyBackwardAttrs>(
    kCrossBackward, cross_backward_samples, cross_backward_forward, cross_backward_reference, tensor_set(3));
constexpr Op<CrossEntropyAttrs> cross_op =
    fused_op<CrossEntropyAttrs>(kCross, Category::fp32, cross_samples, cross_forward, cross_reference,
                                loss_vjp<cross_backward_op, CrossEntropyAttrs>, {~0U, 0}, tensor_set(2));

const Registered classification_registered{nll_op, cross_backward_op, cross_op};

}  // namespace

Tensor nll_loss(const Tensor& x, const Tensor& target, const Tensor& weight, const NllLossAttrs& options) {
  return bind(nll_op, {x, target, weight}, options);
}
Tensor nll_loss(const Tensor& x, const Tensor& target, const NllLossAttrs& options) {
  return bind(nll_op, {x, target, Tensor()}, options);
}

Tensor cross_entropy(const Tensor& x, const Tensor& target, const Tensor& weight,
                     const CrossEntropyAttrs& options) {
  return bind(cross_op, {x, target, weight}, options);
}
Tensor cross_entropy(const Tensor& x, const Tensor& target, const CrossEntropyAttrs& options) {
  return bind(cross_op, {x, target, Tensor()}, options);
}

}  // namespace mezzo
