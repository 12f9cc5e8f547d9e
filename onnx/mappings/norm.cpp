// Normalizations and attention, which opsets have from different numbers on. Before them, and for calls that
// they do not take, the plain composition stands.
#include <numeric>

#include "mezzo/onnx/mappings/common.h"
#include "mezzo/ops/factory.h"

namespace mezzo::onnx {

namespace {

float attribute_of(double value) { return static_cast<float>(value); }

/// Input i [size]; `value` everywhere where it is not given.
std::string vector_or(Call& c, std::size_t i, double value, const Shape& shape, DType dtype) {
  return c.has(i) ? c.input(i, dtype) : c.constant(full(shape, value, {.dtype = dtype}));
}

bool uses_running_statistics(const TracedOp& op, std::int64_t /*opset*/) {
  return !op.attrs.at("training").as_bool();
}
void batch_norm(Call& c) {
  const Shape channels{c.in(0).size(1)};
  const DType statistics = c.in(1).dtype();
  c.set(c.node("BatchNormalization",
               {operand(c, 0), vector_or(c, 3, 1, channels, statistics),
                vector_or(c, 4, 0, channels, statistics), c.input(1), c.input(2, statistics)},
               {{"epsilon", attribute_of(c.real("eps"))}}));
}

/// The dtype in which a norm runs: the result's, or a wider one of its weight.
DType norm_dtype(const Call& c, std::size_t weight) {
  const DType out = c.out().dtype();
  if (!c.has(weight)) return out;
  const DType own = c.in(weight).dtype();
  return info(own).rank > info(out).rank ? own : out;
}
/// The dtype in which statistics are taken, for nodes that take them in their own.
DType wide(DType dtype) { return compute_dtype(dtype); }
Shape normalized_shape(const Call& c) {
  const std::vector<std::int64_t> sizes = c.integers("normalized_shape");
  return Shape(std::span<const std::int64_t>(sizes));
}

/// Statistics are f32's whatever the dtype (stash_type 1).
void layer_norm(Call& c) {
  const DType dtype = norm_dtype(c, 1);
  const Shape shape = normalized_shape(c);
  const std::string y = c.node(
      "LayerNormalization", {c.input(0, dtype), vector_or(c, 1, 1, shape, dtype), c.optional_input(2, dtype)},
      {{"axis", c.in(0).dim() - static_cast<std::int64_t>(shape.size())},
       {"epsilon", attribute_of(c.real("eps"))}});
  c.set_cast(y, dtype);
}

/// x / sqrt(mean x^2 + eps) weight: one node from opset 23 on.
void rms_norm(Call& c) {
  constexpr std::int64_t kOneNode = 23;
  const DType dtype = wide(norm_dtype(c, 1));
  const Shape shape = normalized_shape(c);
  const double eps = c.is_null("eps") ? info(compute_dtype(c.in(0).dtype())).eps : c.real("eps");
  const std::string x = c.input(0, dtype);
  const std::int64_t first = c.in(0).dim() - static_cast<std::int64_t>(shape.size());
  if (c.opset() >= kOneNode) {
    return c.set_cast(c.node("RMSNormalization", {x, vector_or(c, 1, 1, shape, dtype)},
                             {{"axis", first}, {"epsilon", attribute_of(eps)}}),
                      dtype);
  }
  std::vector<std::int64_t> dims(shape.size());
  std::iota(dims.begin(), dims.end(), first);
  const std::string mean = c.reduced("ReduceMean", c.node("Mul", {x, x}), dims, true);
  const std::string root = c.node("Sqrt", {c.node("Add", {mean, c.number(eps, dtype)})});
  const std::string y = c.node("Div", {x, root});
  c.set_cast(c.has(1) ? c.node("Mul", {y, c.input(1, dtype)}) : y, dtype);
}

/// weight and bias [C] times and added to x [N, C, ..].
std::string with_affine(Call& c, std::string x, std::size_t weight, DType dtype) {
  Sizes channels(static_cast<std::size_t>(c.in(0).dim() - 1), Size{1, 1});
  channels[0] = c.in_sizes(0)[1];
  const char* op = "Mul";
  for (const std::size_t i : {weight, weight + 1}) {
    if (c.has(i)) x = c.node(op, {x, c.reshaped(c.input(i, dtype), channels)});
    op = "Add";
  }
  return x;
}
/// Before opset 21, or where its scales were one per group, each group is a channel of an
/// InstanceNormalization.
void group_norm(Call& c) {
  constexpr std::int64_t kOneNode = 21;
  const DType dtype = wide(norm_dtype(c, 1));
  const std::int64_t groups = c.integer("num_groups");
  const Attribute eps{"epsilon", attribute_of(c.real("eps"))};
  const std::string x = c.input(0, dtype);
  if (c.opset() >= kOneNode) {
    const Shape channels{c.in(0).size(1)};
    return c.set_cast(c.node("GroupNormalization",
                             {x, vector_or(c, 1, 1, channels, dtype), vector_or(c, 2, 0, channels, dtype)},
                             {{"num_groups", groups}, eps}),
                      dtype);
  }
  const std::string grouped = c.node("Reshape", {x, c.list(std::vector<std::int64_t>{0, groups, -1})});
  const std::string y = c.node(
      "InstanceNormalization",
      {grouped, c.constant(ones({groups}, {.dtype = dtype})), c.constant(zeros({groups}, {.dtype = dtype}))},
      {eps});
  c.set_cast(with_affine(c, c.reshaped(y, c.out_sizes()), 1, dtype), dtype);
}

bool uses_input_statistics(const TracedOp& op, std::int64_t /*opset*/) {
  return op.attrs.at("use_input_stats").as_bool();
}
void instance_norm(Call& c) {
  const DType dtype = wide(norm_dtype(c, 3));
  const Shape channels{c.in(0).size(1)};
  c.set_cast(
      c.node("InstanceNormalization",
             {c.input(0, dtype), vector_or(c, 3, 1, channels, dtype), vector_or(c, 4, 0, channels, dtype)},
             {{"epsilon", attribute_of(c.real("eps"))}}),
      dtype);
}

/// Without a mask: a row of a mask without any key is NaN in ONNX and zeros here.
bool has_attention(const TracedOp& op, std::int64_t opset) {
  return opset >= 23 && op.inputs[0].dim() == 4 && !op.inputs[3].defined() &&
         !op.attrs.at("enable_gqa").as_bool() && !op.attrs.at("logsumexp").as_bool() &&
         op.attrs.at("dropout_p").as_double() == 0;
}
void attention(Call& c) {
  std::vector<Attribute> attributes{{"is_causal", std::int64_t{c.flag("is_causal") ? 1 : 0}}};
  if (!c.is_null("scale")) attributes.push_back({"scale", attribute_of(c.real("scale"))});
  c.set(c.node("Attention", {operand(c, 0), operand(c, 1), operand(c, 2)}, attributes));
}

constexpr Mapping kMappings[]{
    {"batch_norm", batch_norm, uses_running_statistics},
    {"layer_norm", layer_norm},
    {"rms_norm", rms_norm},
    {"group_norm", group_norm},
    {"instance_norm", instance_norm, uses_input_statistics},
    {"scaled_dot_product_attention", attention, has_attention},
};

}  // namespace

std::span<const Mapping> norm_mappings() { return kMappings; }

}  // namespace mezzo::onnx
