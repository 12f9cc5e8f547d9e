// Recurrent layers: single cells, and RNN, GRU and LSTM over whole sequences, of several layers and in both
// directions. The steps, their formulas, dtypes and errors are in ops/recurrent.h. Names, state dicts and
// defaults are those of torch.nn.
#pragma once

#include <span>

#include "mezzo/nn/linear.h"
#include "mezzo/nn/module/slot_list.h"
#include "mezzo/nn/packed_sequence.h"
#include "mezzo/ops/recurrent.h"

namespace mezzo::nn {

/// The function of RNN and RNNCell.
enum class RNNNonlinearity : std::uint8_t { tanh, relu };

/// Weights [G H, I] and [G H, H] and biases [G H] of a cell with G gates, I input features and H hidden
/// features. With P projected features the second weight is [G H, P], and weight_hr [P, H] makes them. A base
/// or a member of modules; its slots belong to `owner`.
struct RecurrentParams {
  /// `suffix` is what follows the names "weight_ih", ...; unfilled. `projected` is P, or 0.
  RecurrentParams(Module& owner, const std::string& suffix, std::int64_t rows, std::int64_t features,
                  std::int64_t hidden, std::int64_t projected, bool biases, const TensorOptions& options);
  virtual ~RecurrentParams() = default;

  /// All uniform within 1/sqrt(H) of 0, in this order.
  void fill(Generator& generator);

  Param weight_ih;
  Param weight_hh;
  Param bias_ih;
  Param bias_hh;
  Param weight_hr;
};

// --- cells

/// Options of RNNCell, GRUCell and LSTMCell.
using RecurrentCellOptions = LinearOptions;

/// Base of the cells. A cell takes x [N, input_size] and a state [N, hidden_size], or one sample without N; a
/// state that is left out is zeros. Parameters begin uniform within 1/sqrt(hidden_size) of 0. Throws:
/// ValueError for sizes below 1; forward throws ShapeError, naming the cell's path, for an x that is not of
/// input_size, and what the op throws.
class RecurrentCell : public Module, public RecurrentParams {
 public:
  using Options = RecurrentCellOptions;
  /// Draws all parameters anew.
  void reset_parameters(Generator& generator = default_generator());
  [[nodiscard]] std::int64_t input_size() const noexcept { return input_size_; }
  [[nodiscard]] std::int64_t hidden_size() const noexcept { return hidden_size_; }
  [[nodiscard]] std::string extra_repr() const override;

 protected:
  RecurrentCell(std::string_view name, std::int64_t gates, std::int64_t input_size, std::int64_t hidden_size,
                const RecurrentCellOptions& options);
  /// Checks x, and gives the state that x begins with: `state`, or zeros where that is undefined.
  [[nodiscard]] Tensor start(const Tensor& x, const Tensor& state) const;

 private:
  std::int64_t input_size_, hidden_size_;
};

/// `rnn_tanh_cell` or `rnn_relu_cell`.
class RNNCell final : public RecurrentCell {
 public:
  RNNCell(std::int64_t input_size, std::int64_t hidden_size, const RecurrentCellOptions& options = {},
          RNNNonlinearity nonlinearity = RNNNonlinearity::tanh);
  [[nodiscard]] Tensor forward(const Tensor& x, const Tensor& h = {});
  [[nodiscard]] Tensor operator()(const Tensor& x, const Tensor& h = {}) { return call(*this, x, h); }
  [[nodiscard]] std::string extra_repr() const override;

 private:
  RNNNonlinearity nonlinearity_;
};

/// `gru_cell`.
class GRUCell final : public RecurrentCell {
 public:
  GRUCell(std::int64_t input_size, std::int64_t hidden_size, const RecurrentCellOptions& options = {});
  [[nodiscard]] Tensor forward(const Tensor& x, const Tensor& h = {});
  [[nodiscard]] Tensor operator()(const Tensor& x, const Tensor& h = {}) { return call(*this, x, h); }
};

/// `lstm_cell`. Throws: ValueError for one of h and c without the other.
class LSTMCell final : public RecurrentCell {
 public:
  LSTMCell(std::int64_t input_size, std::int64_t hidden_size, const RecurrentCellOptions& options = {});
  [[nodiscard]] LstmState forward(const Tensor& x, const LstmState& state = {});
  [[nodiscard]] LstmState operator()(const Tensor& x, const LstmState& state = {}) {
    return call(*this, x, state);
  }
};

// --- layers over sequences

/// Options of RNN, GRU and LSTM.
struct RecurrentOptions {
  std::int64_t num_layers = 1;  ///< each one reads the output of the one before
  bool bias = true;
  bool batch_first = false;    ///< x and output are [N, L, ..] and not [L, N, ..]
  double dropout = 0;          ///< of each layer's output but the last one's, in training
  bool bidirectional = false;  ///< each layer also runs from the last step to the first
  /// LSTM only: h is mapped to so many features, fewer than hidden_size; 0: it is not.
  std::int64_t proj_size = 0;
  DType dtype = DType::f32;
  Device device = Device::cpu();
  Generator* generator = nullptr;          ///< of the first values; nullptr: the default one
  Generator* dropout_generator = nullptr;  ///< of dropout's masks; nullptr: the default one
};

/// Results of RNN and GRU: h' of the last layer at every step, and of every layer after its last step.
struct RecurrentOutput {
  Tensor output;
  Tensor h_n;
};
/// Results of LSTM.
struct LSTMOutput {
  Tensor output;
  LstmState state;
};
/// Results for a PackedSequence. States are in the order of the batch, each after its sequence's last step.
struct PackedRecurrentOutput {
  PackedSequence output;
  Tensor h_n;
};
struct PackedLSTMOutput {
  PackedSequence output;
  LstmState state;
};

/// Base of RNN, GRU and LSTM. With D = 2 directions if bidirectional, else 1, and H = hidden_size: x [L, N,
/// input_size] (or [N, L, ..] if batch_first, or one sample [L, input_size]) gives the output [L, N, D H],
/// both directions of a step side by side, and states [num_layers D, N, H], the two directions of a layer one
/// after the other; of one sample [L, D H] and [num_layers D, H]. Initial states have the shape of the final
/// states; left out, they are zeros. Parameters are named weight_ih_l0, weight_hh_l0, bias_ih_l0, bias_hh_l0,
/// weight_ih_l0_reverse, ..., and begin uniform within 1/sqrt(H) of 0, drawn in this order.
///
/// An LSTM with a proj_size P gives h' = (o tanh(c')) weight_hr^T, weight_hr_l0 [P, H] after the biases: then
/// outputs and h have P for H, and c has H. A step is then several ops, in 16 bits each rounded. Source: Sak
/// et al., arXiv:1402.1128.
///
/// A PackedSequence for x (nn/packed_sequence.h) gives one for the output: each sequence ends with its own
/// last step, with which the reverse direction begins, and padding takes no part.
///
/// Throws: ValueError for sizes below 1, more than 65536 layers, a dropout outside of [0, 1], a proj_size
/// outside of [0, H) or of RNN and GRU; forward throws ShapeError, naming the layer's path, for an x or
/// states that do not fit and for no steps, ValueError for lists of a PackedSequence that do not belong
/// together, and what the op throws.
class RecurrentLayer : public Module {
 public:
  using Options = RecurrentOptions;
  /// Draws all parameters anew.
  void reset_parameters(Generator& generator = default_generator());
  /// The parameters of one layer and direction. Throws: IndexError.
  [[nodiscard]] RecurrentParams& params(std::int64_t layer, bool reverse = false);
  [[nodiscard]] std::int64_t input_size() const noexcept { return input_size_; }
  [[nodiscard]] std::int64_t hidden_size() const noexcept { return hidden_size_; }
  [[nodiscard]] std::int64_t num_layers() const noexcept { return options_.num_layers; }
  [[nodiscard]] bool is_bidirectional() const noexcept { return options_.bidirectional; }
  /// Features of h: proj_size where it is given, else hidden_size.
  [[nodiscard]] std::int64_t output_size() const noexcept {
    return options_.proj_size > 0 ? options_.proj_size : hidden_size_;
  }
  [[nodiscard]] std::string extra_repr() const override;

 protected:
  RecurrentLayer(std::string_view name, std::int64_t gates, std::int64_t input_size, std::int64_t hidden_size,
                 const RecurrentOptions& options);
  /// The output and the final states, as many as `initial`.
  struct Run {
    Tensor output;
    Tensors states;
  };
  /// The steps that a layer runs over: x [L, N, ..], or the data of a packed sequence.
  struct Steps {
    Tensor x;
    const PackedSequence* packed = nullptr;
  };
  /// All layers; undefined initial states are zeros. An LSTM has a c after h.
  [[nodiscard]] Run run(const Tensor& x, std::span<const Tensor> initial);
  [[nodiscard]] Run run(const PackedSequence& x, std::span<const Tensor> initial);
  /// One direction of one layer, from states [N, H] of the sequences in their packed order.
  [[nodiscard]] virtual Run run_direction(const Steps& steps, std::span<const Tensor> states,
                                          const RecurrentParams& params, bool reverse) const = 0;
  /// The output and the final states of run_sequence(x [L, N, I], reverse), a Tensors of the states at all
  /// steps, of which the first is the output.
  template <class RunSequence>
  [[nodiscard]] static Run run_sequence_of(const Steps& steps, bool reverse, const RunSequence& run_sequence);
  /// A packed sequence like x.
  [[nodiscard]] static PackedSequence packed_like(const PackedSequence& x, const Tensor& data);

 private:
  [[nodiscard]] Run run_layers(const Steps& steps, std::span<const Tensor> states);
  /// x as [L, N, input_size].
  [[nodiscard]] Tensor as_steps(const Tensor& x) const;
  /// Initial state number `which` (h, c) of all layers as [num_layers D, N, H].
  [[nodiscard]] Tensor start(std::size_t which, const Tensor& state, const Tensor& x, std::int64_t batch,
                             bool is_sample) const;
  [[nodiscard]] std::int64_t directions() const { return options_.bidirectional ? 2 : 1; }

  std::int64_t input_size_, hidden_size_;
  RecurrentOptions options_;
  SlotList<RecurrentParams> params_;
};

/// RNN and GRU, whose state is h alone.
class HiddenStateLayer : public RecurrentLayer {
 public:
  [[nodiscard]] RecurrentOutput forward(const Tensor& x, const Tensor& h_0 = {});
  [[nodiscard]] PackedRecurrentOutput forward(const PackedSequence& x, const Tensor& h_0 = {});
  [[nodiscard]] RecurrentOutput operator()(const Tensor& x, const Tensor& h_0 = {}) {
    return call(*this, x, h_0);
  }
  [[nodiscard]] PackedRecurrentOutput operator()(const PackedSequence& x, const Tensor& h_0 = {}) {
    return call(*this, x, h_0);
  }

 protected:
  using RecurrentLayer::RecurrentLayer;
};

/// `rnn_tanh_sequence` or `rnn_relu_sequence`.
class RNN final : public HiddenStateLayer {
 public:
  RNN(std::int64_t input_size, std::int64_t hidden_size, const RecurrentOptions& options = {},
      RNNNonlinearity nonlinearity = RNNNonlinearity::tanh);

 private:
  [[nodiscard]] Run run_direction(const Steps& steps, std::span<const Tensor> states,
                                  const RecurrentParams& params, bool reverse) const override;
  RNNNonlinearity nonlinearity_;
};

/// `gru_sequence`.
class GRU final : public HiddenStateLayer {
 public:
  GRU(std::int64_t input_size, std::int64_t hidden_size, const RecurrentOptions& options = {});

 private:
  [[nodiscard]] Run run_direction(const Steps& steps, std::span<const Tensor> states,
                                  const RecurrentParams& params, bool reverse) const override;
};

/// `lstm_sequence`; with a proj_size its steps as ops. Throws: ValueError for one of h and c without the
/// other.
class LSTM final : public RecurrentLayer {
 public:
  LSTM(std::int64_t input_size, std::int64_t hidden_size, const RecurrentOptions& options = {});
  [[nodiscard]] LSTMOutput forward(const Tensor& x, const LstmState& state = {});
  [[nodiscard]] PackedLSTMOutput forward(const PackedSequence& x, const LstmState& state = {});
  [[nodiscard]] LSTMOutput operator()(const Tensor& x, const LstmState& state = {}) {
    return call(*this, x, state);
  }
  [[nodiscard]] PackedLSTMOutput operator()(const PackedSequence& x, const LstmState& state = {}) {
    return call(*this, x, state);
  }

 private:
  [[nodiscard]] Run run_direction(const Steps& steps, std::span<const Tensor> states,
                                  const RecurrentParams& params, bool reverse) const override;
};

}  // namespace mezzo::nn
