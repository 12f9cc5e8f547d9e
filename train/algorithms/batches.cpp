// Algorithms on batches and their targets.
#include <algorithm>
#include <cmath>
#include <utility>

#include "mezzo/autograd/grad_mode.h"
#include "mezzo/core/error.h"
#include "mezzo/ops/ops.h"
#include "mezzo/train/algorithms.h"
#include "mezzo/train/functions.h"

namespace mezzo::train::algorithms {

namespace {

using TensorPair = std::pair<Tensor, Tensor>;

/// Throws: ValueError for a batch that is no Example and no pair.
data::Example example_of(const AnyBatch& batch, std::string_view op) {
  if (!batch.is<data::Example>() && !batch.is<TensorPair>())
    detail::refuse_batch_type(op, typeid(data::Example), batch.type());
  return {detail::input_of(batch), detail::target_of(batch)};
}

/// A batch of the type of `like`.
AnyBatch batch_like(const AnyBatch& like, data::Example example) {
  if (like.is<data::Example>()) return AnyBatch(std::move(example));
  return AnyBatch(TensorPair(std::move(example.data), std::move(example.target)));
}

/// One-hot targets. Throws: IndexError.
Tensor classes_of(const Tensor& target, std::int64_t classes) {
  try {
    return one_hot(target, classes);
  } catch (const IndexError& error) {
    throw IndexError("LabelSmoothing",
                     "classes in [0, " + std::to_string(classes) + "), as it knows no ignore_index",
                     error.got(), "take nn::CrossEntropyLoss({.label_smoothing = 0.1}), which does");
  }
}

/// Step and place in it choose the sequence; `stream` keeps the sequences of algorithms and loaders apart.
constexpr std::uint64_t kMixUpStream = 0x6d69787570ULL << 24, kCutMixStream = 0x6375746d6978ULL << 16;

}  // namespace

// --- LabelSmoothing

LabelSmoothing::LabelSmoothing(const LabelSmoothingOptions& options) : options_(options) {
  if (!(options.smoothing >= 0 && options.smoothing <= 1))
    throw ValueError("LabelSmoothing", "smoothing in [0, 1]", number_text(options.smoothing), "0.1 is usual");
}

void LabelSmoothing::run(Event event, State& state) {
  if (event == Event::after_loss) {
    state.batch = std::exchange(original_, {});
    return;
  }
  const NoGrad no_grad;
  const Tensor& output = state.output;
  auto [data, target] = example_of(state.batch, "LabelSmoothing");
  if (!output.defined() || output.dim() < 2)
    throw ShapeError("LabelSmoothing", "an output of the model [N, C, ...]",
                     output.defined() ? to_string(output.shape()) : "none",
                     "smooth the targets in the loss itself");
  if (!is_floating(target.dtype())) target = movedim(classes_of(target, output.size(1)), -1, 1);
  if (target.shape() != output.shape())
    throw ShapeError("LabelSmoothing", "targets for an output " + to_string(output.shape()),
                     to_string(target.shape()), "give class indices [N, ...], or probabilities of its shape");
  target = target.to(output.dtype() == DType::f64 ? DType::f64 : DType::f32);
  const double share = options_.smoothing / static_cast<double>(output.size(1));
  original_ = state.batch;
  state.batch = batch_like(original_, {data, target * (1 - options_.smoothing) + share});
}

// --- MixUp and CutMix

MixedBatches::MixedBatches(const char* name, const MixUpOptions& options, std::uint64_t stream,
                           Transform transform)
    : transform_(std::move(transform)), seed_(options.seed ^ stream) {
  if (options.num_classes < 1)
    throw ValueError(name, "num_classes of at least 1", std::to_string(options.num_classes),
                     "say how many classes there are");
}

void MixedBatches::run(Event event, State& state) {
  if (event != Event::after_dataloader) {
    place_ = 0;
    return;
  }
  const NoGrad no_grad;
  data::Random random(seed_, place_++, static_cast<std::uint64_t>(state.time.batch));
  state.batch = batch_like(state.batch, transform_(example_of(state.batch, name()), random));
}

MixUp::MixUp(const MixUpOptions& options)
    : MixedBatches("MixUp", options, kMixUpStream, data::MixUp(options.num_classes, options.alpha)) {}

CutMix::CutMix(const CutMixOptions& options)
    : MixedBatches("CutMix", {options.num_classes, options.alpha, options.seed}, kCutMixStream,
                   data::CutMix(options.num_classes, options.alpha)) {}

// --- ProgressiveResizing

ProgressiveResizing::ProgressiveResizing(const ProgressiveResizingOptions& options) : options_(options) {
  constexpr const char* kOp = "ProgressiveResizing";
  if (!(options.initial_scale > 0 && options.initial_scale <= 1))
    throw ValueError(kOp, "initial_scale in (0, 1]", number_text(options.initial_scale), "0.5 is usual");
  const double delay = options.delay_fraction, finetune = options.finetune_fraction;
  if (!(delay >= 0 && finetune >= 0 && delay + finetune <= 1)) {
    throw ValueError(kOp, "fractions of at least 0 and together at most 1",
                     number_text(delay) + " and " + number_text(finetune), "0.5 and 0.2 are usual");
  }
  if (options.size_increment < 1)
    throw ValueError(kOp, "a size_increment of at least 1", std::to_string(options.size_increment),
                     "1 allows every size");
}

void ProgressiveResizing::run(Event /*event*/, State& state) {
  const double progress = state.progress(), delay = options_.delay_fraction;
  const double end = 1 - options_.finetune_fraction;
  if (progress >= end) return;
  const double grown = progress < delay ? 0 : (progress - delay) / (end - delay);
  const double scale = options_.initial_scale + (1 - options_.initial_scale) * grown;
  const NoGrad no_grad;
  auto [data, target] = example_of(state.batch, name());
  if (data.dim() != 4)
    throw ShapeError(name(), "images [N, C, H, W]", to_string(data.shape()), "take it out of the recipe");
  const auto scaled = [&](std::int64_t length) {
    const auto step = static_cast<double>(options_.size_increment);
    const auto size =
        static_cast<std::int64_t>(std::round(static_cast<double>(length) * scale / step) * step);
    return std::min(std::max(size, options_.size_increment), length);
  };
  const auto resized = [&](const Tensor& images, const data::ResizeOptions& resize) {
    return data::resize(images, {scaled(images.size(2)), scaled(images.size(3))}, resize);
  };
  data = resized(data, options_.resize);
  if (options_.resize_targets) {
    if (target.dim() != 4)
      throw ShapeError(name(), "targets [N, C, H, W]", to_string(target.shape()), "leave resize_targets out");
    target = resized(target, {.mode = InterpolateMode::nearest_exact});
  }
  state.batch = batch_like(state.batch, {data, target});
}

// --- ChannelsLast

void ChannelsLast::run(Event /*event*/, State& state) {
  const NoGrad no_grad;
  bool has_images = false;
  const auto is_image = [](const Tensor& x) {
    return x.defined() && x.dim() == 4 && !x.is_contiguous(MemoryFormat::channels_last);
  };
  state.batch.visit([&](const Tensor& x) { has_images = has_images || is_image(x); });
  if (!has_images) return;
  AnyBatch batch = state.batch.copy();  // the loader's own stays as it is
  batch.visit([&](Tensor& x) {
    if (is_image(x)) x = x.contiguous(MemoryFormat::channels_last);
  });
  state.batch = batch;
}

}  // namespace mezzo::train::algorithms
