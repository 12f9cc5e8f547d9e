#include "mezzo/kernels/cuda/gemm.h"

#include <array>
#include <optional>
#include <utility>

#include "mezzo/core/error.h"
#include "mezzo/kernels/cuda/pointwise.h"
#include "mezzo/kernels/cuda/scratch.h"
#include "mezzo/kernels/scalar_math.h"

namespace mezzo::kernels::cuda {

namespace {

/// A batch of matrices: what GemmArgs says of one operand.
struct Matrices {
  void* data;
  DType dtype;
  std::int64_t rows, columns, batch_stride, row_stride, column_stride;

  [[nodiscard]] View view(std::int64_t batch) const {
    return {data, dtype, {batch, rows, columns}, {batch_stride, row_stride, column_stride}};
  }
  /// Whether the vendor library can read it: rows or columns are runs that do not overlap.
  [[nodiscard]] bool is_plain() const {
    const bool by_rows = (column_stride == 1 || columns == 1) && (row_stride >= columns || rows == 1);
    const bool by_columns = (row_stride == 1 || rows == 1) && (column_stride >= rows || columns == 1);
    return by_rows || by_columns;
  }
};

/// The same matrices, row-major, in memory of their own.
class Packed {
 public:
  Packed(Device device, std::int64_t batch, const Matrices& like, DType dtype)
      : memory_(device, batch * like.rows * like.columns * size_of(dtype)),
        matrices_{memory_.data(), dtype, like.rows, like.columns, like.rows * like.columns, like.columns, 1} {
  }
  [[nodiscard]] const Matrices& matrices() const { return matrices_; }

 private:
  Scratch memory_;
  Matrices matrices_;
};

void copy(Device device, const View& to, const View& from) {
  dispatch_compute(promote(to.dtype, from.dtype), [&]<class T>(TypeTag<T>) {
    pointwise<T>(device, scalar::IdentityFn{}, to, std::array{from});
  });
}

/// `x` in `dtype` and in a layout that the vendor library reads; `keep` holds the copy if there is one. A
/// batch that repeats one matrix is copied once.
Matrices readable(Device device, std::int64_t batch, const Matrices& x, DType dtype,
                  std::optional<Packed>& keep) {
  if (x.dtype == dtype && x.is_plain()) return x;
  const std::int64_t distinct = x.batch_stride == 0 ? 1 : batch;
  keep.emplace(device, distinct, x, dtype);
  copy(device, keep->matrices().view(distinct), x.view(distinct));
  Matrices result = keep->matrices();
  if (distinct == 1) result.batch_stride = 0;
  return result;
}

/// c = beta c, or beta c + alpha product.
template <class T>
struct BlendFn {
  T alpha, beta;
  MEZZO_HD MEZZO_ALWAYS_INLINE T operator()(T c) const { return beta == T(0) ? T(0) : beta * c; }
  MEZZO_HD MEZZO_ALWAYS_INLINE T operator()(T c, T product) const {
    return beta == T(0) ? alpha * product : alpha * product + beta * c;
  }
};

void scale_result(Device device, const GemmArgs& args, const View& c) {
  dispatch_compute(args.c_dtype, [&]<class T>(TypeTag<T>) {
    pointwise<T>(device, BlendFn<T>{static_cast<T>(args.alpha), static_cast<T>(args.beta)}, c, std::array{c});
  });
}

/// Integers: a thread per element of C, modulo 2^64.
__global__ void integer_gemm(GemmArgs g) {
  const std::int64_t total = g.batch * g.m * g.n;
  const auto alpha = static_cast<std::uint64_t>(static_cast<std::int64_t>(g.alpha));
  const auto beta = static_cast<std::uint64_t>(static_cast<std::int64_t>(g.beta));
  for (std::int64_t at = first_index(); at < total; at += grid_size()) {
    const std::int64_t j = at % g.n, i = at / g.n % g.m, b = at / (g.n * g.m);
    std::uint64_t sum = 0;
    for (std::int64_t p = 0; p < g.k; ++p) {
      const auto x =
          load<std::int64_t>(g.a, g.a_dtype, b * g.a_batch_stride + i * g.a_row_stride + p * g.a_col_stride);
      const auto y =
          load<std::int64_t>(g.b, g.b_dtype, b * g.b_batch_stride + p * g.b_row_stride + j * g.b_col_stride);
      sum += static_cast<std::uint64_t>(x) * static_cast<std::uint64_t>(y);
    }
    const std::int64_t c = b * g.c_batch_stride + i * g.c_row_stride + j * g.c_col_stride;
    std::uint64_t result = alpha * sum;
    if (beta != 0) result += beta * static_cast<std::uint64_t>(load<std::int64_t>(g.c, g.c_dtype, c));
    store(g.c, g.c_dtype, c, static_cast<std::int64_t>(result));
  }
}

/// C, as the product's description has it.
Matrices result_of(const GemmArgs& args) {
  return {args.c, args.c_dtype, args.m, args.n, args.c_batch_stride, args.c_row_stride, args.c_col_stride};
}

void floating_gemm(Device device, const GemmArgs& args, DType compute) {
  // A and B are multiplied in a dtype that they share.
  const DType dtype = compute == DType::f64 || args.a_dtype != args.b_dtype ? compute : args.a_dtype;
  std::optional<Packed> keep_a, keep_b, keep_c;
  const Matrices a = readable(device, args.batch,
                              {const_cast<void*>(args.a), args.a_dtype, args.m, args.k, args.a_batch_stride,
                               args.a_row_stride, args.a_col_stride},
                              dtype, keep_a);
  const Matrices b = readable(device, args.batch,
                              {const_cast<void*>(args.b), args.b_dtype, args.k, args.n, args.b_batch_stride,
                               args.b_row_stride, args.b_col_stride},
                              dtype, keep_b);
  const Matrices c = result_of(args);
  GemmArgs plain = args;
  plain.a = a.data, plain.a_dtype = dtype, plain.a_batch_stride = a.batch_stride;
  plain.a_row_stride = a.row_stride, plain.a_col_stride = a.column_stride;
  plain.b = b.data, plain.b_dtype = dtype, plain.b_batch_stride = b.batch_stride;
  plain.b_row_stride = b.row_stride, plain.b_col_stride = b.column_stride;
  const bool direct = (args.c_dtype == dtype || (args.c_dtype == DType::f32 && is_16bit(dtype))) &&
                      (args.c_col_stride == 1 || args.n == 1) && (args.c_row_stride >= args.n || args.m == 1);
  const mezzo::cuda::Stream& stream = mezzo::cuda::current_stream(device);
  if (direct) {
    plain.c_col_stride = 1;
    return vendor_gemm(plain, stream);
  }
  // Into f32 (f64) first, then alpha and beta and the one rounding in a pass of our own.
  keep_c.emplace(device, args.batch, c, compute);
  const Matrices& result = keep_c->matrices();
  plain.c = result.data, plain.c_dtype = compute, plain.c_batch_stride = result.batch_stride;
  plain.c_row_stride = result.row_stride, plain.c_col_stride = 1;
  plain.alpha = 1, plain.beta = 0;
  vendor_gemm(plain, stream);
  const View target = c.view(args.batch);
  dispatch_compute(compute, [&]<class T>(TypeTag<T>) {
    pointwise<T>(device, BlendFn<T>{static_cast<T>(args.alpha), static_cast<T>(args.beta)}, target,
                 std::array{target, result.view(args.batch)});
  });
}

}  // namespace

void gemm(Device device, const GemmArgs& args) {
  const DType compute = product_compute_dtype(args);
  if (args.batch == 0 || args.m == 0 || args.n == 0) return;
  if (args.k == 0 || args.alpha == 0) return scale_result(device, args, result_of(args).view(args.batch));
  if (compute == DType::i64) {
    const Grid grid = grid_for(args.batch * args.m * args.n);
    return mezzo::cuda::launch(integer_gemm, dim3(grid.blocks), dim3(grid.threads), 0,
                               mezzo::cuda::current_stream(device), args);
  }
  floating_gemm(device, args.c_row_stride == 1 && args.c_col_stride != 1 ? transposed(args) : args, compute);
}

}  // namespace mezzo::kernels::cuda
