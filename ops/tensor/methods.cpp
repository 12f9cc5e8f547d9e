// The members of Tensor that stand for a function of their name, so that calls can be chained.
#include "mezzo/ops/ops.h"

namespace mezzo {

Tensor Tensor::view(const Shape& shape) const { return mezzo::view(*this, shape); }
Tensor Tensor::reshape(const Shape& shape) const { return mezzo::reshape(*this, shape); }
Tensor Tensor::permute(const Dims& dims) const { return mezzo::permute(*this, dims); }
Tensor Tensor::transpose(std::int64_t d0, std::int64_t d1) const { return mezzo::transpose(*this, d0, d1); }
Tensor Tensor::movedim(std::int64_t source, std::int64_t destination) const {
  return mezzo::movedim(*this, source, destination);
}
Tensor Tensor::t() const { return mezzo::t(*this); }
Tensor Tensor::expand(const Shape& sizes) const { return mezzo::expand(*this, sizes); }
Tensor Tensor::expand_as(const Tensor& other) const { return mezzo::expand(*this, other.shape()); }
Tensor Tensor::view_as(const Tensor& other) const { return mezzo::view(*this, other.shape()); }
Tensor Tensor::type_as(const Tensor& other) const { return mezzo::to(*this, other.dtype()); }
Tensor Tensor::squeeze(const ReducedDims& dim) const { return mezzo::squeeze(*this, dim); }
Tensor Tensor::unsqueeze(std::int64_t dim) const { return mezzo::unsqueeze(*this, dim); }
Tensor Tensor::flatten(std::int64_t start_dim, std::int64_t end_dim) const {
  return mezzo::flatten(*this, start_dim, end_dim);
}
Tensor Tensor::narrow(std::int64_t dim, std::int64_t start, std::int64_t length) const {
  return mezzo::narrow(*this, dim, start, length);
}
Tensor Tensor::select(std::int64_t dim, std::int64_t index) const { return mezzo::select(*this, dim, index); }
Tensor Tensor::slice(std::int64_t dim, std::optional<std::int64_t> start, std::optional<std::int64_t> end,
                     std::int64_t step) const {
  return mezzo::slice(*this, dim, start, end, step);
}
Tensors Tensor::split(std::int64_t size, std::int64_t dim) const { return mezzo::split(*this, size, dim); }
Tensors Tensor::chunk(std::int64_t chunks, std::int64_t dim) const {
  return mezzo::chunk(*this, chunks, dim);
}
Tensors Tensor::unbind(std::int64_t dim) const { return mezzo::unbind(*this, dim); }
Tensor Tensor::repeat(const Dims& reps) const { return mezzo::repeat(*this, reps); }
Tensor Tensor::tile(const Dims& reps) const { return mezzo::tile(*this, reps); }
Tensor Tensor::flip(const ReducedDims& dims) const { return mezzo::flip(*this, dims); }
Tensor Tensor::roll(std::int64_t shift, std::int64_t dim) const { return mezzo::roll(*this, shift, {dim}); }
Tensor Tensor::tril(std::int64_t diagonal) const { return mezzo::tril(*this, diagonal); }
Tensor Tensor::triu(std::int64_t diagonal) const { return mezzo::triu(*this, diagonal); }
Tensor Tensor::diag(std::int64_t diagonal) const { return mezzo::diag(*this, diagonal); }
Tensor Tensor::add(const Tensor& other, Scalar alpha) const { return mezzo::add(*this, other, alpha); }
Tensor Tensor::add(Scalar other) const { return mezzo::add(*this, other); }
Tensor Tensor::sub(const Tensor& other, Scalar alpha) const { return mezzo::sub(*this, other, alpha); }
Tensor Tensor::sub(Scalar other) const { return mezzo::sub(*this, other); }
Tensor Tensor::mul(const Tensor& other) const { return mezzo::mul(*this, other); }
Tensor Tensor::mul(Scalar other) const { return mezzo::mul(*this, other); }
Tensor Tensor::div(const Tensor& other) const { return mezzo::div(*this, other); }
Tensor Tensor::div(Scalar other) const { return mezzo::div(*this, other); }
Tensor Tensor::pow(const Tensor& exponent) const { return mezzo::pow(*this, exponent); }
Tensor Tensor::pow(Scalar exponent) const { return mezzo::pow(*this, exponent); }
Tensor Tensor::clamp(std::optional<Scalar> min, std::optional<Scalar> max) const {
  return mezzo::clamp(*this, min, max);
}
Tensor Tensor::clamp_min(Scalar min) const { return mezzo::clamp(*this, min); }
Tensor Tensor::clamp_max(Scalar max) const { return mezzo::clamp(*this, {}, max); }
Tensor Tensor::neg() const { return mezzo::neg(*this); }
Tensor Tensor::abs() const { return mezzo::abs(*this); }
Tensor Tensor::sign() const { return mezzo::sign(*this); }
Tensor Tensor::square() const { return mezzo::square(*this); }
Tensor Tensor::exp() const { return mezzo::exp(*this); }
Tensor Tensor::log() const { return mezzo::log(*this); }
Tensor Tensor::log1p() const { return mezzo::log1p(*this); }
Tensor Tensor::expm1() const { return mezzo::expm1(*this); }
Tensor Tensor::erf() const { return mezzo::erf(*this); }
Tensor Tensor::sqrt() const { return mezzo::sqrt(*this); }
Tensor Tensor::rsqrt() const { return mezzo::rsqrt(*this); }
Tensor Tensor::reciprocal() const { return mezzo::reciprocal(*this); }
Tensor Tensor::sin() const { return mezzo::sin(*this); }
Tensor Tensor::cos() const { return mezzo::cos(*this); }
Tensor Tensor::floor() const { return mezzo::floor(*this); }
Tensor Tensor::ceil() const { return mezzo::ceil(*this); }
Tensor Tensor::round() const { return mezzo::round(*this); }
Tensor Tensor::relu() const { return mezzo::relu(*this); }
Tensor Tensor::sigmoid() const { return mezzo::sigmoid(*this); }
Tensor Tensor::tanh() const { return mezzo::tanh(*this); }
Tensor Tensor::softmax(std::int64_t dim, std::optional<DType> dtype) const {
  return mezzo::softmax(*this, dim, dtype);
}
Tensor Tensor::log_softmax(std::int64_t dim, std::optional<DType> dtype) const {
  return mezzo::log_softmax(*this, dim, dtype);
}
Tensor Tensor::matmul(const Tensor& other) const { return mezzo::matmul(*this, other); }
Tensor Tensor::mm(const Tensor& other) const { return mezzo::mm(*this, other); }
Tensor Tensor::bmm(const Tensor& other) const { return mezzo::bmm(*this, other); }
Tensor Tensor::dot(const Tensor& other) const { return mezzo::dot(*this, other); }
Tensor Tensor::eq(const Tensor& other) const { return mezzo::eq(*this, other); }
Tensor Tensor::eq(Scalar other) const { return mezzo::eq(*this, other); }
Tensor Tensor::ne(const Tensor& other) const { return mezzo::ne(*this, other); }
Tensor Tensor::ne(Scalar other) const { return mezzo::ne(*this, other); }
Tensor Tensor::lt(const Tensor& other) const { return mezzo::lt(*this, other); }
Tensor Tensor::lt(Scalar other) const { return mezzo::lt(*this, other); }
Tensor Tensor::le(const Tensor& other) const { return mezzo::le(*this, other); }
Tensor Tensor::le(Scalar other) const { return mezzo::le(*this, other); }
Tensor Tensor::gt(const Tensor& other) const { return mezzo::gt(*this, other); }
Tensor Tensor::gt(Scalar other) const { return mezzo::gt(*this, other); }
Tensor Tensor::ge(const Tensor& other) const { return mezzo::ge(*this, other); }
Tensor Tensor::ge(Scalar other) const { return mezzo::ge(*this, other); }
Tensor Tensor::logical_and(const Tensor& other) const { return mezzo::logical_and(*this, other); }
Tensor Tensor::logical_or(const Tensor& other) const { return mezzo::logical_or(*this, other); }
Tensor Tensor::logical_not() const { return mezzo::logical_not(*this); }
Tensor Tensor::isnan() const { return mezzo::isnan(*this); }
Tensor Tensor::isinf() const { return mezzo::isinf(*this); }
Tensor Tensor::isfinite() const { return mezzo::isfinite(*this); }
bool Tensor::equal(const Tensor& other) const { return mezzo::equal(*this, other); }
bool Tensor::allclose(const Tensor& other, double rtol, double atol, bool equal_nan) const {
  return mezzo::allclose(*this, other, rtol, atol, equal_nan);
}
Tensor Tensor::sum(const ReducedDims& dim, bool keepdim, std::optional<DType> dtype) const {
  return mezzo::sum(*this, dim, keepdim, dtype);
}
Tensor Tensor::mean(const ReducedDims& dim, bool keepdim, std::optional<DType> dtype) const {
  return mezzo::mean(*this, dim, keepdim, dtype);
}
Tensor Tensor::prod(std::optional<std::int64_t> dim, bool keepdim) const {
  return mezzo::prod(*this, dim, keepdim);
}
Tensor Tensor::var(const ReducedDims& dim, bool unbiased, bool keepdim) const {
  return mezzo::var(*this, dim, unbiased, keepdim);
}
Tensor Tensor::std(const ReducedDims& dim, bool unbiased, bool keepdim) const {
  return mezzo::std(*this, dim, unbiased, keepdim);
}
Tensor Tensor::norm(double p, const ReducedDims& dim, bool keepdim) const {
  return mezzo::norm(*this, p, dim, keepdim);
}
Tensor Tensor::logsumexp(const ReducedDims& dim, bool keepdim) const {
  return mezzo::logsumexp(*this, dim, keepdim);
}
Tensor Tensor::any(const ReducedDims& dim, bool keepdim) const { return mezzo::any(*this, dim, keepdim); }
Tensor Tensor::all(const ReducedDims& dim, bool keepdim) const { return mezzo::all(*this, dim, keepdim); }
Tensor Tensor::amax(const ReducedDims& dim, bool keepdim) const { return mezzo::amax(*this, dim, keepdim); }
Tensor Tensor::amin(const ReducedDims& dim, bool keepdim) const { return mezzo::amin(*this, dim, keepdim); }
Tensor Tensor::max() const { return mezzo::max(*this); }
Tensor Tensor::min() const { return mezzo::min(*this); }
ValuesIndices Tensor::max(std::int64_t dim, bool keepdim) const { return mezzo::max(*this, dim, keepdim); }
ValuesIndices Tensor::min(std::int64_t dim, bool keepdim) const { return mezzo::min(*this, dim, keepdim); }
Tensor Tensor::argmax(std::optional<std::int64_t> dim, bool keepdim) const {
  return mezzo::argmax(*this, dim, keepdim);
}
Tensor Tensor::argmin(std::optional<std::int64_t> dim, bool keepdim) const {
  return mezzo::argmin(*this, dim, keepdim);
}
Tensor Tensor::cumsum(std::int64_t dim) const { return mezzo::cumsum(*this, dim); }
Tensor Tensor::cumprod(std::int64_t dim) const { return mezzo::cumprod(*this, dim); }
ValuesIndices Tensor::cummax(std::int64_t dim) const { return mezzo::cummax(*this, dim); }
ValuesIndices Tensor::cummin(std::int64_t dim) const { return mezzo::cummin(*this, dim); }
ValuesIndices Tensor::sort(std::int64_t dim, bool descending) const {
  return mezzo::sort(*this, dim, descending);
}
Tensor Tensor::argsort(std::int64_t dim, bool descending) const {
  return mezzo::argsort(*this, dim, descending);
}
ValuesIndices Tensor::topk(std::int64_t k, std::int64_t dim, bool largest) const {
  return mezzo::topk(*this, k, dim, largest);
}
Tensor Tensor::gather(std::int64_t dim, const Tensor& index) const {
  return mezzo::gather(*this, dim, index);
}
Tensor Tensor::scatter(std::int64_t dim, const Tensor& index, const Tensor& src) const {
  return mezzo::scatter(*this, dim, index, src);
}
Tensor Tensor::scatter_add(std::int64_t dim, const Tensor& index, const Tensor& src) const {
  return mezzo::scatter_add(*this, dim, index, src);
}
Tensor Tensor::index_select(std::int64_t dim, const Tensor& index) const {
  return mezzo::index_select(*this, dim, index);
}
Tensor Tensor::masked_fill(const Tensor& mask, Scalar value) const {
  return mezzo::masked_fill(*this, mask, value);
}
Tensor Tensor::masked_select(const Tensor& mask) const { return mezzo::masked_select(*this, mask); }
Tensor Tensor::nonzero() const { return mezzo::nonzero(*this); }

}  // namespace mezzo
