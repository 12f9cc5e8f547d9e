// Op files whose expression is several ops. Each is that expression in public functions; gradients then run
// through shared leaves and reused results, which is what these files are about.
#include <array>

#include "golden/names.h"
#include "mezzo/autograd/registry.h"
#include "mezzo/ops/ops.h"

namespace mezzo::golden {

namespace {

/// x[slices]: per dim a list [start, stop, step] (null: open) or an integer, which selects.
Outputs slice_all(Inputs inputs, const Value& args) {
  Tensor x = inputs[0];
  std::int64_t dim = 0;
  for (const Value& part : args.at("slices").as_list()) {
    if (part.is_int()) {
      x = call_op("select", {x}, Value::Map{{"dim", dim}, {"index", part}});
      continue;
    }
    Value attrs = Value::Map{{"dim", dim}, {"step", part.at(2)}};
    if (!part.at(std::size_t{0}).is_null()) attrs.set("start", part.at(std::size_t{0}));
    if (!part.at(1).is_null()) attrs.set("end", part.at(1));
    x = call_op("slice", {x}, attrs);
    ++dim;
  }
  return x;
}

Outputs gradient_reuse(Inputs inputs, const Value& /*args*/) {
  const Tensor &x = inputs[0], &y = inputs[1];
  return add(sum(mul(mul(x, x), x)), mul(sum(mul(x, y)), mean(x)));
}

Outputs shared_leaf(Inputs inputs, const Value& /*args*/) {
  const Tensor &x = inputs[0], &w = inputs[1];
  const Tensor left = mul(tanh(matmul(x, w)), sum(x, {-1}, true));
  return add(left, div(matmul(x, w), add(sum(abs(w)), 1.0)));
}

Outputs softmax_mlp(Inputs inputs, const Value& /*args*/) {
  const Tensor hidden = tanh(linear(inputs[0], inputs[1], inputs[2]));
  return log_softmax(linear(hidden, inputs[3], inputs[4]), -1);
}

Outputs chunk_all(Inputs inputs, const Value& args) {
  return chunk(inputs[0], args.at("n").as_int(), args.at("dim").as_int());
}
/// A number or a list of them.
Outputs move_dim(Inputs inputs, const Value& args) {
  return movedim(inputs[0], dims_of(args.at("src")), dims_of(args.at("dst")));
}
Outputs shuffle_pixels(Inputs inputs, const Value& args) {
  return pixel_shuffle(inputs[0], args.at("r").as_int());
}
Outputs repeat_each(Inputs inputs, const Value& args) {
  const Value& dim = args.at("dim");
  const std::int64_t times = args.at("n").as_int();
  return dim.is_null() ? repeat_interleave(inputs[0], times)
                       : repeat_interleave(inputs[0], times, dim.as_int());
}
/// One name for two ops: the weight is a tensor or a number.
Outputs lerp_either(Inputs inputs, const Value& args) {
  if (inputs.size() == 3) return call_op("lerp", inputs, args);
  return call_op("lerp_scalar", inputs, Value::Map{{"weight", args.at("w")}});
}
/// Without the weight, which the expression leaves out.
Outputs multi_margin(Inputs inputs, const Value& args) {
  return call_op("multi_margin_loss", {inputs[0], inputs[1], Tensor()}, args);
}
/// The op takes the mask that the function draws.
Outputs dropout_drawn(Inputs inputs, const Value& args) {
  return dropout(inputs[0], args.at("p").as_double(), args.at("training").as_bool());
}

/// `dims` is a number, or one list per operand.
Outputs tensordot_over(Inputs inputs, const Value& args) {
  const Value& dims = args.at("dims");
  if (dims.is_int()) return tensordot(inputs[0], inputs[1], dims.as_int());
  const Value attrs = Value::Map{{"dims_a", dims.at(std::size_t{0})}, {"dims_b", dims.at(1)}};
  return call_op("tensordot", inputs, attrs);
}

/// The expression is written out, over the last dim.
Outputs rms_norm_last(Inputs inputs, const Value& args) {
  return rms_norm(inputs[0], {inputs[0]->size(-1)}, inputs[1], args.at("eps").as_double());
}
/// The expression has no running statistics.
Outputs instance_norm_own(Inputs inputs, const Value& args) {
  const Tensor weight = inputs.size() > 1 ? inputs[1].get() : Tensor();
  const Tensor bias = inputs.size() > 2 ? inputs[2].get() : Tensor();
  return instance_norm(inputs[0], {}, {}, weight, bias, true, 0.1, args.at("eps").as_double());
}

/// The biases of a cell, which follow its other inputs unless the case says that they are null.
std::array<Tensor, 2> biases_of_cell(Inputs inputs, std::size_t others, const Value& args) {
  const auto next = [&](const char* name) {
    const Value* given = args.find(name);
    return given != nullptr && given->is_null() ? Tensor() : inputs[others++].get();
  };
  const Tensor of_input = next("b_ih");
  return {of_input, next("b_hh")};
}
/// Without the gates, which the op returns as well.
Outputs gru_state(Inputs inputs, const Value& args) {
  const auto [b_ih, b_hh] = biases_of_cell(inputs, 4, args);
  return gru_cell(inputs[0], inputs[1], inputs[2], inputs[3], b_ih, b_hh);
}
Outputs lstm_state(Inputs inputs, const Value& args) {
  const auto [b_ih, b_hh] = biases_of_cell(inputs, 5, args);
  const LstmState next = lstm_cell(inputs[0], {inputs[1], inputs[2]}, inputs[3], inputs[4], b_ih, b_hh);
  return {next.h, next.c};
}
/// The expression is written out, and names the mask, where there is one, before v.
Outputs scaled_attention(Inputs inputs, const Value& args) {
  const bool masked = inputs.size() > 3;
  const Tensor& v = inputs[masked ? 3 : 2];
  const Tensor mask = masked ? inputs[2].get() : Tensor();
  return scaled_dot_product_attention(inputs[0], inputs[1], v,
                                      {.attn_mask = mask, .scale = args.at("scale").as_double()});
}
/// The expression leaves out the indices that the op returns too.
Outputs values_of(std::string_view op, Inputs inputs, const Value& args) {
  return call_op(op, inputs, translate(op, args).attrs)[0];
}
Outputs max_pool1d_values(Inputs inputs, const Value& args) { return values_of("max_pool1d", inputs, args); }
Outputs adaptive_max_pool2d_values(Inputs inputs, const Value& args) {
  return values_of("adaptive_max_pool2d", inputs, args);
}

struct CompositeRow {
  std::string_view golden;
  Composite composite;
};
constexpr std::array kComposites{
    CompositeRow{"slice", slice_all},
    CompositeRow{"gradient_reuse", gradient_reuse},
    CompositeRow{"shared_leaf", shared_leaf},
    CompositeRow{"softmax_mlp", softmax_mlp},
    CompositeRow{"chunk", chunk_all},
    CompositeRow{"movedim", move_dim},
    CompositeRow{"pixel_shuffle", shuffle_pixels},
    CompositeRow{"repeat_interleave", repeat_each},
    CompositeRow{"lerp", lerp_either},
    CompositeRow{"multi_margin_loss", multi_margin},
    CompositeRow{"tensordot", tensordot_over},
    CompositeRow{"dropout", dropout_drawn},
    CompositeRow{"rms_norm", rms_norm_last},
    CompositeRow{"instance_norm", instance_norm_own},
    CompositeRow{"GRUCell", gru_state},
    CompositeRow{"LSTMCell", lstm_state},
    CompositeRow{"attention", scaled_attention},
    CompositeRow{"max_pool1d", max_pool1d_values},
    CompositeRow{"adaptive_max_pool2d", adaptive_max_pool2d_values},
};

}  // namespace

Composite find_composite(std::string_view golden_op) {
  for (const CompositeRow& row : kComposites) {
    if (row.golden == golden_op) return row.composite;
  }
  return nullptr;
}

}  // namespace mezzo::golden
