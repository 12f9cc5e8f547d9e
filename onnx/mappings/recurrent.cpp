// Sequences of recurrent cells as ONNX's RNN, GRU and LSTM. Cells by themselves stand as their compositions.
#include "mezzo/onnx/mappings/common.h"
#include "mezzo/ops/factory.h"
#include "mezzo/ops/selection.h"
#include "mezzo/ops/shape.h"

namespace mezzo::onnx {

namespace {

using Integers = std::vector<std::int64_t>;

/// The rows of the gates in ONNX's order, [1, rows..]: `order` lists our gates.
Tensor in_order(const Tensor& weight, const Integers& order) {
  const std::int64_t rows = weight.size(0) / static_cast<std::int64_t>(order.size());
  Tensors parts;
  for (const std::int64_t gate : order) parts.push_back(narrow(weight.detach(), 0, gate * rows, rows));
  return unsqueeze(cat(parts, 0), 0);
}

/// Inputs: x, h, c if the cell has it, then w_ih, w_hh, b_ih, b_hh from `weights` on.
std::vector<std::string> inputs_of(Call& c, std::size_t weights, const Integers& order, bool has_c) {
  const DType dtype = c.out().dtype();
  const auto weight = [&](std::size_t i) {
    if (!c.is_fixed(i)) c.refuse("weights that do not depend on inputs", "ones that do", "run cell by cell");
    return in_order(c.in(i), order).to(dtype);
  };
  std::string bias;
  if (c.has(weights + 2) || c.has(weights + 3)) {
    const std::int64_t rows = c.in(weights).size(0);
    const auto of = [&](std::size_t i) {
      return c.has(i) ? weight(i) : zeros({1, rows}, {.dtype = dtype, .device = c.in(weights).device()});
    };
    bias = c.constant(cat({of(weights + 2), of(weights + 3)}, 1), "recurrent_bias");
  }
  const std::string first = c.list(Integers{0});
  const auto state = [&](std::size_t i) {  // left out where it is zeros, its default
    return c.is_zero(i) ? "" : c.node("Unsqueeze", {operand(c, i), first});
  };
  std::vector<std::string> inputs{operand(c, 0),
                                  c.constant(weight(weights), "recurrent_weight_ih"),
                                  c.constant(weight(weights + 1), "recurrent_weight_hh"),
                                  bias,
                                  "",
                                  state(1)};
  if (has_c) inputs.push_back(state(2));
  return inputs;
}

/// Y [L, 1, N, H] is the first output, Y_h and Y_c [1, N, H] are the last states.
void set_results(Call& c, const std::vector<std::string>& results, bool reversed) {
  c.set(c.node("Squeeze", {results[0], c.list(Integers{1})}));
  for (std::size_t i = 1; i < results.size(); ++i)
    c.set_last_state(i - 1, c.node("Squeeze", {results[i], c.list(Integers{0})}), reversed);
}

std::vector<Attribute> attributes_of(const Call& c, std::size_t weights) {
  return {{"hidden_size", c.in(weights + 1).size(1)},
          {"direction", std::string(c.flag("reverse") ? "reverse" : "forward")}};
}

template <Literal kActivation>
void rnn(Call& c) {
  std::vector<Attribute> attributes = attributes_of(c, 2);
  attributes.push_back({"activations", std::vector<std::string>{kActivation.text}});
  set_results(c, c.nodes("RNN", inputs_of(c, 2, {0}, false), attributes, 2), c.flag("reverse"));
}
/// Ours are r, z, n; ONNX's are z, r, h. The product of h is scaled by r after its bias.
void gru(Call& c) {
  std::vector<Attribute> attributes = attributes_of(c, 2);
  attributes.push_back({"linear_before_reset", std::int64_t{1}});
  set_results(c, c.nodes("GRU", inputs_of(c, 2, {1, 0, 2}, false), attributes, 2), c.flag("reverse"));
}
/// Ours are i, f, g, o; ONNX's are i, o, f, c.
void lstm(Call& c) {
  set_results(c, c.nodes("LSTM", inputs_of(c, 3, {0, 3, 1, 2}, true), attributes_of(c, 3), 3),
              c.flag("reverse"));
}

constexpr Mapping kMappings[]{
    {"rnn_tanh_sequence", rnn<"Tanh">},
    {"rnn_relu_sequence", rnn<"Relu">},
    {"gru_sequence", gru},
    {"lstm_sequence", lstm},
};

}  // namespace

std::span<const Mapping> recurrent_mappings() { return kMappings; }

}  // namespace mezzo::onnx
