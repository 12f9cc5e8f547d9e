// Tensor::operator[]: reading and writing what Python's x[...] names.
#include "mezzo/ops/tensor_index.h"

#include <span>
#include <string>

#include "mezzo/autograd/grad_mode.h"
#include "mezzo/core/error.h"
#include "mezzo/ops/detail/inplace.h"
#include "mezzo/ops/forward.h"
#include "mezzo/ops/ops.h"

namespace mezzo {

namespace {

using Indices = std::span<const Index>;

/// The view that indices without tensors select, and the tensors among the indices, as `index` takes them.
struct Place {
  Tensor view;
  SmallVector<Tensor, 4> tensors;
};

/// How many dims of the tensor an index stands for.
std::int64_t dims_of(const Index& index) {
  if (index.kind() == Index::Kind::none || index.kind() == Index::Kind::ellipsis) return 0;
  const bool is_mask = index.kind() == Index::Kind::tensor && index.tensor().dtype() == DType::boolean;
  return is_mask ? index.tensor().dim() : 1;
}

/// The dims that an Ellipsis stands for.
std::int64_t left_over(const Tensor& x, Indices indices) {
  std::int64_t named = 0, ellipses = 0;
  for (const Index& index : indices) {
    named += dims_of(index);
    ellipses += index.kind() == Index::Kind::ellipsis ? 1 : 0;
  }
  if (ellipses > 1)
    throw ValueError("index", "at most one Ellipsis", std::to_string(ellipses), "write Slice() for one dim");
  if (named > x.dim()) {
    throw IndexError("index", "indices for at most " + std::to_string(x.dim()) + " dims",
                     std::to_string(named) + " for a tensor of shape " + to_string(x.shape()),
                     "use None for a new dim");
  }
  return x.dim() - named;
}

Place place_of(const Tensor& x, Indices indices) {
  const std::int64_t rest = left_over(x, indices);
  Place place{x, {}};
  std::int64_t dim = 0;      // of the view
  std::int64_t covered = 0;  // its dims that entries of `tensors` stand for
  for (const Index& index : indices) {
    switch (index.kind()) {
      case Index::Kind::position:
        place.view = select(place.view, dim, index.position());
        break;
      case Index::Kind::slice:
        place.view =
            slice(place.view, dim++, index.slice().start(), index.slice().stop(), index.slice().step());
        break;
      case Index::Kind::none:
        place.view = unsqueeze(place.view, dim++);
        break;
      case Index::Kind::ellipsis:
        dim += rest;
        break;
      case Index::Kind::tensor:
        for (; covered < dim; ++covered) place.tensors.emplace_back();
        place.tensors.push_back(index.tensor());
        covered += dims_of(index);
        dim = covered;
        break;
    }
  }
  return place;
}

Tensor read(const Tensor& x, Indices indices) {
  const Place place = place_of(x, indices);
  return place.tensors.empty() ? place.view : index(place.view, place.tensors);
}

/// A write that is part of the graph: by index_put at the numbers of the places in row-major order, which a
/// tensor of such numbers has at the same indices.
void write_recorded(const Tensor& x, Indices indices, const Tensor& values) {
  ops::require_recordable_write("index_put_", x);
  const Tensor numbers = read(reshape(arange(x.numel(), {.device = x.device()}), x.shape()), indices);
  const Tensor flat = index_put(reshape(clone(x, MemoryFormat::contiguous), {-1}), {flatten(numbers)},
                                flatten(expand(to(values, x.dtype()), numbers.shape())));
  x.copy_(reshape(flat, x.shape()));
}

/// Values on x's device, to which a number may come from the CPU.
Tensor beside(const Tensor& x, const Tensor& values) {
  return values.device().is_cpu() && values.dim() == 0 ? to(values, x.device()) : values;
}

void write_at(const Tensor& x, Indices indices, const Tensor& given) {
  const Tensor values = beside(x, given);
  if (grad_enabled() && is_floating(x.dtype()) && (x.requires_grad() || values.requires_grad()))
    return write_recorded(x, indices, values);
  const NoGrad no_grad;
  const Place place = place_of(x, indices);
  if (place.tensors.empty())
    place.view.copy_(values);
  else
    ops::index_put_into(place.view, place.tensors, to(values, x.dtype()));
}

void write_at(const Tensor& x, Indices indices, Scalar value) {
  write_at(x, indices, full({}, value, {.dtype = x.dtype(), .device = x.device()}));
}

Indices span_of(std::initializer_list<Index> indices) { return {indices.begin(), indices.size()}; }

}  // namespace

TensorItem::TensorItem(const Tensor& base, SmallVector<Index, 2> indices)
    : Tensor(read(base, indices)), base_(base), indices_(std::move(indices)) {}

void TensorItem::write(const Tensor& values) {
  static_cast<Tensor&>(*this) = Tensor();  // a living view would refuse the write
  write_at(base_, indices_, values);
}
void TensorItem::write(Scalar value) {
  static_cast<Tensor&>(*this) = Tensor();
  write_at(base_, indices_, value);
}

TensorItem Tensor::operator[](std::int64_t position) const {
  static_cast<void>(required("operator[]"));
  return {*this, {Index(position)}};
}
TensorItem Tensor::operator[](const Index& index) const {
  static_cast<void>(required("operator[]"));
  return {*this, {index}};
}
TensorItem Tensor::operator[](std::initializer_list<Index> indices) const {
  static_cast<void>(required("operator[]"));
  return {*this, indices};
}
Tensor Tensor::index(std::initializer_list<Index> indices) const {
  static_cast<void>(required("index"));
  return read(*this, span_of(indices));
}
const Tensor& Tensor::index_put_(std::initializer_list<Index> indices, const Tensor& values) const {
  static_cast<void>(required("index_put_"));
  ops::require_defined("index_put_", values);
  write_at(*this, span_of(indices), values);
  return *this;
}
const Tensor& Tensor::index_put_(std::initializer_list<Index> indices, Scalar value) const {
  static_cast<void>(required("index_put_"));
  write_at(*this, span_of(indices), value);
  return *this;
}

TensorIterator Tensor::begin() const {
  if (dim() == 0) throw IndexError("iteration", "a tensor with dims", "a 0-dim one", "use item()");
  return {*this, 0};
}
TensorIterator Tensor::end() const { return {*this, dim() == 0 ? 0 : size(0)}; }

}  // namespace mezzo
