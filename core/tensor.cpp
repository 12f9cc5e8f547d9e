// The members of Tensor that need no kernels: metadata, empty, zeros, aliases, and reading values on the
// host. to_vector() on another device copies the whole storage to the host first; item() copies one element.
// And storages, which get their buffers from the allocator of their device and return them there.
#include "mezzo/core/tensor.h"

#include <cstring>

#include "mezzo/core/backend.h"
#include "mezzo/core/current_op.h"
#include "mezzo/core/inference_mode.h"
#include "mezzo/core/layout.h"
#include "mezzo/core/memory/allocator.h"

namespace mezzo {

namespace {

/// Widens one stored element to a Scalar of its kind.
template <class T>
Scalar load_scalar(const std::byte* element) {
  T value;
  std::memcpy(&value, element, sizeof(T));
  if constexpr (kIsNarrowFloat<T>)
    return Scalar(static_cast<float>(value));
  else
    return Scalar(value);
}

/// n stored elements that are `step` bytes apart.
template <class T>
void load_row(const std::byte* from, std::int64_t step, DType dtype, T* to, std::int64_t n) {
  dispatch(dtype, [&]<class S>(TypeTag<S>) {
    for (std::int64_t i = 0; i < n; ++i) to[i] = load_scalar<S>(from + i * step).template to<T>();
  });
}

/// The whole storage of a tensor on the host: the storage itself on the CPU, a copy in `keep` otherwise.
const std::byte* host_bytes(const TensorImpl& impl, std::vector<std::byte>& keep) {
  const Storage& storage = *impl.storage;
  if (storage.device().is_cpu()) return static_cast<const std::byte*>(storage.data());
  keep.resize(storage.bytes());
  backend(storage.device())
      .copy_to_host(keep.data(), storage.data(), storage.bytes(), storage.device().index);
  return keep.data();
}

}  // namespace

Storage::Storage(std::size_t bytes, Device device)
    : inference_(inference_mode_enabled()),
      data_(detail::allocate_bytes(bytes, device)),
      bytes_(bytes),
      device_(device) {
  if (!device.is_cpu()) note_made();
}

Storage::~Storage() {
  if (recorded_) note_freed();
  if (!borrowed_) detail::deallocate_bytes(data_, bytes_, device_);
}

TensorImpl::TensorImpl(Ref<Storage> storage_in, std::int64_t offset_in, const Shape& shape_in,
                       const Dims& strides_in, DType dtype_in, bool is_view_in)
    : storage(std::move(storage_in)),
      offset(offset_in),
      shape(shape_in),
      strides(strides_in),
      dtype(dtype_in),
      is_view(is_view_in) {
  if (is_view) storage->count_view(1);
}

TensorImpl::~TensorImpl() {
  if (is_view) storage->count_view(-1);
}

[[gnu::cold]] void Tensor::throw_undefined(const char* member) {
  throw ValueError(member, "a tensor", "an undefined one",
                   "ask defined() first: an absent tensor has no values");
}

std::int64_t Tensor::size(std::int64_t dim) const {
  const Shape& sizes = required("size").shape;
  if (sizes.empty())
    throw IndexError("size", "a tensor with dims", "a 0-dim tensor", "use numel() or item()");
  return sizes[static_cast<std::size_t>(layout::wrap_dim("size", dim, sizes.size()))];
}

std::int64_t Tensor::numel() const { return layout::numel(required("numel").shape); }

bool Tensor::is_contiguous(MemoryFormat format) const {
  const TensorImpl& impl = required("is_contiguous");
  return layout::is_dense_in(impl.shape, impl.strides, format);
}
MemoryFormat Tensor::suggest_memory_format() const {
  const TensorImpl& impl = required("suggest_memory_format");
  return layout::format_of(impl.shape, impl.strides);
}

Scalar Tensor::item_scalar() const {
  if (layout::numel(required("item").shape) != 1) {
    throw ShapeError("item", "a tensor of one element", to_string(shape()),
                     "reduce it first or use to_vector()");
  }
  const HostRead read("item");
  const detail::OpScope names("item");
  std::array<std::byte, 8> bytes{};
  backend(device()).copy_to_host(bytes.data(), impl_->data(), static_cast<std::size_t>(size_of(dtype())),
                                 device().index);
  return dispatch(dtype(), [&]<class T>(TypeTag<T>) { return load_scalar<T>(bytes.data()); });
}

const void* Tensor::host_data(DType expected) const {
  static_cast<void>(required("data"));
  if (expected != dtype()) {
    throw DTypeError("data", to_string(dtype()) + " (the tensor's dtype)", to_string(expected),
                     "ask for the tensor's own type, or convert with to(dtype)");
  }
  if (!device().is_cpu())
    throw DeviceError("data", "a CPU tensor", to_string(device()), "copy with to(Device::cpu())");
  if (!is_contiguous()) {
    throw ShapeError("data", "a contiguous tensor", "strides " + to_string(strides()),
                     "call contiguous() first");
  }
  const HostRead read("data");
  return impl_->data();
}

void* Tensor::writable_host_data(DType expected) const {
  auto* memory = const_cast<void*>(host_data(expected));
  impl_->storage->bump_version();
  impl_->storage->note_shared();
  return memory;
}

template <class T>
std::vector<T> Tensor::to_vector() const {
  static_cast<void>(required("to_vector"));
  const HostRead read("to_vector");
  const detail::OpScope names("to_vector");
  std::vector<std::byte> keep;
  const std::byte* base = host_bytes(*impl_, keep);
  std::vector<T> values(static_cast<std::size_t>(numel()));
  Shape shape = impl_->shape;
  Dims strides = impl_->strides;
  layout::collapse(shape, {&strides, 1});
  const std::int64_t row = shape.empty() ? 1 : shape.back(), step = shape.empty() ? 0 : strides.back();
  Dims index(shape.size(), 0);
  for (T *to = values.data(), *end = to + values.size(); to != end; to += row) {
    std::int64_t at = impl_->offset;
    for (std::size_t d = 0; d + 1 < index.size(); ++d) at += index[d] * strides[d];
    load_row(base + at * size_of(dtype()), step * size_of(dtype()), dtype(), to, row);
    for (std::size_t d = index.size(); d-- > 1;) {
      if (++index[d - 1] < shape[d - 1]) break;
      index[d - 1] = 0;
    }
  }
  return values;
}

template std::vector<float> Tensor::to_vector<float>() const;
template std::vector<double> Tensor::to_vector<double>() const;
template std::vector<std::int32_t> Tensor::to_vector<std::int32_t>() const;
template std::vector<std::int64_t> Tensor::to_vector<std::int64_t>() const;

Tensor Tensor::detach() const {
  const TensorImpl& impl = required("detach");
  return alias(*this, impl.shape, impl.strides, impl.offset, impl.is_view);
}

Tensor empty(const Shape& shape, const TensorOptions& options) {
  const std::int64_t count = layout::checked_numel("empty", shape);
  if (options.requires_grad && !is_floating(options.dtype)) {
    throw DTypeError("empty", "a floating dtype for requires_grad", to_string(options.dtype), "use f32");
  }
  const auto bytes = static_cast<std::size_t>(count * size_of(options.dtype));
  auto impl = make_ref<TensorImpl>(make_ref<Storage>(bytes, options.device), 0, shape,
                                   layout::dense_strides("empty", shape, options.memory_format),
                                   options.dtype, false);
  impl->requires_grad = options.requires_grad;
  return Tensor(std::move(impl));
}

Tensor zeros(const Shape& shape, const TensorOptions& options) {
  require_compute_dtype("zeros", options.dtype);
  Tensor result = empty(shape, options);
  const Storage& storage = *result.impl().storage;
  backend(options.device).set_zero(storage.data(), storage.bytes(), options.device.index);
  return result;
}

Tensor alias(const Tensor& base, const Shape& shape, const Dims& strides, std::int64_t offset, bool is_view) {
  return Tensor(make_ref<TensorImpl>(base.impl().storage, offset, shape, strides, base.dtype(), is_view));
}

TensorOptions options_of(const Tensor& tensor) {
  return {.dtype = tensor.dtype(), .device = tensor.device()};
}

}  // namespace mezzo
