// ctc_loss: the lengths and targets of a batch made ready for the kernels, and the reduction of their losses.
#include <algorithm>
#include <limits>
#include <string>
#include <vector>

#include "mezzo/kernels/ctc/ctc.h"
#include "mezzo/ops/indexing/common.h"
#include "mezzo/ops/loss/common.h"
#include "mezzo/ops/ops.h"

namespace mezzo {

namespace {

using namespace ops;

constexpr const char* kCtc = "ctc_loss";

/// `longest` is at least each target length: as many as there may be where it is not given.
struct CtcAttrs {
  std::int64_t blank = 0;
  Reduction reduction = Reduction::mean;
  bool zero_infinity = false;
  std::optional<std::int64_t> longest = {};
  MEZZO_FIELDS(CtcAttrs, blank, reduction, zero_infinity, longest)
};
using CtcBackwardAttrs = WithDType<CtcAttrs>;

// --- what is passed, checked

void require_integers(const char* what, const Tensor& x) {
  if (x.dtype() == DType::i64 || x.dtype() == DType::i32) return;
  throw DTypeError(kCtc, std::string(what) + " of dtype i64 or i32", to_string(x.dtype()),
                   "convert them with to(DType::i64)");
}

void require_lengths(const char* what, const Tensor& lengths, std::int64_t samples) {
  require_integers(what, lengths);
  if (lengths.numel() == samples && lengths.dim() <= 1) return;
  throw ShapeError(kCtc, std::string(what) + " of shape " + to_string(Shape{samples}),
                   to_string(lengths.shape()), "pass one length per sample");
}

/// Numbers that are in [0, limit), as contiguous i64. A CUDA device reports a wrong one later; until then it
/// is replaced by one that is in range.
Tensor ctc_indices(const Tensor& numbers, std::int64_t limit) {
  const Tensor all = to(numbers, DType::i64).contiguous();
  check_indices(kCtc, all, 0, limit);
  return all.device().is_cpu() ? all : clamp(all, 0, limit - 1).contiguous();
}

/// A batch as the kernels take it, and the tensors in whose memory it lies.
class CtcInputs {
 public:
  CtcInputs(const Tensor& log_probs, const Tensor& targets, const Tensor& input_lengths,
            const Tensor& target_lengths, const CtcAttrs& attrs, DType compute);
  [[nodiscard]] const kernels::CtcBatch& batch() const { return batch_; }
  [[nodiscard]] Device device() const { return log_probs_.device(); }
  /// Per sample: what the mean divides its loss by, in f64.
  [[nodiscard]] Tensor divisors() const {
    return to(clamp(target_lengths_, 1), DType::f64) * static_cast<double>(batch_.samples);
  }

 private:
  void check_shapes(const Tensor& log_probs, const Tensor& targets, std::int64_t blank);
  void place_targets(const Tensor& targets);

  Tensor log_probs_, targets_, starts_, input_lengths_, target_lengths_;
  kernels::CtcBatch batch_;
};

/// The array of a contiguous tensor of i64.
const std::int64_t* numbers_of(const Tensor& x) { return static_cast<const std::int64_t*>(x.impl().data()); }

CtcInputs::CtcInputs(const Tensor& log_probs, const Tensor& targets, const Tensor& input_lengths,
                     const Tensor& target_lengths, const CtcAttrs& attrs, DType compute)
    : log_probs_(to(log_probs, compute).contiguous()) {
  check_shapes(log_probs, targets, attrs.blank);
  require_lengths("input_lengths", input_lengths, batch_.samples);
  require_lengths("target_lengths", target_lengths, batch_.samples);
  const std::int64_t most = targets.size(-1);
  batch_.longest = std::clamp<std::int64_t>(attrs.longest.value_or(most), 0, most);
  input_lengths_ = ctc_indices(reshape(input_lengths, {batch_.samples}), batch_.steps + 1);
  target_lengths_ = ctc_indices(reshape(target_lengths, {batch_.samples}), batch_.longest + 1);
  place_targets(targets);
  batch_.log_probs = log_probs_.impl().data();
  batch_.targets = numbers_of(targets_);
  batch_.starts = numbers_of(starts_);
  batch_.input_lengths = numbers_of(input_lengths_);
  batch_.target_lengths = numbers_of(target_lengths_);
  batch_.blank = attrs.blank;
}

void CtcInputs::check_shapes(const Tensor& log_probs, const Tensor& targets, std::int64_t blank) {
  const Shape& shape = log_probs.shape();
  if (shape.size() != 2 && shape.size() != 3)
    throw ShapeError(kCtc, "log_probs of shape [T, N, C] or [T, C]", to_string(shape), "put frames first");
  batch_.steps = shape[0];
  batch_.samples = shape.size() == 3 ? shape[1] : 1;
  batch_.classes = shape.back();
  if (blank < 0 || blank >= batch_.classes) {
    throw ValueError(kCtc, "a blank in [0, " + std::to_string(batch_.classes) + ")", std::to_string(blank),
                     "it is one of the classes of log_probs");
  }
  require_integers("targets", targets);
  if (targets.dim() == 1 || (targets.dim() == 2 && targets.size(0) == batch_.samples)) return;
  throw ShapeError(kCtc,
                   "targets of shape [" + std::to_string(batch_.samples) + ", S], or [S] one after the other",
                   to_string(targets.shape()), "pass a row for each sample");
}

/// Sets the targets, and where each sample's targets begin.
void CtcInputs::place_targets(const Tensor& targets) {
  const std::int64_t length = targets.size(-1);
  Tensor used = to(targets, DType::i64);
  if (targets.dim() == 2) {
    starts_ = arange(batch_.samples, {.device = device()}) * length;
    // Entries behind a sample's target length count as 0, whatever they are.
    used = where(lt(arange(length, {.device = device()}), unsqueeze(target_lengths_, 1)), used, 0);
  } else {
    const Tensor ends = cumsum(target_lengths_, 0);
    static_cast<void>(ctc_indices(ends, length + 1));
    const Tensor starts = ends - target_lengths_;
    starts_ = device().is_cpu() ? starts : minimum(starts, clamp(length - target_lengths_, 0));
  }
  targets_ = ctc_indices(used, batch_.classes);
}

// --- the gradient. Inputs: grad, log_probs, targets, input_lengths, target_lengths

constexpr const char* kCtcBackward = "ctc_loss_backward";

Outputs ctc_backward_forward(const ForwardArgs<CtcBackwardAttrs>& args) {
  const Tensor &grad = args.in(0), &log_probs = args.in(1);
  require_floating(kCtcBackward, grad);
  require_floating(kCtcBackward, log_probs);
  const DType compute = compute_dtype(promote(grad.dtype(), log_probs.dtype()));
  const CtcInputs inputs(log_probs, args.in(2), args.in(3), args.in(4), args.attrs, compute);
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

constexpr Op<CtcBackwardAttrs> ctc_backward_op{
    .info = {.name = kCtcBackward, .category = Category::passthrough},
    .samples =
        [] { return std::vector<Sample<CtcBackwardAttrs>>(); },  // not registered: the sweep differentiates
    .forward = ctc_backward_forward,
    .vjp = ctc_backward_vjp,
    .saves = kSaveNothing,
};

// --- the loss. Inputs: log_probs, targets, input_lengths, target_lengths

Outputs ctc_forward(const ForwardArgs<CtcAttrs>& args) {
  const Tensor& log_probs = args.in(0);
  require_floating(kCtc, log_probs);
  const DType result = args.run_dtype ? promote(log_probs.dtype(), *args.run_dtype) : log_probs.dtype();
  const DType compute = compute_dtype(result);
  const CtcInputs inputs(log_probs, args.in(1), args.in(2), args.in(3), args.attrs, compute);
  Tensor losses = empty({inputs.batch().samples}, {.dtype = DType::f64, .device = log_probs.device()});
  kernels::ctc_loss(inputs.device(), static_cast<double*>(losses.impl().data()), inputs.batch(), compute);
  if (args.attrs.zero_infinity)
    losses = where(eq(losses, std::numeric_limits<double>::infinity()), 0.0, losses);
  if (args.attrs.reduction == Reduction::none)
    return to(log_probs.dim() == 3 ? losses : reshape(losses, {}), result);
  if (args.attrs.reduction == Reduction::sum) return to(sum(losses), result);
  return to(inputs.batch().samples == 0 ? mean(losses) : sum(losses / inputs.divisors()), result);
}

std::vector<Sample<CtcAttrs>> ctc_samples() {
  using op_samples::index, op_samples::real;
  return {{{real({6, 2, 4}, -3, 0), index({2, 2}, 4), index({2}, 7), index({2}, 3)}, {.zero_infinity = true}},
          {{real({9, 3, 5}, -3, 0), index({3, 3}, 5), index({3}, 10), index({3}, 4)},
           {.blank = 4, .reduction = Reduction::none, .zero_infinity = true}},
          {{real({5, 3}, -3, 0), index({1, 2}, 3), index({}, 6), index({}, 3)},
           {.reduction = Reduction::sum, .zero_infinity = true}}};
}
constexpr Op<CtcAttrs> ctc_op{
    .info = {.name = kCtc,
             .category = Category::passthrough,
             .opt_out = {.gradient = "it is the one behind log_softmax, as in PyTorch",
                         .second_gradient = "it is refused, as in PyTorch"}},
    .samples = ctc_samples,
    .forward = ctc_forward,
    .vjp = loss_vjp<ctc_backward_op, CtcAttrs>,
    .saves = save_inputs(0, 1, 2, 3),
};
const Registered ctc_registered{ctc_op};

/// The largest of the lengths, each in [0, most] (ValueError). The host reads them.
std::int64_t checked_longest(const char* what, const Tensor& lengths, std::int64_t most) {
  require_integers(what, lengths);
  std::int64_t longest = 0;
  for (const std::int64_t length : to(lengths, DType::i64).to_vector<std::int64_t>()) {
    if (length < 0 || length > most) {
      throw ValueError(kCtc, std::string(what) + " in [0, " + std::to_string(most) + "]",
                       std::to_string(length), "count what each sample has");
    }
    longest = std::max(longest, length);
  }
  return longest;
}

/// Targets one after the other are as many as their lengths add up to.
void require_total(const Tensor& targets, const Tensor& target_lengths) {
  if (targets.dim() != 1) return;
  const auto total = sum(to(target_lengths, DType::i64)).item<std::int64_t>();
  if (total == targets.numel()) return;
  throw ShapeError(kCtc, "as many targets as target_lengths add up to, " + std::to_string(total),
                   std::to_string(targets.numel()), "leave out the padding");
}

Tensor list_tensor(const IntList& list) {
  return tensor(std::vector<std::int64_t>(list.begin(), list.end()));
}

}  // namespace

Tensor ctc_loss(const Tensor& log_probs, const Tensor& targets, const Tensor& input_lengths,
                const Tensor& target_lengths, const CtcLossAttrs& options) {
  for (const Tensor* input : {&log_probs, &targets, &input_lengths, &target_lengths})
    require_defined(kCtc, *input);
  CtcAttrs attrs{options.blank, options.reduction, options.zero_infinity};
  const bool is_batch = log_probs.dim() == 3, is_sample = log_probs.dim() == 2;
  const std::int64_t samples = is_batch ? log_probs.size(1) : 1;
  const bool fit = targets.dim() == 1 || (targets.dim() == 2 && targets.size(0) == samples);
  if ((is_batch || is_sample) && fit) {  // else refused below
    static_cast<void>(checked_longest("input_lengths", input_lengths, log_probs.size(0)));
    attrs.longest = checked_longest("target_lengths", target_lengths, targets.size(-1));
    require_total(targets, target_lengths);
  }
  const Device device = log_probs.device();  // lengths may be on the CPU
  return bind(ctc_op, {log_probs, targets, to(input_lengths, device), to(target_lengths, device)}, attrs);
}
Tensor ctc_loss(const Tensor& log_probs, const Tensor& targets, const IntList& input_lengths,
                const IntList& target_lengths, const CtcLossAttrs& options) {
  return ctc_loss(log_probs, targets, list_tensor(input_lengths), list_tensor(target_lengths), options);
}

}  // namespace mezzo
