// Matrix products on a CUDA device: any strides and dtypes are brought into a form that the vendor library
// takes; what it does not have (integers, empty products) are kernels of our own.
#include "mezzo/kernels/gemm/gemm.h"

#include <array>
#include <optional>

#include "mezzo/core/cuda.h"
#include "mezzo/core/error.h"
#include "mezzo/core/warning.h"
#include "mezzo/kernels/cuda/bf16.h"
#include "mezzo/kernels/cuda/copy.h"
#include "mezzo/kernels/cuda/scratch.h"
#include "mezzo/kernels/cuda/start.h"
#include "mezzo/kernels/gemm/cuda_float8.h"
#include "mezzo/kernels/gemm/cuda_lt.h"
#include "mezzo/kernels/pointwise/cuda.h"
#include "mezzo/kernels/reduce/cuda.h"

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
    if (batch_stride < 0) return false;
    const bool by_rows = (column_stride == 1 || columns == 1) && (row_stride >= columns || rows == 1);
    const bool by_columns = (row_stride == 1 || rows == 1) && (column_stride >= rows || columns == 1);
    return by_rows || by_columns;
  }
};

/// Row-major matrices of the sizes of `like`, in memory of their own and not initialised. Rows begin at
/// multiples of `alignment` elements.
class Packed {
 public:
  Packed(Device device, std::int64_t batch, const Matrices& like, DType dtype, std::int64_t alignment = 1)
      : Packed(device, batch, like, dtype, Row{(like.columns + alignment - 1) / alignment * alignment}) {}
  [[nodiscard]] const Matrices& matrices() const { return matrices_; }

 private:
  struct Row {
    std::int64_t length;
  };
  Packed(Device device, std::int64_t batch, const Matrices& like, DType dtype, Row row)
      : memory_(device, batch * like.rows * row.length * size_of(dtype)),
        matrices_{memory_.data(), dtype, like.rows, like.columns, like.rows * row.length, row.length, 1} {}

  Scratch memory_;
  Matrices matrices_;
};

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

/// A, B and C, as a product's description has them.
Matrices a_of(const GemmArgs& args) {
  return {const_cast<void*>(args.a), args.a_dtype,      args.m,           args.k,
          args.a_batch_stride,       args.a_row_stride, args.a_col_stride};
}
Matrices b_of(const GemmArgs& args) {
  return {const_cast<void*>(args.b), args.b_dtype,      args.k,           args.n,
          args.b_batch_stride,       args.b_row_stride, args.b_col_stride};
}
Matrices result_of(const GemmArgs& args) {
  return {args.c, args.c_dtype, args.m, args.n, args.c_batch_stride, args.c_row_stride, args.c_col_stride};
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

/// Bias and row sums as kernels before the product, which is added to a C that holds the bias.
GemmArgs spelled_out(Device device, GemmArgs args) {
  if (args.row_sums != nullptr) {
    const RowSums rows = row_sums_of(args);
    dispatch_compute(args.c_dtype,
                     [&]<class T>(TypeTag<T>) { reduce<T>(device, Sum<>{}, rows.sums, rows.terms); });
    args.row_sums = nullptr;
  }
  if (args.bias != nullptr) {
    copy(device, result_of(args).view(args.batch),
         {const_cast<void*>(args.bias), args.c_dtype, {args.batch, args.m, args.n}, {0, 0, 1}});
    args.bias = nullptr;
    args.beta = 1;
  }
  return args;
}

/// Whether bias or row sums may go into the product's own pass. Not the sums in TF32: they would be sums of
/// rounded elements, and it was the product that was allowed to lose bits.
bool suits_epilogue(const GemmArgs& args) {
  if (!gemm_epilogues() || args.batch != 1) return false;
  if (args.row_sums == nullptr) return true;
  return args.bias == nullptr && !(args.a_dtype == DType::f32 && mezzo::cuda::allow_tf32());
}

/// The product of copies whose rows begin at multiples of 16 bytes, which more of the vendor library's
/// kernels take than other memory. False, and nothing was done, when it has none for them either.
bool packed_gemm(Device device, const GemmArgs& given, const mezzo::cuda::Stream& stream) {
  std::optional<Packed> keep_a, keep_b;
  const auto packed = [&](const Matrices& x, std::optional<Packed>& keep) {
    const std::int64_t distinct = x.batch_stride == 0 ? 1 : given.batch;
    keep.emplace(device, distinct, x, x.dtype, 16 / size_of(x.dtype));
    copy(device, keep->matrices().view(distinct), x.view(distinct));
    Matrices result = keep->matrices();
    if (distinct == 1) result.batch_stride = 0;
    return result;
  };
  const Matrices a = packed(a_of(given), keep_a), b = packed(b_of(given), keep_b), c = result_of(given);
  const Packed keep_c(device, given.batch, c, c.dtype, 16 / size_of(c.dtype));
  const Matrices& result = keep_c.matrices();
  GemmArgs args = given;
  args.a = a.data, args.a_batch_stride = a.batch_stride, args.a_row_stride = a.row_stride;
  args.b = b.data, args.b_batch_stride = b.batch_stride, args.b_row_stride = b.row_stride;
  args.c = result.data, args.c_batch_stride = result.batch_stride, args.c_row_stride = result.row_stride;
  args.a_col_stride = args.b_col_stride = args.c_col_stride = 1;
  if (args.beta != 0) copy(device, result.view(args.batch), c.view(args.batch));
  if (!vendor_gemm(args, stream)) return false;
  copy(device, c.view(args.batch), result.view(args.batch));
  return true;
}

/// A product in the vendor library's form, whatever becomes of bias and row sums. False, and nothing was
/// done, where a bias would have to be added to a product that is rounded to 16 bits.
bool direct_gemm(Device device, const GemmArgs& args, const mezzo::cuda::Stream& stream) {
  const bool has_epilogue = args.bias != nullptr || args.row_sums != nullptr;
  if (has_epilogue && suits_epilogue(args) && vendor_gemm(args, stream)) return true;
  if (args.bias != nullptr && is_16bit(args.c_dtype)) return false;
  const GemmArgs plain = spelled_out(device, args);
  if (vendor_gemm(plain, stream) || packed_gemm(device, plain, stream)) return true;
  throw DeviceError("matmul", "an algorithm of cuBLASLt",
                    "none for " + to_string(Shape{plain.batch, plain.m, plain.k}) + " times " +
                        to_string(Shape{plain.batch, plain.k, plain.n}) + " in " + to_string(plain.a_dtype),
                    "report it to mezzo, and compute this product in f32 or on the CPU");
}

/// C as the product of A and B in the vendor library's form. A 16-bit C takes no part: the library (13.0, on
/// an H200) rounds the product before it adds beta * C, and then the sum.
bool is_direct(const GemmArgs& args, DType operands) {
  if (args.beta != 0 && is_16bit(args.c_dtype)) return false;
  return (args.c_dtype == operands || (args.c_dtype == DType::f32 && is_16bit(operands))) &&
         (args.c_col_stride == 1 || args.n == 1) && (args.c_row_stride >= args.n || args.m == 1) &&
         args.c_batch_stride >= 0;
}

/// For products that tensor cores could compute faster. Vectors do not use them, and products this small take
/// as long as their launch.
void warn_of_odd_sizes(const GemmArgs& args, DType dtype) {
  constexpr double kFewMultiplications = 1 << 24;
  static WarningSite site("sizes_not_multiples_of_8");
  const bool odd = ((args.m | args.n | args.k) & 7) != 0 && args.m > 1 && args.n > 1;
  const double multiplications = static_cast<double>(args.m) * static_cast<double>(args.n) *
                                 static_cast<double>(args.k) * static_cast<double>(args.batch);
  if (!odd || multiplications < kFewMultiplications || !site.is_fresh()) return;
  const auto shape = [](std::int64_t rows, std::int64_t columns) { return to_string(Shape{rows, columns}); };
  site.warn("matmul", "sizes that are multiples of 8 for products in " + to_string(dtype) + " on a GPU",
            shape(args.m, args.k) + " times " + shape(args.k, args.n),
            "pad features, classes or the batch: the tensor cores are used fully then");
}

/// False, and nothing was done, where bias and row sums must be kernels beside the product.
bool floating_gemm(Device device, const GemmArgs& given, DType compute) {
  // A and B are multiplied in a dtype that they share.
  DType dtype = compute == DType::f64 || given.a_dtype != given.b_dtype ? compute : given.a_dtype;
  if (dtype == DType::bf16 && !multiplies_bf16(device, "matmul")) dtype = compute;
  if (is_16bit(dtype)) warn_of_odd_sizes(given, dtype);
  const bool by_columns = given.c_row_stride == 1 && given.c_col_stride != 1;
  const bool takes_epilogue = !by_columns && is_direct(given, dtype);
  GemmArgs args = takes_epilogue ? given : spelled_out(device, given);
  if (by_columns) args = transposed(args);
  std::optional<Packed> keep_a, keep_b, keep_c;
  const Matrices a = readable(device, args.batch, a_of(args), dtype, keep_a);
  const Matrices b = readable(device, args.batch, b_of(args), dtype, keep_b);
  GemmArgs plain = args;
  plain.a = a.data, plain.a_dtype = dtype, plain.a_batch_stride = a.batch_stride;
  plain.a_row_stride = a.row_stride, plain.a_col_stride = a.column_stride;
  plain.b = b.data, plain.b_dtype = dtype, plain.b_batch_stride = b.batch_stride;
  plain.b_row_stride = b.row_stride, plain.b_col_stride = b.column_stride;
  const mezzo::cuda::Stream& stream = mezzo::cuda::current_stream(device);
  if (is_direct(args, dtype)) {
    plain.c_col_stride = 1;
    return direct_gemm(device, plain, stream);
  }
  // Into f32 (f64) first, then alpha and beta and the one rounding in a pass of our own.
  const Matrices c = result_of(args);
  keep_c.emplace(device, args.batch, c, compute);
  const Matrices& result = keep_c->matrices();
  plain.c = result.data, plain.c_dtype = compute, plain.c_batch_stride = result.batch_stride;
  plain.c_row_stride = result.row_stride, plain.c_col_stride = 1;
  plain.alpha = 1, plain.beta = 0;
  direct_gemm(device, plain, stream);
  const View target = c.view(args.batch);
  dispatch_compute(compute, [&]<class T>(TypeTag<T>) {
    pointwise<T>(device, BlendFn<T>{static_cast<T>(args.alpha), static_cast<T>(args.beta)}, target,
                 std::array{target, result.view(args.batch)});
  });
  return true;
}

}  // namespace

void gemm(Device device, const GemmArgs& given) {
  const DType compute = product_compute_dtype(given);
  const bool empty = given.batch == 0 || given.m == 0 || given.n == 0,
             no_product = given.k == 0 || given.alpha == 0;
  const bool floating = !empty && !no_product && compute != DType::i64;
  if (floating && is_float8_product(given)) return float8_gemm(device, given, compute);
  if (floating && floating_gemm(device, given, compute)) return;
  const GemmArgs args = spelled_out(device, given);
  if (floating) return static_cast<void>(floating_gemm(device, args, compute));
  if (empty) return;
  if (no_product) return scale_result(device, args, result_of(args).view(args.batch));
  start(device, args.batch * args.m * args.n, integer_gemm, args);
}

}  // namespace mezzo::kernels::cuda
