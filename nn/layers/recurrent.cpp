// Single cells, and the loop over layers and directions that RNN, GRU and LSTM share. Each calls its op over
// sequences (rnn_tanh_sequence, ...) once for all steps of a layer and direction; packed sequences are laid
// out so that all begin together. An LSTM with a projection, and packed sequences of an RNN with relu, go
// step by step.
#include "mezzo/nn/recurrent.h"

#include <array>
#include <cmath>

#include "mezzo/core/error.h"
#include "mezzo/core/layout.h"
#include "mezzo/core/value.h"
#include "mezzo/nn/init.h"
#include "mezzo/nn/layers/layer_support.h"
#include "mezzo/ops/ops.h"

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

constexpr std::int64_t kLstmGates = 4;

void require_proj_size(std::string_view name, bool is_lstm, std::int64_t hidden_size,
                       std::int64_t proj_size) {
  if (proj_size == 0) return;
  if (!is_lstm)
    throw ValueError(name, "no proj_size", std::to_string(proj_size),
                     "only LSTM maps its h to other features");
  if (proj_size > 0 && proj_size < hidden_size) return;
  throw ValueError(name, "a proj_size in [0, hidden_size)",
                   std::to_string(proj_size) + " of " + std::to_string(hidden_size), "0 is for none");
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
                                 std::int64_t features, std::int64_t hidden, std::int64_t projected,
                                 bool biases, const TensorOptions& options)
    : weight_ih(owner, "weight_ih" + suffix, empty({rows, features}, options)),
      weight_hh(owner, "weight_hh" + suffix, empty({rows, projected > 0 ? projected : hidden}, options)),
      bias_ih(owner, "bias_ih" + suffix, biases ? empty({rows}, options) : Tensor()),
      bias_hh(owner, "bias_hh" + suffix, biases ? empty({rows}, options) : Tensor()),
      weight_hr(owner, "weight_hr" + suffix, projected > 0 ? empty({projected, hidden}, options) : Tensor()) {
}

void RecurrentParams::fill(Generator& generator) {
  const std::int64_t hidden = weight_hr.defined() ? weight_hr->size(1) : weight_hh->size(1);
  const double bound = 1 / std::sqrt(static_cast<double>(hidden));
  for (const Param* param : {&weight_ih, &weight_hh, &bias_ih, &bias_hh, &weight_hr}) {
    if (param->defined()) init::uniform_(*param, -bound, bound, generator);
  }
}

// --- cells

RecurrentCell::RecurrentCell(std::string_view name, std::int64_t gates, std::int64_t input_size,
                             std::int64_t hidden_size, const RecurrentCellOptions& options)
    : RecurrentParams(*this, "", rows_of(name, gates, hidden_size),
                      detail::at_least_one(name, "input_size", input_size), hidden_size, 0, options.bias,
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
  detail::number_of_layers(name, options.num_layers);
  if (!(options.dropout >= 0 && options.dropout <= 1)) {
    throw ValueError(name, "a probability dropout in [0, 1]", Value(options.dropout).to_string(),
                     "dropout is the part that is zeroed");
  }
  const std::int64_t rows = rows_of(name, gates, hidden_size);
  require_proj_size(name, gates == kLstmGates, hidden_size, options.proj_size);
  const TensorOptions tensor_options{.dtype = options.dtype, .device = options.device};
  for (std::int64_t layer = 0; layer < options.num_layers; ++layer) {
    const std::int64_t features = layer == 0 ? input_size : directions() * output_size();
    for (std::int64_t direction = 0; direction < directions(); ++direction) {
      const std::string suffix = "_l" + std::to_string(layer) + (direction == 0 ? "" : "_reverse");
      params_.emplace_back(*this, suffix, rows, features, hidden_size, options.proj_size, options.bias,
                           tensor_options);
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
  Tensor steps = x.dim() == 2 ? unsqueeze(x, 1) : first ? transpose(x, 0, 1) : x;
  if (steps.size(0) > 0) return steps;
  throw ShapeError(described(), "at least one step", to_string(x.shape()), "pass a sequence that has some");
}

Tensor RecurrentLayer::start(std::size_t which, const Tensor& state, const Tensor& x, std::int64_t batch,
                             bool is_sample) const {
  const Shape shape{num_layers() * directions(), batch, which == 0 ? output_size() : hidden_size_};
  if (!state.defined()) return zeros(shape, {.dtype = x.dtype(), .device = x.device()});
  const Shape wanted = is_sample ? Shape{shape[0], shape[2]} : shape;
  if (state.shape() == wanted) return is_sample ? unsqueeze(state, 1) : state;
  throw ShapeError(described(), "a state " + to_string(wanted), to_string(state.shape()),
                   "its first dim counts layers and directions");
}

RecurrentLayer::Run RecurrentLayer::run_layers(const Steps& steps, std::span<const Tensor> states) {
  Run result{steps.x, {}};
  std::array<std::vector<Tensor>, 2> finals;
  for (std::int64_t layer = 0; layer < num_layers(); ++layer) {
    if (layer > 0) {
      result.output = mezzo::dropout(result.output, options_.dropout, is_training(),
                                     detail::or_default(options_.dropout_generator));
    }
    std::vector<Tensor> outputs;
    for (std::int64_t direction = 0; direction < directions(); ++direction) {
      const bool reverse = direction == 1;
      Tensors own;
      for (const Tensor& state : states) own.push_back(select(state, 0, layer * directions() + direction));
      const Run run = run_direction({result.output, steps.packed}, own, params(layer, reverse), reverse);
      outputs.push_back(run.output);
      for (std::size_t s = 0; s < states.size(); ++s) finals[s].push_back(run.states[s]);
    }
    result.output = outputs.size() == 1 ? outputs[0] : cat(outputs, -1);
  }
  for (std::size_t s = 0; s < states.size(); ++s) result.states.push_back(stack(finals[s]));
  return result;
}

RecurrentLayer::Run RecurrentLayer::run(const Tensor& x, std::span<const Tensor> initial) {
  const Tensor steps = as_steps(x);
  const bool is_sample = x.dim() == 2;
  Tensors states;
  for (std::size_t s = 0; s < initial.size(); ++s)
    states.push_back(start(s, initial[s], steps, steps.size(1), is_sample));
  Run result = run_layers({steps}, states);
  if (is_sample) {
    for (Tensor& state : result.states) state = squeeze(state, 1);
    result.output = squeeze(result.output, 1);
  } else if (options_.batch_first) {
    result.output = transpose(result.output, 0, 1);
  }
  return result;
}

RecurrentLayer::Run RecurrentLayer::run(const PackedSequence& x, std::span<const Tensor> initial) {
  detail::require_packed(described(), x);
  if (x.data.dim() != 2 || x.data.size(1) != input_size_) {
    throw ShapeError(described(), "packed data [steps, I] with I = " + std::to_string(input_size_),
                     to_string(x.data.shape()), "check the layer before, or this one's input_size");
  }
  const auto in_order = [&](const Tensor& state, const std::vector<std::int64_t>& order) {
    return order.empty() ? state : index_select(state, 1, detail::row_list(order, state.device()));
  };
  Tensors states;
  for (std::size_t s = 0; s < initial.size(); ++s) {
    const Tensor state = start(s, initial[s], x.data, x.num_sequences(), false);
    states.push_back(initial[s].defined() ? in_order(state, x.sorted_indices) : state);
  }
  Run result;
  if (x.batch_sizes.back() == x.num_sequences()) {  // of one length, which needs no lists
    const auto length = static_cast<std::int64_t>(x.batch_sizes.size());
    result = run_layers({reshape(x.data, {length, x.num_sequences(), input_size_})}, states);
    result.output = flatten(result.output, 0, 1);
  } else {
    result = run_layers({x.data, &x}, states);
  }
  for (Tensor& state : result.states) state = in_order(state, x.unsorted_indices);
  return result;
}

PackedSequence RecurrentLayer::packed_like(const PackedSequence& x, const Tensor& data) {
  return {data, x.batch_sizes, x.sorted_indices, x.unsorted_indices};
}

std::string RecurrentLayer::extra_repr() const {
  std::string text = std::to_string(input_size_) + ", " + std::to_string(hidden_size_);
  if (options_.num_layers != 1) text += ", num_layers=" + std::to_string(options_.num_layers);
  if (!options_.bias) text += ", bias=false";
  if (options_.batch_first) text += ", batch_first=true";
  if (options_.dropout != 0) text += ", dropout=" + Value(options_.dropout).to_string();
  if (options_.bidirectional) text += ", bidirectional=true";
  if (options_.proj_size != 0) text += ", proj_size=" + std::to_string(options_.proj_size);
  return text;
}

namespace {

/// The states after each step of x [L, N, ..], states = step(x_t, states), from the last step to the first
/// in reverse: for steps that no op has for a whole sequence.
template <class Step>
Tensors run_steps(const Tensor& x, Tensors states, bool reverse, const Step& step) {
  const auto length = static_cast<std::size_t>(x.size(0));
  // One op for all steps: the gradients of single selections would each be as large as x.
  const Tensors pieces = split(x, 1, 0);
  std::array<std::vector<Tensor>, 2> all;
  for (std::size_t s = 0; s < states.size(); ++s) all[s].resize(length);
  for (std::size_t k = 0; k < length; ++k) {
    const std::size_t t = reverse ? length - 1 - k : k;
    states = step(squeeze(pieces[t], 0), states);
    for (std::size_t s = 0; s < states.size(); ++s) all[s][t] = states[s];
  }
  for (std::size_t s = 0; s < states.size(); ++s) states[s] = stack(all[s]);
  return states;
}

/// Places of packed rows in a [L, N, ..] of sequences that all begin with row 0: from their first step on, or
/// in reverse from their last one; and where each ends.
struct AlignedRows {
  AlignedRows(const std::vector<std::int64_t>& batch_sizes, bool reverse) {
    const std::int64_t batch = batch_sizes[0];
    std::vector<std::int64_t> lengths(static_cast<std::size_t>(batch));
    for (const std::int64_t size : batch_sizes) {
      for (std::int64_t n = 0; n < size; ++n) ++lengths[static_cast<std::size_t>(n)];
    }
    for (std::size_t t = 0; t < batch_sizes.size(); ++t) {
      for (std::int64_t n = 0; n < batch_sizes[t]; ++n) {
        const auto step = static_cast<std::int64_t>(t);
        const std::int64_t place = reverse ? lengths[static_cast<std::size_t>(n)] - 1 - step : step;
        rows.push_back(place * batch + n);
      }
    }
    for (std::int64_t n = 0; n < batch; ++n)
      last.push_back((lengths[static_cast<std::size_t>(n)] - 1) * batch + n);
  }
  std::vector<std::int64_t> rows, last;
};

}  // namespace

template <class RunSequence>
RecurrentLayer::Run RecurrentLayer::run_sequence_of(const Steps& steps, bool reverse,
                                                    const RunSequence& run_sequence) {
  Run result;
  if (steps.packed == nullptr) {
    const Tensors all = run_sequence(steps.x, reverse);
    result.output = all[0];
    for (const Tensor& states : all)
      result.states.push_back(select(states, 0, reverse ? 0 : states.size(0) - 1));
    return result;
  }
  const std::vector<std::int64_t>& batch_sizes = steps.packed->batch_sizes;
  const AlignedRows aligned(batch_sizes, reverse);
  const auto length = static_cast<std::int64_t>(batch_sizes.size());
  const std::int64_t batch = batch_sizes[0], features = steps.x.size(1);
  const Device device = steps.x.device();
  const Tensor rows = detail::row_list(aligned.rows, device), last = detail::row_list(aligned.last, device);
  const Tensor padding = zeros({length * batch, features}, {.dtype = steps.x.dtype(), .device = device});
  // Behind a sequence's end it runs on over zeros, of which nothing is read.
  const Tensors all =
      run_sequence(reshape(index_copy(padding, 0, rows, steps.x), {length, batch, features}), false);
  result.output = index_select(flatten(all[0], 0, 1), 0, rows);
  for (const Tensor& states : all) result.states.push_back(index_select(flatten(states, 0, 1), 0, last));
  return result;
}

RecurrentOutput HiddenStateLayer::forward(const Tensor& x, const Tensor& h_0) {
  const Run result = run(x, {&h_0, 1});
  return {result.output, result.states[0]};
}

PackedRecurrentOutput HiddenStateLayer::forward(const PackedSequence& x, const Tensor& h_0) {
  const Run result = run(x, {&h_0, 1});
  return {packed_like(x, result.output), result.states[0]};
}

RNN::RNN(std::int64_t input_size, std::int64_t hidden_size, const RecurrentOptions& options,
         RNNNonlinearity nonlinearity)
    : HiddenStateLayer("RNN", 1, input_size, hidden_size, options), nonlinearity_(nonlinearity) {}

RecurrentLayer::Run RNN::run_direction(const Steps& steps, std::span<const Tensor> states,
                                       const RecurrentParams& params, bool reverse) const {
  const bool is_tanh = nonlinearity_ == RNNNonlinearity::tanh;
  // Behind a sequence's end a state of relu could grow until it overflows, and the weights' gradient with it.
  // So x has one more feature, which is 1 up to there, and states are 0 where it is not.
  if (steps.packed != nullptr && !is_tanh) {
    const std::int64_t features = steps.x.size(1);
    const TensorOptions like{.dtype = steps.x.dtype(), .device = steps.x.device()};
    const auto step = [&](const Tensor& marked, const Tensors& before) -> Tensors {
      const Tensors parts = split(marked, {features, 1}, 1);
      const Tensor next = rnn_relu_cell(parts[0], before[0], params.weight_ih, params.weight_hh,
                                        params.bias_ih, params.bias_hh);
      return {where(ne(parts[1], 0), next, 0)};
    };
    return run_sequence_of(
        {cat({steps.x, ones({steps.x.size(0), 1}, like)}, 1), steps.packed}, reverse,
        [&](const Tensor& x, bool from_last) { return run_steps(x, {states[0]}, from_last, step); });
  }
  const auto run = is_tanh ? rnn_tanh_sequence : rnn_relu_sequence;
  return run_sequence_of(steps, reverse, [&](const Tensor& x, bool from_last) -> Tensors {
    return {run(x, states[0], params.weight_ih, params.weight_hh, params.bias_ih, params.bias_hh, from_last)};
  });
}

GRU::GRU(std::int64_t input_size, std::int64_t hidden_size, const RecurrentOptions& options)
    : HiddenStateLayer("GRU", 3, input_size, hidden_size, options) {}

RecurrentLayer::Run GRU::run_direction(const Steps& steps, std::span<const Tensor> states,
                                       const RecurrentParams& params, bool reverse) const {
  return run_sequence_of(steps, reverse, [&](const Tensor& x, bool from_last) -> Tensors {
    return {gru_sequence(x, states[0], params.weight_ih, params.weight_hh, params.bias_ih, params.bias_hh,
                         from_last)};
  });
}

LSTM::LSTM(std::int64_t input_size, std::int64_t hidden_size, const RecurrentOptions& options)
    : RecurrentLayer("LSTM", kLstmGates, input_size, hidden_size, options) {}

LSTMOutput LSTM::forward(const Tensor& x, const LstmState& state) {
  require_both(*this, state);
  const std::array initial{state.h, state.c};
  const Run result = run(x, initial);
  return {result.output, {result.states[0], result.states[1]}};
}

PackedLSTMOutput LSTM::forward(const PackedSequence& x, const LstmState& state) {
  require_both(*this, state);
  const std::array initial{state.h, state.c};
  const Run result = run(x, initial);
  return {packed_like(x, result.output), {result.states[0], result.states[1]}};
}

namespace {

/// The steps of an LSTM with a projection, as ops. x's products of all steps are one.
Tensors projected_lstm_sequence(const Tensor& x, std::span<const Tensor> states, const RecurrentParams& of,
                                bool reverse) {
  const auto step = [&](const Tensor& own_sums, const Tensors& before) -> Tensors {
    const Tensor all = own_sums + linear(before[0], of.weight_hh, of.bias_hh);
    const Tensors gates = split(all, all.size(-1) / kLstmGates, -1);
    const Tensor c =
        sigmoid(gates[1]) * before[1].to(all.dtype()) + sigmoid(gates[0]) * mezzo::tanh(gates[2]);
    return {linear(sigmoid(gates[3]) * mezzo::tanh(c), of.weight_hr), c};
  };
  return run_steps(linear(x, of.weight_ih, of.bias_ih), {states[0], states[1]}, reverse, step);
}

}  // namespace

RecurrentLayer::Run LSTM::run_direction(const Steps& steps, std::span<const Tensor> states,
                                        const RecurrentParams& params, bool reverse) const {
  return run_sequence_of(steps, reverse, [&](const Tensor& x, bool from_last) -> Tensors {
    if (params.weight_hr.defined()) return projected_lstm_sequence(x, states, params, from_last);
    const LstmSequence found = lstm_sequence(x, {states[0], states[1]}, params.weight_ih, params.weight_hh,
                                             params.bias_ih, params.bias_hh, from_last);
    return {found.output, found.cells};
  });
}

}  // namespace mezzo::nn
