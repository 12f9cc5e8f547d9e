// LoRA: the adapters of a layer, and the surgery of whole models.
#include "mezzo/nn/lora.h"

#include <algorithm>
#include <cmath>

#include "mezzo/autograd/input_hook.h"
#include "mezzo/core/error.h"
#include "mezzo/core/value.h"
#include "mezzo/nn/init.h"
#include "mezzo/nn/layers/layer_support.h"
#include "mezzo/nn/module/path_pattern.h"
#include "mezzo/nn/module/walk.h"
#include "mezzo/nn/surgery/operation.h"
#include "mezzo/ops/ops.h"

namespace mezzo::nn {

// --- one layer

double LoraLayer::scaling() const {
  const auto rank = static_cast<double>(options_.rank);
  return options_.alpha / (options_.rank_stabilized ? std::sqrt(rank) : rank);
}

std::string LoraLayer::lora_repr() const {
  std::string text =
      ", rank=" + std::to_string(options_.rank) + ", alpha=" + Value(options_.alpha).to_string();
  if (options_.dropout != 0) text += ", dropout=" + Value(options_.dropout).to_string();
  return text + (is_merged() ? ", merged" : "");
}

namespace {

void check_lora(const LoraOptions& options) {
  detail::at_least_one("apply_lora", "rank", options.rank);
  if (!std::isfinite(options.alpha))
    throw ValueError("apply_lora", "a finite alpha", Value(options.alpha).to_string(), "often 2 rank");
  if (!(options.dropout >= 0 && options.dropout < 1)) {
    throw ValueError("apply_lora", "a dropout in [0, 1)", Value(options.dropout).to_string(),
                     "leave it out for none");
  }
  if (!is_floating(options.dtype) || is_float8(options.dtype)) {
    throw ValueError("apply_lora", "adapters of f32, f16, bf16 or f64", to_string(options.dtype),
                     "f32 is what optimizers do best with");
  }
}

}  // namespace

template <Adaptable L>
Lora<L>::Lora(const L& layer, const LoraOptions& options)
    : L(layer, ShareTensors{}),
      LoraLayer(options),
      lora_A(*this, "lora_A"),
      lora_B(*this, "lora_B"),
      lora_embedding_A(*this, "lora_embedding_A", Tensor()),
      lora_embedding_B(*this, "lora_embedding_B", Tensor()) {
  check_lora(options);
  const Tensor& base = this->weight;
  const std::int64_t rank = options.rank;
  const TensorOptions like{.dtype = options.dtype, .device = base.device()};
  if constexpr (std::same_as<L, Embedding>) {
    if (this->max_norm()) {
      throw ValueError("apply_lora", "an Embedding without max_norm, which writes to its weight",
                       layer.described(), "leave it out of the targets");
    }
    lora_embedding_A.set(zeros({rank, base.size(0)}, like));
    lora_embedding_B.set(randn({base.size(1), rank}, like, detail::or_default(options.generator)));
  } else if constexpr (std::same_as<L, Linear>) {
    const LinearOptions of_adapters{
        .bias = false, .dtype = like.dtype, .device = like.device, .generator = options.generator};
    lora_A.replace(make<Linear>(this->in_features(), rank, of_adapters));
    lora_B.replace(make<Linear>(rank, this->out_features(), of_adapters));
  } else {
    const auto& c = this->config();
    if (rank % c.groups != 0) {
      throw ValueError(
          "apply_lora",
          "a rank that the " + std::to_string(c.groups) + " groups of " + layer.described() + " divide",
          std::to_string(rank), "leave it out of the targets");
    }
    ConvLayerOptions of_adapters{
        .bias = false, .dtype = like.dtype, .device = like.device, .generator = options.generator};
    of_adapters.groups = c.groups;
    lora_B.replace(make<Conv2d>(rank, c.out_channels, 1, of_adapters));
    of_adapters.groups = 1;
    of_adapters.stride = c.stride;
    of_adapters.padding = c.padding;
    of_adapters.dilation = c.dilation;
    of_adapters.padding_mode = c.padding_mode;
    lora_A.replace(make<Conv2d>(c.in_channels, rank, c.kernel_size, of_adapters));
  }
  if (lora_B) init::zeros_(lora_B->weight);
  this->train(layer.is_training());
}

template <Adaptable L>
std::string Lora<L>::type_name() const {
  return "Lora" + (std::same_as<L, Conv2d> ? "Conv2d" : detail::type_text(typeid(L)));
}

template <Adaptable L>
Tensor Lora<L>::forward(const Tensor& x) {
  Tensor base = L::forward(x);
  if (is_merged()) return base;
  Tensor added;
  if constexpr (std::same_as<L, Embedding>) {
    added = linear(this->rows_of(t(lora_embedding_A), x), lora_embedding_B);
  } else {
    const LoraOptions& options = lora_options();
    const Tensor in = dropout(x.to(lora_A->weight.dtype()), options.dropout, this->is_training(),
                              detail::or_default(options.generator));
    added = lora_B(lora_A(in));
  }
  return add(base, added, scaling()).to(base.dtype());
}

template <Adaptable L>
Tensor Lora<L>::delta_weight() const {
  const NoInputHook no_autocast;
  require_one_group();
  if constexpr (std::same_as<L, Embedding>) {
    return t(matmul(lora_embedding_B, lora_embedding_A)) * scaling();
  } else {
    const Tensor product = matmul(flatten(lora_B->weight, 1), flatten(lora_A->weight, 1));
    return reshape(product, this->weight.shape()) * scaling();
  }
}

template <Adaptable L>
void Lora<L>::require_one_group() const {
  if constexpr (std::same_as<L, Conv2d>) {
    if (this->config().groups == 1) return;
    throw StateError("merge_lora", "layers of one group", this->described() + ", whose adapters read all",
                     "use it unmerged, or leave it out of the targets");
  }
}

template <Adaptable L>
void Lora<L>::require_mergeable() const {
  require_one_group();
  if (!is_merged()) return;
  throw StateError("merge_lora", "adapters that are not merged", "those of " + this->described(),
                   "unmerge_lora first");
}

template <Adaptable L>
void Lora<L>::merge() {
  require_mergeable();
  const PlainOps plain_ops;
  const Tensor merged = add(this->weight, delta_weight()).to(this->weight.dtype());
  kept.set(this->weight);
  this->weight.set(merged);
}

template <Adaptable L>
void Lora<L>::unmerge() {
  if (!is_merged())
    throw StateError("unmerge_lora", "merged adapters", this->described() + " without", "merge_lora first");
  this->weight.set(Tensor(kept));
  kept.set(Tensor());
}

template <Adaptable L>
std::shared_ptr<Module> Lora<L>::plain() const {
  return make<L>(static_cast<const L&>(*this), ShareTensors{});
}

template class Lora<Linear>;
template class Lora<Embedding>;
template class Lora<Conv2d>;

// --- models

namespace {

using surgery::PointerSet;

/// The layers with adapters, each once.
template <class M>
auto adapted(M& model) {
  using Layer = std::conditional_t<std::is_const_v<M>, const LoraLayer, LoraLayer>;
  std::vector<std::pair<std::string, Layer*>> found;
  for (const auto& [path, module] : model.named_modules()) {
    if (auto* const layer = dynamic_cast<Layer*>(module)) found.emplace_back(path, layer);
  }
  return found;
}

/// Those of a model that must have some.
template <class M>
auto require_adapted(const char* op, M& model) {
  auto found = adapted(model);
  if (found.empty())
    throw StateError(op, "a model with adapters", model.described(), "call apply_lora first");
  return found;
}

/// The adapters' tensors, by name within the layer.
NamedTensors adapters_of(const LoraLayer& layer) {
  NamedTensors adapters = layer.module().named_parameters();
  std::erase_if(adapters, [](const auto& entry) { return !entry.first.starts_with("lora_"); });
  return adapters;
}

bool takes_adapters(const Module& module) {
  return dynamic_cast<const Linear*>(&module) != nullptr ||
         dynamic_cast<const Embedding*>(&module) != nullptr ||
         dynamic_cast<const Conv2d*>(&module) != nullptr;
}

/// The layers below `model` that the targets name. Throws: ValueError for a target that names none.
PointerSet named_by(const std::vector<std::string>& targets, const Module& model) {
  if (targets.empty())
    throw ValueError("apply_lora", "targets", "none", "name layers by their paths: {\"attn.*\", \"fc1\"}");
  PointerSet named;
  for (const std::string& target : targets) {
    static_cast<void>(detail::path_pattern("apply_lora", target));  // an error shows what was given
    const std::regex pattern = detail::path_pattern("apply_lora", "(?:.*\\.)?(?:" + target + ")");
    bool names_some = false;
    detail::walk(model, [&](const std::string& path, const Module& module) {
      if (&module != &model && takes_adapters(module) && std::regex_match(path, pattern)) {
        named.insert(&module);
        names_some = true;
      }
      return dynamic_cast<const LoraLayer*>(&module) == nullptr;
    });
    if (names_some) continue;
    throw ValueError("apply_lora", "targets that name a Linear, Embedding or Conv2d",
                     "'" + target + "', which names none of " + model.described(),
                     "print the model to see its paths");
  }
  return named;
}

template <Adaptable L>
surgery::Rule adapting_rule(const PointerSet& named, const LoraOptions& options) {
  surgery::Rule rule = surgery::of_type<L>(
      [&options](L& layer) -> surgery::Decision { return make<Lora<L>>(layer, options); });
  rule.matches = [&named](const Module& module) {
    return dynamic_cast<const L*>(&module) != nullptr && named.contains(&module);
  };
  return rule;
}

template <Adaptable L>
surgery::Rule removing_rule() {
  return surgery::of_type<Lora<L>>([](Lora<L>& layer) { return layer.plain(); });
}

}  // namespace

surgery::Report apply_lora(Module& model, const LoraOptions& options) {
  const PointerSet named = named_by(options.targets, model);
  surgery::Report report =
      surgery::replace(model,
                       {adapting_rule<Linear>(named, options), adapting_rule<Embedding>(named, options),
                        adapting_rule<Conv2d>(named, options)},
                       {.keep_dtype = true});
  PointerSet adapters;
  for (const auto& [path, layer] : adapted(model)) {
    for (const auto& [name, tensor] : adapters_of(*layer)) adapters.insert(&tensor.impl());
  }
  for (const Tensor& parameter : model.parameters()) {
    if (!adapters.contains(&parameter.impl())) parameter.requires_grad_(false);
  }
  return report;
}

bool has_lora(const Module& model) { return !adapted(model).empty(); }

NamedTensors lora_state_dict(const Module& model) {
  NamedTensors state;
  for (const auto& [path, layer] : require_adapted("lora_state_dict", model)) {
    const std::string prefix = std::string(kPeftPrefix) + (path.empty() ? "" : path + ".");
    for (const auto& [name, tensor] : adapters_of(*layer)) state.emplace_back(prefix + name, tensor.detach());
  }
  return state;
}

void load_lora(Module& model, const NamedTensors& state) {
  for (const auto& [path, layer] : require_adapted("load_lora", model)) {
    if (layer->is_merged()) {
      throw StateError("load_lora", "adapters that are not merged", "those of " + layer->module().described(),
                       "unmerge_lora first");
    }
  }
  NamedTensors wanted = lora_state_dict(model);
  std::vector<std::pair<Tensor, Tensor>> copies;
  for (const auto& [full_name, value] : state) {
    const std::string name =
        full_name.starts_with(kPeftPrefix) ? full_name : std::string(kPeftPrefix) + full_name;
    const auto adapter =
        std::find_if(wanted.begin(), wanted.end(), [&](const auto& entry) { return entry.first == name; });
    if (adapter == wanted.end()) {
      throw ValueError("load_lora", "names of the model's adapters, each once", "'" + full_name + "'",
                       "apply_lora to the layers that were trained");
    }
    const auto& tensor = adapter->second;
    if (!value.defined() || value.shape() != tensor.shape()) {
      throw ValueError("load_lora", "'" + full_name + "' of shape " + to_string(tensor.shape()),
                       value.defined() ? to_string(value.shape()) : "an undefined tensor",
                       "apply_lora with the rank that was trained");
    }
    copies.emplace_back(tensor, value);
    wanted.erase(adapter);
  }
  if (!wanted.empty()) {
    throw ValueError(
        "load_lora", "values for all adapters",
        "none for '" + wanted.front().first + "' and " + std::to_string(wanted.size() - 1) + " others",
        "apply_lora to the layers that were trained");
  }
  const PlainOps plain_ops;
  for (const auto& [adapter, value] : copies) static_cast<void>(adapter.copy_(value));
}

void merge_lora(Module& model) {
  const auto layers = require_adapted("merge_lora", model);
  for (const auto& [path, layer] : layers) layer->require_mergeable();
  for (const auto& [path, layer] : layers) layer->merge();
}

void unmerge_lora(Module& model) {
  std::size_t merged = 0;
  for (const auto& [path, layer] : require_adapted("unmerge_lora", model)) {
    if (!layer->is_merged()) continue;
    layer->unmerge();
    ++merged;
  }
  if (merged == 0)
    throw StateError("unmerge_lora", "merged adapters", model.described() + " without", "merge_lora first");
}

surgery::Report remove_lora(Module& model) {
  return surgery::replace(model,
                          {removing_rule<Linear>(), removing_rule<Embedding>(), removing_rule<Conv2d>()});
}

}  // namespace mezzo::nn
