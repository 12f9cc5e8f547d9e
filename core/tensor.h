// Tensor: a cheap handle on a strided view of a storage, with its place in the recorded graph. This header
// knows memory and metadata only; members that are ops (marked below) are defined in ops/, most of them in
// ops/tensor/, and those that walk the graph in autograd/.
#pragma once

#include <concepts>
#include <initializer_list>
#include <iosfwd>
#include <iterator>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
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

template <class T>
class HeldSpan;
class Index;
struct RandomOptions;
class Tensor;
class TensorItem;
class TensorIterator;
class TensorList;
struct TensorImpl;
struct ValuesIndices;
using Tensors = SmallVector<Tensor, 2>;

/// How a new tensor is made: `zeros({2, 3}, {.dtype = DType::f64})`.
struct TensorOptions {
  DType dtype = DType::f32;
  Device device = Device::cpu();
  bool requires_grad = false;
  MemoryFormat memory_format = MemoryFormat::contiguous;  ///< of a new tensor; preserve counts as contiguous
  operator RandomOptions() const;                         ///< for random tensors (ops/random.h)
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
  [[nodiscard]] const Shape& shape() const&;
  [[nodiscard]] Shape shape() const&& { return shape(); }
  [[nodiscard]] const Dims& strides() const&;  ///< in elements
  [[nodiscard]] Dims strides() const&& { return strides(); }
  [[nodiscard]] std::int64_t dim() const;  ///< number of dimensions
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
  /// The span of a temporary tensor, `add(x, 1).data<float>()`, comes with the tensor.
  template <class T>
  [[nodiscard]] std::span<const T> data() const& {
    return {static_cast<const T*>(host_data(dtype_of<T>)), static_cast<std::size_t>(numel())};
  }
  template <class T>
  [[nodiscard]] HeldSpan<const T> data() const&& {
    return {*this, data<T>()};
  }
  /// The elements for writing; counts as an in-place write (version). Whoever keeps the span may write later
  /// on, so from here on autocast casts the values anew in each outermost region.
  template <class T>
  [[nodiscard]] std::span<T> mutable_data() const& {
    return {static_cast<T*>(writable_host_data(dtype_of<T>)), static_cast<std::size_t>(numel())};
  }
  template <class T>
  [[nodiscard]] HeldSpan<T> mutable_data() const&& {
    return {*this, mutable_data<T>()};
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
  /// Whether its memory was made in an InferenceMode.
  [[nodiscard]] bool is_inference() const;
  /// The accumulated gradient of a leaf; undefined before the first backward.
  [[nodiscard]] Tensor grad() const;
  /// Replaces the gradient (an undefined tensor clears it). Shape, device and dtype must be the tensor's own;
  /// the gradient of a 16-bit tensor may be f32 as well, which later backwards then add to.
  void set_grad(const Tensor& gradient) const;
  /// d(this)/d(leaves), added to the leaves' gradients. This tensor must have one element unless a gradient
  /// is given (autograd/engine.h has the free functions and their contract).
  void backward() const;
  void backward(const Tensor& gradient) const;
  void backward(const Tensor& gradient, const BackwardOptions& options) const;
  void backward(const BackwardOptions& options) const;
  /// The tensor without history, sharing storage and version.
  [[nodiscard]] Tensor detach() const;
  /// Calls `hook` with the complete gradient of this tensor in every backward. Returns an id for
  /// `remove_hook`. A backward under way in another thread calls the hooks that it finds when it gets there,
  /// so it may still call one just removed.
  std::size_t register_hook(GradHook hook) const;
  /// register_hook for a hook that only reads the gradient and returns nothing.
  template <std::invocable<const Tensor&> F>
  requires std::is_void_v<std::invoke_result_t<F&, const Tensor&>> std::size_t register_hook(F hook)
  const {
    return register_hook(GradHook([hook = std::move(hook)](const Tensor& gradient) mutable {
      hook(gradient);
      return Tensor();
    }));
  }
  void remove_hook(std::size_t id) const;
  /// Counts in-place writes to the storage.
  [[nodiscard]] std::uint32_t version() const;

  // --- ops (ops/shape/methods.cpp)
  [[nodiscard]] Tensor to(DType dtype) const;  ///< see `to` in ops/cast.h
  /// Copies between devices; the same handle when it is there already.
  [[nodiscard]] Tensor to(Device device) const;
  [[nodiscard]] Tensor to(Device device, DType dtype) const;
  [[nodiscard]] Tensor cpu() const;
  [[nodiscard]] Tensor cuda() const;
  /// The elements dense in a memory format (`preserve` counts as row-major); this handle when they lie so
  /// already.
  [[nodiscard]] Tensor contiguous(MemoryFormat format = MemoryFormat::contiguous) const;
  /// contiguous(format), but `preserve` keeps either format. Ops on the result keep the format, also where
  /// sizes of 1 make it dense in both formats (a batch of one-channel images is therefore copied once).
  [[nodiscard]] Tensor to(MemoryFormat format) const;
  [[nodiscard]] Tensor clone() const;  ///< see `clone` in ops/cast.h
  /// In-place writes. They bump the version. With recording on: the result takes the place of this tensor in
  /// the graph; refused (AutogradError) on a leaf that requires grad, on a view, and while views of it are
  /// alive, because their history could not follow. `other` broadcasts to this shape; the result keeps this
  /// dtype.
  const Tensor& add_(const Tensor& other, Scalar alpha = 1) const;
  const Tensor& add_(Scalar other) const;
  const Tensor& sub_(const Tensor& other, Scalar alpha = 1) const;
  const Tensor& sub_(Scalar other) const;
  const Tensor& mul_(const Tensor& other) const;
  const Tensor& mul_(Scalar other) const;
  const Tensor& div_(const Tensor& other) const;
  const Tensor& div_(Scalar other) const;
  const Tensor& operator+=(const Tensor& other) const { return add_(other); }
  const Tensor& operator+=(Scalar other) const { return add_(other); }
  const Tensor& operator-=(const Tensor& other) const { return sub_(other); }
  const Tensor& operator-=(Scalar other) const { return sub_(other); }
  const Tensor& operator*=(const Tensor& other) const { return mul_(other); }
  const Tensor& operator*=(Scalar other) const { return mul_(other); }
  const Tensor& operator/=(const Tensor& other) const { return div_(other); }
  const Tensor& operator/=(Scalar other) const { return div_(other); }
  const Tensor& operator&=(const Tensor& other) const;
  const Tensor& operator&=(Scalar other) const;
  const Tensor& operator|=(const Tensor& other) const;
  const Tensor& operator|=(Scalar other) const;
  const Tensor& operator^=(const Tensor& other) const;
  const Tensor& operator^=(Scalar other) const;
  const Tensor& pow_(Scalar exponent) const;
  const Tensor& clamp_(std::optional<Scalar> min, std::optional<Scalar> max = {}) const;
  const Tensor& clamp_min_(Scalar min) const;
  const Tensor& clamp_max_(Scalar max) const;
  const Tensor& neg_() const;
  const Tensor& abs_() const;
  const Tensor& exp_() const;
  const Tensor& log_() const;
  const Tensor& sqrt_() const;
  const Tensor& floor_() const;
  const Tensor& round_() const;
  const Tensor& relu_() const;
  const Tensor& sigmoid_() const;
  const Tensor& tanh_() const;
  const Tensor& addcmul_(const Tensor& a, const Tensor& b, Scalar value = 1) const;
  const Tensor& addcdiv_(const Tensor& a, const Tensor& b, Scalar value = 1) const;
  const Tensor& lerp_(const Tensor& end, double weight) const;
  const Tensor& masked_fill_(const Tensor& mask, Scalar value) const;
  const Tensor& scatter_(std::int64_t dim, const Tensor& index, const Tensor& src) const;
  const Tensor& scatter_(std::int64_t dim, const Tensor& index, Scalar value) const;
  const Tensor& scatter_add_(std::int64_t dim, const Tensor& index, const Tensor& src) const;
  const Tensor& index_add_(std::int64_t dim, const Tensor& index, const Tensor& src, Scalar alpha = 1) const;
  /// beta * this + alpha * (a @ b), see `addmm` in ops/matmul.h. Autocast leaves it alone, so that all three
  /// are of one dtype.
  const Tensor& addmm_(const Tensor& a, const Tensor& b, Scalar beta = 1, Scalar alpha = 1) const;
  const Tensor& copy_(const Tensor& source) const;
  const Tensor& fill_(Scalar value) const;
  const Tensor& zero_() const;
  /// Random values, see `uniform_`, `normal_` and `exponential_` in ops/random.h.
  const Tensor& uniform_(double low = 0, double high = 1) const;
  const Tensor& normal_(double mean = 0, double std = 1) const;
  const Tensor& exponential_(double lambda = 1) const;

  // --- indexing (ops/tensor_index.h)
  /// x[i]: position i of the first dim; x[{0, Slice(1, 5), None, mask}]: what Python's x[0, 1:5, None, mask]
  /// is. A view where there are no tensors among the indices, else a copy. Assigned to, it writes into x:
  /// `x[{0, Slice(1, 5)}] = y`, `x[mask] = 0`, `x[i] += 1`.
  [[nodiscard]] TensorItem operator[](std::int64_t position) const;
  [[nodiscard]] TensorItem operator[](const Index& index) const;
  [[nodiscard]] TensorItem operator[](std::initializer_list<Index> indices) const;
  /// operator[] under LibTorch's names: index reads, index_put_ writes.
  [[nodiscard]] Tensor index(std::initializer_list<Index> indices) const;
  const Tensor& index_put_(std::initializer_list<Index> indices, const Tensor& values) const;
  const Tensor& index_put_(std::initializer_list<Index> indices, Scalar value) const;
  /// The positions of the first dim, one by one: `for (const Tensor& row : x)`. Throws: IndexError for a
  /// 0-dim tensor.
  [[nodiscard]] TensorIterator begin() const;
  [[nodiscard]] TensorIterator end() const;

  // --- ops as members, to be chained: `x.sum(1).sqrt()`. Each is the function of its name in ops/, with this
  // tensor as its first argument (ops/tensor/methods.cpp).
  [[nodiscard]] Tensor view(const Shape& shape) const;
  [[nodiscard]] Tensor reshape(const Shape& shape) const;
  [[nodiscard]] Tensor permute(const Dims& dims) const;
  [[nodiscard]] Tensor transpose(std::int64_t d0, std::int64_t d1) const;
  [[nodiscard]] Tensor movedim(std::int64_t source, std::int64_t destination) const;
  [[nodiscard]] Tensor t() const;
  [[nodiscard]] Tensor expand(const Shape& sizes) const;
  [[nodiscard]] Tensor expand_as(const Tensor& other) const;
  [[nodiscard]] Tensor view_as(const Tensor& other) const;
  [[nodiscard]] Tensor type_as(const Tensor& other) const;
  [[nodiscard]] Tensor squeeze(const ReducedDims& dim = {}) const;
  [[nodiscard]] Tensor unsqueeze(std::int64_t dim) const;
  [[nodiscard]] Tensor flatten(std::int64_t start_dim = 0, std::int64_t end_dim = -1) const;
  [[nodiscard]] Tensor narrow(std::int64_t dim, std::int64_t start, std::int64_t length) const;
  [[nodiscard]] Tensor select(std::int64_t dim, std::int64_t index) const;
  [[nodiscard]] Tensor slice(std::int64_t dim, std::optional<std::int64_t> start = {},
                             std::optional<std::int64_t> end = {}, std::int64_t step = 1) const;
  [[nodiscard]] Tensors split(std::int64_t size, std::int64_t dim = 0) const;
  [[nodiscard]] Tensors chunk(std::int64_t chunks, std::int64_t dim = 0) const;
  [[nodiscard]] Tensors unbind(std::int64_t dim = 0) const;
  [[nodiscard]] Tensor repeat(const Dims& reps) const;
  [[nodiscard]] Tensor tile(const Dims& reps) const;
  [[nodiscard]] Tensor flip(const ReducedDims& dims) const;
  [[nodiscard]] Tensor roll(std::int64_t shift, std::int64_t dim) const;
  [[nodiscard]] Tensor tril(std::int64_t diagonal = 0) const;
  [[nodiscard]] Tensor triu(std::int64_t diagonal = 0) const;
  [[nodiscard]] Tensor diag(std::int64_t diagonal = 0) const;

  [[nodiscard]] Tensor add(const Tensor& other, Scalar alpha = 1) const;
  [[nodiscard]] Tensor add(Scalar other) const;
  [[nodiscard]] Tensor sub(const Tensor& other, Scalar alpha = 1) const;
  [[nodiscard]] Tensor sub(Scalar other) const;
  [[nodiscard]] Tensor mul(const Tensor& other) const;
  [[nodiscard]] Tensor mul(Scalar other) const;
  [[nodiscard]] Tensor div(const Tensor& other) const;
  [[nodiscard]] Tensor div(Scalar other) const;
  [[nodiscard]] Tensor pow(const Tensor& exponent) const;
  [[nodiscard]] Tensor pow(Scalar exponent) const;
  [[nodiscard]] Tensor clamp(std::optional<Scalar> min, std::optional<Scalar> max = {}) const;
  [[nodiscard]] Tensor clamp_min(Scalar min) const;
  [[nodiscard]] Tensor clamp_max(Scalar max) const;
  [[nodiscard]] Tensor neg() const;
  [[nodiscard]] Tensor abs() const;
  [[nodiscard]] Tensor sign() const;
  [[nodiscard]] Tensor square() const;
  [[nodiscard]] Tensor exp() const;
  [[nodiscard]] Tensor log() const;
  [[nodiscard]] Tensor log1p() const;
  [[nodiscard]] Tensor expm1() const;
  [[nodiscard]] Tensor erf() const;
  [[nodiscard]] Tensor sqrt() const;
  [[nodiscard]] Tensor rsqrt() const;
  [[nodiscard]] Tensor reciprocal() const;
  [[nodiscard]] Tensor sin() const;
  [[nodiscard]] Tensor cos() const;
  [[nodiscard]] Tensor floor() const;
  [[nodiscard]] Tensor ceil() const;
  [[nodiscard]] Tensor round() const;
  [[nodiscard]] Tensor relu() const;
  [[nodiscard]] Tensor sigmoid() const;
  [[nodiscard]] Tensor tanh() const;
  [[nodiscard]] Tensor softmax(std::int64_t dim, std::optional<DType> dtype = {}) const;
  [[nodiscard]] Tensor log_softmax(std::int64_t dim, std::optional<DType> dtype = {}) const;
  [[nodiscard]] Tensor matmul(const Tensor& other) const;
  [[nodiscard]] Tensor mm(const Tensor& other) const;
  [[nodiscard]] Tensor bmm(const Tensor& other) const;
  [[nodiscard]] Tensor dot(const Tensor& other) const;

  [[nodiscard]] Tensor eq(const Tensor& other) const;
  [[nodiscard]] Tensor eq(Scalar other) const;
  [[nodiscard]] Tensor ne(const Tensor& other) const;
  [[nodiscard]] Tensor ne(Scalar other) const;
  [[nodiscard]] Tensor lt(const Tensor& other) const;
  [[nodiscard]] Tensor lt(Scalar other) const;
  [[nodiscard]] Tensor le(const Tensor& other) const;
  [[nodiscard]] Tensor le(Scalar other) const;
  [[nodiscard]] Tensor gt(const Tensor& other) const;
  [[nodiscard]] Tensor gt(Scalar other) const;
  [[nodiscard]] Tensor ge(const Tensor& other) const;
  [[nodiscard]] Tensor ge(Scalar other) const;
  [[nodiscard]] Tensor logical_and(const Tensor& other) const;
  [[nodiscard]] Tensor logical_or(const Tensor& other) const;
  [[nodiscard]] Tensor logical_not() const;
  [[nodiscard]] Tensor isnan() const;
  [[nodiscard]] Tensor isinf() const;
  [[nodiscard]] Tensor isfinite() const;
  [[nodiscard]] bool equal(const Tensor& other) const;
  [[nodiscard]] bool allclose(const Tensor& other, double rtol = 1e-5, double atol = 1e-8,
                              bool equal_nan = false) const;

  [[nodiscard]] Tensor sum(const ReducedDims& dim = {}, bool keepdim = false,
                           std::optional<DType> dtype = {}) const;
  [[nodiscard]] Tensor mean(const ReducedDims& dim = {}, bool keepdim = false,
                            std::optional<DType> dtype = {}) const;
  [[nodiscard]] Tensor prod(std::optional<std::int64_t> dim = {}, bool keepdim = false) const;
  [[nodiscard]] Tensor var(const ReducedDims& dim = {}, bool unbiased = true, bool keepdim = false) const;
  [[nodiscard]] Tensor std(const ReducedDims& dim = {}, bool unbiased = true, bool keepdim = false) const;
  [[nodiscard]] Tensor norm(double p = 2, const ReducedDims& dim = {}, bool keepdim = false) const;
  /// |this - other|_p over all elements of the broadcast difference; a member alone, as mezzo::dist is a
  /// namespace. Shapes: [].
  [[nodiscard]] Tensor dist(const Tensor& other, double p = 2) const;
  [[nodiscard]] Tensor logsumexp(const ReducedDims& dim, bool keepdim = false) const;
  [[nodiscard]] Tensor any(const ReducedDims& dim = {}, bool keepdim = false) const;
  [[nodiscard]] Tensor all(const ReducedDims& dim = {}, bool keepdim = false) const;
  [[nodiscard]] Tensor amax(const ReducedDims& dim = {}, bool keepdim = false) const;
  [[nodiscard]] Tensor amin(const ReducedDims& dim = {}, bool keepdim = false) const;
  [[nodiscard]] Tensor max() const;
  [[nodiscard]] Tensor min() const;
  [[nodiscard]] ValuesIndices max(std::int64_t dim, bool keepdim = false) const;
  [[nodiscard]] ValuesIndices min(std::int64_t dim, bool keepdim = false) const;
  [[nodiscard]] Tensor argmax(std::optional<std::int64_t> dim = {}, bool keepdim = false) const;
  [[nodiscard]] Tensor argmin(std::optional<std::int64_t> dim = {}, bool keepdim = false) const;
  [[nodiscard]] Tensor cumsum(std::int64_t dim) const;
  [[nodiscard]] Tensor cumprod(std::int64_t dim) const;
  [[nodiscard]] ValuesIndices cummax(std::int64_t dim) const;
  [[nodiscard]] ValuesIndices cummin(std::int64_t dim) const;
  [[nodiscard]] ValuesIndices sort(std::int64_t dim = -1, bool descending = false) const;
  [[nodiscard]] Tensor argsort(std::int64_t dim = -1, bool descending = false) const;
  [[nodiscard]] ValuesIndices topk(std::int64_t k, std::int64_t dim = -1, bool largest = true) const;

  [[nodiscard]] Tensor gather(std::int64_t dim, const Tensor& index) const;
  [[nodiscard]] Tensor scatter(std::int64_t dim, const Tensor& index, const Tensor& src) const;
  [[nodiscard]] Tensor scatter_add(std::int64_t dim, const Tensor& index, const Tensor& src) const;
  [[nodiscard]] Tensor index_select(std::int64_t dim, const Tensor& index) const;
  [[nodiscard]] Tensor masked_fill(const Tensor& mask, Scalar value) const;
  [[nodiscard]] Tensor masked_select(const Tensor& mask) const;
  [[nodiscard]] Tensor nonzero() const;

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

/// The elements of a temporary tensor, which it keeps alive. It becomes a std::span only where it has a name.
template <class T>
class HeldSpan {
  // No contiguous range, as std::span could be made of it by itself, and of a temporary.
  using Iterator = std::reverse_iterator<std::reverse_iterator<T*>>;

 public:
  HeldSpan(Tensor tensor, std::span<T> elements) noexcept : tensor_(std::move(tensor)), elements_(elements) {}
  [[nodiscard]] std::size_t size() const noexcept { return elements_.size(); }
  [[nodiscard]] bool empty() const noexcept { return elements_.empty(); }
  [[nodiscard]] T* data() const noexcept { return elements_.data(); }
  [[nodiscard]] Iterator begin() const noexcept { return at(elements_.data()); }
  [[nodiscard]] Iterator end() const noexcept { return at(elements_.data() + elements_.size()); }
  T& operator[](std::size_t i) const noexcept { return elements_[i]; }
  operator std::span<T>() const& noexcept { return elements_; }
  operator std::span<T>() const&& = delete;

 private:
  static Iterator at(T* element) noexcept { return Iterator(std::reverse_iterator<T*>(element)); }

  Tensor tensor_;
  std::span<T> elements_;
};

/// Several tensors as an argument: `{a, b}`, a vector, what `parameters()` returns, a span, or one tensor. It
/// owns none of them, so it is for parameters of functions only. Source: at::TensorList.
class TensorList {
 public:
  constexpr TensorList() noexcept = default;
  TensorList(const Tensor& tensor) noexcept : data_(&tensor), size_(1) {}
  constexpr TensorList(const Tensor* first, std::size_t size) noexcept : data_(first), size_(size) {}
  TensorList(std::initializer_list<Tensor> tensors) noexcept : size_(tensors.size()) {
    data_ = tensors.begin();  // lives until the call is over
  }
  template <class R>
  requires(!std::is_base_of_v<Tensor, R> && !std::is_same_v<R, std::initializer_list<Tensor>> &&
           std::is_convertible_v<const R&, std::span<const Tensor>>) TensorList(const R& tensors)
  noexcept {
    const std::span<const Tensor> span = tensors;
    data_ = span.data();
    size_ = span.size();
  }
  [[nodiscard]] std::size_t size() const noexcept { return size_; }
  [[nodiscard]] bool empty() const noexcept { return size_ == 0; }
  [[nodiscard]] const Tensor* begin() const noexcept { return data_; }
  [[nodiscard]] const Tensor* end() const noexcept { return data_ + size_; }
  const Tensor& operator[](std::size_t i) const noexcept { return data_[i]; }
  operator std::span<const Tensor>() const noexcept { return {data_, size_}; }

 private:
  const Tensor* data_ = nullptr;
  std::size_t size_ = 0;
};

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

/// Values as PyTorch prints them, of large tensors the edges, with shape, dtype, device where it is not the
/// CPU: `tensor([1.5000, 2.0000], shape=[2], dtype=f32)`. One host read.
[[nodiscard]] std::string to_string(const Tensor& tensor);
std::ostream& operator<<(std::ostream& stream, const Tensor& tensor);
// "[2, 3]", "f32", "cuda:0": what to_string gives.
std::ostream& operator<<(std::ostream& stream, const Dims& dims);
std::ostream& operator<<(std::ostream& stream, DType dtype);
std::ostream& operator<<(std::ostream& stream, Device device);

inline const Shape& Tensor::shape() const& { return required("shape").shape; }
inline const Dims& Tensor::strides() const& { return required("strides").strides; }
inline std::int64_t Tensor::dim() const { return static_cast<std::int64_t>(required("dim").shape.size()); }
inline DType Tensor::dtype() const { return required("dtype").dtype; }
inline bool Tensor::is_inference() const { return required("is_inference").storage->is_inference(); }
inline Device Tensor::device() const { return required("device").storage->device(); }
inline bool Tensor::requires_grad() const noexcept {
  return impl_ && (impl_->requires_grad || static_cast<bool>(impl_->grad_fn));
}
inline bool Tensor::is_leaf() const { return !required("is_leaf").grad_fn; }
inline std::uint32_t Tensor::version() const { return required("version").storage->version(); }

}  // namespace mezzo
