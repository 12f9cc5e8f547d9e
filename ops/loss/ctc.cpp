// ctc_loss: the lengths and targets of a batch made ready for the kernels, and the reduction of their losses.
#include <algorithm>
#include <limits>
#include <string>
#include <vector>

#include "mezzo/kernels/ctc/ctc.h"
#include "mezzo/ops/indexing/common.h"
#include "mezzo/ops/loss/common.h"
#include "mezzo/ops/shape.h"

namespace mezzo {

namespace {

using namespace ops;
using CtcLengths = std::vector<std::int64_t>;

constexpr const char* kCtc = "ctc_loss";

/// Options of both directions; `dtype` is only for the gradient.
struct CtcBackwardAttrs {
  std::int64_t blank = 0;
  Reduction reduction = Reduction::mean;
  bool zero_infinity = false;
  std::optional<DType> dtype = {};
  static constexpr auto fields() {
    using A = CtcBackwardAttrs;
    return std::tuple{attr("blank", &A::blank), attr("reduction", &A::reduction),
                      attr("zero_infinity", &A::zero_infinity), attr("dtype", &A::dtype)};
  }
};

// --- what is passed, checked

void require_integers(const char* op, const char* what, const Tensor& x) {
  if (x.dtype() == DType::i64 || x.dtype() == DType::i32) return;
  throw DTypeError(op, std::string(what) + " of dtype i64 or i32", to_string(x.dtype()),
                   "convert them with to(DType::i64)");
}

/// One length per sample, each in [0, most]. The host reads them.
CtcLengths checked_lengths(const char* op, const char* what, const Tensor& lengths, std::int64_t samples,
                           std::int64_t most) {
  require_integers(op, what, lengths);
  if (lengths.numel() != samples || lengths.dim() > 1) {
    throw ShapeError(op, std::string(what) + " of shape " + to_string(Shape{samples}),
                     to_string(lengths.shape()), "pass one length per sample");
  }
  CtcLengths list = to(lengths, DType::i64).to_vector<std::int64_t>();
  for (const std::int64_t length : list) {
    if (length >= 0 && length <= most) continue;
    throw IndexError(op, std::string(what) + " in [0, " + std::to_string(most) + "]", std::to_string(length),
                     "count what each sample has");
  }
  return list;
}

/// A batch as the kernels take it, and the tensors in whose memory it lies.
class CtcInputs {
 public:
  /// Inputs: log_probs, targets, input_lengths, target_lengths.
  CtcInputs(const char* op, const Tensor& log_probs, const Tensor& targets, const Tensor& input_lengths,
            const Tensor& target_lengths, std::int64_t blank, DType compute)
      : op_(op), log_probs_(to(log_probs, compute).contiguous()) {
    check(log_probs, targets, blank);
    input_lengths_ = checked_lengths(op_, "input_lengths", input_lengths, batch_.samples, batch_.steps);
    const bool padded = targets.dim() == 2;
    target_lengths_ = checked_lengths(op_, "target_lengths", target_lengths, batch_.samples,
                                      padded ? targets.size(1) : targets.numel());
    place_targets(targets, padded);
    batch_.log_probs = log_probs_.impl().data();
    batch_.blank = blank;
  }
  [[nodiscard]] const kernels::CtcBatch& batch() const { return batch_; }
  [[nodiscard]] Device device() const { return log_probs_.device(); }
  /// Per sample: what the mean divides its loss by, in f64.
  [[nodiscard]] Tensor divisors() const {
    std::vector<double> values;
    for (const std::int64_t length : target_lengths_)
      values.push_back(static_cast<double>(std::max<std::int64_t>(length, 1)) *
                       static_cast<double>(batch_.samples));
    return to(tensor(values, DType::f64), device());
  }

 private:
  void check(const Tensor& log_probs, const Tensor& targets, std::int64_t blank);
  void place_targets(const Tensor& targets, bool padded);

  const char* op_;
  Tensor log_probs_, targets_, numbers_;
  CtcLengths input_lengths_, target_lengths_;
  kernels::CtcBatch batch_;
};

void CtcInputs::check(const Tensor& log_probs, const Tensor& targets, std::int64_t blank) {
  const Shape& shape = log_probs.shape();
  if (shape.size() != 2 && shape.size() != 3)
    throw ShapeError(op_, "log_probs of shape [T, N, C] or [T, C]", to_string(shape), "put frames first");
  batch_.steps = shape[0];
  batch_.samples = shape.size() == 3 ? shape[1] : 1;
  batch_.classes = shape.back();
  if (blank < 0 || blank >= batch_.classes) {
    throw ValueError(op_, "a blank in [0, " + std::to_string(batch_.classes) + ")", std::to_string(blank),
                     "it is one of the classes of log_probs");
  }
  require_integers(op_, "targets", targets);
  if (targets.dim() == 1 || (targets.dim() == 2 && targets.size(0) == batch_.samples)) return;
  throw ShapeError(op_,
                   "targets of shape [" + std::to_string(batch_.samples) + ", S], or [S] one after the other",
                   to_string(targets.shape()), "pass a row for each sample");
}

/// Sets the targets, and where those of each sample begin and how many they are.
void CtcInputs::place_targets(const Tensor& targets, bool padded) {
  CtcLengths numbers;
  std::int64_t total = 0;
  for (std::size_t n = 0; n < target_lengths_.size(); ++n) {
    numbers.push_back(padded ? static_cast<std::int64_t>(n) * targets.size(1) : total);
    total += target_lengths_[n];
    batch_.longest = std::max(batch_.longest, target_lengths_[n]);
  }
  if (!padded && total != targets.numel()) {
    throw ShapeError(op_, "as many targets as target_lengths add up to, " + std::to_string(total),
                     std::to_string(targets.numel()), "leave out the padding");
  }
  numbers.insert(numbers.end(), input_lengths_.begin(), input_lengths_.end());
  numbers.insert(numbers.end(), target_lengths_.begin(), target_lengths_.end());
  numbers_ = to(tensor(numbers), device());
  Tensor used = to(targets, DType::i64);
  if (padded) {  // whatever stands behind the last target
    const Tensor lengths = narrow(numbers_, 0, 2 * batch_.samples, batch_.samples);
    const Tensor places = arange(targets.size(1), {.device = device()});
    used = where(lt(places, unsqueeze(lengths, 1)), used, 0);
  }
  used = used.contiguous();
  check_indices(op_, used, 0, batch_.classes);
  // A CUDA device reports a wrong one later; until then nothing is read outside of log_probs.
  targets_ = device().is_cpu() ? used : clamp(used, 0, batch_.classes - 1).contiguous();
  batch_.targets = static_cast<const std::int64_t*>(targets_.impl().data());
  batch_.starts = static_cast<const std::int64_t*>(numbers_.impl().data());
  batch_.input_lengths = batch_.starts + batch_.samples;
  batch_.target_lengths = batch_.input_lengths + batch_.samples;
}

Tensor list_tensor(const IntList& list) { return tensor(CtcLengths(list.begin(), list.end())); }

// --- the gradient. Inputs: grad, log_probs, targets, input_lengths, target_lengths

constexpr const char* kCtcBackward = "ctc_loss_backward";

Outputs ctc_backward_forward(const ForwardArgs<CtcBackwardAttrs>& args) {
  const Tensor &grad = args.in(0), &log_probs = args.in(1);
  require_floating(kCtcBackward, grad);
  require_floating(kCtcBackward, log_probs);
  const DType compute = compute_dtype(promote(grad.dtype(), log_probs.dtype()));
  const CtcInputs inputs(kCtcBackward, log_probs, args.in(2), args.in(3), args.in(4), args.attrs.blank,
                         compute);
  const Shape losses = log_probs.dim() == 3 ? Shape{inputs.batch().samples} : Shape{};
  require_loss_grad(kCtcBackward, grad, args.attrs.reduction, losses);
  const Tensor of_losses = expand(to(grad, DType::f64), {inputs.batch().samples});
  const Tensor factors =
      args.attrs.reduction == Reduction::mean ? of_losses / inputs.divisors() : of_losses.contiguous();
  const Tensor out = empty(log_probs.shape(), {.dtype = compute, .device = log_probs.device()});
  kernels::ctc_loss_backward(inputs.device(), out.impl().data(),
                             static_cast<const double*>(factors.impl().data()), inputs.batch(),
                             args.attrs.zero_infinity, compute);
  return to(out, args.attrs.dtype.value_or(grad.dtype()));
}

Gradients ctc_backward_vjp(const VjpArgs<CtcBackwardAttrs>& /*args*/) {
  throw AutogradError(kCtc, "a first derivative only", "a second one", "it has none, as in PyTorch");
}

/// Lengths may be 0, and no alignment may be left.
std::vector<Sample<CtcBackwardAttrs>> ctc_backward_samples() {
  using samples::index, samples::real;
  return {{{real({}), real({6, 2, 4}, -3, 0), index({2, 2}, 4), index({2}, 7), index({2}, 3)},
           {.zero_infinity = true}}};
}
constexpr Op<CtcBackwardAttrs> ctc_backward_op{
    .info = {.name = kCtcBackward,
             .category = Category::passthrough,
             .opt_out = {.gradient = "it is refused, as in PyTorch",
                         .second_gradient = "it is refused, as in PyTorch"}},
    .samples = ctc_backward_samples,
    .forward = ctc_backward_forward,
    .vjp = ctc_backward_vjp,
    .saves = kSaveNothing,
};
const Registered ctc_backward_registered{ctc_backward_op};

// --- the loss. Inputs: log_probs, targets, input_lengths, target_lengths

Outputs ctc_forward(const ForwardArgs<CtcLossAttrs>& args) {
  const Tensor& log_probs = args.in(0);
  require_floating(kCtc, log_probs);
  const DType result = args.run_dtype ? promote(log_probs.dtype(), *args.run_dtype) : log_probs.dtype();
  const DType compute = compute_dtype(result);
  const CtcInputs inputs(kCtc, log_probs, args.in(1), args.in(2), args.in(3), args.attrs.blank, compute);
  Tensor losses = empty({inputs.batch().samples}, {.dtype = DType::f64, .device = log_probs.device()});
  kernels::ctc_loss(inputs.device(), static_cast<double*>(losses.impl().data()), inputs.batch(), compute);
  if (args.attrs.zero_infinity)
    losses = where(eq(losses, std::numeric_limits<double>::infinity()), 0.0, losses);
  switch (args.attrs.reduction) {
    case Reduction::none:
      return to(log_probs.dim() == 3 ? losses : reshape(losses, {}), result);
    case Reduction::sum:
      return to(sum(losses), result);
    case Reduction::mean:
      break;
  }
  return to(inputs.batch().samples == 0 ? mean(losses) : sum(losses / inputs.divisors()), result);
}

Gradients ctc_vjp(const VjpArgs<CtcLossAttrs>& args) {
  const auto& [blank, reduction, zero_infinity] = args.attrs;
  const CtcBackwardAttrs attrs{blank, reduction, zero_infinity, args.wanted(0)};
  Gradients gradients(4);
  gradients[0] =
      bind(ctc_backward_op,
           {args.grad(), args.stored_in(0), args.stored_in(1), args.stored_in(2), args.stored_in(3)}, attrs);
  return gradients;
}

std::vector<Sample<CtcLossAttrs>> ctc_samples() {
  using samples::index, samples::real;
  return {{{real({6, 2, 4}, -3, 0), index({2, 2}, 4), index({2}, 7), index({2}, 3)}, {.zero_infinity = true}},
          {{real({9, 3, 5}, -3, 0), index({3, 3}, 5), index({3}, 10), index({3}, 4)},
           {.blank = 4, .reduction = Reduction::none, .zero_infinity = true}},
          {{real({5, 3}, -3, 0), index({1, 2}, 3), index({}, 6), index({}, 3)},
           {.reduction = Reduction::sum, .zero_infinity = true}}};
}
constexpr Op<CtcLossAttrs> ctc_op{
    .info = {.name = kCtc,
             .category = Category::fp32,
             .reads_16bit = true,
             .opt_out = {.gradient = "it is the one behind log_softmax, as in PyTorch",
                         .second_gradient = "it is refused, as in PyTorch"}},
    .samples = ctc_samples,
    .forward = ctc_forward,
    .vjp = ctc_vjp,
    .saves = save_inputs(0, 1, 2, 3),
};
const Registered ctc_registered{ctc_op};

}  // namespace

Tensor ctc_loss(const Tensor& log_probs, const Tensor& targets, const Tensor& input_lengths,
                const Tensor& target_lengths, const CtcLossAttrs& options) {
  for (const Tensor* input : {&log_probs, &targets, &input_lengths, &target_lengths})
    require_defined(kCtc, *input);
  const Device device = log_probs.device();  // lengths may be on the CPU
  return bind(ctc_op, {log_probs, targets, to(input_lengths, device), to(target_lengths, device)}, options);
}
Tensor ctc_loss(const Tensor& log_probs, const Tensor& targets, const IntList& input_lengths,
                const IntList& target_lengths, const CtcLossAttrs& options) {
  return ctc_loss(log_probs, targets, list_tensor(input_lengths), list_tensor(target_lengths), options);
}

}  // namespace mezzo
