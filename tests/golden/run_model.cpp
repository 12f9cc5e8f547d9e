// Whole trainings: losses, first gradients and final parameters of small models. A family of models is one
// function here and one row in the table; the training loop is shared.
#include <array>
#include <cmath>
#include <map>
#include <optional>

#include "golden/compare.h"
#include "golden/kinds.h"
#include "golden/optimizers.h"
#include "mezzo/amp/autocast.h"
#include "mezzo/autograd/engine.h"
#include "mezzo/autograd/registry.h"
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

/// A recurrent cell over the time steps [N, T, I], and a linear layer on its last state.
Tensor rnn(const Model& model, std::int64_t call) {
  const Tensor x = model.batch("x", call);
  const auto p = [&](const char* name) { return model.parameter(name); };
  const std::string& cell = model.arch.at("cell").as_string();
  if (cell != "gru" && cell != "lstm") throw NotSupported("cell " + cell);
  Tensor h = zeros({x.size(0), p("w_hh").size(1)}, {.dtype = x.dtype(), .device = x.device()});
  LstmState state{h, h};
  for (std::int64_t t = 0; t < x.size(1); ++t) {
    const Tensor step = select(x, 1, t);
    if (cell == "gru")
      state.h = gru_cell(step, state.h, p("w_ih"), p("w_hh"), p("b_ih"), p("b_hh"));
    else
      state = lstm_cell(step, state, p("w_ih"), p("w_hh"), p("b_ih"), p("b_hh"));
  }
  return mse_loss(linear(state.h, p("w"), p("b")), model.batch("y", call));
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
  const std::int64_t batch = input.size(0), length = input.size(1), width = input.size(2);
  const std::int64_t heads = model.arch.at("heads").as_int(), depth = width / heads;
  const Tensor qkv = linear(layer_norm(input, {width}, p("ln1w"), p("ln1b")), p("wqkv"));
  Tensors parts = split(qkv, width, -1);
  for (Tensor& part : parts) part = transpose(reshape(part, {batch, length, heads, depth}), 1, 2);
  const double scale = 1.0 / std::sqrt(static_cast<double>(depth));
  const Tensor scores = add(mul(matmul(parts[0], transpose(parts[1], -2, -1)), scale), model.data.at("mask"));
  const Tensor mixed = transpose(matmul(softmax(scores, -1), parts[2]), 1, 2);
  const Tensor h = add(input, linear(reshape(mixed, {batch, length, width}), p("wo"), p("bo")));
  const GeluApproximation approximation =
      model.arch.at("gelu").as_string() == "tanh" ? GeluApproximation::tanh : GeluApproximation::none;
  const Tensor inner = linear(layer_norm(h, {width}, p("ln2w"), p("ln2b")), p("w1"), p("b1"));
  return add(h, linear(gelu(inner, approximation), p("w2"), p("b2")));
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
