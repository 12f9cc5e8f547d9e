// One step of the optimizer over several processes: this rank's share of each batch, in pieces that one
// reduction follows, or in deterministic mode in virtual parts.
#include "mezzo/autograd/grad_mode.h"
#include "mezzo/core/error.h"
#include "mezzo/dist/detail/reducer.h"
#include "mezzo/ops/pointwise.h"
#include "mezzo/train/trainer/core.h"

namespace mezzo::train {

Tensor TrainerCore::train_share(const StepBatches& step) {
  ParallelRun& run = parallel_;
  run.require_equal_forwards(step.wholes, state_.microbatch);
  if (run.is_deterministic()) {
    Tensor total = run.sum_of_losses(train_virtual_parts(step), state_.device);
    run.begin_draws();
    return total;
  }
  if (run.size() == 1) return train_pieces(step);
  Tensor total;
  {
    const ParallelRun::PartDraws draws(run, run.group().rank());
    total = run.sum_of_losses({train_pieces(step)}, state_.device);
  }
  run.begin_draws();
  return total;
}

void TrainerCore::train_nothing() {
  parallel_.data_parallel().reducer().begin_forward();
  scaler_.scale(parallel_.loss_of_nothing()).backward();
}

Tensor TrainerCore::train_pieces(const StepBatches& step) {
  const auto pieces = pieces_of(step);
  if (pieces.empty()) {
    train_nothing();
    return {};
  }
  Tensor total;
  const auto add = [&](const Piece& piece) {
    const Tensor loss = forward_backward(piece);
    total = total.defined() ? total + loss : loss;
  };
  for (const Piece& piece : pieces) {
    if (parallel_.is_alone() || &piece == &pieces.back()) {
      add(piece);
    } else {
      const auto hold = parallel_.data_parallel().no_sync();
      add(piece);
    }
  }
  return total;
}

std::vector<Tensor> TrainerCore::train_virtual_parts(const StepBatches& step) {
  const ParallelRun& run = parallel_;
  const auto [first, last] = run.own_parts();
  std::vector<Piece> pieces;
  for (std::int64_t part = first; part < last; ++part) {
    for (std::size_t i = 0; i < step.batches.size(); ++i) {
      const auto [begin, length] = run.range_of(part, step.wholes[i]);
      if (length == 0) continue;
      pieces.push_back({length == step.sizes[i] ? step.batches[i] : step.batches[i].narrow(begin, length),
                        length, part - first});
    }
  }
  weigh(pieces, step);
  std::vector<Tensor> losses;
  for (std::int64_t part = first; part < last; ++part) {
    const ParallelRun::PartDraws draws(run, part);
    Tensor loss;
    bool counts = false;
    for (const Piece& piece : pieces) {
      if (piece.part != part - first) continue;
      const Tensor weighed = forward(piece);
      loss = loss.defined() ? loss + weighed : weighed;
      counts = counts || piece.share != 0;
    }
    if (!loss.defined())
      train_nothing();
    else
      backward(counts ? loss : run.loss_of_nothing());
    losses.push_back(loss.defined() ? loss.detach() : Tensor());
  }
  if (run.has_empty_part(step.wholes)) run.share_counters(state_.model);
  return losses;
}

}  // namespace mezzo::train
