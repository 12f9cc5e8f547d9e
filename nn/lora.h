// LoRA: a frozen layer with a product of two thin trained matrices beside it, for fine-tuning. The names of
// adapters and their files are those of PEFT.
//   nn::apply_lora(net, {.rank = 8, .alpha = 16, .targets = {"attn.*", "mlp.fc1"}});
#pragma once

#include <concepts>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "mezzo/core/random.h"
#include "mezzo/nn/conv.h"
#include "mezzo/nn/embedding.h"
#include "mezzo/nn/linear.h"
#include "mezzo/nn/surgery.h"

namespace mezzo::nn {

/// Options of apply_lora; PEFT's names stand behind them.
struct LoraOptions {
  std::int64_t rank = 8;  ///< r
  double alpha = 8;       ///< lora_alpha: what the adapters compute is multiplied by alpha / rank
  /// target_modules: paths of layers, or regular expressions (ECMAScript) that match a path, or what stands
  /// in it behind a dot, in full: "attn.*" is blocks.0.attn.qkv, too.
  std::vector<std::string> targets = {};
  double dropout = 0;              ///< lora_dropout: of the adapters' input in training
  bool rank_stabilized = false;    ///< use_rslora: alpha / sqrt(rank) in place of alpha / rank
  DType dtype = DType::f32;        ///< of the adapters, whatever the layer's is
  Generator* generator = nullptr;  ///< of first values and dropout; nullptr: the default one
};

/// What the layers with adapters have in common.
class LoraLayer {
 public:
  virtual ~LoraLayer() = default;
  /// The layer itself.
  [[nodiscard]] virtual const Module& module() const noexcept = 0;
  [[nodiscard]] const LoraOptions& lora_options() const noexcept { return options_; }
  /// alpha / rank, or alpha / sqrt(rank).
  [[nodiscard]] double scaling() const;
  /// What the adapters add to the weight: scaling B A, in their dtype and the weight's shape. Throws:
  /// StateError for a convolution of several groups, whose A reads all of them.
  [[nodiscard]] virtual Tensor delta_weight() const = 0;
  /// Throws: StateError when the adapters are merged already, and as delta_weight.
  virtual void require_mergeable() const = 0;
  /// Puts weight + delta_weight, rounded once, in the place of the weight, which is kept for `unmerge`; the
  /// adapters do nothing meanwhile. Throws: as require_mergeable.
  virtual void merge() = 0;
  /// Puts the weight back, to the bit. Throws: StateError when nothing is merged.
  virtual void unmerge() = 0;
  [[nodiscard]] virtual bool is_merged() const noexcept = 0;
  /// The layer without adapters, with the weight that it has now.
  [[nodiscard]] virtual std::shared_ptr<Module> plain() const = 0;

 protected:
  explicit LoraLayer(LoraOptions options) : options_(std::move(options)) {}
  LoraLayer(const LoraLayer&) = default;
  [[nodiscard]] std::string lora_repr() const;

 private:
  LoraOptions options_;
};

/// The layers that take adapters.
template <class L>
concept Adaptable = std::same_as<L, Linear> || std::same_as<L, Embedding> || std::same_as<L, Conv2d>;

/// A Linear, Embedding or Conv2d that computes, beside what it did, scaling B(A(dropout(x))), with A of
/// `rank` outputs and B from these to its own: both as the layer itself, A with its kernel, strides, padding
/// and dilation and B 1 x 1. A Linear's A begins uniform within 1/sqrt(in) and B with zeros, an Embedding's A
/// with zeros and B standard normal, so nothing changes at first. The adapters compute in their dtype, in an
/// autocast region in the region's; the result has the dtype that the layer's alone would have. Source: Hu et
/// al., arXiv:2106.09685.
template <Adaptable L>
class Lora final : public L, public LoraLayer {
 public:
  /// Shares the tensors of `layer`. Throws: ValueError for options that make no sense, for a convolution
  /// whose groups do not divide the rank, and for an Embedding with max_norm.
  Lora(const L& layer, const LoraOptions& options);
  [[nodiscard]] Tensor forward(const Tensor& x) override;
  [[nodiscard]] std::string type_name() const override;
  [[nodiscard]] std::string extra_repr() const override { return L::extra_repr() + lora_repr(); }
  [[nodiscard]] const Module& module() const noexcept override { return *this; }
  [[nodiscard]] bool is_merged() const noexcept override { return kept.defined(); }
  [[nodiscard]] Tensor delta_weight() const override;
  void require_mergeable() const override;
  void merge() override;
  void unmerge() override;
  [[nodiscard]] std::shared_ptr<Module> plain() const override;

  Child<L> lora_A, lora_B;                   ///< empty in an Embedding
  Param lora_embedding_A, lora_embedding_B;  ///< of an Embedding: [rank, rows], [width, rank]
  Buffer kept{*this, "base_weight", Tensor(), {.persistent = false}};  ///< the weight while merged

 private:
  void require_one_group() const;
};

extern template class Lora<Linear>;
extern template class Lora<Embedding>;
extern template class Lora<Conv2d>;

/// Gives every Linear, Embedding and Conv2d below `model` that a target names an adapter, and freezes all
/// other parameters of the model. Layers of derived classes stay, those that have adapters too; the report
/// says so. The projections inside of nn::MultiheadAttention but out_proj are no layers and stay. Make the
/// optimizer afterwards. Throws: ValueError for no targets, for one that names no such layer, and what Lora
/// throws; the model is as it was then.
surgery::Report apply_lora(Module& model, const LoraOptions& options);

/// Whether a model has adapters.
[[nodiscard]] bool has_lora(const Module& model);
/// Before the path of a layer in PEFT's names.
inline constexpr std::string_view kPeftPrefix = "base_model.model.";
/// The adapters' tensors, sharing memory, under PEFT's names: "base_model.model.fc.lora_A.weight". Written by
/// io::save_safetensors they are PEFT's adapter_model.safetensors. Throws: StateError for a model without
/// adapters, as do all functions here that ask for some.
[[nodiscard]] NamedTensors lora_state_dict(const Module& model);
/// Copies values into the adapters; "base_model.model." may be missing before names. Dtypes are converted.
/// Throws: ValueError for names that are missing or that no adapter has, and for other shapes; StateError
/// while merged. Nothing has changed then.
void load_lora(Module& model, const NamedTensors& state);

/// Merges all adapters of a model, for inference without their cost (LoraLayer::merge); its state dict has
/// the merged weights then. Takes the memory of the weights once more, until they are unmerged or removed.
/// Throws: StateError, having changed nothing, when one is merged already or cannot be.
void merge_lora(Module& model);
/// The weights from before merge_lora, to the bit. Throws: StateError when nothing is merged.
void unmerge_lora(Module& model);
/// Puts plain layers in the place of those with adapters, with the weights that these have now: after
/// merge_lora a model that can be saved and used without LoRA, else the base.
surgery::Report remove_lora(Module& model);

}  // namespace mezzo::nn
