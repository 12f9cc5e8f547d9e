// Recurrent cells: one step from a state and an input to the next state (torch.rnn_tanh_cell, ...), and all
// steps of a sequence in one op.
//
// Common contract, with I input features and H hidden ones. Shapes: x is [N, I], a state [N, H]; or, for one
// sample, [I] and [H], and so are the results then. w_ih is [G H, I], w_hh [G H, H] and the biases [G H] or
// undefined, for a cell of G gates, whose rows lie one after the other. Dtypes: all share one floating dtype
// (DTypeError), as do the results. Both products of all gates are added up unrounded (in f32 for 16-bit
// types), and rounded after the nonlinearities only. All run in the low precision of an autocast region;
// gradients come out in the dtype of the tensor they belong to. Differentiable to any order. Throws:
// ShapeError for sizes that do not fit.
//
// The registered ops take matrices only. The ops lstm_cell and gru_cell have one more result at the end: the
// gates, which backward needs, differentiable like the other results. The op lstm_sequence gives h', c' and
// the gates of all steps, the op gru_sequence h' and the gates.
#pragma once

#include "mezzo/core/tensor.h"

namespace mezzo {

/// tanh(x w_ih^T + b_ih + h w_hh^T + b_hh); G is 1.
[[nodiscard]] Tensor rnn_tanh_cell(const Tensor& x, const Tensor& h, const Tensor& w_ih, const Tensor& w_hh,
                                   const Tensor& b_ih = {}, const Tensor& b_hh = {});
/// max(x w_ih^T + b_ih + h w_hh^T + b_hh, 0); G is 1.
[[nodiscard]] Tensor rnn_relu_cell(const Tensor& x, const Tensor& h, const Tensor& w_ih, const Tensor& w_hh,
                                   const Tensor& b_ih = {}, const Tensor& b_hh = {});

/// (1 - z) n + z h, with the gates r, z, n in the order of the weights' rows, G is 3:
/// r = sigmoid(x w_ir^T + b_ir + h w_hr^T + b_hr), z likewise with its own rows, and n = tanh(x w_in^T + b_in
/// + r (h w_hn^T + b_hn)).
[[nodiscard]] Tensor gru_cell(const Tensor& x, const Tensor& h, const Tensor& w_ih, const Tensor& w_hh,
                              const Tensor& b_ih = {}, const Tensor& b_hh = {});

/// The three cells above over the steps of x, each beginning with the state after the one before; `reverse`:
/// from the last step to the first. x's products of all steps are one product, and so are the gradients of
/// both weights.
/// Shapes: x [L, N, I], L at least 1; h [N, H] -> h' of all steps [L, N, H].
[[nodiscard]] Tensor rnn_tanh_sequence(const Tensor& x, const Tensor& h, const Tensor& w_ih,
                                       const Tensor& w_hh, const Tensor& b_ih = {}, const Tensor& b_hh = {},
                                       bool reverse = false);
[[nodiscard]] Tensor rnn_relu_sequence(const Tensor& x, const Tensor& h, const Tensor& w_ih,
                                       const Tensor& w_hh, const Tensor& b_ih = {}, const Tensor& b_hh = {},
                                       bool reverse = false);
[[nodiscard]] Tensor gru_sequence(const Tensor& x, const Tensor& h, const Tensor& w_ih, const Tensor& w_hh,
                                  const Tensor& b_ih = {}, const Tensor& b_hh = {}, bool reverse = false);

/// The state of an LSTM cell.
struct LstmState {
  Tensor h, c;
};
/// h' = o tanh(c'), c' = f c + i g, with the gates i, f, g, o in the order of the weights' rows, G is 4: each
/// is sigmoid (g: tanh) of x w^T + b_ih + h w^T + b_hh.
[[nodiscard]] LstmState lstm_cell(const Tensor& x, const LstmState& state, const Tensor& w_ih,
                                  const Tensor& w_hh, const Tensor& b_ih = {}, const Tensor& b_hh = {});

/// Results of lstm_sequence: h' of all steps [L, N, H], the state after the last one, and c' of all steps.
struct LstmSequence {
  Tensor output;
  LstmState state;
  Tensor cells;
};
/// lstm_cell over the steps of x, as gru_sequence runs gru_cell.
/// Shapes: x [L, N, I], L at least 1; h and c [N, H] -> output and cells [L, N, H], h and c [N, H].
[[nodiscard]] LstmSequence lstm_sequence(const Tensor& x, const LstmState& state, const Tensor& w_ih,
                                         const Tensor& w_hh, const Tensor& b_ih = {}, const Tensor& b_hh = {},
                                         bool reverse = false);

}  // namespace mezzo
