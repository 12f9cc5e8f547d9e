// A table from op name to a formula over shapes. An op without a row counts as 0, and so does a program's
// own op that shares a name with one in the table.
#include "mezzo/nn/summary/mult_adds.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "mezzo/autograd/registry.h"
#include "mezzo/core/layout.h"

namespace mezzo::nn {

namespace {

struct Call {
  Inputs inputs;
  const Outputs& outputs;
  [[nodiscard]] const Tensor& in(std::size_t i) const { return inputs[i]; }
  [[nodiscard]] std::int64_t results() const { return outputs[0].numel(); }
};

/// Products in one element of what the product of `x` with something is.
std::int64_t inner(const Tensor& x) { return x.size(-1); }

/// Product of all sizes but the last.
std::int64_t rows(const Tensor& x) {
  Shape shape = x.shape();
  shape.pop_back();
  return layout::numel(shape);
}

/// Elements of a weight per channel of its first dim.
std::int64_t per_channel(const Tensor& weight) {
  return weight.size(0) == 0 ? 0 : weight.numel() / weight.size(0);
}

/// Sums over k in which a has m k elements, b k n, and the result m n.
std::int64_t contraction(const Call& call) {
  if (call.results() == 0) return 0;
  const double pairs = static_cast<double>(call.in(0).numel()) * static_cast<double>(call.in(1).numel());
  const auto k = std::llround(std::sqrt(pairs / static_cast<double>(call.results())));
  return call.results() * static_cast<std::int64_t>(k);
}

/// Every query with every key, and every weight with a value.
std::int64_t attention(const Call& call) {
  const Tensor& result = call.outputs[0];
  return rows(result) * call.in(1).size(-2) * (call.in(0).size(-1) + result.size(-1));
}

/// The scores once more, and the gradients of scores, query, key and value. Inputs: grad, query, key, value.
std::int64_t attention_backward(const Call& call) {
  return rows(call.in(0)) * call.in(2).size(-2) * (3 * call.in(1).size(-1) + 2 * call.in(0).size(-1));
}

/// One product with each of the two weights, of which the first is input `first`, in each step.
std::int64_t cell(const Call& call, std::size_t first) {
  return rows(call.in(0)) * (call.in(first).numel() + call.in(first + 1).numel());
}

/// The gradients of all gates, the first result, with the weight of h, the last input, in each step.
std::int64_t cell_backward(const Call& call) {
  return call.results() * call.in(call.inputs.size() - 1).size(1);
}

struct Formula {
  std::string_view op;
  std::int64_t (*count)(const Call&);  ///< nullptr: shapes do not say
};

std::int64_t by_first(const Call& call) { return call.results() * inner(call.in(0)); }
std::int64_t by_second(const Call& call) { return call.results() * inner(call.in(1)); }
std::int64_t convolution(const Call& call) { return call.results() * per_channel(call.in(1)); }
std::int64_t by_rows(const Call& call) { return call.results() * call.in(0).size(0); }
std::int64_t by_gradient(const Call& call) { return call.in(0).numel() * per_channel(call.outputs[0]); }
std::int64_t transposed(const Call& call) { return call.in(0).numel() * per_channel(call.in(1)); }

constexpr std::array kFormulas{
    Formula{"linear", by_first},
    Formula{"linear_f8", by_first},
    Formula{"linear_backward", by_rows},
    Formula{"matmul_f8", by_first},
    Formula{"matmul", by_first},
    Formula{"mm", by_first},
    Formula{"bmm", by_first},
    Formula{"mv", by_first},
    Formula{"dot", by_first},
    Formula{"vdot", by_first},
    Formula{"addmm", by_second},
    Formula{"addmv", by_second},
    Formula{"baddbmm", by_second},
    Formula{"addbmm", [](const Call& call) { return call.in(1).size(0) * by_second(call); }},
    Formula{"outer", [](const Call& call) { return call.results(); }},
    Formula{"addr", [](const Call& call) { return call.results(); }},
    Formula{"tensordot", contraction},
    Formula{"bilinear", [](const Call& call) { return call.results() * per_channel(call.in(2)); }},
    Formula{"einsum", nullptr},
    Formula{"chain_matmul", nullptr},
    Formula{"multi_dot", nullptr},
    Formula{"conv1d", convolution},
    Formula{"conv2d", convolution},
    Formula{"conv3d", convolution},
    Formula{"convolution_forward", convolution},
    Formula{"convolution_backward_input", transposed},
    Formula{"convolution_backward_weight", by_gradient},
    Formula{"conv_transpose1d", transposed},
    Formula{"conv_transpose2d", transposed},
    Formula{"conv_transpose3d", transposed},
    Formula{"scaled_dot_product_attention", attention},
    Formula{"scaled_dot_product_attention_backward", attention_backward},
    Formula{"rnn_tanh_sequence", [](const Call& call) { return cell(call, 2); }},
    Formula{"rnn_relu_sequence", [](const Call& call) { return cell(call, 2); }},
    Formula{"gru_sequence", [](const Call& call) { return cell(call, 2); }},
    Formula{"lstm_sequence", [](const Call& call) { return cell(call, 3); }},
    Formula{"rnn_tanh_cell", [](const Call& call) { return cell(call, 2); }},
    Formula{"rnn_relu_cell", [](const Call& call) { return cell(call, 2); }},
    Formula{"gru_cell", [](const Call& call) { return cell(call, 2); }},
    Formula{"lstm_cell", [](const Call& call) { return cell(call, 3); }},
    Formula{"rnn_tanh_sequence_backward", cell_backward},
    Formula{"rnn_relu_sequence_backward", cell_backward},
    Formula{"gru_sequence_backward", cell_backward},
    Formula{"lstm_sequence_backward", cell_backward},
};

}  // namespace

std::optional<std::int64_t> mult_adds(const OpInfo& info, Inputs inputs, const Outputs& outputs) {
  const auto formula = std::find_if(kFormulas.begin(), kFormulas.end(),
                                    [&](const Formula& entry) { return entry.op == info.name.value; });
  if (formula == kFormulas.end()) return 0;
  const RegistryEntry* const entry = find_op(info.name.value);
  if (entry == nullptr || &entry->info() != &info) return 0;  // a program's own op of the same name
  if (formula->count == nullptr) return std::nullopt;
  return formula->count({inputs, outputs});
}

}  // namespace mezzo::nn
