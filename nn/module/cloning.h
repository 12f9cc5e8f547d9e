// The state of one deep copy in progress, or of one module that moves to memory of its own. C++ copies a
// module member by member; slots meet this object on the way to find their new owner and to get copies of
// what they hold, made once for everything that is shared. Internal to nn.
#pragma once

#include <memory>
#include <unordered_map>

#include "mezzo/nn/module.h"

namespace mezzo::nn {

namespace detail {
/// Hands a module's hooks over to another module (nn/module/hooks.cpp).
void hand_hooks_over(const Ref<RefCounted>& from, Module& to, Ref<RefCounted>& hooks) noexcept;
/// The module of these hooks ends.
void leave_hooks(const Ref<RefCounted>& hooks, const Module& module) noexcept;
/// Moves a tensor to `device` and, when it is floating, converts it to `dtype` (floating too), behind its
/// handle and as Module::to does (nn/module/convert.cpp).
void convert(const Tensor& tensor, Device device, DType dtype);
}  // namespace detail

/// One call of `clone`, or of `detail::moved`, where the new module's slots take over what the original's
/// hold. The innermost call of a thread is found through a thread-local pointer, because the C++ copy
/// constructors in between cannot pass it on.
class Cloning : mezzo::detail::NoCopy {
 public:
  /// Whether the parts that slots hold are copied or moved.
  enum class Parts { copied, moved };
  explicit Cloning(Parts parts = Parts::copied) noexcept;
  ~Cloning();

  /// The one in progress on this thread; StateError, naming `what`, when there is none.
  [[nodiscard]] static Cloning& current(const std::string& what);

  [[nodiscard]] static bool is_under_way() noexcept;

  /// The module or tensor that the copy of a slot holds in place of the original.
  [[nodiscard]] std::shared_ptr<Module> copy(const std::shared_ptr<Module>& original) {
    return parts_ == Parts::moved ? original : copy(*original);
  }
  /// The copy of a module, made at the first call. `copier` is used when the module knows none of its own.
  [[nodiscard]] std::shared_ptr<Module> copy(const Module& original, const detail::Copier& copier = {});
  /// The copy of a tensor: same values, dtype, device and requires_grad, no history.
  [[nodiscard]] Tensor copy(const Tensor& original);
  /// Whether the original ends afterwards: what is its own goes to the copy.
  [[nodiscard]] bool moves() const noexcept { return parts_ == Parts::moved; }
  /// Notes where the copy of a module is being built; place_of() gives it.
  void begin(const Module& original, Module& copy) { places_[&original] = &copy; }
  [[nodiscard]] Module& place_of(const Module& original) const;

 private:
  /// C++ copies a member inside of the copy of its owner, so a copy nests as deep as the model.
  static constexpr int kMostNested = 2000;

  Cloning* previous_;
  Parts parts_;
  int nested_ = 0;
  std::unordered_map<const Module*, Module*> places_;
  std::unordered_map<const Module*, std::shared_ptr<Module>> modules_;
  std::unordered_map<const TensorImpl*, Tensor> tensors_;
};

}  // namespace mezzo::nn
