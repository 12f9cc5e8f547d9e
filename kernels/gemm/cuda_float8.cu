// Float8 products. cuBLASLt multiplies codes where it can: two operands, not both e5m2, with their scales, on
// compute capability 8.9 and above. It wants both by runs of k that begin at multiples of 16 bytes; those
// that lie otherwise are transposed or padded into copies, as are scales. A matrix unit cuts the products of
// a sum of 32 some 13 bits below the largest (an H200 does); sums of those are f32. Everything else
// multiplies 16-bit copies, which are exact, into f32, and a pass applies scales and bias.
#include "mezzo/kernels/gemm/cuda_float8.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "mezzo/core/cuda/device.h"
#include "mezzo/core/cuda/launch.h"
#include "mezzo/core/warning.h"
#include "mezzo/kernels/cuda/copy.h"
#include "mezzo/kernels/cuda/grid.h"
#include "mezzo/kernels/cuda/scratch.h"
#include "mezzo/kernels/cuda/shared.h"
#include "mezzo/kernels/gemm/cuda_lt.h"
#include "mezzo/kernels/pointwise/cuda.h"

namespace mezzo::kernels::cuda {

namespace {

/// What cuBLASLt wants begins at multiples of it: runs, sizes and addresses of float8 matrices, in bytes.
constexpr std::int64_t kFloat8Unit = 16;
[[nodiscard]] constexpr bool in_float8_units(std::int64_t x) { return x % kFloat8Unit == 0; }
[[nodiscard]] bool in_float8_units(const void* data) {
  return reinterpret_cast<std::uintptr_t>(data) % kFloat8Unit == 0;
}

/// alpha * product * scales + bias, in the one rounding.
template <class T>
struct Float8ResultFn {
  T alpha;
  const float *a_scale, *b_scale;  ///< null for none

  MEZZO_HD MEZZO_ALWAYS_INLINE T operator()(T product) const {
    return a_scale == nullptr ? alpha * product : alpha * (T(*a_scale) * T(*b_scale)) * product;
  }
  MEZZO_HD MEZZO_ALWAYS_INLINE T operator()(T product, T bias) const { return (*this)(product) + bias; }
};

View float8_result_view(const GemmArgs& args) {
  return {args.c,
          args.c_dtype,
          {args.batch, args.m, args.n},
          {args.c_batch_stride, args.c_row_stride, args.c_col_stride}};
}

/// C of `args` from the product alone. `scaled`: the scales and alpha are in it already.
void finish_float8(Device device, const GemmArgs& args, const View& product, bool scaled) {
  const View c = float8_result_view(args);
  const View bias{const_cast<void*>(args.bias), args.c_dtype, c.shape, {0, 0, 1}};
  const auto run = [&]<class T>(TypeTag<T>) {
    const Float8ResultFn<T> finish{scaled ? T(1) : static_cast<T>(args.alpha),
                                   scaled ? nullptr : args.a_scale, scaled ? nullptr : args.b_scale};
    if (args.bias == nullptr)
      pointwise<T>(device, finish, c, std::array{product});
    else
      pointwise<T>(device, finish, c, std::array{product, bias});
  };
  if (product.dtype == DType::f64) return run(TypeTag<double>{});
  run(TypeTag<float>{});
}

/// Makes `args` one whose C is a matrix of its own, by rows, without bias, and returns that C.
View into_float8_scratch(GemmArgs& args, const Scratch& memory, DType dtype) {
  args.c = memory.data(), args.c_dtype = dtype;
  args.c_batch_stride = args.m * args.n, args.c_row_stride = args.n, args.c_col_stride = 1;
  args.bias = nullptr;
  return float8_result_view(args);
}

// --- cuBLASLt's own

/// A matrix of bytes, [rows, columns], to be laid by rows of `padded` columns, zeros behind its own.
struct ByteMatrix {
  const std::uint8_t* data;
  std::int64_t rows, columns, row_stride, column_stride;
  std::uint8_t* to;
  std::int64_t padded;  ///< a multiple of 16, as is `to`
  bool words;           ///< four neighbours of a run can be read as a word

  [[nodiscard]] MEZZO_HD bool by_columns() const { return column_stride != 1; }
  [[nodiscard]] __device__ MEZZO_ALWAYS_INLINE std::uint32_t byte(std::int64_t i, std::int64_t p) const {
    return i < rows && p < columns ? data[i * row_stride + p * column_stride] : 0;
  }
  /// Elements (i, p) to (i, p + 3) of a matrix by rows.
  [[nodiscard]] __device__ MEZZO_ALWAYS_INLINE std::uint32_t along_row(std::int64_t i, std::int64_t p) const {
    if (words && i < rows && p + 4 <= columns)
      return reinterpret_cast<const RawWords<1>*>(data + i * row_stride + p)->words[0];
    return byte(i, p) | byte(i, p + 1) << 8 | byte(i, p + 2) << 16 | byte(i, p + 3) << 24;
  }
  /// Elements (i, p) to (i + 3, p).
  [[nodiscard]] __device__ MEZZO_ALWAYS_INLINE std::uint32_t along_column(std::int64_t i,
                                                                          std::int64_t p) const {
    if (words && i + 4 <= rows && p < columns)
      return reinterpret_cast<const RawWords<1>*>(data + i + p * column_stride)->words[0];
    return byte(i, p) | byte(i + 1, p) << 8 | byte(i + 2, p) << 16 | byte(i + 3, p) << 24;
  }
};

/// A tile is 64 rows of 16 words, by 256 threads.
constexpr int kBytesTile = 64, kBytesWords = kBytesTile / 4, kBytesPitch = kBytesWords + 1;

/// Of a matrix by columns a thread turns 4 x 4 bytes, and the block the words of a tile in shared memory, so
/// that reads and writes are runs of 64 bytes.
__global__ void __launch_bounds__(kThreads) lay_bytes(ByteMatrix x) {
  const Shared<std::uint32_t> tile(kBytesTile * kBytesPitch);
  const int low = static_cast<int>(threadIdx.x) % kBytesWords,
            high = static_cast<int>(threadIdx.x) / kBytesWords;
  const std::int64_t across = (x.padded + kBytesTile - 1) / kBytesTile,
                     down = (x.rows + kBytesTile - 1) / kBytesTile;
  for (std::int64_t t = blockIdx.x; t < across * down; t += gridDim.x) {
    const std::int64_t row = t / across * kBytesTile, column = t % across * kBytesTile;
    if (x.by_columns()) {
      std::uint32_t in[4];
      for (int q = 0; q < 4; ++q) in[q] = x.along_column(row + 4 * low, column + 4 * high + q);
      for (int j = 0; j < 4; ++j) {
        std::uint32_t word = 0;
        for (int q = 0; q < 4; ++q) word |= (in[q] >> (8 * j) & 0xffU) << (8 * q);
        tile.set(static_cast<std::size_t>((4 * low + j) * kBytesPitch + high), word);
      }
      __syncthreads();
    }
    for (int r = high; r < kBytesTile; r += static_cast<int>(kThreads) / kBytesWords) {
      const std::int64_t i = row + r, p = column + 4 * low;
      if (i >= x.rows || p >= x.padded) continue;
      const std::uint32_t word =
          x.by_columns() ? tile.get(static_cast<std::size_t>(r * kBytesPitch + low)) : x.along_row(i, p);
      reinterpret_cast<RawWords<1>*>(x.to + i * x.padded + p)->words[0] = word;
    }
    if (x.by_columns()) __syncthreads();
  }
}

/// A as cuBLASLt takes it, in `memory` where it does not lie so; k is then a multiple of 16.
GemmArgs with_float8_runs_in_a(Device device, GemmArgs args, std::optional<Scratch>& memory) {
  const std::int64_t k = (args.k + kFloat8Unit - 1) / kFloat8Unit * kFloat8Unit;
  if (k == args.k && args.a_col_stride == 1 && in_float8_units(args.a) &&
      (args.m == 1 || (in_float8_units(args.a_row_stride) && args.a_row_stride >= k)))
    return args;
  const auto& data = memory.emplace(device, args.m * k);
  ByteMatrix x{static_cast<const std::uint8_t*>(args.a), args.m, args.k, args.a_row_stride, args.a_col_stride,
               static_cast<std::uint8_t*>(data.data()),  k,      false};
  const bool a_run = x.by_columns() ? x.row_stride == 1 : true;
  const std::int64_t other = x.by_columns() ? x.column_stride : x.row_stride;
  x.words = a_run && other % 4 == 0 && reinterpret_cast<std::uintptr_t>(x.data) % 4 == 0;
  const std::int64_t tiles = ((k + kBytesTile - 1) / kBytesTile) * ((x.rows + kBytesTile - 1) / kBytesTile);
  const auto blocks = static_cast<unsigned>(std::min(tiles, kMostBlocks));
  mezzo::cuda::launch(lay_bytes, dim3(blocks), dim3(kThreads),
                      kBytesTile * kBytesPitch * sizeof(std::uint32_t), mezzo::cuda::current_stream(device),
                      x);
  args.a = data.data(), args.a_row_stride = k, args.a_col_stride = 1;
  return args;
}

/// `scale` at a multiple of 16 bytes, where cuBLASLt reads it: in place, or a copy in `memory`.
const float* aligned_float8_scale(Device device, const float* scale, std::optional<Scratch>& memory) {
  if (in_float8_units(scale)) return scale;
  memory.emplace(device, size_of(DType::f32));
  copy(device, {memory->data(), DType::f32, {1}, {1}}, {const_cast<float*>(scale), DType::f32, {1}, {1}});
  return static_cast<const float*>(memory->data());
}

/// Whether cuBLASLt may have a float8 product for it, once its operands are laid out.
bool suits_float8_units(Device device, const GemmArgs& args) {
  const bool formats = is_float8(args.a_dtype) && is_float8(args.b_dtype) &&
                       !(args.a_dtype == DType::f8_e5m2 && args.b_dtype == DType::f8_e5m2);
  return formats && mezzo::cuda::compute_capability(device.index) >= 89 && args.a_scale != nullptr &&
         args.batch == 1 && args.beta == 0 && args.row_sums == nullptr && in_float8_units(args.n) &&
         (args.c_dtype == DType::f32 || is_16bit(args.c_dtype));
}

/// False, and C is as it was, when cuBLASLt has no algorithm.
bool native_float8_gemm(Device device, const GemmArgs& given) {
  const mezzo::cuda::Stream& stream = mezzo::cuda::current_stream(device);
  std::optional<Scratch> memory_a, memory_b, memory_c, scale_a, scale_b;
  GemmArgs args = with_float8_runs_in_a(device, given, memory_a);
  args = transposed(with_float8_runs_in_a(device, transposed(args), memory_b));
  args.k = (args.k + kFloat8Unit - 1) / kFloat8Unit * kFloat8Unit;
  args.a_scale = aligned_float8_scale(device, args.a_scale, scale_a);
  args.b_scale = aligned_float8_scale(device, args.b_scale, scale_b);
  args.a_batch_stride = args.b_batch_stride = args.c_batch_stride = 0;
  const bool direct = args.c_col_stride == 1 && in_float8_units(args.c) && args.c_row_stride >= args.n &&
                      in_float8_units(args.c_row_stride * size_of(args.c_dtype));
  const bool takes_bias = args.bias == nullptr || (gemm_epilogues() && is_16bit(args.c_dtype));
  if (direct && takes_bias && vendor_gemm(args, stream)) return true;
  if (direct && args.bias == nullptr) return false;
  memory_c.emplace(device, args.m * args.n * size_of(DType::f32));
  const View product = into_float8_scratch(args, *memory_c, DType::f32);
  if (!vendor_gemm(args, stream)) return false;
  finish_float8(device, given, product, true);
  return true;
}

// --- by copies

void warn_of_float8_in_16_bits(Device device) {
  static constinit WarningSite site("float8_in_16_bits");
  const int capability = mezzo::cuda::compute_capability(device.index);
  if (capability >= 89 || !site.is_fresh()) return;
  site.warn(
      "matmul", "a GPU of compute capability 8.9 or above for float8",
      to_string(device) + " of " + std::to_string(capability / 10) + "." + std::to_string(capability % 10),
      "it is computed there by 16-bit products of copies: right, and slower than autocast without fp8");
}

/// `args` with A in `dtype`, which holds its values; the copy lies as A does.
GemmArgs with_float8_a_widened(Device device, GemmArgs args, DType dtype, std::optional<Scratch>& memory) {
  if (!is_float8(args.a_dtype)) return args;
  const std::int64_t distinct = args.a_batch_stride == 0 ? 1 : args.batch;
  const bool by_columns = args.a_row_stride == 1 && args.a_col_stride != 1;
  memory.emplace(device, distinct * args.m * args.k * size_of(dtype));
  const View from{const_cast<void*>(args.a),
                  args.a_dtype,
                  {distinct, args.m, args.k},
                  {args.a_batch_stride, args.a_row_stride, args.a_col_stride}};
  args.a = memory->data(), args.a_dtype = dtype;
  args.a_batch_stride = args.a_batch_stride == 0 ? 0 : args.m * args.k;
  args.a_row_stride = by_columns ? 1 : args.k, args.a_col_stride = by_columns ? args.m : 1;
  copy(device,
       {memory->data(), dtype, from.shape, {args.a_batch_stride, args.a_row_stride, args.a_col_stride}},
       from);
  return args;
}

/// The dtype in which float8 operands are copied: the other operand's, else what the device multiplies.
DType float8_wide_dtype(Device device, const GemmArgs& args) {
  if (!is_float8(args.a_dtype)) return args.a_dtype;
  if (!is_float8(args.b_dtype)) return args.b_dtype;
  return mezzo::cuda::compute_capability(device.index) >= 80 ? DType::bf16 : DType::f16;
}

void float8_gemm_by_copies(Device device, const GemmArgs& given, DType compute) {
  std::optional<Scratch> memory_a, memory_b, sums;
  const DType dtype = float8_wide_dtype(device, given);
  GemmArgs args = with_float8_a_widened(device, given, dtype, memory_a);
  args = transposed(with_float8_a_widened(device, transposed(args), dtype, memory_b));
  if (given.a_scale == nullptr) return gemm(device, args);
  args.a_scale = args.b_scale = nullptr;
  args.alpha = 1;
  if (args.row_sums != nullptr) args.row_sums = sums.emplace(device, args.m * size_of(compute)).data();
  const Scratch memory_c(device, args.batch * args.m * args.n * size_of(compute));
  const View product = into_float8_scratch(args, memory_c, compute);
  gemm(device, args);
  if (sums)
    copy(device, {given.row_sums, given.c_dtype, {args.m}, {1}}, {args.row_sums, compute, {args.m}, {1}});
  finish_float8(device, given, product, false);
}

}  // namespace

void float8_gemm(Device device, const GemmArgs& args, DType compute) {
  if (suits_float8_units(device, args) && native_float8_gemm(device, args)) return;
  if (is_float8(args.a_dtype) || is_float8(args.b_dtype)) warn_of_float8_in_16_bits(device);
  float8_gemm_by_copies(device, args, compute);
}

}  // namespace mezzo::kernels::cuda
