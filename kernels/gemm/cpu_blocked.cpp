// Operands that are not in the engine's type and layout are packed: small operands once for all tiles, large
// operands by every tile. Every tile is one task: it walks over k in blocks, packs its part of A and B in a
// scratch buffer of its thread (when they are not there already), and stores its part of C.
#include "mezzo/kernels/gemm/cpu_blocked.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "mezzo/kernels/cpu/convert.h"
#include "mezzo/kernels/cpu/multiversion.h"
#include "mezzo/kernels/cpu/parallel.h"
#include "mezzo/kernels/cpu/scratch.h"

namespace mezzo::kernels::cpu {
namespace {

constexpr std::int64_t kMaxRows = 256, kMaxCols = 512;
constexpr std::int64_t kMinRows = 64, kMinCols = 128;
/// Depth of a block that is packed: with the sizes above 2 MB of scratch per thread in f32 (4 MB in f64).
constexpr std::int64_t kDepth = 512;
/// A cut is worth it when the halves take about 20 us each.
constexpr double kMinTileFlops = 4e6;
/// More and smaller tiles would serve more threads, but every tile packs its own operands: 16 tiles of a
/// product of 1 GFLOP cost 8 % more than 8 (measured, 512 x 1024 x 1024).
constexpr std::int64_t kWantedTiles = 8;
/// Below this a task is joined with others: starting threads costs as much.
constexpr double kMinTaskFlops = 1e6;
/// An operand of up to so many elements (8 MB in f32) is packed once for all tiles that read it.
constexpr std::int64_t kMaxShared = 1 << 21;
/// Elements that are packed in one task, in 10 us.
constexpr std::int64_t kPackGrain = 1 << 15;
/// Lines of a tile from this length on are packed as fast as whole lines.
constexpr std::int64_t kLongLine = 256;

constexpr std::int64_t round_up(std::int64_t a, std::int64_t unit) { return ceil_div(a, unit) * unit; }
/// The tile size that covers `size` with as many tiles as `tile` does, evenly.
constexpr std::int64_t even(std::int64_t size, std::int64_t tile, std::int64_t unit) {
  return std::min(size, round_up(ceil_div(size, ceil_div(size, tile)), unit));
}

/// Of one thread: the packed blocks of A and B and the tile of C that this thread works on, and the whole A
/// and B of a product that it has begun.
struct ThreadScratch {
  Scratch a, b, c, whole_a, whole_b;
};
ThreadScratch& scratch() {
  static constinit mezzo::detail::PerThread<ThreadScratch> buffers;
  return buffers.get();
}

/// A or B as given, and how an engine of type T can read it.
struct Operand {
  const std::byte* data;
  DType dtype;
  std::int64_t batch_stride, row_stride, col_stride;
  bool direct = false;      ///< the engine reads it where it lies
  bool transposed = false;  ///< column-contiguous; when not direct: packed column by column
  std::int64_t ld = 0;      ///< when direct
  bool spaced = false;      ///< packed with gaps where lines would share the sets of a cache
};

template <class T>
Operand make_operand(const void* data, DType dtype, std::int64_t batch_stride, std::int64_t row_stride,
                     std::int64_t col_stride, std::int64_t rows, std::int64_t cols,
                     bool row_contiguous_only) {
  Operand x{static_cast<const std::byte*>(data), dtype, batch_stride, row_stride, col_stride};
  const bool by_rows = (cols == 1 || col_stride == 1) && (rows == 1 || row_stride >= cols);
  const bool by_cols = (rows == 1 || row_stride == 1) && (cols == 1 || col_stride >= rows);
  const bool same_type = dtype == dtype_of<T>;
  x.direct = same_type && (by_rows || (by_cols && !row_contiguous_only));
  if (x.direct) {
    x.transposed = !by_rows;
    x.ld = by_rows ? (rows == 1 ? cols : row_stride) : (cols == 1 ? rows : col_stride);
  } else {
    // Packing reads along the dimension that is contiguous, if one is.
    x.transposed = !row_contiguous_only && col_stride != 1 && (row_stride == 1 || cols == 1);
  }
  return x;
}

/// How a part of an operand is packed: in lines along the dimension that is contiguous, if one is.
struct Packing {
  std::int64_t lines, length, line_stride, stride, pitch;

  Packing(const Operand& x, std::int64_t rows, std::int64_t cols)
      : lines(x.transposed ? cols : rows),
        length(x.transposed ? rows : cols),
        line_stride(x.transposed ? x.col_stride : x.row_stride),
        stride(x.transposed ? x.row_stride : x.col_stride),
        pitch(x.spaced && length % 256 == 0 ? length + 16 : length) {}

  /// Lines [begin, end) of the part of `x` that starts at `data`.
  template <class T>
  void pack(const Operand& x, const std::byte* data, T* to, std::int64_t begin, std::int64_t end) const {
    const std::int64_t step = line_stride * size_of(x.dtype);
    if (pitch == length) {
      gather_matrix(data + begin * step, x.dtype, line_stride, stride, to + begin * length, dtype_of<T>,
                    end - begin, length);
      return;
    }
    for (std::int64_t i = begin; i < end; ++i)
      gather(data + i * step, x.dtype, stride, to + i * pitch, dtype_of<T>, length);
  }
};

/// Packs all of `x` at once when small tiles would do it badly: several of them the same part, or in short
/// lines. That was a fifth of the time of products with few rows and columns.
template <class T>
void share(Operand& x, std::int64_t rows, std::int64_t cols, std::int64_t batch, std::int64_t readers,
           std::int64_t tile_line, Scratch& buffer) {
  const bool one_matrix = batch == 1 || x.batch_stride == 0;
  if (x.direct || !one_matrix || rows * cols > kMaxShared || (readers == 1 && tile_line >= kLongLine)) return;
  const Packing packing(x, rows, cols);
  T* const packed = buffer.get<T>(packing.lines * packing.pitch);
  parallel_for(packing.lines, kPackGrain / packing.length,
               [&](std::int64_t begin, std::int64_t end) { packing.pack(x, x.data, packed, begin, end); });
  x.data = reinterpret_cast<const std::byte*>(packed);
  x.dtype = dtype_of<T>;
  x.batch_stride = 0;
  (x.transposed ? x.row_stride : x.col_stride) = 1;
  (x.transposed ? x.col_stride : x.row_stride) = x.ld = packing.pitch;
  x.direct = true;
}

template <class T>
struct Block {
  const T* data;
  std::int64_t ld;
  bool transposed;
};

/// The block of `x` that starts at (row, col), for the engine: in place, or widened and packed into `buffer`.
template <class T>
Block<T> load_block(const Operand& x, std::int64_t batch, std::int64_t row, std::int64_t col,
                    std::int64_t rows, std::int64_t cols, Scratch& buffer) {
  const std::int64_t offset = batch * x.batch_stride + row * x.row_stride + col * x.col_stride;
  const std::byte* const start = x.data + offset * size_of(x.dtype);
  if (x.direct) return {reinterpret_cast<const T*>(start), x.ld, x.transposed};
  const Packing packing(x, rows, cols);
  T* const packed = buffer.get<T>(packing.lines * packing.pitch);
  packing.pack(x, start, packed, 0, packing.lines);
  return {packed, packing.pitch, x.transposed};
}

template <class T>
using Wrapping = std::conditional_t<std::is_same_v<T, std::int64_t>, std::uint64_t, T>;

/// out[i] = alpha * sum[i] + beta * old[i]
template <class T>
struct Combine {
  static void run(const T* sum, const T* old, T* out, std::int64_t n, T alpha, T beta) {
    using W = Wrapping<T>;
    for (std::int64_t i = 0; i < n; ++i) {
      out[i] = static_cast<T>(static_cast<W>(alpha) * static_cast<W>(sum[i]) +
                              static_cast<W>(beta) * static_cast<W>(old[i]));
    }
  }
};

/// out[i] = factor * x[i]
template <class T>
struct Scale {
  static void run(const T* x, T* out, std::int64_t n, T factor) {
    using W = Wrapping<T>;
    for (std::int64_t i = 0; i < n; ++i)
      out[i] = static_cast<T>(static_cast<W>(factor) * static_cast<W>(x[i]));
  }
};

/// Stores a tile of sums: c = alpha * sum + beta * c, computed in T and rounded once.
template <class T>
void store_tile(const T* sum, const GemmArgs& args, std::byte* c, std::int64_t rows, std::int64_t cols) {
  if (args.alpha == 1 && args.beta == 0) {
    scatter_matrix(sum, dtype_of<T>, c, args.c_dtype, args.c_row_stride, args.c_col_stride, rows, cols);
    return;
  }
  const T alpha = static_cast<T>(args.alpha), beta = static_cast<T>(args.beta);
  const std::int64_t row_bytes = args.c_row_stride * size_of(args.c_dtype);
  alignas(64) T line[kMaxCols];
  for (std::int64_t i = 0; i < rows; ++i, sum += cols, c += row_bytes) {
    const T* result = sum;
    if (args.beta != 0) {
      gather(c, args.c_dtype, args.c_col_stride, line, dtype_of<T>, cols);
      run_isa<Combine<T>>(sum, static_cast<const T*>(line), static_cast<T*>(line), cols, alpha, beta);
      result = line;
    } else if (args.alpha != 1) {
      run_isa<Scale<T>>(sum, static_cast<T*>(line), cols, alpha);
      result = line;
    }
    scatter(result, dtype_of<T>, c, args.c_dtype, args.c_col_stride, cols);
  }
}

/// Every row of a tile of C, `ld` elements apart, = the bias from column j on.
template <class T>
void fill_with_bias(const GemmArgs& args, std::int64_t j, T* c, std::int64_t ld, std::int64_t rows,
                    std::int64_t cols) {
  const auto* const bias = static_cast<const std::byte*>(args.bias) + j * size_of(args.c_dtype);
  convert(bias, args.c_dtype, c, dtype_of<T>, cols);
  const auto bytes = [&](std::int64_t count) { return static_cast<std::size_t>(count * cols) * sizeof(T); };
  if (ld != cols) {
    for (std::int64_t i = 1; i < rows; ++i) std::memcpy(c + i * ld, c, bytes(1));
    return;
  }
  // In copies of copies: rows may be short.
  const std::int64_t most = std::max<std::int64_t>(1, 2048 / cols);
  for (std::int64_t done = 1; done < rows;) {
    const std::int64_t count = std::min({done, rows - done, most});
    std::memcpy(c + done * cols, c, bytes(count));
    done += count;
  }
}

/// One product cut into tiles; the methods compute one tile on the calling thread.
template <class In, class Acc>
struct Product {
  GemmArgs args;
  Operand a, b;
  GemmTileFunction<In, Acc> multiply;
  TilePlan plan;
  bool c_direct;

  void run_tile(std::int64_t batch, std::int64_t i, std::int64_t j) const {
    const std::int64_t rows = std::min(plan.rows, args.m - i), cols = std::min(plan.cols, args.n - j);
    std::byte* const c =
        static_cast<std::byte*>(args.c) +
        (batch * args.c_batch_stride + i * args.c_row_stride + j * args.c_col_stride) * size_of(args.c_dtype);
    ThreadScratch& buffers = scratch();
    GemmTile<In, Acc> tile{};
    tile.m = rows;
    tile.n = cols;
    tile.c = c_direct ? reinterpret_cast<Acc*>(c) : buffers.c.template get<Acc>(rows * cols);
    tile.ldc = c_direct ? (args.m == 1 ? args.n : args.c_row_stride) : cols;
    tile.accumulate = (c_direct && args.beta != 0) || args.bias != nullptr;
    if (args.bias != nullptr) fill_with_bias(args, j, tile.c, tile.ldc, rows, cols);
    const std::int64_t depth = a.direct && b.direct ? args.k : kDepth;
    for (std::int64_t p = 0; p < args.k; p += depth) {
      tile.k = std::min(depth, args.k - p);
      const Block<In> left = load_block<In>(a, batch, i, p, rows, tile.k, buffers.a);
      const Block<In> right = load_block<In>(b, batch, p, j, tile.k, cols, buffers.b);
      tile.a = left.data, tile.lda = left.ld, tile.a_transposed = left.transposed;
      tile.b = right.data, tile.ldb = right.ld, tile.b_transposed = right.transposed;
      multiply(tile);
      tile.accumulate = true;
    }
    if (!c_direct) store_tile<Acc>(tile.c, args, c, rows, cols);
  }
};

}  // namespace

TilePlan plan_tiles(std::int64_t batch, std::int64_t m, std::int64_t n, std::int64_t k) {
  std::int64_t rows = std::min(m, kMaxRows), cols = std::min(n, kMaxCols);
  while (batch * ceil_div(m, rows) * ceil_div(n, cols) < kWantedTiles) {
    const bool cut_rows = rows > kMinRows, cut_cols = cols > kMinCols;
    const double half = static_cast<double>(rows) * static_cast<double>(cols) * static_cast<double>(k);
    if (half < kMinTileFlops || (!cut_rows && !cut_cols)) break;
    if (cut_cols && (cols >= 2 * rows || !cut_rows))
      cols = round_up(cols / 2, 32);
    else
      rows = round_up(rows / 2, 16);
  }
  return {even(m, rows, 16), even(n, cols, 32)};
}

/// Prepares A and B for an engine. Lines that lie along a row or column of C get gaps, and are packed for
/// that alone where the engine needs it; lines along k are read one by one, and gaps do not help there.
template <class In, class Acc>
void prepare_operands(Product<In, Acc>& product, const EngineNeeds& needs) {
  const GemmArgs& args = product.args;
  Operand &a = product.a, &b = product.b;
  a.spaced = a.transposed;
  b.spaced = !b.transposed;
  const auto crowded = [&](const Operand& x, std::int64_t readings) {
    return needs.spaced_lines && x.direct && x.spaced && x.ld % 512 == 0 && args.k >= 16 && readings >= 64;
  };
  if (crowded(a, args.n)) a.direct = false;
  if (crowded(b, args.m)) b.direct = false;
  const TilePlan& plan = product.plan;
  if (args.batch == 1 && args.m <= plan.rows && args.n <= plan.cols && args.k <= kDepth) return;  // one block
  ThreadScratch& buffers = scratch();
  share<In>(a, args.m, args.k, args.batch, args.batch * ceil_div(args.n, plan.cols),
            a.transposed ? plan.rows : kDepth, buffers.whole_a);
  share<In>(b, args.k, args.n, args.batch, args.batch * ceil_div(args.m, plan.rows),
            b.transposed ? kDepth : plan.cols, buffers.whole_b);
}

template <class In, class Acc>
void gemm_blocked(const GemmArgs& args, GemmTileFunction<In, Acc> multiply, const EngineNeeds& needs) {
  const bool c_by_rows =
      (args.n == 1 || args.c_col_stride == 1) && (args.m == 1 || args.c_row_stride >= args.n);
  const bool direct_sum = args.alpha == 1 && (args.beta == 0 || args.beta == 1);
  Product<In, Acc> product{args,
                           make_operand<In>(args.a, args.a_dtype, args.a_batch_stride, args.a_row_stride,
                                            args.a_col_stride, args.m, args.k, false),
                           make_operand<In>(args.b, args.b_dtype, args.b_batch_stride, args.b_row_stride,
                                            args.b_col_stride, args.k, args.n, needs.b_by_rows),
                           multiply,
                           plan_tiles(args.batch, args.m, args.n, args.k),
                           args.c_dtype == dtype_of<Acc> && c_by_rows && direct_sum};
  prepare_operands(product, needs);
  const TilePlan& plan = product.plan;
  const std::int64_t tiles_down = ceil_div(args.m, plan.rows), tiles_across = ceil_div(args.n, plan.cols);
  const double tile_flops =
      2.0 * static_cast<double>(plan.rows) * static_cast<double>(plan.cols) * static_cast<double>(args.k);
  const std::int64_t grain = std::max<std::int64_t>(1, static_cast<std::int64_t>(kMinTaskFlops / tile_flops));
  parallel_for(args.batch * tiles_down * tiles_across, grain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t t = begin; t < end; ++t) {
      const std::int64_t j = t % tiles_across, i = t / tiles_across % tiles_down;
      product.run_tile(t / (tiles_across * tiles_down), i * plan.rows, j * plan.cols);
    }
  });
}

template <class T>
void gemm_scale(const GemmArgs& args) {
  if (args.beta == 1) return;
  const std::int64_t size = size_of(args.c_dtype);
  const std::int64_t grain = std::max<std::int64_t>(1, (1 << 16) / args.n);
  parallel_for(args.batch * args.m, grain, [&](std::int64_t begin, std::int64_t end) {
    alignas(64) T line[kMaxCols] = {};
    for (std::int64_t r = begin; r < end; ++r) {
      const std::int64_t offset = r / args.m * args.c_batch_stride + r % args.m * args.c_row_stride;
      for (std::int64_t j = 0; j < args.n; j += kMaxCols) {
        const std::int64_t count = std::min(kMaxCols, args.n - j);
        std::byte* const c = static_cast<std::byte*>(args.c) + (offset + j * args.c_col_stride) * size;
        if (args.beta != 0) {
          gather(c, args.c_dtype, args.c_col_stride, line, dtype_of<T>, count);
          run_isa<Scale<T>>(static_cast<const T*>(line), static_cast<T*>(line), count,
                            static_cast<T>(args.beta));
        }
        scatter(line, dtype_of<T>, c, args.c_dtype, args.c_col_stride, count);
      }
    }
  });
}

template void gemm_blocked(const GemmArgs&, GemmTileFunction<float>, const EngineNeeds&);
template void gemm_blocked(const GemmArgs&, GemmTileFunction<double>, const EngineNeeds&);
template void gemm_blocked(const GemmArgs&, GemmTileFunction<std::int64_t>, const EngineNeeds&);
template void gemm_blocked(const GemmArgs&, GemmTileFunction<BFloat16, float>, const EngineNeeds&);
template void gemm_scale<float>(const GemmArgs&);
template void gemm_scale<double>(const GemmArgs&);
template void gemm_scale<std::int64_t>(const GemmArgs&);

}  // namespace mezzo::kernels::cpu
