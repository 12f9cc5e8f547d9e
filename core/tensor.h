// Tensor: a cheap handle on a strided view of a storage, with its place in the recorded graph. This header
// knows memory and metadata only; members that are ops (marked below) are defined in ops/shape/methods.cpp,
// and those that walk the graph in autograd/.
#pragma once

#include <iosfwd>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "mezzo/core/dims.h"
#include "mezzo/core/dtype.h"
#include "mezzo/core/function.h"
#include "mezzo/core/layout.h"
#include "mezzo/core/scalar.h"
#include "mezzo/core/small_vector.h"
#include "mezzo/core/storage.h"

namespace mezzo {

class Tensor;
struct TensorImpl;

/// How a new tensor is made: `zeros({2, 3}, {.dtype = DType::f64})`.
struct TensorOptions {
  DType dtype = DType::f32;
  Device device = Device::cpu();
  bool requires_grad = false;
  MemoryFormat memory_format = MemoryFormat::contiguous;  ///< of a new tensor; preserve counts as contiguous
};

/// Called with the complete gradient of a tensor; may return another one to use instead, or an undefined
/// tensor.
using GradHook = detail::Function<Tensor(const Tensor&)>;

struct BackwardOptions;  // autograd/engine.h

/// A multi-dimensional array: shape and strides (in elements) over a shared storage. Copying a Tensor copies
/// the handle; both then name the same values, gradient and history. A default-constructed Tensor is
/// undefined and stands for "absent": `defined()`, `requires_grad()` and `is_same()` say so, all other
/// members throw ValueError.
class Tensor {
 public:
  Tensor() noexcept = default;
  explicit Tensor(Ref<TensorImpl> impl) noexcept : impl_(std::move(impl)) {}

  [[nodiscard]] bool defined() const noexcept { return static_cast<bool>(impl_); }
  [[nodiscard]] const Shape& shape() const;
  [[nodiscard]] const Dims& strides() const;  ///< in elements
  [[nodiscard]] std::int64_t dim() const;     ///< number of dimensions
  /// Size of one dim; negative dims count from the end. Throws: IndexError.
  [[nodiscard]] std::int64_t size(std::int64_t dim) const;
  [[nodiscard]] std::int64_t numel() const;
  [[nodiscard]] DType dtype() const;
  [[nodiscard]] Device device() const;
  [[nodiscard]] bool is_contiguous(MemoryFormat format = MemoryFormat::contiguous) const;
  /// The format that results made of this tensor take (layout::format_of).
  [[nodiscard]] MemoryFormat suggest_memory_format() const;
  /// Whether both handles name the same tensor (not: equal values).
  [[nodiscard]] bool is_same(const Tensor& other) const noexcept { return impl_ == other.impl_; }

  // --- values on the host; each call counts as one host read
  /// The value of a one-element tensor. Throws: ShapeError otherwise.
  template <class T = double>
  [[nodiscard]] T item() const {
    return item_scalar().template to<T>();
  }
  [[nodiscard]] Scalar item_scalar() const;
  /// The elements of a contiguous CPU tensor, in order. T must be the storage type of the dtype (DTypeError).
  template <class T>
  [[nodiscard]] std::span<const T> data() const {
    return {static_cast<const T*>(host_data(dtype_of<T>)), static_cast<std::size_t>(numel())};
  }
  /// The same for writing; counts as an in-place write (version).
  template <class T>
  [[nodiscard]] std::span<T> mutable_data() const {
    return {static_cast<T*>(writable_host_data(dtype_of<T>)), static_cast<std::size_t>(numel())};
  }
  /// A copy of all elements, row-major, converted to T; any device, layout and dtype.
  template <class T>
  [[nodiscard]] std::vector<T> to_vector() const;

  // --- autograd
  /// Whether gradients flow to it: a leaf that asked for them, or a result of such.
  [[nodiscard]] bool requires_grad() const noexcept;
  /// Asks for gradients of a leaf. Throws: AutogradError for a result of recorded ops, DTypeError for
  /// non-floating.
  const Tensor& requires_grad_(bool value = true) const;
  /// Whether it was not made by a recorded op.
  [[nodiscard]] bool is_leaf() const;
  /// The accumulated gradient of a leaf; undefined before the first backward.
  [[nodiscard]] Tensor grad() const;
  /// Replaces the gradient (an undefined tensor clears it). Shape, device and dtype must be the tensor's own;
  /// that of a 16-bit tensor may be f32 as well, which later backwards then add to.
  void set_grad(const Tensor& gradient) const;
  /// d(this)/d(leaves), added to the leaves' gradients. This tensor must have one element unless a gradient
  /// is given (autograd/engine.h has the free functions and their contract).
  void backward() const;
  void backward(const Tensor& gradient, const BackwardOptions& options) const;
  void backward(const BackwardOptions& options) const;
  /// The same values without history, sharing storage and version.
  [[nodiscard]] Tensor detach() const;
  /// Calls `hook` with the complete gradient of this tensor in every backward. Returns an id for
  /// `remove_hook`. A backward under way in another thread calls the hooks that it finds when it gets there,
  /// so it may still call one just removed.
  std::size_t register_hook(GradHook hook) const;
  void remove_hook(std::size_t id) const;
  /// Counts in-place writes to the storage.
  [[nodiscard]] std::uint32_t version() const;

  // --- ops (ops/shape/methods.cpp)
  [[nodiscard]] Tensor to(DType dtype) const;  ///< see `to` in ops/cast.h
  /// Copies between devices; the same handle when it is there already.
  [[nodiscard]] Tensor to(Device device) const;
  /// The same elements, dense in a memory format (`preserve` counts as row-major); the same handle when they
  /// lie so already.
  [[nodiscard]] Tensor contiguous(MemoryFormat format = MemoryFormat::contiguous) const;
  /// The same, but `preserve` keeps either format. Ops on the result keep the format, also where sizes of 1
  /// make the tensor dense in both formats (a batch of one-channel images is therefore copied once).
  [[nodiscard]] Tensor to(MemoryFormat format) const;
  [[nodiscard]] Tensor clone() const;  ///< see `clone` in ops/cast.h
  /// In-place writes. They bump the version. With recording on: the result takes the place of this tensor in
  /// the graph; refused (AutogradError) on a leaf that requires grad, on a view, and while views of it are
  /// alive, because their history could not follow. `other` broadcasts to this shape; the result keeps this
  /// dtype.
  const Tensor& add_(const Tensor& other, Scalar alpha = 1) const;
  const Tensor& add_(Scalar other) const;
  const Tensor& mul_(const Tensor& other) const;
  const Tensor& mul_(Scalar other) const;
  /// beta * this + alpha * (a @ b), see `addmm` in ops/matmul.h. Autocast leaves it alone, so that all three
  /// are of one dtype.
  const Tensor& addmm_(const Tensor& a, const Tensor& b, Scalar beta = 1, Scalar alpha = 1) const;
  const Tensor& copy_(const Tensor& source) const;
  const Tensor& fill_(Scalar value) const;
  const Tensor& zero_() const;

  /// The state, unchecked: the tensor must be defined.
  [[nodiscard]] TensorImpl& impl() const noexcept { return *impl_; }
  [[nodiscard]] const Ref<TensorImpl>& ref() const noexcept { return impl_; }

 private:
  /// The state, for a member of that name. Throws: ValueError for an undefined tensor.
  [[nodiscard]] TensorImpl& required(const char* member) const {
    if (!impl_) [[unlikely]]
      throw_undefined(member);
    return *impl_;
  }
  [[noreturn]] static void throw_undefined(const char* member);
  [[nodiscard]] const void* host_data(DType expected) const;
  [[nodiscard]] void* writable_host_data(DType expected) const;

  Ref<TensorImpl> impl_;
};

using Tensors = SmallVector<Tensor, 2>;

/// The shared state behind Tensor handles.
struct TensorImpl final : RefCounted {
  TensorImpl(Ref<Storage> storage_in, std::int64_t offset_in, const Shape& shape_in, const Dims& strides_in,
             DType dtype_in, bool is_view_in);
  ~TensorImpl() override;

  Ref<Storage> storage;
  std::int64_t offset;  ///< in elements
  Shape shape;
  Dims strides;
  DType dtype;
  bool is_view;                       ///< shows the values of another tensor on the same storage
  bool requires_grad = false;         ///< a leaf that asked for a gradient
  std::uint32_t output_index = 0;     ///< which output of grad_fn it is
  Ref<RefCounted> grad_fn;            ///< autograd::Node that made it; empty for a leaf
  OnceRef<RefCounted> autograd_meta;  ///< autograd::AutogradMeta: gradient, hooks, copies; made at first need

  [[nodiscard]] void* data() const noexcept {
    return static_cast<std::byte*>(storage->data()) + offset * size_of(dtype);
  }
};

/// Uninitialised, dense in the given format. Throws: ShapeError for negative sizes, for 2^60 elements or more
/// and for channels_last of other than 3 to 5 dims; OutOfMemoryError.
[[nodiscard]] Tensor empty(const Shape& shape, const TensorOptions& options = {});
/// All bytes zero.
[[nodiscard]] Tensor zeros(const Shape& shape, const TensorOptions& options = {});
/// A tensor on the same storage with another layout, without history. `is_view` says that it shows values of
/// another tensor (as the outputs of view ops do; `detach` does not count).
[[nodiscard]] Tensor alias(const Tensor& base, const Shape& shape, const Dims& strides, std::int64_t offset,
                           bool is_view);
/// Options of a tensor: its dtype and device.
[[nodiscard]] TensorOptions options_of(const Tensor& tensor);

/// Values as PyTorch prints them: `[[1, 2], [3, 4]] f32 [2, 2]`, long dims elided. One host read.
[[nodiscard]] std::string to_string(const Tensor& tensor);
std::ostream& operator<<(std::ostream& stream, const Tensor& tensor);

inline const Shape& Tensor::shape() const { return required("shape").shape; }
inline const Dims& Tensor::strides() const { return required("strides").strides; }
inline std::int64_t Tensor::dim() const { return static_cast<std::int64_t>(required("dim").shape.size()); }
inline DType Tensor::dtype() const { return required("dtype").dtype; }
inline Device Tensor::device() const { return required("device").storage->device(); }
inline bool Tensor::requires_grad() const noexcept {
  return impl_ && (impl_->requires_grad || static_cast<bool>(impl_->grad_fn));
}
inline bool Tensor::is_leaf() const { return !required("is_leaf").grad_fn; }
inline std::uint32_t Tensor::version() const { return required("version").storage->version(); }

}  // namespace mezzo
