// Conversion of element arrays from any dtype to any other, contiguous or strided, on raw pointers. Apart
// from the ops because GEMM, tile loops, casts and copies all need it, and because its hot pairs have
// instructions of their own.
#pragma once

#include <cstdint>

#include "mezzo/core/dtype.h"

namespace mezzo::kernels::cpu {

/// dst[i] = src[i] as `to`, for i in [0, n). Contiguous arrays that do not overlap. Serial: callers tile and
/// thread it. The rules, for every pair of dtypes:
///  * to a floating dtype: one rounding, to nearest even (f64 and i64 go to 16 bits directly, not through
///    f32). Overflow gives infinity (e4m3: 448), subnormals are kept, NaN stays quiet NaN of its sign.
///  * floating to integer: truncated towards 0. NaN gives 0, out of range gives the nearest value of the
///    dtype (C++ leaves both undefined; PyTorch gives whatever the processor does).
///  * integer to integer: modulo 2^bits, as in C++.
///  * to boolean: 1 where src != 0 (so also for NaN), else 0. From boolean: any byte but 0 is 1.
/// Every instruction set gives the same bits.
void convert(const void* src, DType from, void* dst, DType to, std::int64_t n);

/// dst[i] = src[i * stride] as `to`: convert() with a strided source. The stride is in elements of `from`,
/// and may be 0 (one value repeated) or negative.
void gather(const void* src, DType from, std::int64_t stride, void* dst, DType to, std::int64_t n);

/// dst[i * stride] = src[i] as `to`: convert() with a strided destination. The stride is in elements of `to`;
/// not 0 when n > 1.
void scatter(const void* src, DType from, void* dst, DType to, std::int64_t stride, std::int64_t n);

/// gather() of a matrix: dst[i * cols + j] = src[i * row_stride + j * col_stride] as `to`. Rows of a few
/// elements cost no call each where they, or the columns, lie without gaps.
void gather_matrix(const void* src, DType from, std::int64_t row_stride, std::int64_t col_stride, void* dst,
                   DType to, std::int64_t rows, std::int64_t cols);

/// scatter() of a matrix: dst[i * row_stride + j * col_stride] = src[i * cols + j] as `to`.
void scatter_matrix(const void* src, DType from, void* dst, DType to, std::int64_t row_stride,
                    std::int64_t col_stride, std::int64_t rows, std::int64_t cols);

}  // namespace mezzo::kernels::cpu
