// Convolutions, poolings, norms, attention and recurrent layers of ONNX by mezzo's ops.
#include <cmath>
#include <limits>

#include "onnx/node_call.h"

namespace mezzo::onnx::testing {

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

Dims ones_of(std::size_t n) { return Dims(n, 1); }
Dims list_or(At& at, const char* name, const Dims& otherwise) {
  const Integers given = at.list(name);
  return given.empty() ? otherwise : dims_of(given);
}
/// x with the pads of a node around it; begins, then ends.
Tensor around(const Tensor& x, const Integers& pads, double value) {
  IntList pairs;
  for (std::size_t d = pads.size() / 2; d-- > 0;) {
    pairs.push_back(pads[d]);
    pairs.push_back(pads[pads.size() / 2 + d]);
  }
  return pads.empty() ? x : pad(x, pairs, PadMode::constant, value);
}

Tensor convolved(At& at) {
  const std::size_t spatial = static_cast<std::size_t>(at[0].dim()) - 2;
  const Dims stride = list_or(at, "strides", ones_of(spatial)),
             dilation = list_or(at, "dilations", ones_of(spatial));
  const std::int64_t groups = at.integer("group", 1);
  const Tensor x = around(at[0], at.list("pads"), 0), bias = at.has(2) ? at[2] : Tensor();
  const ConvOptions options{.stride = stride, .dilation = dilation, .groups = groups};
  return spatial == 1   ? conv1d(x, at[1], bias, options)
         : spatial == 2 ? conv2d(x, at[1], bias, options)
                        : conv3d(x, at[1], bias, options);
}
Tensor transposed(At& at) {
  const std::size_t spatial = static_cast<std::size_t>(at[0].dim()) - 2;
  const Integers pads = at.list("pads");
  const Dims half = dims_of(Integers(pads.begin(), pads.begin() + static_cast<std::ptrdiff_t>(spatial)));
  const ConvTransposeOptions options{.stride = list_or(at, "strides", ones_of(spatial)),
                                     .padding = half,
                                     .output_padding = list_or(at, "output_padding", Dims(spatial, 0)),
                                     .groups = at.integer("group", 1),
                                     .dilation = list_or(at, "dilations", ones_of(spatial))};
  const Tensor bias = at.has(2) ? at[2] : Tensor();
  return spatial == 1   ? conv_transpose1d(at[0], at[1], bias, options)
         : spatial == 2 ? conv_transpose2d(at[0], at[1], bias, options)
                        : conv_transpose3d(at[0], at[1], bias, options);
}

/// Pads that are equal on both sides, one per dim; others are put around x itself, as `value`.
Dims one_side(Tensor& x, const Integers& pads, double value) {
  const std::size_t spatial = static_cast<std::size_t>(x.dim()) - 2;
  const Integers begins(pads.begin(), pads.begin() + static_cast<std::ptrdiff_t>(pads.size() / 2));
  const Integers ends(pads.begin() + static_cast<std::ptrdiff_t>(pads.size() / 2), pads.end());
  if (!pads.empty() && begins == ends) return dims_of(begins);
  x = around(x, pads, value);
  return Dims(spatial, 0);
}
Results max_pooled(At& at) {
  const std::size_t spatial = static_cast<std::size_t>(at[0].dim()) - 2;
  Tensor x = at[0];
  const Dims padding = one_side(x, at.list("pads"), -kInfinity);
  const MaxPoolOptions options{.kernel_size = dims_of(at.list("kernel_shape")),
                               .stride = list_or(at, "strides", ones_of(spatial)),
                               .padding = padding,
                               .dilation = list_or(at, "dilations", ones_of(spatial)),
                               .ceil_mode = at.integer("ceil_mode", 0) == 1};
  const ValuesIndices found = spatial == 1   ? max_pool1d_with_indices(x, options)
                              : spatial == 2 ? max_pool2d_with_indices(x, options)
                                             : max_pool3d_with_indices(x, options);
  // Counted over all of the input.
  std::int64_t channel = 1;
  for (std::size_t d = 2; d < spatial + 2; ++d) channel *= at[0].size(static_cast<std::int64_t>(d));
  Shape rows{at[0].size(0), at[0].size(1)};
  for (std::size_t d = 0; d < spatial; ++d) rows.push_back(1);
  const Tensor begins = reshape(arange(at[0].size(0) * at[0].size(1)) * channel, rows);
  return {found.values, found.indices + begins};
}
Tensor average_pooled(At& at) {
  const std::size_t spatial = static_cast<std::size_t>(at[0].dim()) - 2;
  Tensor x = at[0], ones = ones_like(at[0]);
  const Integers pads = at.list("pads");
  const bool counts = at.integer("count_include_pad", 0) == 1;
  const Dims padding = one_side(x, pads, 0);
  const bool is_around = x.shape() != at[0].shape();
  if (is_around) ones = around(ones, pads, counts ? 1 : 0);
  const AvgPoolOptions options{.kernel_size = dims_of(at.list("kernel_shape")),
                               .stride = list_or(at, "strides", ones_of(spatial)),
                               .padding = padding,
                               .ceil_mode = at.integer("ceil_mode", 0) == 1,
                               .count_include_pad = counts};
  const auto pooled = [&](const Tensor& y) {
    return spatial == 1   ? avg_pool1d(y, options)
           : spatial == 2 ? avg_pool2d(y, options)
                          : avg_pool3d(y, options);
  };
  return is_around ? pooled(x) / pooled(ones) : pooled(x);
}
Dims all_spatial(const Tensor& x) {
  Dims dims;
  for (std::int64_t d = 2; d < x.dim(); ++d) dims.push_back(d);
  return dims;
}

Tensor resized(At& at) {
  const std::string mode = at.text("mode", "nearest"),
                    where = at.text("coordinate_transformation_mode", "half_pixel");
  const std::string nearest = at.text("nearest_mode", "");
  const bool aligns = where == "align_corners";
  static_cast<void>(at.real("cubic_coeff_a", -0.75F));
  InterpolateOptions options;
  options.antialias = at.integer("antialias", 0) == 1;
  if (options.antialias != (at.integer("exclude_outside", 0) == 1)) fail("a filter that is not written");
  if (mode == "nearest") {
    options.mode = nearest == "floor" ? InterpolateMode::nearest : InterpolateMode::nearest_exact;
    if ((where == "asymmetric") != (nearest == "floor")) fail("a way to the nearest that is not written");
  } else {
    options.mode = mode == "cubic"    ? InterpolateMode::bicubic
                   : at[0].dim() == 3 ? InterpolateMode::linear
                   : at[0].dim() == 4 ? InterpolateMode::bilinear
                                      : InterpolateMode::trilinear;
    if (!options.antialias) options.align_corners = aligns;
  }
  const Tensor& given = at.has(3) ? at[3] : at[2];
  const std::vector<double> numbers = given.to_vector<double>();
  if (at.has(3)) {
    Dims sizes;
    for (std::size_t d = 2; d < numbers.size(); ++d) sizes.push_back(static_cast<std::int64_t>(numbers[d]));
    options.size = sizes;
  } else if (numbers.size() == 3) {
    options.scale_factor = {numbers[2]};
  } else if (numbers.size() == 4) {
    options.scale_factor = {numbers[2], numbers[3]};
  } else {
    options.scale_factor = {numbers[2], numbers[3], numbers[4]};
  }
  return interpolate(at[0], options);
}

Tensor last_normed(At& at, bool centered) {
  const std::int64_t axis = at.integer("axis", -1);
  static_cast<void>(at.integer("stash_type", 1));
  const Shape& shape = at[0].shape();
  const Shape normalized(std::span<const std::int64_t>(shape.begin() + axis, shape.end()));
  const double eps = at.real("epsilon", 1e-5F);
  return centered ? layer_norm(at[0], normalized, at[1], at.has(2) ? at[2] : Tensor(), eps)
                  : rms_norm(at[0], normalized, at[1], eps);
}

/// The gates' rows of [1, rows..] in the order of mezzo's ops.
Tensor gates_of(const Tensor& weight, const Integers& order, std::int64_t parts = 1) {
  const Tensor rows = squeeze(weight, 0);
  Tensors found;
  const std::int64_t gate = rows.size(0) / parts / static_cast<std::int64_t>(order.size());
  for (const std::int64_t one : order) found.push_back(narrow(rows, 0, one * gate, gate));
  return cat(found, 0);
}
struct Recurrent {
  Tensor x, w_ih, w_hh, b_ih, b_hh, h;
  bool reverse;
};
Recurrent recurrent_of(At& at, const Integers& order) {
  Recurrent result;
  result.x = at[0], result.w_ih = gates_of(at[1], order), result.w_hh = gates_of(at[2], order);
  const std::int64_t hidden = at.integer("hidden_size", 0),
                     rows = hidden * static_cast<std::int64_t>(order.size());
  if (at.has(3)) {
    result.b_ih = gates_of(narrow(at[3], 1, 0, rows), order);
    result.b_hh = gates_of(narrow(at[3], 1, rows, rows), order);
  }
  const Shape state{1, at[0].size(1), hidden};
  result.h = squeeze(at.has(5) ? at[5] : zeros(state, {.dtype = at[0].dtype()}), 0);
  result.reverse = at.text("direction", "forward") == "reverse";
  return result;
}
/// Y, then the last of each list of states.
Results states_of(const Results& all, bool reverse) {
  Results results{unsqueeze(all[0], 1)};
  for (const Tensor& states : all)
    results.push_back(unsqueeze(select(states, 0, reverse ? 0 : states.size(0) - 1), 0));
  return results;
}
Results rnn(At& at) {
  const Recurrent in = recurrent_of(at, {0});
  const bool is_relu = at.get<std::vector<std::string>>("activations", {"Tanh"})[0] == "Relu";
  const auto run = is_relu ? rnn_relu_sequence : rnn_tanh_sequence;
  return states_of({run(in.x, in.h, in.w_ih, in.w_hh, in.b_ih, in.b_hh, in.reverse)}, in.reverse);
}
Results gru(At& at) {
  if (at.integer("linear_before_reset", 0) != 1) fail("a GRU of the other kind");
  const Recurrent in = recurrent_of(at, {1, 0, 2});
  return states_of({gru_sequence(in.x, in.h, in.w_ih, in.w_hh, in.b_ih, in.b_hh, in.reverse)}, in.reverse);
}
Results lstm(At& at) {
  const Recurrent in = recurrent_of(at, {0, 2, 3, 1});
  const Tensor c = at.has(6) ? squeeze(at[6], 0) : zeros_like(in.h);
  const auto all = lstm_sequence(in.x, {in.h, c}, in.w_ih, in.w_hh, in.b_ih, in.b_hh, in.reverse);
  return states_of({all.output, all.cells}, in.reverse);
}

}  // namespace

Ops layer_ops() {
  return {
      {"Conv", [](At& at) -> Results { return {convolved(at)}; }},
      {"ConvTranspose", [](At& at) -> Results { return {transposed(at)}; }},
      {"MaxPool", max_pooled},
      {"AveragePool", [](At& at) -> Results { return {average_pooled(at)}; }},
      {"GlobalAveragePool", [](At& at) -> Results { return {mean(at[0], all_spatial(at[0]), true)}; }},
      {"GlobalMaxPool", [](At& at) -> Results { return {amax(at[0], all_spatial(at[0]), true)}; }},
      {"Resize", [](At& at) -> Results { return {resized(at)}; }},
      {"GridSample",
       [](At& at) -> Results {
         const std::string mode = at.text("mode", "bilinear"), padding = at.text("padding_mode", "zeros");
         return {grid_sample(at[0], at[1],
                             {.mode = mode == "nearest" ? GridSampleMode::nearest : GridSampleMode::bilinear,
                              .padding_mode = padding == "zeros"    ? GridPadding::zeros
                                              : padding == "border" ? GridPadding::border
                                                                    : GridPadding::reflection,
                              .align_corners = at.integer("align_corners", 0) == 1})};
       }},
      {"BatchNormalization",
       [](At& at) -> Results {
         return {batch_norm(at[0], at[3], at[4], at[1], at[2], false, 0.1, at.real("epsilon", 1e-5F))};
       }},
      {"InstanceNormalization",
       [](At& at) -> Results {
         return {group_norm(at[0], at[0].size(1), at[1], at[2], at.real("epsilon", 1e-5F))};
       }},
      {"GroupNormalization",
       [](At& at) -> Results {
         return {group_norm(at[0], at.integer("num_groups", 1), at[1], at[2], at.real("epsilon", 1e-5F))};
       }},
      {"LayerNormalization", [](At& at) -> Results { return {last_normed(at, true)}; }},
      {"RMSNormalization", [](At& at) -> Results { return {last_normed(at, false)}; }},
      {"Attention",
       [](At& at) -> Results {
         const double plain = 1 / std::sqrt(static_cast<double>(at[0].size(-1)));
         const double scale = at.real("scale", static_cast<float>(plain));
         Tensor scores = matmul(at[0], transpose(at[1], -1, -2)).to(DType::f32) * scale;
         if (at.integer("is_causal", 0) == 1) {
           const Tensor mask = tril(ones(scores.shape(), {.dtype = DType::boolean}));
           scores = masked_fill(scores, logical_not(mask), -kInfinity);
         }
         return {matmul(softmax(scores, -1).to(at[2].dtype()), at[2])};
       }},
      {"RNN", rnn},
      {"GRU", gru},
      {"LSTM", lstm},
  };
}

}  // namespace mezzo::onnx::testing
