// Single cells, and the loop over layers and directions that RNN, GRU and LSTM share. RNN and GRU call
// their cell's op at every step; LSTM calls lstm_sequence once for all steps of a layer and direction.
#include "mezzo/nn/recurrent.h"

#include <array>
#include <cmath>

#include "mezzo/core/error.h"
#include "mezzo/core/layout.h"
#include "mezzo/core/value.h"
#include "mezzo/nn/init.h"
#include "mezzo/nn/layers/layer_support.h"
#include "mezzo/ops/factory.h"
#include "mezzo/ops/random.h"
#include "mezzo/ops/shape.h"

namespace mezzo::nn {

namespace {

/// Rows of the weights of all gates.
std::int64_t rows_of(std::string_view name, std::int64_t gates, std::int64_t hidden_size) {
  return layout::checked_numel(name, {gates, detail::at_least_one(name, "hidden_size", hidden_size)});
}

void require_both(const Module& module, const LstmState& state) {
  if (state.h.defined() == state.c.defined()) return;
  throw ValueError(module.described(), "both h and c, or none", state.h.defined() ? "h alone" : "c alone",
                   "pass zeros for the other one");
}

void require_defined(const Module& module, const Tensor& x) {
  if (x.defined()) return;
  throw ValueError(module.described(), "a tensor", "an undefined one", "pass the layer's input");
}

/// Throws unless x ends in `size` and has one of two numbers of dims.
void require_input(const Module& module, const Tensor& x, std::int64_t size, const char* dims,
                   std::int64_t most) {
  require_defined(module, x);
  if ((x.dim() == most || x.dim() == most - 1) && x.shape().back() == size) return;
  throw ShapeError(module.described(), std::string("an input ") + dims + " with I = " + std::to_string(size),
                   to_string(x.shape()), "check the layer before, or this one's input_size");
}

}  // namespace

RecurrentParams::RecurrentParams(Module& owner, const std::string& suffix, std::int64_t rows,
                                 std::int64_t features, std::int64_t hidden, bool biases,
                                 const TensorOptions& options)
    : weight_ih(owner, "weight_ih" + suffix, empty({rows, features}, options)),
      weight_hh(owner, "weight_hh" + suffix, empty({rows, hidden}, options)),
      bias_ih(owner, "bias_ih" + suffix, biases ? empty({rows}, options) : Tensor()),
      bias_hh(owner, "bias_hh" + suffix, biases ? empty({rows}, options) : Tensor()) {}

void RecurrentParams::fill(Generator& generator) {
  const double bound = 1 / std::sqrt(static_cast<double>(weight_hh->size(1)));
  for (const Param* param : {&weight_ih, &weight_hh, &bias_ih, &bias_hh}) {
    if (param->defined()) init::uniform_(*param, -bound, bound, generator);
  }
}

// --- cells

RecurrentCell::RecurrentCell(std::string_view name, std::int64_t gates, std::int64_t input_size,
                             std::int64_t hidden_size, const RecurrentCellOptions& options)
    : RecurrentParams(*this, "", rows_of(name, gates, hidden_size),
                      detail::at_least_one(name, "input_size", input_size), hidden_size, options.bias,
                      {.dtype = options.dtype, .device = options.device}),
      input_size_(input_size),
      hidden_size_(hidden_size) {
  reset_parameters(detail::or_default(options.generator));
}

void RecurrentCell::reset_parameters(Generator& generator) { fill(generator); }

Tensor RecurrentCell::start(const Tensor& x, const Tensor& state) const {
  require_input(*this, x, input_size_, "[N, I] or [I]", 2);
  if (state.defined()) return state;
  Shape shape = x.shape();
  shape.back() = hidden_size_;
  return zeros(shape, {.dtype = x.dtype(), .device = x.device()});
}

std::string RecurrentCell::extra_repr() const {
  return std::to_string(input_size_) + ", " + std::to_string(hidden_size_) +
         (bias_ih.defined() ? "" : ", bias=false");
}

RNNCell::RNNCell(std::int64_t input_size, std::int64_t hidden_size, const RecurrentCellOptions& options,
                 RNNNonlinearity nonlinearity)
    : RecurrentCell("RNNCell", 1, input_size, hidden_size, options), nonlinearity_(nonlinearity) {}

Tensor RNNCell::forward(const Tensor& x, const Tensor& h) {
  const auto cell = nonlinearity_ == RNNNonlinearity::tanh ? rnn_tanh_cell : rnn_relu_cell;
  return cell(x, start(x, h), weight_ih, weight_hh, bias_ih, bias_hh);
}

std::string RNNCell::extra_repr() const {
  return RecurrentCell::extra_repr() + (nonlinearity_ == RNNNonlinearity::tanh ? "" : ", nonlinearity=relu");
}

GRUCell::GRUCell(std::int64_t input_size, std::int64_t hidden_size, const RecurrentCellOptions& options)
    : RecurrentCell("GRUCell", 3, input_size, hidden_size, options) {}

Tensor GRUCell::forward(const Tensor& x, const Tensor& h) {
  return gru_cell(x, start(x, h), weight_ih, weight_hh, bias_ih, bias_hh);
}

LSTMCell::LSTMCell(std::int64_t input_size, std::int64_t hidden_size, const RecurrentCellOptions& options)
    : RecurrentCell("LSTMCell", 4, input_size, hidden_size, options) {}

LstmState LSTMCell::forward(const Tensor& x, const LstmState& state) {
  require_both(*this, state);
  return lstm_cell(x, {start(x, state.h), start(x, state.c)}, weight_ih, weight_hh, bias_ih, bias_hh);
}

// --- layers over sequences

RecurrentLayer::RecurrentLayer(std::string_view name, std::int64_t gates, std::int64_t input_size,
                               std::int64_t hidden_size, const RecurrentOptions& options)
    : input_size_(detail::at_least_one(name, "input_size", input_size)),
      hidden_size_(hidden_size),
      options_(options) {
  detail::at_least_one(name, "num_layers", options.num_layers);
  if (!(options.dropout >= 0 && options.dropout <= 1)) {
    throw ValueError(name, "a probability dropout in [0, 1]", Value(options.dropout).to_string(),
                     "dropout is the part that is zeroed");
  }
  const std::int64_t rows = rows_of(name, gates, hidden_size);
  const TensorOptions tensor_options{.dtype = options.dtype, .device = options.device};
  for (std::int64_t layer = 0; layer < options.num_layers; ++layer) {
    const std::int64_t features = layer == 0 ? input_size : directions() * hidden_size;
    for (std::int64_t direction = 0; direction < directions(); ++direction) {
      const std::string suffix = "_l" + std::to_string(layer) + (direction == 0 ? "" : "_reverse");
      params_.emplace_back(*this, suffix, rows, features, hidden_size, options.bias, tensor_options);
    }
  }
  reset_parameters(detail::or_default(options.generator));
}

void RecurrentLayer::reset_parameters(Generator& generator) {
  for (RecurrentParams& params : params_) params.fill(generator);
}

RecurrentParams& RecurrentLayer::params(std::int64_t layer, bool reverse) {
  if (layer < 0 || layer >= num_layers() || (reverse && !is_bidirectional())) {
    throw IndexError(described(),
                     "a layer below " + std::to_string(num_layers()) + " of " + std::to_string(directions()) +
                         " direction(s)",
                     std::to_string(layer) + (reverse ? ", in reverse" : ""), "check its num_layers");
  }
  return params_[static_cast<std::size_t>(layer * directions() + (reverse ? 1 : 0))];
}

Tensor RecurrentLayer::as_steps(const Tensor& x) const {
  const bool first = options_.batch_first;
  require_input(*this, x, input_size_, first ? "[N, L, I] or [L, I]" : "[L, N, I] or [L, I]", 3);
  const Tensor steps = x.dim() == 2 ? unsqueeze(x, 1) : first ? transpose(x, 0, 1) : x;
  if (steps.size(0) > 0) return steps;
  throw ShapeError(described(), "at least one step", to_string(x.shape()), "pass a sequence that has some");
}

Tensor RecurrentLayer::start(const Tensor& state, const Tensor& steps, bool is_sample) const {
  const Shape shape{num_layers() * directions(), steps.size(1), hidden_size_};
  if (!state.defined()) return zeros(shape, {.dtype = steps.dtype(), .device = steps.device()});
  const Shape wanted = is_sample ? Shape{shape[0], shape[2]} : shape;
  if (state.shape() == wanted) return is_sample ? unsqueeze(state, 1) : state;
  throw ShapeError(described(), "a state " + to_string(wanted), to_string(state.shape()),
                   "its first dim counts layers and directions");
}

RecurrentLayer::Run RecurrentLayer::run_layer(const Tensor& x, std::span<const Tensor> states,
                                              std::int64_t layer) {
  std::vector<Tensor> outputs;
  std::array<std::vector<Tensor>, 2> finals;
  for (std::int64_t direction = 0; direction < directions(); ++direction) {
    Tensors own;
    for (const Tensor& state : states) own.push_back(select(state, 0, layer * directions() + direction));
    const Run run = run_direction(x, own, params(layer, direction == 1), direction == 1);
    outputs.push_back(run.output);
    for (std::size_t s = 0; s < states.size(); ++s) finals[s].push_back(run.states[s]);
  }
  Run result{outputs.size() == 1 ? outputs[0] : cat(outputs, -1), {}};
  for (std::size_t s = 0; s < states.size(); ++s) result.states.push_back(stack(finals[s]));
  return result;
}

RecurrentLayer::Run RecurrentLayer::run(const Tensor& x, std::span<const Tensor> initial) {
  const Tensor steps = as_steps(x);
  const bool is_sample = x.dim() == 2;
  Tensors states;
  for (const Tensor& state : initial) states.push_back(start(state, steps, is_sample));
  Run result{steps, {}};
  std::array<std::vector<Tensor>, 2> finals;
  for (std::int64_t layer = 0; layer < num_layers(); ++layer) {
    if (layer > 0) {
      result.output = mezzo::dropout(result.output, options_.dropout, is_training(),
                                     detail::or_default(options_.dropout_generator));
    }
    result = run_layer(result.output, states, layer);
    for (std::size_t s = 0; s < states.size(); ++s) finals[s].push_back(result.states[s]);
  }
  for (std::size_t s = 0; s < states.size(); ++s) {
    result.states[s] = cat(finals[s], 0);
    if (is_sample) result.states[s] = squeeze(result.states[s], 1);
  }
  if (is_sample)
    result.output = squeeze(result.output, 1);
  else if (options_.batch_first)
    result.output = transpose(result.output, 0, 1);
  return result;
}

std::string RecurrentLayer::extra_repr() const {
  std::string text = std::to_string(input_size_) + ", " + std::to_string(hidden_size_);
  if (options_.num_layers != 1) text += ", num_layers=" + std::to_string(options_.num_layers);
  if (!options_.bias) text += ", bias=false";
  if (options_.batch_first) text += ", batch_first=true";
  if (options_.dropout != 0) text += ", dropout=" + Value(options_.dropout).to_string();
  if (options_.bidirectional) text += ", bidirectional=true";
  return text;
}

namespace {

/// h = step(x, h) over the steps of x, or from the last to the first.
template <class Step>
auto run_steps(const Tensor& x, Tensor h, bool reverse, const Step& step) {
  const std::int64_t length = x.size(0);
  std::vector<Tensor> outputs(static_cast<std::size_t>(length));
  for (std::int64_t k = 0; k < length; ++k) {
    const std::int64_t t = reverse ? length - 1 - k : k;
    h = step(select(x, 0, t), h);
    outputs[static_cast<std::size_t>(t)] = h;
  }
  return std::pair{stack(outputs), h};
}

}  // namespace

RNN::RNN(std::int64_t input_size, std::int64_t hidden_size, const RecurrentOptions& options,
         RNNNonlinearity nonlinearity)
    : RecurrentLayer("RNN", 1, input_size, hidden_size, options), nonlinearity_(nonlinearity) {}

RecurrentOutput RNN::forward(const Tensor& x, const Tensor& h_0) {
  const Run result = run(x, {&h_0, 1});
  return {result.output, result.states[0]};
}

RecurrentLayer::Run RNN::run_direction(const Tensor& x, std::span<const Tensor> states,
                                       const RecurrentParams& params, bool reverse) const {
  const auto cell = nonlinearity_ == RNNNonlinearity::tanh ? rnn_tanh_cell : rnn_relu_cell;
  const auto [output, h] = run_steps(x, states[0], reverse, [&](const Tensor& step, const Tensor& before) {
    return cell(step, before, params.weight_ih, params.weight_hh, params.bias_ih, params.bias_hh);
  });
  return {output, {h}};
}

GRU::GRU(std::int64_t input_size, std::int64_t hidden_size, const RecurrentOptions& options)
    : RecurrentLayer("GRU", 3, input_size, hidden_size, options) {}

RecurrentOutput GRU::forward(const Tensor& x, const Tensor& h_0) {
  const Run result = run(x, {&h_0, 1});
  return {result.output, result.states[0]};
}

RecurrentLayer::Run GRU::run_direction(const Tensor& x, std::span<const Tensor> states,
                                       const RecurrentParams& params, bool reverse) const {
  const auto [output, h] = run_steps(x, states[0], reverse, [&](const Tensor& step, const Tensor& before) {
    return gru_cell(step, before, params.weight_ih, params.weight_hh, params.bias_ih, params.bias_hh);
  });
  return {output, {h}};
}

LSTM::LSTM(std::int64_t input_size, std::int64_t hidden_size, const RecurrentOptions& options)
    : RecurrentLayer("LSTM", 4, input_size, hidden_size, options) {}

LSTMOutput LSTM::forward(const Tensor& x, const LstmState& state) {
  require_both(*this, state);
  const std::array initial{state.h, state.c};
  const Run result = run(x, initial);
  return {result.output, {result.states[0], result.states[1]}};
}

RecurrentLayer::Run LSTM::run_direction(const Tensor& x, std::span<const Tensor> states,
                                        const RecurrentParams& params, bool reverse) const {
  const LstmSequence found = lstm_sequence(x, {states[0], states[1]}, params.weight_ih, params.weight_hh,
                                           params.bias_ih, params.bias_hh, reverse);
  return {found.output, {found.state.h, found.state.c}};
}

}  // namespace mezzo::nn
