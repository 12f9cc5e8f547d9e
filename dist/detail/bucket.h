// Bucket: gradients of some parameters one behind the other in flat memory, and their reduction over the
// ranks. Internal.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "mezzo/core/tensor.h"
#include "mezzo/dist/data_parallel_options.h"
#include "mezzo/dist/group.h"
#include "mezzo/dist/transport.h"
#include "mezzo/nn/module.h"

namespace mezzo::dist {

/// Where the gradient of one parameter lies in a bucket, in row-major order.
struct BucketPlace {
  std::size_t parameter = 0;
  std::int64_t offset = 0;  ///< elements
  Shape shape;
};

/// Which parameters a bucket is of.
struct BucketPlan {
  DType dtype = DType::f32;  ///< of the parameters, and of their gradients
  std::int64_t numel = 0;    ///< with what it is padded by
  std::vector<BucketPlace> places;
};

/// Fills buckets in this order of the parameters, one dtype each. The buckets are in the order in which they
/// become full. Each can be cut into `ranks` equal parts, which begin at multiples of 64 bytes as places do.
[[nodiscard]] std::vector<BucketPlan> plan_buckets(const nn::NamedTensors& parameters,
                                                   std::span<const std::size_t> order, int ranks,
                                                   const DataParallelOptions& options);

/// Flat tensors that are used again once nobody else has a view of them. Elements between the places of a
/// bucket are zeros and stay so.
class FlatMemory {
 public:
  FlatMemory(std::int64_t numel, DType dtype, Device device)
      : numel_(numel), dtype_(dtype), device_(device) {}
  [[nodiscard]] Tensor take();
  [[nodiscard]] Device device() const noexcept { return device_; }
  /// Gives a tensor of take() back; views of it may be alive.
  void give(Tensor flat);

 private:
  std::int64_t numel_;
  DType dtype_;
  Device device_;
  std::vector<Tensor> spare_;
};

/// How a bucket is reduced; the same for all steps.
struct Reduction {
  bool by_tree = false;     ///< by tree_reduce_scatter, else by the transport's own algorithm
  bool to_shard = false;    ///< each rank gets its part only
  double factor = 1;        ///< by_tree: of the sum
  DType wire = DType::f32;  ///< by_tree: what the sum is rounded to
};

/// One bucket of a step: begin(), add() for each place, start(), wait(), views of the result, end(). Where a
/// step has several parts, begin() and add() for each of them: their sums are kept as the digits of a binary
/// counter, the oldest and largest first, so that they form one binary tree.
class Bucket {
 public:
  /// `place`: what messages call it, the same on all ranks.
  Bucket(BucketPlan plan, Group group, Device device, const DataParallelOptions& options, std::string place);

  [[nodiscard]] const BucketPlan& plan() const noexcept { return plan_; }
  [[nodiscard]] std::int64_t bytes() const noexcept { return plan_.numel * size_of(plan_.dtype); }
  /// From now on each rank gets its part only.
  void shard();

  /// Part `part` of a step begins; part 0 begins a step.
  void begin(int part);
  /// Adds a place's gradient, and the gradient held back for it before; an undefined tensor is zeros.
  void add(std::size_t place, const Tensor& gradient, const Tensor& held);
  [[nodiscard]] bool is_full() const noexcept { return missing_ == 0; }
  /// All gradients of the part have come.
  void end_part();
  /// The reduction of the bucket begins; sums over parts are complete then.
  void start();
  /// Work::wait().
  void wait() const { work_.wait(); }
  [[nodiscard]] const Tensor& result() const noexcept { return result_; }
  /// The result at a place, in the parameter's shape.
  [[nodiscard]] Tensor view(std::size_t place) const { return at(result_, place); }
  /// The step has ended: memory is used again as soon as it has no other views.
  void end();
  /// Waits for a reduction that was started, and forgets the step.
  void abandon() noexcept;

 private:
  [[nodiscard]] Tensor at(const Tensor& flat, std::size_t place) const;
  void add_part(std::size_t place, const Tensor& gradient);

  BucketPlan plan_;
  Group group_;
  std::string place_;
  double factor_ = 1;  ///< of each rank's gradients, where the transport adds them up: saves a pass
  Reduction how_;
  DType sum_dtype_;  ///< of what is added up on this rank and sent
  FlatMemory memory_, results_;
  std::vector<Tensor> sums_;  ///< in fast mode one; of parts: see above
  std::size_t merges_ = 0;    ///< how many of them this part is added to, each then to the one before
  std::size_t missing_ = 0;
  Tensor result_;
  Work work_;
};

}  // namespace mezzo::dist
