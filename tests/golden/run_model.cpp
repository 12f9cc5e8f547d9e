// Whole trainings: losses, first gradients and final parameters of small models. A family of models is one
// function here and one row in the table; the training loop is shared.
#include <array>
#include <map>
#include <optional>

#include "golden/compare.h"
#include "golden/kinds.h"
#include "golden/optimizers.h"
#include "mezzo/amp/autocast.h"
#include "mezzo/autograd/engine.h"
#include "mezzo/autograd/registry.h"
#include "mezzo/nn/recurrent.h"
#include "mezzo/nn/transformer.h"
#include "mezzo/ops/ops.h"
#include "mezzo/optim/clip.h"

namespace mezzo::golden {

namespace {

/// Parameters and batches of a case.
struct Model {
  Value arch;
  std::vector<std::string> names;
  std::map<std::string, Tensor> parameters;
  std::map<std::string, Tensor> data;

  [[nodiscard]] const Tensor& parameter(const std::string& name) const { return parameters.at(name); }
  /// Batch `call mod count` of a data set.
  [[nodiscard]] Tensor batch(const std::string& name, std::int64_t call) const {
    const Tensor& all = data.at(name);
    return select(all, 0, call % all.size(0));
  }
};

// --- families: the loss of one call, from the case's `forward`

/// A loss by its registered name; its optional inputs are absent.
Tensor loss_named(const std::string& name, const Tensor& output, const Tensor& target) {
  const RegistryEntry* entry = find_op(name);
  if (entry == nullptr) throw NotSupported("loss " + name);
  Tensors inputs{output, target};
  inputs.resize(entry->samples().at(0).inputs.size());
  const SmallVector<TensorRef, 4> refs(inputs.begin(), inputs.end());
  return entry->call(refs, {});
}

Tensor mlp(const Model& model, std::int64_t call) {
  const std::int64_t layers = model.arch.at("layers").as_int();
  Tensor h = model.batch("x", call);
  for (std::int64_t i = 0; i < layers; ++i) {
    const std::string number = std::to_string(i);
    h = linear(h, model.parameter("w" + number), model.parameter("b" + number));
    if (i + 1 < layers) h = call_op(model.arch.at("activation").as_string(), {h});
  }
  return loss_named(model.arch.at("loss").as_string(), h, model.batch("y", call));
}

Tensor gradient_penalty(const Model& model, std::int64_t call) {
  const Tensor x = model.batch("x", call).clone();
  x.requires_grad_();
  const Tensor hidden = tanh(linear(x, model.parameter("w0"), model.parameter("b0")));
  const Tensor output = linear(hidden, model.parameter("w1"), model.parameter("b1"));
  const Tensor g = grad(sum(output), {x}, {.create_graph = true})[0];
  const Tensor norm = sqrt(add(sum(pow(g, 2), {1}), 1e-6));
  const Tensor penalty = mean(pow(sub(norm, 1.0), 2));
  return add(mse_loss(output, model.batch("y", call)), mul(penalty, model.arch.at("weight").as_double()));
}

/// Puts parameters of a model into a recurrent layer of one layer.
template <class Layer>
Layer& filled(Layer& layer, const Model& model) {
  nn::RecurrentParams& params = layer.params(0);
  params.weight_ih.set(model.parameter("w_ih"));
  params.weight_hh.set(model.parameter("w_hh"));
  params.bias_ih.set(model.parameter("b_ih"));
  params.bias_hh.set(model.parameter("b_hh"));
  return layer;
}

/// A recurrent layer over the time steps [N, T, I], and a linear layer on its last state.
Tensor rnn(const Model& model, std::int64_t call) {
  const Tensor x = model.batch("x", call);
  const std::string& cell = model.arch.at("cell").as_string();
  const std::int64_t features = x.size(2), hidden = model.parameter("w_hh").size(1);
  Tensor h;
  if (cell == "gru") {
    nn::GRU gru(features, hidden, {.batch_first = true});
    h = filled(gru, model)(x).h_n;
  } else if (cell == "lstm") {
    nn::LSTM lstm(features, hidden, {.batch_first = true});
    h = filled(lstm, model)(x).state.h;
  } else {
    throw NotSupported("cell " + cell);
  }
  return mse_loss(linear(squeeze(h, 0), model.parameter("w"), model.parameter("b")), model.batch("y", call));
}

Tensor conv_groupnorm(const Model& model, std::int64_t call) {
  const auto p = [&](const char* name) { return model.parameter(name); };
  const std::int64_t groups = model.arch.at("num_groups").as_int();
  Tensor h = conv2d(model.batch("x", call), p("c0"), {}, {.padding = 1});
  h = relu(group_norm(h, groups, p("g0"), p("h0")));
  h = conv2d(h, p("c1"), p("cb1"), {.stride = 2, .padding = 1});
  h = silu(group_norm(h, groups, p("g1"), p("h1")));
  return cross_entropy(linear(mean(h, {2, 3}), p("w"), p("b")), model.batch("y", call));
}

/// One layer of a transformer: attention and two linear layers, each behind a layer norm and added to h.
Tensor transformer_layer(const Model& model, const std::string& layer, const Tensor& input) {
  const auto p = [&](const char* name) { return model.parameter(layer + name); };
  const GeluApproximation approximation =
      model.arch.at("gelu").as_string() == "tanh" ? GeluApproximation::tanh : GeluApproximation::none;
  nn::TransformerEncoderLayer block(input.size(2), model.arch.at("heads").as_int(),
                                    {.dim_feedforward = p("w1").size(0),
                                     .dropout = 0,
                                     .activation = [=](const Tensor& x) { return gelu(x, approximation); },
                                     .batch_first = true,
                                     .norm_first = true});
  block.norm1->weight.set(p("ln1w"));
  block.norm1->bias.set(p("ln1b"));
  block.self_attn->in_proj_weight.set(p("wqkv"));
  // The model has no bias there.
  block.self_attn->in_proj_bias->requires_grad_(false);
  block.self_attn->in_proj_bias.set(
      zeros({p("wqkv").size(0)}, {.dtype = p("wqkv").dtype(), .device = input.device()}));
  block.self_attn->out_proj->weight.set(p("wo"));
  block.self_attn->out_proj->bias.set(p("bo"));
  block.norm2->weight.set(p("ln2w"));
  block.norm2->bias.set(p("ln2b"));
  block.linear1->weight.set(p("w1"));
  block.linear1->bias.set(p("b1"));
  block.linear2->weight.set(p("w2"));
  block.linear2->bias.set(p("b2"));
  return block(input, {.src_mask = model.data.at("mask")});
}

Tensor transformer(const Model& model, std::int64_t call) {
  const auto p = [&](const char* name) { return model.parameter(name); };
  const Tensor ids = model.batch("ids", call);
  Tensor h = add(embedding(ids, p("tok")), p("pos"));
  for (std::int64_t i = 0; i < model.arch.at("layers").as_int(); ++i)
    h = transformer_layer(model, "l" + std::to_string(i) + ".", h);
  const Tensor logits = linear(layer_norm(h, {h.size(2)}, p("lnfw"), p("lnfb")), p("head"));
  return cross_entropy(reshape(logits, {ids.numel(), -1}), reshape(model.batch("y", call), {-1}),
                       {.label_smoothing = model.arch.at("label_smoothing").as_double()});
}

struct Family {
  std::string_view name;
  Tensor (*loss)(const Model&, std::int64_t call);
};
constexpr std::array kFamilies{
    Family{"mlp", mlp},
    Family{"gradient_penalty", gradient_penalty},
    Family{"rnn", rnn},
    Family{"conv_groupnorm", conv_groupnorm},
    Family{"transformer", transformer},
};

const Family& family_of(const Model& model) {
  const std::string& name = model.arch.at("family").as_string();
  for (const Family& family : kFamilies) {
    if (family.name == name) return family;
  }
  throw NotSupported("model " + name);
}

// --- the training

Model load(const CaseFile& file, std::size_t index, DType dtype) {
  const Value& meta = file.meta(index);
  Model model{.arch = meta.at("arch"), .names = strings(meta, "params"), .parameters = {}, .data = {}};
  const auto in_dtype = [&](const Tensor& x) { return is_floating(x.dtype()) ? to(x, dtype) : x; };
  for (const std::string& name : model.names) {
    const Tensor parameter = in_dtype(file.tensor(index, "init." + name)).clone();
    parameter.requires_grad_();
    model.parameters.emplace(name, parameter);
  }
  for (const std::string& name : strings(meta, "data"))
    model.data.emplace(name, in_dtype(file.tensor(index, "data." + name)));
  return model;
}

/// What a training is compared by.
struct Course {
  std::vector<double> losses;
  std::map<std::string, Tensor> first_gradients;
};

/// Sum of the losses of one step's calls, each divided by their number; adds their gradients up.
double accumulate(const Model& model, const Family& family, const Value& meta, std::int64_t step) {
  const std::int64_t calls = meta.at("accum").as_int();
  const Value& autocast = meta.at("autocast");
  double total = 0;
  for (std::int64_t i = 0; i < calls; ++i) {
    Tensor loss;
    {
      std::optional<amp::Autocast> region;
      if (!autocast.is_null()) region.emplace(run_device(), dtype_of_case(autocast.as_string()));
      loss = family.loss(model, step * calls + i);
    }
    if (calls > 1) loss = div(loss, calls);
    loss.backward();
    total += loss.item();
  }
  return total;
}

Course train(const Model& model, const Value& meta) {
  const Family& family = family_of(model);
  GroupSpec group;
  std::vector<Tensor> parameters;
  for (const std::string& name : model.names) {
    group.parameters.emplace_back(name, model.parameter(name));
    parameters.push_back(model.parameter(name));
  }
  const auto optimizer = make_optimizer(meta.at("optimizer").as_string(), {group}, meta.at("args"));
  Course course;
  for (std::int64_t step = 0; step < meta.at("steps").as_int(); ++step) {
    course.losses.push_back(accumulate(model, family, meta, step));
    if (step == 0) {
      for (const std::string& name : model.names)
        course.first_gradients.emplace(name, model.parameter(name).grad().clone());
    }
    const Value& limit = meta.at("clip_grad_norm");
    if (!limit.is_null()) static_cast<void>(optim::clip_grad_norm_(parameters, limit.as_double()));
    optimizer->step();
    optimizer->zero_grad();
  }
  return course;
}

void check_losses(const char* what, const std::vector<double>& got, const Tensor& want, Tolerance allowed) {
  const std::vector<double> values = want.to_vector<double>();
  if (values.size() != got.size()) throw Mismatch(std::string(what) + ": the number of steps differs");
  for (std::size_t i = 0; i < values.size(); ++i)
    expect_close(std::string(what) + "[" + std::to_string(i) + "]", got[i], values[i], allowed);
}

}  // namespace

void run_model(const CaseFile& file, std::size_t index) {
  const Value& meta = file.meta(index);
  const Model model = load(file, index, dtype_of_case(meta.at("dtype").as_string()));
  const Course course = train(model, meta);
  const Tolerance losses = tolerance(meta, "losses");
  check_losses("losses", course.losses, file.tensor(index, "losses"), losses);
  for (const std::string& name : model.names) {
    expect_dtype("grad1." + name, course.first_gradients.at(name).dtype(), model.parameter(name).dtype());
    expect_close("grad1." + name, course.first_gradients.at(name), file.tensor(index, "grad1." + name),
                 tolerance(meta, "grad1"));
    expect_close("final." + name, model.parameter(name).detach(), file.tensor(index, "final." + name),
                 tolerance(meta, "final"));
  }
  if (!meta.at("autocast").is_null()) return;
  // The same training in f64, which both sides do with hardly any rounding.
  const Course wide = train(load(file, index, DType::f64), meta);
  check_losses("losses_f64", wide.losses, file.tensor(index, "losses_f64"), losses);
}

}  // namespace mezzo::golden
