// weight_norm and spectral_norm: the formulas, the layers that use them, and the surgery of whole models.
#include "mezzo/nn/parametrizations.h"

#include "mezzo/autograd/checkpoint.h"
#include "mezzo/autograd/grad_mode.h"
#include "mezzo/autograd/input_hook.h"
#include "mezzo/core/error.h"
#include "mezzo/core/value.h"
#include "mezzo/nn/layers/layer_support.h"
#include "mezzo/ops/ops.h"

namespace mezzo::nn {

namespace {

/// Norms of v over all dims but `dim`, which are kept with size 1; of all dims, 0-dim, for -1.
Tensor norm_except(const Tensor& v, std::int64_t dim) {
  if (dim == -1) return norm(v);
  Dims others;
  for (std::int64_t d = 0; d < v.dim(); ++d) {
    if (d != dim) others.push_back(d);
  }
  return others.empty() ? abs(v) : norm(v, 2, others, true);
}

std::int64_t checked_dim(const char* op, std::int64_t dim, const Tensor& weight) {
  if (dim == -1) return dim;
  return layout::wrap_dim(op, dim, weight.shape().size());
}

}  // namespace

// --- weight_norm

NormedWeight::NormedWeight(const Tensor& weight, std::int64_t dim)
    : original0(*this, "original0", Tensor()),
      original1(*this, "original1", Tensor()),
      dim_(checked_dim("weight_norm", dim, weight)) {
  const bool trained = weight.requires_grad();
  original0.set(norm_except(weight.detach(), dim_));
  original0.get().requires_grad_(trained);
  original1.set(weight);
  original1.get().requires_grad_(trained);
}

Tensor NormedWeight::forward() {
  const NoInputHook no_autocast;
  return mul(original1, div(original0, norm_except(original1, dim_)));
}

std::string NormedWeight::extra_repr() const { return "dim=" + std::to_string(dim_); }

// --- spectral_norm

SingularVectors::SingularVectors(const Tensor& first_u, const Tensor& first_v)
    : u(*this, "_u", first_u), v(*this, "_v", first_v) {}

SpectralWeight::SpectralWeight(const Tensor& weight, std::int64_t dim, const SpectralNormOptions& options)
    : original(*this, "original", Tensor()),
      vectors(*this, "0"),
      dim_(layout::wrap_dim("spectral_norm", dim, weight.shape().size())),
      iterations_(options.n_power_iterations),
      eps_(options.eps) {
  if (iterations_ < 1) {
    throw ValueError("spectral_norm", "at least 1 power iteration", std::to_string(iterations_),
                     "the default is 1");
  }
  if (!(eps_ > 0))
    throw ValueError("spectral_norm", "eps > 0", Value(eps_).to_string(), "the default is 1e-12");
  const bool trained = weight.requires_grad();
  original.set(weight);
  original.get().requires_grad_(trained);
  if (weight.dim() < 2) return;
  constexpr std::int64_t kFirstIterations = 15;
  const NoGrad no_grad;
  const Tensor matrix = as_matrix(weight);
  Generator& generator = detail::or_default(options.generator);
  const TensorOptions like{.dtype = weight.dtype(), .device = weight.device()};
  const Tensor u = normalize(randn({matrix.size(0)}, like, generator), 2, 0, eps_);
  const Tensor v = normalize(randn({matrix.size(1)}, like, generator), 2, 0, eps_);
  vectors.replace(make<SingularVectors>(u, v));
  iterate(matrix, kFirstIterations);
}

Tensor SpectralWeight::as_matrix(const Tensor& weight) const {
  return flatten(dim_ == 0 ? weight : movedim(weight, dim_, 0), 1);
}

void SpectralWeight::iterate(const Tensor& matrix, std::int64_t count) {
  const NoGrad no_grad;
  for (std::int64_t i = 0; i < count; ++i) {
    vectors->u.get().copy_(normalize(mv(matrix, vectors->v), 2, 0, eps_));
    vectors->v.get().copy_(normalize(mv(t(matrix), vectors->u), 2, 0, eps_));
  }
}

Tensor SpectralWeight::forward() {
  const NoInputHook no_autocast;
  if (original->dim() < 2) return normalize(original, 2, 0, eps_);
  const Tensor matrix = as_matrix(original);
  // Clones, as the next forward writes to the vectors.
  const Tensor u = autograd::keep_for_recomputation([&] {
    if (is_training()) iterate(matrix.detach(), iterations_);
    return mezzo::clone(vectors->u);
  });
  const Tensor v = autograd::keep_for_recomputation([&] { return mezzo::clone(vectors->v); });
  const Tensor sigma = dot(u, mv(matrix, v));
  return div(original, sigma);
}

// --- layers

namespace detail {

void require_plain(const char* op, const Module& layer, const std::type_info& expected,
                   const Tensor& weight) {
  if (typeid(layer) != expected) {
    throw ValueError(op, "a layer of class " + type_text(expected), layer.described(),
                     "undo the other parametrization first (remove_parametrizations)");
  }
  if (!weight.defined()) throw ValueError(op, "a layer with a weight", layer.described(), "give it one");
}

template <class L, class P>
std::string Parametrized<L, P>::type_name() const {
  if constexpr (std::derived_from<L, ConvLayer>)
    return "Parametrized" + L::type_name();
  else
    return "Parametrized" + type_text(typeid(L));
}

template <class L, class P>
std::shared_ptr<L> Parametrized<L, P>::plain() {
  const Copier as_layer{
      &typeid(Parametrized), [](const Module& from) -> std::shared_ptr<Module> {
        return std::make_shared<L>(static_cast<const L&>(dynamic_cast<const Parametrized&>(from)));
      }};
  auto layer = std::static_pointer_cast<L>(moved(*this, as_layer));
  learn_copier(*layer, copier_of<L>());
  const NoGrad no_grad;
  layer->weight.set(mezzo::clone(computed_weight()));
  return layer;
}

namespace {

/// The layer with P in the place of its weight.
template <class L, class P>
std::shared_ptr<L> parametrized(const L& layer, const std::shared_ptr<P>& of_weight) {
  using Result = Parametrized<L, P>;
  const Copier as_result{&typeid(L), [](const Module& from) -> std::shared_ptr<Module> {
                           return std::make_shared<Result>(dynamic_cast<const L&>(from));
                         }};
  auto result = std::static_pointer_cast<Result>(moved(layer, as_result));
  learn_copier(*result, copier_of<Result>());
  result->weight.set(Tensor());
  result->parametrizations.replace(make<Parametrizations<P>>(of_weight));
  result->train(layer.is_training());
  return result;
}

template <class L>
constexpr bool kIsTransposed =
    std::same_as<L, ConvTranspose1d> || std::same_as<L, ConvTranspose2d> || std::same_as<L, ConvTranspose3d>;

}  // namespace

template <class L>
std::shared_ptr<L> weight_normed(const L& layer, std::int64_t dim) {
  require_plain("weight_norm", layer, typeid(L), layer.weight);
  return parametrized(layer, make<NormedWeight>(layer.weight, dim));
}

template <class L>
std::shared_ptr<L> spectral_normed(const L& layer, const SpectralNormOptions& options) {
  require_plain("spectral_norm", layer, typeid(L), layer.weight);
  return parametrized(
      layer, make<SpectralWeight>(layer.weight, options.dim.value_or(kIsTransposed<L> ? 1 : 0), options));
}

// Instantiations of the two function templates of the header.
#define MEZZO_PARAMETRIZED(L)                                                  \
  template std::shared_ptr<L> weight_normed(const L& layer, std::int64_t dim); \
  template std::shared_ptr<L> spectral_normed(const L& layer, const SpectralNormOptions& options)
MEZZO_PARAMETRIZED(Linear);
MEZZO_PARAMETRIZED(Embedding);
MEZZO_PARAMETRIZED(Conv1d);
MEZZO_PARAMETRIZED(Conv2d);
MEZZO_PARAMETRIZED(Conv3d);
MEZZO_PARAMETRIZED(ConvTranspose1d);
MEZZO_PARAMETRIZED(ConvTranspose2d);
MEZZO_PARAMETRIZED(ConvTranspose3d);
#undef MEZZO_PARAMETRIZED

}  // namespace detail

// --- models

namespace {

template <class... L>
struct Layers {};
using WeightedLayers =
    Layers<Linear, Conv1d, Conv2d, Conv3d, ConvTranspose1d, ConvTranspose2d, ConvTranspose3d>;

template <class... L, class F>
std::vector<surgery::Rule> rules_for(Layers<L...> /*layers*/, F decide) {
  return {surgery::of_type<L>([decide](L& layer) { return decide(layer); })...};
}

template <class L>
void add_plain_rules(std::vector<surgery::Rule>& rules) {
  const auto plain = [](auto& layer) { return layer.plain(); };
  rules.push_back(surgery::of_type<detail::Parametrized<L, NormedWeight>>(plain));
  rules.push_back(surgery::of_type<detail::Parametrized<L, SpectralWeight>>(plain));
}
template <class... L>
std::vector<surgery::Rule> plain_rules(Layers<L...> /*layers*/) {
  std::vector<surgery::Rule> rules;
  (add_plain_rules<L>(rules), ...);
  add_plain_rules<Embedding>(rules);
  return rules;
}

}  // namespace

surgery::Report apply_weight_norm(Module& model, std::int64_t dim) {
  return surgery::replace(
      model, rules_for(WeightedLayers{}, [dim](auto& layer) { return detail::weight_normed(layer, dim); }));
}

surgery::Report apply_spectral_norm(Module& model, const SpectralNormOptions& options) {
  return surgery::replace(model, rules_for(WeightedLayers{}, [options](auto& layer) {
                            return detail::spectral_normed(layer, options);
                          }));
}

surgery::Report remove_parametrizations(Module& model) {
  return surgery::replace(model, plain_rules(WeightedLayers{}));
}

}  // namespace mezzo::nn
