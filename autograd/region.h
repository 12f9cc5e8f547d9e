// Regions of a graph whose saved tensors are not kept but computed again when backward asks for them: what
// autograd::checkpoint (autograd/checkpoint.h) is made of. The graph itself is recorded as ever, so gradients
// take the same way with and without a region. A region inside of another one has slots of that one for its
// inputs, so the outer region keeps nothing of the inner ones. The second run reads the region's inputs and
// the leaves of its ops, so these must have the version that they had in forward. Internal.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "mezzo/autograd/input_hook.h"
#include "mezzo/core/function.h"
#include "mezzo/core/random/draw_recorder.h"
#include "mezzo/core/tensor.h"

namespace mezzo::autograd {

class Region;
class RegionScope;

/// Which saved tensor of which op, by which forward and recomputation are compared.
struct SavedName {
  std::string_view op;
  bool is_output = false;
  std::uint32_t index = 0;
  const OpInfo* info = nullptr;  ///< of the op; nullptr: it is an input of a region
  std::uint64_t node = 0;        ///< a number of the node's own in its region
};

/// The handle that the graph keeps of a tensor. A leaf that requires grad is kept as it is, for its identity.
/// Any other tensor may later be written in place and then has a node downstream as its history: kept as it
/// is, it would hold that node and close a cycle. So the graph keeps an alias with the present history.
[[nodiscard]] inline Tensor with_present_history(const Tensor& tensor) {
  if (tensor.impl().requires_grad) return tensor;
  Tensor alias = tensor.detach();
  alias.impl().grad_fn = tensor.impl().grad_fn;
  alias.impl().output_index = tensor.impl().output_index;
  return alias;
}

/// A saved tensor that a region computes again. While one lives, its region does.
class Recomputable {
 public:
  /// A value and the version at which it was saved.
  struct Value {
    Tensor tensor;
    std::uint32_t version = 0;
  };

  Recomputable(Ref<Region> region, std::uint32_t slot, const Tensor& saved);
  Recomputable(Recomputable&& other) noexcept = default;
  Recomputable& operator=(Recomputable&&) = delete;
  ~Recomputable();
  /// The value, with the history that the saved tensor had. Runs the region's function again if need be.
  [[nodiscard]] Value get() const;
  /// Frees the recomputed value; `get` computes it anew.
  void drop_value() const noexcept;

 private:
  Ref<Region> region_;
  std::uint32_t slot_;
  Ref<RefCounted> grad_fn_;
  std::uint32_t output_index_;
};

/// The stand-in for the saved tensors of a node in a region.
struct RecomputableSaves final : RefCounted {
  struct Entry {
    SavedName name;
    Recomputable tensor;
  };
  std::vector<Entry> entries;

  /// The entry of an input or output; nullptr: it was not saved, or is kept.
  [[nodiscard]] const Recomputable* find(bool is_output, std::size_t index) const noexcept;
};

/// A call of a function that is run again when backward needs what its ops saved.
class Region final : public RefCounted {
 public:
  using Function = mezzo::detail::Function<void(std::span<const Tensor>)>;
  /// Inside of another region, the outer region gives the inputs again.
  Region(Function function, std::span<const Tensor> inputs);

  // --- while the function runs the first time

  /// A place for a tensor that is not kept.
  [[nodiscard]] std::uint32_t add_slot(const SavedName& name, const Tensor& saved);
  /// Notes a leaf that the function reads, which must be the same when it is run again.
  void note_leaf(const Tensor& leaf);
  /// Throws AutogradError when the function has written to an input.
  void finish(std::span<const Tensor> inputs) const;

  // --- afterwards

  /// The tensor of a slot. Throws what the function throws, and AutogradError when it does not do the same as
  /// in forward or when what it reads was written since.
  [[nodiscard]] Recomputable::Value value(std::uint32_t slot);
  /// Nobody will ask for the slot any more.
  void release_slot(std::uint32_t slot) noexcept;
  void drop_value(std::uint32_t slot) noexcept;
  void drop_values() noexcept;

  // --- while the function runs again

  /// Takes the next tensor that is saved. Throws StopRecomputation after the last one that is needed.
  void deliver(const SavedName& name, const Tensor& saved);
  /// Before the forward of a call: if it will be recorded and all tensors that are still needed are its
  /// inputs, takes these and throws StopRecomputation.
  void deliver_inputs(const OpInfo& info, Inputs inputs);

 private:
  friend class FirstDraws;
  friend class SameDraws;
  friend class Recomputation;
  friend Tensor result_in(RegionScope* scope, const mezzo::detail::Function<Tensor()>& make);
  struct Slot {
    SavedName name;
    Shape shape;
    DType dtype;
    Device device;
    const void* storage;    // in forward; not owned, an address to compare with
    std::uint32_t version;  // in forward
    bool wanted = true;
    Recomputable::Value value = {};
  };
  struct Input {
    Recomputable::Value kept;                  // the version in any case
    std::optional<Recomputable> recomputable;  // by the region around this one, in place of the tensor
  };
  struct Draw {
    Ref<mezzo::detail::Sequence> sequence;
    RandomRange range;
    std::uint64_t blocks;
  };

  void recompute();
  void run_again();
  [[noreturn]] void refuse_missing(std::size_t slot, const std::string& got) const;
  [[nodiscard]] std::vector<Tensor> inputs() const;

  Function function_;
  std::vector<Input> inputs_;
  InputHookState input_hook_;
  Ref<RefCounted> thread_state_;
  std::vector<std::pair<Ref<TensorImpl>, std::uint32_t>> leaves_;
  std::vector<Draw> draws_;
  std::vector<Tensor> results_;  // of kept_result
  std::vector<Slot> slots_;

  // The rest changes during backwards, of which several threads may run one each.
  std::recursive_mutex mutex_;  // recursive, as the function may end nodes of the region
  bool recomputes_ = false;
  std::size_t needed_ = 0, delivered_ = 0, drawn_ = 0, results_taken_ = 0;
};

/// The region that the calling thread's work belongs to, as long as the scope lives.
class RegionScope : mezzo::detail::NoCopy {
 public:
  /// `recomputes`: the function is run again, for what its ops save.
  RegionScope(Region& of, bool runs_again) noexcept;
  ~RegionScope();

  Region& region;
  const bool recomputes;
  const bool inside_recomputation;  ///< of this region or of one around it
  RegionScope* const outer;
};

namespace detail {
inline constinit std::atomic<int> open_region_scopes{0};  // of all threads
inline constinit thread_local RegionScope* innermost_region{};
}  // namespace detail

/// The innermost one of the thread; nullptr outside of all regions. A load and a branch while no thread is in
/// a region.
[[nodiscard]] inline RegionScope* current_region() noexcept {
  if (detail::open_region_scopes.load(std::memory_order_relaxed) == 0) [[likely]]
    return nullptr;
  return detail::innermost_region;
}

/// A result of `make` that is the same tensor when a region around the call is recomputed.
[[nodiscard]] Tensor kept_result(const mezzo::detail::Function<Tensor()>& make);

/// Frees at the end of the outermost backward of a thread what regions have recomputed for it and nobody
/// asked for.
class RecomputedValuesScope : mezzo::detail::NoCopy {
 public:
  RecomputedValuesScope() noexcept;
  ~RecomputedValuesScope();

 private:
  bool is_outermost_;
};

/// State of a thread that ops depend on and that is kept above autograd (overrides of autocast's policy).
struct ThreadState {
  /// The thread's present state; empty: nothing is set.
  Ref<RefCounted> (*take)() = nullptr;
  /// Puts a state in the place of the thread's own until the result goes, on the same thread.
  Ref<RefCounted> (*install)(const Ref<RefCounted>& state) = nullptr;
};
/// For static objects: there is one such state.
void set_region_thread_state(const ThreadState& state) noexcept;

/// The draws of a function that runs the first time: taken from where they come from without a region, and
/// noted.
class FirstDraws final : public mezzo::detail::DrawRecorder {
 public:
  explicit FirstDraws(Region& region) : region_(region), scope_(*this) {}
  [[nodiscard]] RandomRange record(const Ref<mezzo::detail::Sequence>& sequence, std::uint64_t blocks,
                                   Device device) override;
  void set_state(mezzo::detail::Sequence& sequence, const GeneratorState& state) override;

 private:
  Region& region_;
  mezzo::detail::DrawRecorderScope scope_;
};

}  // namespace mezzo::autograd
