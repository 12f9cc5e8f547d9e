// Optimizers after surgery on their model: replaced parameters make room for their successors.
//   optim::remap(optimizer, report.parameter_pairs());
#pragma once

#include <cstddef>
#include <utility>
#include <vector>

#include "mezzo/optim/optimizer.h"

namespace mezzo::optim {

/// (before, after), either of them may be undefined; nn::surgery::Report has such a list.
using ParameterPairs = std::vector<std::pair<Tensor, Tensor>>;

/// How many parameters were exchanged, taken out and added, and how many new ones no optimizer has taken.
struct RemapReport {
  std::size_t moved = 0, removed = 0, added = 0, left_out = 0;
  bool operator==(const RemapReport&) const = default;
};

/// Tells an optimizer that parameters of its model are other tensors now. Where `before` is one of its
/// parameters, `after` takes its place: group, position, name and, if the shape is the same, what the
/// optimizer keeps for it, so that a copy goes on as the original would have; otherwise it begins anew. An
/// undefined `after` takes the parameter out. `after` of a pair without `before` is added to the group of the
/// pair ahead of it in the list, at the end; when that pair is another optimizer's, so is the new parameter;
/// without a pair ahead it joins the only group. Pairs of parameters the optimizer does not have are ignored.
/// Gradients stay with their tensors, so the place for this is between two iterations.
///
/// Throws, and changes nothing: ValueError for a pair of two undefined tensors, the same `before` twice, a
/// parameter that the optimizer would have twice, a new one whose group cannot be told, and an optimizer
/// left without parameters; and as the constructor for an `after` that cannot be a parameter (DTypeError,
/// AutogradError, DeviceError, ShapeError).
RemapReport remap(Optimizer& optimizer, const ParameterPairs& pairs);

/// remap for several optimizers that share out the parameters; all are checked before one is changed. Returns
/// the sum. Throws: ValueError for a new parameter without a pair ahead of it, as it could belong to any of
/// several optimizers, for a null pointer, and for the same optimizer twice.
RemapReport remap(const std::vector<Optimizer*>& optimizers, const ParameterPairs& pairs);

}  // namespace mezzo::optim
