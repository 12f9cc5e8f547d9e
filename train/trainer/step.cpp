// One step of the optimizer: the batches in their parts, forward, loss, backward, scaler, schedule.
#include <algorithm>

#include "mezzo/autograd/grad_mode.h"
#include "mezzo/autograd/input_hook.h"
#include "mezzo/core/error.h"
#include "mezzo/core/memory/allocator.h"
#include "mezzo/core/random.h"
#include "mezzo/ops/ops.h"
#include "mezzo/train/trainer/core.h"

namespace mezzo::train {

void TrainerCore::check_dtypes(const AnyBatch& batch) {
  std::vector<DType> found;
  batch.visit([&](Tensor& tensor) {
    if (tensor.defined()) found.push_back(tensor.dtype());
  });
  if (batch_dtypes_.empty()) batch_dtypes_ = found;
  if (found == batch_dtypes_) return;
  const auto text = [](const std::vector<DType>& dtypes) {
    std::string names;
    for (const DType dtype : dtypes) names += (names.empty() ? "" : ", ") + std::string(to_string(dtype));
    return "tensors of " + (names.empty() ? std::string("no dtype") : names);
  };
  throw DTypeError("Trainer::fit", "batches like the first one: " + text(batch_dtypes_),
                   text(found) + " at batch " + std::to_string(state_.time.batch),
                   "let the loader give the same kinds of tensors every time");
}

void TrainerCore::step(StepBatches& step) {
  step_loss_ = {};
  scaler_.restart_iteration();  // the step before may have ended by an exception
  if (options_.microbatch.is_auto())
    optimize_within_memory(step);
  else if (options_.captured)
    optimize_captured(step);
  else
    optimize(step);
  state_.loss = step_loss_;
  state_.time.add_batch(step.samples, step.tokens);
}

void TrainerCore::optimize_within_memory(const StepBatches& step) {
  const auto random = default_generator().state();
  std::vector<std::pair<Tensor, Tensor>> buffers;
  {
    const NoGrad no_grad;
    for (const auto& [name, buffer] : state_.model.named_buffers())
      buffers.emplace_back(buffer, buffer.clone());
  }
  while (true) {
    try {
      optimize(step);
      return;
    } catch (const OutOfMemoryError&) {
      const std::int64_t largest = *std::max_element(step.sizes.begin(), step.sizes.end());
      const std::int64_t size = std::min(state_.microbatch.value_or(largest), largest);
      if (size <= 1) throw;
      state_.microbatch = (size + 1) / 2;
    }
    // Undo the step that ran out of memory.
    state_.output = state_.loss = step_loss_ = {};
    zero_grad();
    const NoGrad no_grad;
    for (const auto& [buffer, value] : buffers) buffer.copy_(value);
    default_generator().set_state(random);
    scaler_.restart_iteration();
    empty_cache(state_.device);
  }
}

void TrainerCore::zero_grad() {
  if (state_.optimizer != nullptr) {
    state_.optimizer->zero_grad();
  } else {
    for (const Tensor& parameter : options_.optimizer.parameters()) parameter.set_grad({});
  }
}

void TrainerCore::optimize(const StepBatches& step) {
  const AnyOptimizer& optimizer = options_.optimizer;
  if (optimizer.takes_closure()) {
    state_.step_result = optimizer.step(scaler_, [&] { return train_microbatches(step); });
  } else {
    static_cast<void>(train_microbatches(step));
    state_.step_result = scaler_.step(*state_.optimizer);
  }
  if (has_sinks_ && state_.optimizer != nullptr) {
    if (schedule_)
      step_lr_ =
          select(state_.optimizer->rates(0), 0, 0).clone();  // the schedule writes the next one over it
    else
      step_lr_ = state_.optimizer->lr();
  }
  if (schedule_) schedule_->step(state_.step_result);
  if (scaler_.is_enabled()) scaler_.update();
}

Tensor TrainerCore::train_microbatches(const StepBatches& step) {
  event(Event::before_train_batch);
  zero_grad();
  Tensor total = train_share(step);
  state_.loss = total;
  if (!step_loss_.defined()) step_loss_ = total;
  const bool closes = options_.optimizer.takes_closure();
  if (!closes && (options_.clip_norm || asks(Event::after_train_batch))) scaler_.unscale_(*state_.optimizer);
  if (options_.clip_norm) {
    state_.log("grad_norm",
               clip_gradients(state_.optimizer, options_.optimizer.parameters(), *options_.clip_norm));
  }
  event(Event::after_train_batch);
  return total;
}

std::vector<TrainerCore::Piece> TrainerCore::pieces_of(const StepBatches& step) const {
  std::vector<Piece> pieces;
  for (std::size_t i = 0; i < step.batches.size(); ++i) {
    if (!parallel_.is_alone() && step.sizes[i] == 0) continue;
    if (!state_.microbatch || *state_.microbatch >= step.sizes[i]) {
      pieces.push_back({step.batches[i], step.sizes[i]});
      continue;
    }
    for (AnyBatch& part : microbatches(step.batches[i], *state_.microbatch)) {
      const std::int64_t samples = part.samples();
      pieces.push_back({std::move(part), samples});
    }
  }
  weigh(pieces, step);
  return pieces;
}

namespace {

/// The f64 in a tensor on the CPU, where nothing is read back.
double host_number(const Tensor& tensor) { return *static_cast<const double*>(tensor.impl().data()); }

}  // namespace

void TrainerCore::weigh(std::vector<Piece>& pieces, const StepBatches& step) const {
  if (parallel_.is_alone() && pieces.size() == 1) return;
  if (weighs_samples_) {
    for (Piece& piece : pieces)
      piece.share = static_cast<double>(piece.samples) / static_cast<double>(step.samples);
    return;
  }
  const PlainOps plain;
  const auto [first, last] = parallel_.own_parts();
  std::vector<Tensor> weights, sums(static_cast<std::size_t>(last - first));
  for (const Piece& piece : pieces) {
    weights.push_back(call_.weight(piece.batch));
    Tensor& sum = sums[static_cast<std::size_t>(piece.part)];
    sum = sum.defined() ? sum + weights.back() : weights.back();
  }
  const Device device = call_.weighs_on_host() ? Device::cpu() : state_.device;
  const Tensor total = parallel_.sum_of_parts(sums, device);
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    if (total.device().is_cpu())
      pieces[i].share = host_number(weights[i]) / host_number(total);
    else
      pieces[i].device_share = weights[i] / total;
  }
}

Tensor TrainerCore::forward_backward(const Piece& piece) {
  const Tensor weighed = forward(piece);
  if (piece.share != 0)
    backward(weighed);
  else if (!parallel_.is_alone())
    backward(parallel_.loss_of_nothing());
  return weighed.detach();
}

Tensor TrainerCore::forward(const Piece& piece) {
  state_.batch = piece.batch;
  state_.output = state_.loss = {};  // output and loss of the part before are freed first
  event(Event::before_forward);
  state_.output = call_.forward(state_.batch);
  event(Event::after_forward);
  event(Event::before_loss);
  state_.loss = call_.loss(state_.output, state_.batch);
  event(Event::after_loss);
  const Tensor loss = state_.loss;
  if (!loss.defined() || loss.numel() != 1)
    throw ShapeError("Trainer::fit", "a loss of one element",
                     loss.defined() ? to_string(loss.shape()) : std::string("an undefined one"),
                     "let it return the mean over the samples");
  if (const Tensor& share = piece.device_share; share.defined()) {
    // The loss of a piece in which nothing counts is 0 / 0.
    const Tensor counted = where(share.gt(0).reshape(loss.shape()), loss, 0.0);
    return counted * share.to(loss.dtype() == DType::f64 ? DType::f64 : DType::f32);
  }
  if (piece.share == 0) return zeros_like(loss.detach());
  return piece.share == 1 ? loss : loss * piece.share;
}

void TrainerCore::backward(const Tensor& loss) {
  const double factor = parallel_.gradient_factor();
  event(Event::before_backward);
  scaler_.scale(factor == 1 ? loss : loss * factor).backward();
  event(Event::after_backward);
}

namespace {

std::vector<Tensor> tensors_of(const std::vector<AnyBatch>& batches) {
  std::vector<Tensor> tensors;
  for (const AnyBatch& batch : batches) batch.visit([&](Tensor& tensor) { tensors.push_back(tensor); });
  return tensors;
}

bool are_alike(const std::vector<Tensor>& a, const std::vector<Tensor>& b) {
  if (a.size() != b.size()) return false;
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (a[i].shape() != b[i].shape() || a[i].dtype() != b[i].dtype()) return false;
  }
  return true;
}

}  // namespace

void TrainerCore::optimize_captured(const StepBatches& step) {
  const auto given = tensors_of(step.batches);
  if (captured_ == nullptr) {
    for (const AnyBatch& batch : step.batches) {
      captured_batches_.batches.push_back(batch.copy());
      captured_batches_.batches.back().visit([](Tensor& tensor) { tensor = tensor.clone(); });
    }
    captured_batches_.sizes = step.sizes;
    captured_batches_.samples = step.samples;
    captured_ = std::make_unique<amp::CapturedStep>(state_.device, [this] {
      step_loss_ = {};
      optimize(captured_batches_);
      return step_loss_;
    });
  }
  const auto kept = tensors_of(captured_batches_.batches);
  if (!are_alike(given, kept)) {  // the last batch of an epoch, say
    optimize(step);
    return;
  }
  {
    const NoGrad no_grad;
    for (std::size_t i = 0; i < kept.size(); ++i) Tensor(kept[i]).copy_(given[i]);
  }
  step_loss_ = (*captured_)();
}

}  // namespace mezzo::train
