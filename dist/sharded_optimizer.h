// ShardedOptimizer: an optimizer whose state, f32 masters included, is cut among the ranks (ZeRO-1).
//   dist::DataParallel parallel(net);
//   dist::ShardedOptimizer<optim::AdamW> optimizer(parallel, {.lr = 1e-3});
// Each rank gets the reduced gradients of its shard only (a reduce-scatter), updates it, and gathers the
// parameters that other ranks have updated. The loop stays as it is, but for clipping: gradients are per
// shard, so it is `optimizer.clip_grad_norm_(1.0)`.
#pragma once

#include <concepts>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "mezzo/dist/data_parallel.h"
#include "mezzo/dist/optimizer_maker.h"
#include "mezzo/optim/optimizer.h"
#include "mezzo/optim/typed_optimizer.h"

namespace mezzo::dist {

namespace detail {

/// The options of optim::TypedOptimizer<Options>.
template <class Options>
Options options_of(const optim::TypedOptimizer<Options>&);
/// The parameters that a DataParallel reduces, with their names.
[[nodiscard]] optim::NamedTensors reduced_parameters(const DataParallel& parallel);

}  // namespace detail

/// Base of all sharded optimizers: the whole parameters, and this rank's shards.
class Sharded : mezzo::detail::NoCopy {
 public:
  virtual ~Sharded();

  /// optim::clip_grad_norm_ over the shards of all ranks, which call it together; returns the norm of all
  /// gradients. In deterministic mode its bits do not depend on the number of ranks. Throws: ValueError for a
  /// max_norm below 0 and a norm_type that is not above 0.
  Tensor clip_grad_norm_(double max_norm, double norm_type = 2.0, bool error_if_nonfinite = false) const;
  /// The parameters as the model has them, group by group.
  [[nodiscard]] std::vector<Tensor> whole_parameters() const;
  [[nodiscard]] const Group& group() const noexcept;

 protected:
  /// `groups`: parameters of the model under their names. Throws, in the name of `op`: ValueError unless they
  /// hold each parameter that the DataParallel reduces once; what Reducer::shard throws.
  Sharded(std::string op, DataParallel& parallel, const std::vector<optim::NamedTensors>& groups);

  /// This rank's shards, by group: leaves in the memory of the parameters.
  [[nodiscard]] const std::vector<optim::NamedTensors>& leaves() const noexcept;
  /// Where each of them lies in the whole parameters.
  [[nodiscard]] std::vector<optim::ParameterPlace> places() const;
  /// Takes part in the steps of `optimizer`, which is made of the leaves.
  void join(optim::Optimizer& optimizer);
  /// The state of the whole optimizer from what all ranks have; each calls it.
  [[nodiscard]] optim::OptimizerState gathered(const optim::OptimizerState& shards,
                                               const std::vector<optim::StateNames>& names) const;
  /// Throws: StateError unless the options of a state are those of this whole optimizer, an `optimizer`.
  void require_groups(const Value& options, std::string_view optimizer) const;
  /// This rank's part of the state of the whole optimizer. Throws: as Optimizer::load_state_dict, on all
  /// ranks alike.
  [[nodiscard]] optim::OptimizerState cut(const optim::OptimizerState& whole,
                                          const std::vector<optim::StateNames>& names) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// Any elementwise optimizer `O` of mezzo::optim over the shards of this rank. All ranks make it, with the
/// same arguments, of a DataParallel that has run no backward yet.
///
/// state_dict() and load_state_dict() are about the whole optimizer: the format is an O's over the unsharded
/// parameters, so a state goes from one number of ranks to another, and to and from a plain O. All ranks call
/// state_dict(), and get the same; it needs memory for the whole state.
///
/// A GradScaler skips a step on all ranks when any of them finds an inf. parameters() are the shards, under
/// names as "fc1.weight[0:512]". Rates, schedules, hooks, groups and masters work as in O. Not possible:
/// optim::SAM around it, optim::remap, add_param_group and state_bits = 8.
///
/// Throws: ValueError for an algorithm that needs whole parameters (Muon), and for groups that do not hold
/// each parameter of the DataParallel once; StateError for a DataParallel that is sharded already; what O
/// throws. Source: Rajbhandari et al., arXiv:1910.02054; torch.distributed.optim.ZeroRedundancyOptimizer.
template <class O>
class ShardedOptimizer final : public Sharded, public O {
 public:
  using Options = decltype(detail::options_of(std::declval<const O&>()));
  using Groups = std::vector<optim::ParamGroup<Options>>;

  /// All parameters that the DataParallel reduces, in one group.
  explicit ShardedOptimizer(DataParallel& parallel, Options options = {})
      : ShardedOptimizer(parallel, Groups{{reduced(parallel), options}}) {}
  /// The parameters of a module, frozen ones included, as `O optimizer(net, options)` takes them: so that the
  /// states of both can be exchanged.
  template <class M>
  requires requires(const M& module) {
    { module.named_parameters() } -> std::convertible_to<optim::NamedTensors>;
  }
  ShardedOptimizer(DataParallel& parallel, const M& module, Options options = {})
      : ShardedOptimizer(parallel, Groups{{module.named_parameters(), options}}) {}
  /// Groups with options of their own.
  template <std::same_as<Groups> G>
  ShardedOptimizer(DataParallel& parallel, const G& groups)
      : Sharded(checked_name(groups), parallel, lists(groups)), O(local(groups, leaves())) {
    join(*this);
    this->set_places(places());
  }

  [[nodiscard]] optim::OptimizerState state_dict() const override {
    const optim::OptimizerState shards = O::state_dict();
    return gathered(shards, names_with(shards.options));
  }
  void load_state_dict(const optim::OptimizerState& state) override {
    require_groups(state.options, Options::kOptimizer);
    O::load_state_dict(cut(state, names_with(state.options)));
  }
  /// Deleted, as parameters of a new group would not be sharded.
  void add_param_group(const optim::ParamGroup<Options>& group) = delete;

 private:
  /// Throws: ValueError for algorithms that are not elementwise, and for moments in blocks.
  static std::string checked_name(const Groups& groups) {
    std::string name = "ShardedOptimizer<" + std::string(Options::kOptimizer) + ">";
    if constexpr (requires { Options::kNeedsWholeParameters; })
      throw ValueError(name, "an optimizer that updates each element by itself",
                       std::string(Options::kOptimizer), "use it as it is beside DataParallel, or AdamW");
    if constexpr (requires { Options{}.state_bits; }) {
      for (const auto& group : groups) {
        if (group.options.state_bits == 8)
          throw ValueError(
              name, "state_bits = 32", "8",
              "shards would cut blocks of 256 elements; the ranks share out the moments already");
      }
    }
    return name;
  }
  [[nodiscard]] static optim::NamedTensors reduced(DataParallel& parallel) {
    return detail::reduced_parameters(parallel);
  }
  [[nodiscard]] static std::vector<optim::NamedTensors> lists(const Groups& groups) {
    std::vector<optim::NamedTensors> lists;
    for (const auto& group : groups) lists.push_back(group.parameters);
    return lists;
  }
  [[nodiscard]] static Groups local(Groups groups, const std::vector<optim::NamedTensors>& leaves) {
    for (std::size_t g = 0; g < groups.size(); ++g) groups[g].parameters = leaves[g];
    return groups;
  }
  /// Names of the state that each group of a state with these options keeps per parameter.
  [[nodiscard]] std::vector<optim::StateNames> names_with(const Value& options) const {
    std::vector<optim::StateNames> names;
    for (const Value& group : options.at("param_groups").as_list())
      names.push_back(this->state_names_with(group));
    return names;
  }
};

/// A ShardedOptimizer that a Trainer makes of its own DataParallel:
///   .optimizer = dist::sharded<optim::AdamW>({.lr = 1e-3}), .parallel = dist::data_parallel()
template <class O>
[[nodiscard]] OptimizerMaker sharded(typename ShardedOptimizer<O>::Options options = {}) {
  return {[options](DataParallel& parallel, const nn::Module& model) -> std::shared_ptr<optim::Optimizer> {
    return std::make_shared<ShardedOptimizer<O>>(parallel, model, options);
  }};
}
template <class O, std::same_as<typename ShardedOptimizer<O>::Groups> G>
[[nodiscard]] OptimizerMaker sharded(const G& groups) {
  return {[groups](DataParallel& parallel, const nn::Module& /*model*/) -> std::shared_ptr<optim::Optimizer> {
    return std::make_shared<ShardedOptimizer<O>>(parallel, groups);
  }};
}

}  // namespace mezzo::dist
