// Collectives on tensors: all processes of a group call them together, in the same order.
//   dist::all_reduce(loss, dist::ReduceOp::mean);
//   const auto work = dist::all_reduce(gradient, dist::ReduceOp::sum, {.async = true});
//   ...
//   work.wait();
//
// Common contract. They work on values: no history is recorded, and a tensor that requires grad is refused
// unless grad mode is off. On a group of one process nothing moves. All processes get the same bits. 16-bit
// sums and means are added in f32 in the order of the ranks and rounded once.
// Shapes: the same in all processes. Dtypes: f16, bf16, f32, f64, i32, i64, u8, for broadcast, all_gather and
// all_to_all any; mean floating dtypes only. Any layout; dense tensors are not copied.
// Throws: ShapeError, DTypeError (mean of integers, bool), DeviceError for tensors on several devices and for
// CUDA without NCCL, AutogradError, ValueError for an undefined tensor or a root that is no rank.
// Source: torch.distributed.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "mezzo/core/tensor.h"
#include "mezzo/dist/group.h"
#include "mezzo/dist/transport.h"

namespace mezzo::dist {

/// The group of all processes (dist/init.h); before init() this process alone.
[[nodiscard]] Group world();

struct CollectiveOptions {
  Group group = world();
  bool async = false;  ///< return at once; the result is there after wait()
};

/// Root's values into everybody's tensor.
Work broadcast(const Tensor& tensor, int root = 0, const CollectiveOptions& options = {});
/// Sum, mean, minimum or maximum of all processes' tensors, in place in each.
Work all_reduce(const Tensor& tensor, ReduceOp op = ReduceOp::sum, const CollectiveOptions& options = {});
/// `output` gets the reduced part rank() of `input`. Shapes: input [size() * n, ...], output [n, ...].
/// Source: torch.distributed.reduce_scatter_tensor.
Work reduce_scatter(const Tensor& output, const Tensor& input, ReduceOp op = ReduceOp::sum,
                    const CollectiveOptions& options = {});
/// All inputs one behind the other, in everybody's output. Shapes: input [n, ...], output [size() * n, ...].
/// Source: torch.distributed.all_gather_into_tensor.
Work all_gather(const Tensor& output, const Tensor& input, const CollectiveOptions& options = {});
/// Part r of `input` becomes part rank() of rank r's output. Shapes: both [size() * n, ...].
/// Source: torch.distributed.all_to_all_single.
Work all_to_all(const Tensor& output, const Tensor& input, const CollectiveOptions& options = {});
/// Returns when all processes have called it.
void barrier(const Group& group = world());

/// The texts of all ranks, on each of them.
[[nodiscard]] std::vector<std::string> all_gather_text(const std::string& text, const Group& group = world());
/// Root's text, on each of them.
[[nodiscard]] std::string broadcast_text(const std::string& text, int root = 0, const Group& group = world());

/// The traffic of a group's collectives so far, from this process to others.
struct Traffic {
  std::uint64_t calls = 0;
  /// Bytes sent. A reduction by the library's own algorithm counts as a ring: 2 (p - 1) / p of its size.
  std::uint64_t bytes = 0;
};
[[nodiscard]] Traffic traffic(const Group& group = world());

}  // namespace mezzo::dist
