// What modules can be asked for: each member that a module has is called, good and bad ones alike.
#pragma once

#include "misuse/misuse.h"

namespace mezzo::misuse {

// The names are searched for by tools/misuse_table.sh.
#define MISUSE_GETTER(member) \
  if constexpr (requires { module.member(); }) static_cast<void>(module.member())

/// Those that every module has.
inline void use_members_of_all(nn::Module& module) {
  MISUSE_GETTER(type_name);
  MISUSE_GETTER(extra_repr);
  MISUSE_GETTER(path);
  MISUSE_GETTER(described);
  MISUSE_GETTER(parameters);
  MISUSE_GETTER(named_parameters);
  MISUSE_GETTER(named_buffers);
  MISUSE_GETTER(named_modules);
  MISUSE_GETTER(children);
  MISUSE_GETTER(num_parameters);
  MISUSE_GETTER(param_slots);
  MISUSE_GETTER(buffer_slots);
  MISUSE_GETTER(child_slots);
  MISUSE_GETTER(eval);
  MISUSE_GETTER(train);
  MISUSE_GETTER(is_training);
  MISUSE_GETTER(zero_grad);
  MISUSE_GETTER(state_dict);
  MISUSE_GETTER(clone);
}

template <class M>
void use_members(M& module, Draw& draw) {
  use_members_of_all(module);
  MISUSE_GETTER(in_features);
  MISUSE_GETTER(out_features);
  MISUSE_GETTER(in1_features);
  MISUSE_GETTER(in2_features);
  MISUSE_GETTER(in_channels);
  MISUSE_GETTER(out_channels);
  MISUSE_GETTER(num_features);
  MISUSE_GETTER(num_groups);
  MISUSE_GETTER(num_channels);
  MISUSE_GETTER(normalized_shape);
  MISUSE_GETTER(input_size);
  MISUSE_GETTER(hidden_size);
  MISUSE_GETTER(is_bidirectional);
  MISUSE_GETTER(is_batch_first);
  MISUSE_GETTER(embed_dim);
  MISUSE_GETTER(num_heads);
  MISUSE_GETTER(norm_parameters);
  MISUSE_GETTER(reset_parameters);
  MISUSE_GETTER(reset_running_stats);
  MISUSE_GETTER(weighs_targets);
  if constexpr (requires { module.params(0, false); })
    static_cast<void>(module.params(draw_int(draw), draw.once_in(2)));
  if constexpr (requires(const Tensor& x) { module.mean_divisor(x); })
    static_cast<void>(module.mean_divisor(draw_tensor(draw)));
  if constexpr (requires(const Tensor& x) { module.forward_with_indices(x); })
    static_cast<void>(module.forward_with_indices(draw_tensor(draw)));
  if constexpr (requires { module.requires_grad_(true); }) module.requires_grad_(draw.once_in(2));
}

}  // namespace mezzo::misuse
