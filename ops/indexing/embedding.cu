// Descriptors of embedding, embedding_backward and one_hot, and embedding_renorm_ in place. The gradient
// sorts the indices and adds up the gradients of equal indices in order, in f64.
#include "mezzo/ops/embedding.h"

#include "mezzo/autograd/checkpoint.h"
#include "mezzo/autograd/grad_mode.h"
#include "mezzo/kernels/indexing/embedding.h"
#include "mezzo/ops/forward.h"
#include "mezzo/ops/indexing/common.h"
#include "mezzo/ops/ops.h"
#include "mezzo/ops/shape/copy_into.h"

namespace mezzo {

namespace {

using namespace ops;

const std::int64_t* data_of(const Tensor& index) {
  return static_cast<const std::int64_t*>(index.impl().data());
}

/// The row that has no gradient, or -1.
std::int64_t padding_row(std::string_view op, std::optional<std::int64_t> padding_idx, std::int64_t rows) {
  if (!padding_idx) return -1;
  if (*padding_idx < -rows || *padding_idx >= rows) {
    throw ValueError(op, "a padding_idx of one of the " + std::to_string(rows) + " rows",
                     std::to_string(*padding_idx), "leave it out for none");
  }
  return *padding_idx < 0 ? *padding_idx + rows : *padding_idx;
}

void require_table(std::string_view op, const Tensor& weight) {
  if (weight.dim() == 2) return;
  throw ShapeError(op, "a weight [rows, width]", to_string(weight.shape()), "reshape it");
}

// --- embedding

struct EmbeddingAttrs {
  std::optional<std::int64_t> padding_idx = {};
  bool scale_grad_by_freq = false;
  MEZZO_FIELDS(EmbeddingAttrs, padding_idx, scale_grad_by_freq)
};

Outputs embedding_forward(const ForwardArgs<EmbeddingAttrs>& args) {
  const Tensor& weight = args.in(1);
  require_table("embedding", weight);
  const Tensor index = index_as_i64("embedding", args.in(0), true);
  static_cast<void>(padding_row("embedding", args.attrs.padding_idx, weight.size(0)));
  Shape shape = index.shape();
  shape.push_back(weight.size(1));
  check_indices("embedding", index, 0, weight.size(0));
  const Shape rows{index.numel(), weight.size(1)};
  return reshape(taken(weight, index, along(0, rows, weight.size(0), weight.strides(), {1, 0})), shape);
}
Gradients embedding_vjp(const VjpArgs<EmbeddingAttrs>& args) {
  const std::optional<std::int64_t> padding = args.attrs.padding_idx;
  const Tensor index = args.in(0);
  const std::int64_t rows = args.in_shape(1)[0];
  Tensor grad = args.grad();
  if (args.attrs.scale_grad_by_freq) {
    Shape shape = index.shape();
    shape.push_back(1);
    const Tensor one = ones(shape, {.dtype = DType::f32, .device = grad.device()});
    const Tensor count = embedding_backward(one, index, rows, padding);
    grad = div(grad, clamp(embedding(index, count), 1.0));  // 0 for padding, which is left out below
  }
  return {Tensor(), embedding_backward(grad, index, rows, padding, args.wanted(1))};
}
/// Padding and frequencies make another gradient than the derivative, so no sample reads a padding row, or
/// a row twice where it is scaled.
std::vector<Sample<EmbeddingAttrs>> embedding_samples() {
  using op_samples::index;
  using op_samples::real;
  return {{{index({4}, 7), real({7, 3})}, {}},
          {{index({2, 3}, 3), real({4, 5})}, {.padding_idx = -1}},
          {{index({1}, 2), real({2, 3})}, {.scale_grad_by_freq = true}},
          {{index({}, 3), real({3, 2})}, {}}};
}
constexpr Op<EmbeddingAttrs> embedding_op = plain_op<EmbeddingAttrs>(
    "embedding", Category::passthrough, embedding_samples, embedding_forward, embedding_vjp, save_inputs(0));

// --- embedding_backward

struct EmbeddingBackwardAttrs {
  std::int64_t num_embeddings = 0;
  std::optional<std::int64_t> padding_idx = {};
  std::optional<DType> dtype = {};
  MEZZO_FIELDS(EmbeddingBackwardAttrs, num_embeddings, padding_idx, dtype)
};

Outputs embedding_backward_forward(const ForwardArgs<EmbeddingBackwardAttrs>& args) {
  constexpr const char* kName = "embedding_backward";
  const Tensor grad = args.in(0).contiguous();
  const Tensor index = index_as_i64(kName, args.in(1), true);
  const std::int64_t rows = args.attrs.num_embeddings;
  require_floating(kName, grad);
  Shape batch = grad.shape();
  if (!batch.empty()) batch.pop_back();
  if (grad.dim() != index.dim() + 1 || batch != index.shape()) {
    throw ShapeError(kName, "a gradient " + to_string(index.shape()) + " with one more dim",
                     to_string(grad.shape()), "pass the gradient of embedding's result");
  }
  if (rows < 0)
    throw ValueError(kName, "a number of rows", std::to_string(rows), "pass the weight's first size");
  const std::int64_t padding = padding_row(kName, args.attrs.padding_idx, rows);
  const DType dtype = args.attrs.dtype.value_or(grad.dtype());
  if (!is_floating(dtype))
    throw DTypeError(kName, "a floating dtype", to_string(dtype), "use f32 or another");
  const Device device = grad.device();
  const Tensor out = empty({rows, grad.size(-1)}, {.dtype = dtype, .device = device});
  check_indices(kName, index, 0, rows);
  const Tensor order = empty({index.numel()}, {.dtype = DType::i64, .device = device});
  const Tensor ends = zeros({2, rows}, {.dtype = DType::i64, .device = device});
  auto* const first = static_cast<std::int64_t*>(ends.impl().data());
  const kernels::IndexRuns runs{index.numel(), rows, static_cast<std::int64_t*>(order.impl().data()), first,
                                first + rows};
  kernels::find_index_runs(device, data_of(index), runs, padding);
  kernels::sum_rows(device, view_of(out), view_of(grad), data_of(index), runs);
  return out;
}
Gradients embedding_backward_vjp(const VjpArgs<EmbeddingBackwardAttrs>& args) {
  const Tensor index = args.in(1);
  Tensor rows = embedding(index, args.grad());
  const std::int64_t padding =
      padding_row("embedding_backward", args.attrs.padding_idx, args.attrs.num_embeddings);
  if (padding >= 0) rows = where(unsqueeze(eq(index, padding), -1), 0.0, rows);
  return {rows, Tensor()};
}
std::vector<Sample<EmbeddingBackwardAttrs>> embedding_backward_samples() {
  using op_samples::index;
  using op_samples::real;
  return {{{real({9, 3}), index({9}, 4)}, {.num_embeddings = 5}},
          {{real({2, 4, 5}), index({2, 4}, 3)}, {.num_embeddings = 3, .padding_idx = 1}},
          {{real({2, 2}), index({2}, 3)}, {.num_embeddings = 3, .dtype = DType::f64}}};
}
constexpr Op<EmbeddingBackwardAttrs> embedding_backward_op =
    plain_op<EmbeddingBackwardAttrs>("embedding_backward", Category::passthrough, embedding_backward_samples,
                                     embedding_backward_forward, embedding_backward_vjp, save_inputs(1));

// --- one_hot

struct OneHotAttrs {
  std::int64_t num_classes = -1;
  MEZZO_FIELDS(OneHotAttrs, num_classes)
};

/// The most classes of one_hot: the most elements that a tensor has.
constexpr std::int64_t kMostClasses = std::int64_t{1} << 60;

Outputs one_hot_forward(const ForwardArgs<OneHotAttrs>& args) {
  const Tensor index = index_as_i64("one_hot", args.in(0), false);
  std::int64_t classes = args.attrs.num_classes;
  if (classes < -1 || classes == 0 || (classes == -1 && index.numel() == 0)) {
    throw ValueError("one_hot", "at least one class", std::to_string(classes),
                     "-1 takes the largest index + 1");
  }
  if (classes == -1) {
    const auto largest = amax(index).item<std::int64_t>();
    if (largest >= kMostClasses) {
      throw ValueError("one_hot", "indices below 2^60", std::to_string(largest),
                       "the result has a dim of the largest + 1");
    }
    classes = std::max<std::int64_t>(largest, 0) + 1;
  }
  check_indices("one_hot", index, 0, classes);
  const Tensor all = arange(0, classes, 1, {.dtype = DType::i64, .device = index.device()});
  return to(eq(unsqueeze(index, -1), all), DType::i64);
}
std::vector<Sample<OneHotAttrs>> one_hot_samples() {
  return {{{op_samples::index({4}, 5)}, {5}}, {{op_samples::index({2, 3}, 4)}, {6}}};
}
constexpr Op<OneHotAttrs> one_hot_op =
    plain_op<OneHotAttrs>("one_hot", Category::passthrough, one_hot_samples, one_hot_forward,
                          NotDifferentiable{"the result is an integer"}, kSaveNothing);

const Registered embedding_registered{embedding_op, embedding_backward_op, one_hot_op};

}  // namespace

const Tensor& embedding_renorm_(const Tensor& weight, const Tensor& index, double max_norm,
                                double norm_type) {
  constexpr const char* kName = "embedding_renorm_";
  require_defined(kName, weight);
  require_defined(kName, index);
  require_table(kName, weight);
  const NoGrad no_grad;  // a weight with history is changed behind it, as in PyTorch; versions tell
  check_writable(kName, weight);
  const Tensor places = reshape(index_as_i64(kName, index, true), {index.numel()});
  // A row that is named twice is written twice with the same values.
  const Tensor rows = to(renorm(index_select(weight, 0, places), norm_type, 0, max_norm), weight.dtype());
  const PlaceMap map = along(0, rows.shape(), weight.size(0), weight.strides(), {1, 0});
  kernels::put(weight.device(), map.of(weight, places), view_of(rows), map.walked);
  weight.impl().storage->bump_version();
  return weight;
}
Tensor embedding(const Tensor& index, const Tensor& weight, std::optional<std::int64_t> padding_idx,
                 bool scale_grad_by_freq, std::optional<double> max_norm, double norm_type) {
  if (max_norm && !autograd::is_recomputing()) embedding_renorm_(weight, index, *max_norm, norm_type);
  return bind(embedding_op, {index, weight}, EmbeddingAttrs{padding_idx, scale_grad_by_freq});
}
Tensor embedding_backward(const Tensor& grad, const Tensor& index, std::int64_t num_embeddings,
                          std::optional<std::int64_t> padding_idx, std::optional<DType> dtype) {
  return bind(embedding_backward_op, {grad, index},
              EmbeddingBackwardAttrs{num_embeddings, padding_idx, dtype});
}
Tensor one_hot(const Tensor& index, std::int64_t num_classes) {
  return bind(one_hot_op, {index}, OneHotAttrs{num_classes});
}

}  // namespace mezzo
