// Trials: each is timed beside what it changes, and the judge decides by the times.
#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <utility>

#include "mezzo/amp/captured_step.h"
#include "mezzo/amp/module_precision.h"
#include "mezzo/amp/policy.h"
#include "mezzo/autograd/input_hook.h"
#include "mezzo/core/error.h"
#include "mezzo/core/text/text_table.h"
#include "mezzo/ops/ops.h"
#include "mezzo/profile/advise/runs.h"

namespace mezzo::amp::detail {

namespace {

/// Of odd products, and of islands: those beyond would hardly show.
constexpr std::size_t kMostTrials = 4;
/// Products with less of the work of all are not worth a padding.
constexpr double kLeastWork = 0.05;
/// Matrix units take tiles of 8 elements of 16 bits, of 16 in float8 (amp/float8.h).
constexpr std::int64_t kTile = 8, kFloat8Tile = 16;
/// The least f16 number that is not subnormal.
constexpr double kLeastNormal = 0x1p-14;
/// A layer that loses fewer of its gradients trains as ever (Micikevicius et al., arXiv:1710.03740, had 5 %).
constexpr double kLostShare = 0.05;
/// Halvings of the scale until a step must go through: from 2^16 down to below 1.
constexpr int kMostSkipped = 20;

std::int64_t padded(std::int64_t size) { return (size + kTile - 1) / kTile * kTile; }

class Trials {
 public:
  Trials(Measurements& measured, const AdvisedModel& model, const Run& autocast, const AdviseOptions& options)
      : measured_(measured), model_(model), autocast_(autocast), options_(options) {}

  void all() {
    try_sizes();
    try_policies();
    const std::string& odd = measured_.watched.odd_convolution;
    if (!odd.empty() && !measured_.device.is_cpu()) skip("channels of " + odd + " that are multiples of 8");
    if (!model_.clone || !measured_.watched.dtype) return;
    base_.emplace(model_, Variant{.dtype = measured_.dtype});
    try_dtype();
    try_norms();
    try_parametrizations();
    if (measured_.watched.has_row_major_images && model_.input.dim() >= 4)
      try_variant(
          {AdviceKind::memory_format, "channels-last images", "x = x.to(MemoryFormat::channels_last)"},
          {.dtype = measured_.dtype, .channels_last = true});
    try_float8();
    try_capture();
    try_batches();
    if (measured_.dtype == DType::f16) look_at_gradients();
  }

 private:
  void skip(const std::string& what) { measured_.untried.push_back(what); }

  /// Adds a trial of what `after` does beside `before`; where it cannot run, that is told.
  void add(Trial trial, const Run& before, const Run& after) {
    if (!options_.trials) {
      skip(trial.what + ": .trials is false");
      return;
    }
    try {
      compare(trial, measured_.device, before, after, options_);
      measured_.trials.push_back(std::move(trial));
    } catch (const Error& error) {
      skip(trial.what + ": " + error.what());
    }
  }

  void try_variant(Trial trial, const Variant& variant) {
    try {
      ModelStep changed(model_, variant);
      add(
          std::move(trial), [this] { (*base_)(); }, [&changed] { changed(); });
    } catch (const Error& error) {
      skip(trial.what + ": " + error.what());
    }
  }

  void try_sizes() {
    // Of three products, forward and backward, each multiplication with its addition.
    const auto work = [](const Product& p) { return 6.0 * static_cast<double>(p.m * p.n * p.k * p.calls); };
    double flop = 0;
    for (const profile::OpRow& row : measured_.autocast.ops) flop += static_cast<double>(row.flop);
    flop /= static_cast<double>(std::max(measured_.autocast.steps, std::int64_t{1}));
    std::vector<Product> odd;
    for (const Product& product : measured_.watched.products) {
      const bool is_odd = product.n != padded(product.n) || product.k != padded(product.k);
      if (is_odd && work(product) >= kLeastWork * flop) odd.push_back(product);
    }
    std::stable_sort(odd.begin(), odd.end(),
                     [&](const Product& a, const Product& b) { return work(a) > work(b); });
    if (odd.size() > kMostTrials) odd.resize(kMostTrials);
    for (const Product& product : odd) try_padding(product);
  }

  /// The three products of a linear layer, forward and backward.
  [[nodiscard]] Run product(std::int64_t m, std::int64_t n, std::int64_t k) const {
    const TensorOptions options{.dtype = measured_.dtype, .device = measured_.device};
    return [x = full({m, k}, 0.5, options), w = full({n, k}, 0.5, options), g = full({m, n}, 0.5, options)] {
      const PlainOps plain;
      static_cast<void>(linear(x, w));
      static_cast<void>(matmul(g, w));
      static_cast<void>(matmul(g.transpose(0, 1), x));
    };
  }

  void try_padding(const Product& p) {
    std::string sizes;
    for (const auto& [name, size] : {std::pair{"in", p.k}, std::pair{"out", p.n}}) {
      if (size == padded(size)) continue;
      sizes += (sizes.empty() ? "" : ", ") + std::string(name) + "_features " + std::to_string(size) +
               " as " + std::to_string(padded(size));
    }
    Trial trial{AdviceKind::sizes, p.place + " with " + sizes,
                "nn::Linear(" + std::to_string(padded(p.k)) + ", " + std::to_string(padded(p.n)) +
                    "), whose new rows or columns are 0 or not used"};
    trial.per_step = p.calls;
    add(std::move(trial), product(p.m, p.n, p.k), product(p.m, padded(p.n), padded(p.k)));
  }

  /// Islands that are no norms of a model.
  void try_policies() {
    std::size_t count = 0;
    for (const Island& island : measured_.watched.islands) {
      const bool is_norm = island.op == "layer_norm" || island.op == "group_norm";
      if ((is_norm && model_.clone) || ++count > kMostTrials) continue;
      const std::string call =
          "amp::PolicyOverride in_16_bits(\"" + island.op + "\", Category::lower_precision)";
      add({AdviceKind::islands, island.op + " in " + to_string(measured_.dtype),
           is_norm ? "amp::apply_low_precision_" +
                         std::string(island.op == "layer_norm" ? "layernorm" : "groupnorm") + "(net)"
                   : call + "; it rounds what the op returns",
           described(island)},
          autocast_, [&] {
            const PolicyOverride in_16_bits(island.op, Category::lower_precision);
            autocast_();
          });
    }
  }

  void try_dtype() {
    if (measured_.has_instructions || measured_.dtype != DType::f16) return;
    try_variant({AdviceKind::hardware, "bf16 in place of f16",
                 "amp::Autocast(device, DType::bf16), without a GradScaler"},
                {.dtype = DType::bf16});
  }

  void try_norms() {
    bool layer = false, group = false;
    std::string cause;
    for (const Island& island : measured_.watched.islands) {
      const bool is_layer = island.op == "layer_norm", is_group = island.op == "group_norm";
      layer |= is_layer;
      group |= is_group;
      if (is_layer || is_group) cause += (cause.empty() ? "" : ", ") + described(island);
    }
    const std::string dtype = to_string(measured_.dtype);
    const std::size_t before = measured_.trials.size();
    if (layer)
      try_variant(
          {AdviceKind::islands, "layer norms that write " + dtype, "amp::apply_fused_layernorm(net)", cause},
          {.dtype = measured_.dtype, .norms = Variant::Norms::fused});
    if (layer || group)
      try_variant(
          {AdviceKind::islands, "norms in " + dtype,
           std::string(layer ? "amp::apply_low_precision_layernorm(net)" : "") +
               (layer && group ? " and " : "") + (group ? "amp::apply_low_precision_groupnorm(net)" : ""),
           cause},
          {.dtype = measured_.dtype, .norms = Variant::Norms::low_precision});
    if (measured_.trials.size() == before + 2)
      keep_better(measured_.trials[before], measured_.trials[before + 1]);
  }

  /// Of two forms that exclude each other the better one stays, if both are good.
  void keep_better(Trial& a, Trial& b) {
    if (!a.is_above_noise || !b.is_above_noise) return;
    const double gain_a = a.before / a.after, gain_b = b.before / b.after;
    Trial& better = gain_a > gain_b ? a : b;
    const Trial& worse = gain_a > gain_b ? b : a;
    better.write += " (" + worse.what + " bring " + fixed_text(std::min(gain_a, gain_b), 2) + " x)";
    if (&better == &b) a = b;
    measured_.trials.pop_back();
  }

  void try_parametrizations() {
    const auto& weights = measured_.watched.weights;
    if (std::none_of(weights.begin(), weights.end(), [](const WeightCasts& row) { return row.is_computed; }))
      return;
    try_variant({AdviceKind::weight_casts, "weights that are not computed in every step",
                 "nn::remove_parametrizations(net), where the training can go without"},
                {.dtype = measured_.dtype, .without_parametrizations = true});
  }

  void try_float8() {
    const auto& products = measured_.watched.products;
    if (std::none_of(products.begin(), products.end(),
                     [](const Product& p) { return p.n % kFloat8Tile == 0 && p.k % kFloat8Tile == 0; }))
      return;
    if (measured_.device.is_cpu()) {
      skip("float8: a CPU emulates it");
      return;
    }
    try_variant(
        {AdviceKind::float8, "products in float8", "amp::Autocast(device, DType::bf16, {.fp8 = true})"},
        {.dtype = measured_.dtype, .float8 = true});
  }

  void try_capture() {
    if (measured_.device.is_cpu()) return;
    ModelStep step(model_, {.dtype = measured_.dtype});
    CapturedStep captured(measured_.device, [&step] {
      step();
      return Tensor();
    });
    add(
        {AdviceKind::captured, "a captured step",
         "amp::CapturedStep step(device, [&] { ... }), docs/cuda.md"},
        [this] { (*base_)(); }, [&captured] { static_cast<void>(captured()); });
  }

  /// 2, 4 and 8 times the batch, until autocast pays.
  void try_batches() {
    const bool pays = measured_.f32_seconds > kGain * measured_.seconds;
    if (pays || model_.input.dim() == 0) return;
    if (!options_.trials) {
      skip("larger batches: .trials is false");
      return;
    }
    for (const std::int64_t times : {2, 4, 8}) {
      try {
        ModelStep f32(model_, {.batches = times});
        ModelStep autocast(model_, {.dtype = measured_.dtype, .batches = times});
        const auto seconds =
            seconds_in_turns(measured_.device, {[&f32] { f32(); }, [&autocast] { autocast(); }}, options_);
        measured_.batches.push_back(
            {measured_.samples * times, times, shortest(seconds[0]), shortest(seconds[1])});
      } catch (const Error& error) {
        skip(std::to_string(times) + " times the batch: " + error.what());
        return;
      }
      if (measured_.batches.back().f32 > kGain * measured_.batches.back().autocast) return;
    }
  }

  using Gradients = std::map<std::string, std::vector<float>>;
  /// By parameter, times the scale that the first step which is not skipped is made with.
  Gradients gradients_of(ModelStep& step, bool counts) {
    for (int i = 0; i < kMostSkipped; ++i) {
      step.net().zero_grad();
      step.scaled_loss().backward();
      const double scale = step.scaler().get_scale();
      Gradients all;
      bool is_finite = true;
      for (const auto& [name, parameter] : step.net().named_parameters()) {
        if (!parameter.grad().defined()) continue;
        std::vector<float> values = parameter.grad().to(DType::f32).to_vector<float>();
        is_finite =
            is_finite && std::all_of(values.begin(), values.end(), [](float v) { return std::isfinite(v); });
        all.emplace(name, std::move(values));
      }
      if (counts) measured_.scale = scale;
      if (is_finite || step.optimizer() == nullptr) return all;
      if (counts) ++measured_.skipped;
      static_cast<void>(step.scaler().step(*step.optimizer()));
      step.scaler().update();
    }
    return {};
  }

  /// By module: gradients that are lost, and all that are not 0 in f32.
  static std::map<std::string, std::pair<double, double>> losses_of(const Gradients& f32,
                                                                    const Gradients& f16) {
    std::map<std::string, std::pair<double, double>> losses;
    for (const auto& [name, values] : f16) {
      const std::vector<float>& exact = f32.at(name);
      const std::size_t dot = name.rfind('.');
      auto& [lost, all] = losses[dot == std::string::npos ? "" : name.substr(0, dot)];
      for (std::size_t i = 0; i < values.size(); ++i) {
        if (exact[i] == 0) continue;
        ++all;
        lost += std::abs(values[i]) < kLeastNormal ? 1 : 0;
      }
    }
    return losses;
  }

  void look_at_gradients() {
    ModelStep f32(model_, {}), f16(model_, {.dtype = DType::f16});
    const Gradients exact = gradients_of(f32, false);
    const auto losses = losses_of(exact, gradients_of(f16, true));
    PrecisionRules rules;
    for (const auto& [path, loss] : losses) {
      const auto& [lost, all] = loss;
      if (path.empty() || lost <= kLostShare * all) continue;
      measured_.gradients.push_back({.path = path, .share = lost / all, .share_in_bf16 = lost / all});
      rules.emplace_back(path, DType::bf16);
    }
    if (rules.empty() || !options_.trials) return;
    ModelStep ruled(model_, {.dtype = DType::f16});
    const ModulePrecision precision(ruled.net(), rules);
    const auto then = losses_of(exact, gradients_of(ruled, false));
    for (LostGradients& row : measured_.gradients) {
      const auto found = then.find(row.path);
      if (found != then.end()) row.share_in_bf16 = found->second.first / std::max(1.0, found->second.second);
    }
  }

  Measurements& measured_;
  const AdvisedModel& model_;
  const Run& autocast_;
  const AdviseOptions& options_;
  std::optional<ModelStep> base_;  ///< under autocast, of the model as it is
};

}  // namespace

void compare(Trial& trial, Device device, const Run& before, const Run& after, const AdviseOptions& options) {
  for (std::int64_t i = 0; i < options.warmup; ++i) after();
  const auto seconds = seconds_in_turns(device, {before, after}, options);
  trial.before = shortest(seconds[0]);
  trial.after = shortest(seconds[1]);
  std::size_t faster = 0;
  for (std::size_t i = 0; i < seconds[0].size(); ++i) faster += seconds[1][i] < seconds[0][i] ? 1 : 0;
  trial.is_above_noise = trial.before > kGain * trial.after && 4 * faster > 3 * seconds[0].size();
}

void make_trials(Measurements& measured, const AdvisedModel& model, const Run& autocast,
                 const AdviseOptions& options) {
  Trials(measured, model, autocast, options).all();
}

}  // namespace mezzo::amp::detail
