// Tensors as arguments of GEMM: batch dims that are one run in memory go into one call, a loop calls GEMM for
// all other batch dims. Also the checks of dtypes and shapes that products share.
#include "mezzo/ops/linalg/product.h"

namespace mezzo::ops {

namespace {

/// A tensor's batch dims broadcast to `batch`, then its two matrix dims.
kernels::View batched_view(const Tensor& tensor, const Shape& batch) {
  Shape target = batch;
  target.push_back(tensor.size(-2));
  target.push_back(tensor.size(-1));
  return expanded_view("matmul", tensor, target);
}

std::int64_t offset_of(const Dims& index, const Dims& strides) {
  std::int64_t offset = 0;
  for (std::size_t d = 0; d < index.size(); ++d) offset += index[d] * strides[d];
  return offset;
}

const void* at(const kernels::View& view, std::int64_t offset) {
  return static_cast<const std::byte*>(view.data) + offset * size_of(view.dtype);
}

}  // namespace

void product_into(const Tensor& out, const Tensor& a, const Tensor& b, double alpha, double beta,
                  const ProductExtras& extras) {
  Shape batch = out.shape();
  batch.pop_back();
  batch.pop_back();
  const kernels::View va = batched_view(a, batch);
  const kernels::View vb = batched_view(b, batch);
  const kernels::View vc = view_of(out);
  const std::size_t rank = batch.size();
  kernels::GemmArgs args;
  args.m = out.size(-2);
  args.n = out.size(-1);
  args.k = a.size(-1);
  args.a_dtype = va.dtype, args.a_row_stride = va.strides[rank], args.a_col_stride = va.strides[rank + 1];
  args.b_dtype = vb.dtype, args.b_row_stride = vb.strides[rank], args.b_col_stride = vb.strides[rank + 1];
  args.c_dtype = vc.dtype, args.c_row_stride = vc.strides[rank], args.c_col_stride = vc.strides[rank + 1];
  args.alpha = alpha, args.beta = beta;
  if (extras.bias.defined()) args.bias = extras.bias.impl().data();
  if (extras.a_scale.defined()) {
    args.a_scale = static_cast<const float*>(extras.a_scale.impl().data());
    args.b_scale = static_cast<const float*>(extras.b_scale.impl().data());
  }
  if (extras.row_sums.defined()) args.row_sums = extras.row_sums.impl().data();

  // Batch dims that are one run in all three go into one call; any others are walked here.
  std::array<Dims, 3> strides{va.strides, vb.strides, vc.strides};
  for (Dims& s : strides) s.pop_back(), s.pop_back();
  layout::collapse(batch, strides);
  if (!batch.empty()) {
    args.batch = batch.back();
    args.a_batch_stride = strides[0].back(), args.b_batch_stride = strides[1].back();
    args.c_batch_stride = strides[2].back();
    batch.pop_back();
    for (Dims& s : strides) s.pop_back();
  }
  Dims index(batch.size(), 0);
  for (std::int64_t i = 0; i < layout::numel(batch); ++i) {
    args.a = at(va, offset_of(index, strides[0]));
    args.b = at(vb, offset_of(index, strides[1]));
    args.c = const_cast<void*>(at(vc, offset_of(index, strides[2])));
    kernels::gemm(out.device(), args);
    for (std::size_t d = index.size(); d-- > 0;) {
      if (++index[d] < batch[d]) break;
      index[d] = 0;
    }
  }
}

DType product_dtype(std::string_view op, const Tensor& a, const Tensor& b, std::optional<DType> out_dtype) {
  if (out_dtype) {
    require_compute_dtype(op, *out_dtype);
    return *out_dtype;
  }
  if (a.dtype() == b.dtype()) return a.dtype();
  throw DTypeError(op, "operands of one dtype", to_string(a.dtype()) + " and " + to_string(b.dtype()),
                   "convert one with to(dtype), or run it under amp::Autocast");
}

void require_inner(std::string_view op, const Tensor& a, const Tensor& b, std::int64_t inner_a,
                   std::int64_t inner_b) {
  if (inner_a == inner_b) return;
  throw ShapeError(op, "inner sizes that match",
                   to_string(a.shape()) + " x " + to_string(b.shape()) + " (" + std::to_string(inner_a) +
                       " != " + std::to_string(inner_b) + ")",
                   "transpose one of them or check its shape");
}

std::int64_t rows_of(Shape shape) {
  shape.pop_back();
  return layout::numel(shape);
}

void require_dims(std::string_view op, const char* what, const Tensor& tensor, std::int64_t dims) {
  if (tensor.dim() == dims) return;
  throw ShapeError(op, std::string(what) + " with " + std::to_string(dims) + " dims",
                   to_string(tensor.shape()), "use matmul for other shapes");
}

}  // namespace mezzo::ops
