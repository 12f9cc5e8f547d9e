// Rows: how a row-wise CPU kernel (softmax, cross-entropy, layer_norm) sees a strided array of any dtype, as
// blocks of contiguous rows of its compute type. Rows that lie right in memory are used in place; others are
// gathered into a block that stays in the cache, so a kernel reads and writes the array once whatever its
// layout.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>
#include <type_traits>

#include "mezzo/core/layout.h"
#include "mezzo/core/scope.h"
#include "mezzo/kernels/cpu/convert.h"
#include "mezzo/kernels/cpu/parallel.h"
#include "mezzo/kernels/view.h"

namespace mezzo::kernels::cpu {

/// Consecutive rows: row r starts at data + r * distance (in elements). T is void where their type is known
/// as a value only.
template <class T>
struct RowBlock {
  T* data = nullptr;
  std::int64_t distance = 0;
  const std::byte* ahead = nullptr;  ///< memory that will be used soon, or nullptr; see next()
  std::int64_t ahead_distance = 0;   ///< in bytes

  template <class U>
  [[nodiscard]] RowBlock<U> as() const {
    return {static_cast<U*>(data), distance, ahead, ahead_distance};
  }
  /// The address that a pass over row r should prefetch from, one cache line for each line that it reads: the
  /// next row, or the memory that is gathered into a buffer next; for results, the memory that row r goes to.
  /// (The processor drops prefetches of whole rows at once, and waiting for the memory takes longer than the
  /// pass.) For prefetching only; nullptr where nothing is known.
  [[nodiscard]] MEZZO_ALWAYS_INLINE const std::remove_const_t<T>* next(std::int64_t r) const {
    if (ahead == nullptr) return nullptr;
    return reinterpret_cast<const std::remove_const_t<T>*>(ahead + r * ahead_distance);
  }
};

namespace detail {
/// Memory for `bytes`, 64-byte aligned, up to 64 KiB of which a thread keeps what it gives back; nullptr for
/// 0 bytes. Throws OutOfMemoryError, or std::bad_alloc for a block that is kept.
[[nodiscard]] void* take_row_scratch(std::size_t bytes);
void give_row_scratch(void* memory, std::size_t bytes) noexcept;
}  // namespace detail

/// Memory for one block of one operand. No system call once it is warm, and no cache lines that another
/// thread wrote, as blocks from the allocator that threads share would have: that costs a fifth of the time
/// of 16-bit rows on two threads.
template <class T>
class RowScratch : mezzo::detail::NoCopy {
 public:
  explicit RowScratch(std::int64_t count)
      : bytes_(static_cast<std::size_t>(count) * sizeof(T)),
        data_(static_cast<T*>(detail::take_row_scratch(bytes_))) {}
  ~RowScratch() { detail::give_row_scratch(data_, bytes_); }
  [[nodiscard]] T* data() const noexcept { return data_; }

 private:
  std::size_t bytes_;
  T* data_;
};

/// A dense array as elements of T: in place, or converted into memory of its own.
template <class T>
class Widened {
 public:
  Widened(const void* data, DType dtype, std::int64_t n)
      : scratch_(data == nullptr || dtype == dtype_of<T> ? 0 : n), data_(static_cast<const T*>(data)) {
    if (scratch_.data() == nullptr) return;
    constexpr std::int64_t kGrain = 1 << 15;
    parallel_for(n, kGrain, [&](std::int64_t begin, std::int64_t end) {
      convert(static_cast<const std::byte*>(data) + begin * size_of(dtype), dtype, scratch_.data() + begin,
              dtype_of<T>, end - begin);
    });
    data_ = scratch_.data();
  }
  [[nodiscard]] const T* data() const { return data_; }

 private:
  RowScratch<T> scratch_;
  const T* data_;
};

/// The rows of a view along one dim, counted row-major over its other dims. A 0-dim view is one row of one.
class RowOperand {
 public:
  RowOperand() = default;
  RowOperand(const View& view, std::size_t dim)
      : base_(static_cast<std::byte*>(view.data)), dtype_(view.dtype), outer_(view.shape) {
    std::array<Dims, 1> strides{view.strides};
    if (dim < outer_.size()) {
      length_ = outer_[dim];
      step_ = length_ == 1 ? 1 : strides[0][dim];
      outer_.erase(dim);
      strides[0].erase(dim);
    }
    rows_ = layout::numel(outer_);
    if (rows_ > 0) layout::collapse(outer_, strides);
    strides_ = strides[0];
  }

  /// The rows cut to `count` elements each, from place `first` on.
  [[nodiscard]] RowOperand part(std::int64_t first, std::int64_t count) const {
    RowOperand result = *this;
    result.base_ += first * step_ * size_of(dtype_);
    result.length_ = count;
    return result;
  }
  [[nodiscard]] std::int64_t rows() const { return rows_; }
  [[nodiscard]] std::int64_t length() const { return length_; }
  /// Neighbouring rows are closer in memory than neighbours within a row: many rows are read at once, so that
  /// whole cache lines are used.
  [[nodiscard]] bool across() const {
    return !outer_.empty() && length_ > 1 && std::abs(distance()) < std::abs(step_);
  }
  /// Distance of rows in a buffer. Not the length where many rows are filled at once, since a power of two
  /// would put all of them into the same few cache lines.
  [[nodiscard]] std::int64_t pitch() const { return across() ? length_ + kAcross : length_; }
  /// Whether the rows can be used where they are.
  [[nodiscard]] bool in_place(DType type) const { return dtype_ == type && step_ == 1 && outer_.size() <= 1; }
  template <class T>
  [[nodiscard]] bool in_place() const {
    return in_place(dtype_of<T>);
  }
  /// Rows [begin, begin + count) as `to`: in place, or widened into `buffer`.
  [[nodiscard]] RowBlock<void> read(std::int64_t begin, std::int64_t count, DType to, void* buffer) const;
  template <class T>
  [[nodiscard]] RowBlock<T> read(std::int64_t begin, std::int64_t count, T* buffer) const {
    // Checked here too, as most rows of most calls are in place, and for short rows a call costs time.
    return (in_place<T>() ? here(begin) : read(begin, count, dtype_of<T>, buffer)).template as<T>();
  }
  /// The memory of rows [begin, begin + count) if `read` or `finish` would convert them as one run; otherwise
  /// nullptr.
  [[nodiscard]] const std::byte* packed(std::int64_t begin, std::int64_t count) const;
  [[nodiscard]] std::int64_t row_bytes() const { return length_ * size_of(dtype_); }
  /// Where results of type `from` for these rows go before `finish`.
  [[nodiscard]] RowBlock<void> target(std::int64_t begin, DType from, void* buffer) const {
    return in_place(from) ? here(begin) : RowBlock<void>{buffer, pitch()};
  }
  template <class T>
  [[nodiscard]] RowBlock<T> target(std::int64_t begin, T* buffer) const {
    return target(begin, dtype_of<T>, buffer).template as<T>();
  }
  /// Narrows and scatters results that are in `buffer`; nothing to do when they are in place.
  void finish(std::int64_t begin, std::int64_t count, DType from, const void* buffer) const;
  template <class T>
  void finish(std::int64_t begin, std::int64_t count, const T* buffer) const {
    if (!in_place<T>()) finish(begin, count, dtype_of<T>, buffer);
  }

  static constexpr std::int64_t kAcross = 16;  ///< rows of a tile, at least half a cache line

 private:
  /// `count` rows at even distances, the first of them row `first` of the block.
  struct Piece {
    std::byte* at;
    std::int64_t distance, first, count;
  };

  [[nodiscard]] std::int64_t distance() const { return outer_.empty() ? length_ : strides_.back(); }
  [[nodiscard]] RowBlock<void> here(std::int64_t begin) const {
    const std::int64_t bytes = distance() * size_of(dtype_);
    std::byte* const row = base_ + begin * bytes;
    return {row, distance(), row + bytes, bytes};
  }

  /// Splits the rows into pieces that lie along the last outer dim.
  template <class F>
  void each_piece(std::int64_t begin, std::int64_t count, F f) const;
  [[nodiscard]] std::int64_t offset_of(std::int64_t row) const;
  void gather_piece(const Piece& piece, DType to, std::byte* buffer) const;
  void scatter_piece(const Piece& piece, DType from, const std::byte* buffer) const;
  /// The rows of the piece and of a buffer lie the same way: one run without gaps.
  [[nodiscard]] bool is_packed(const Piece& piece) const {
    return step_ == 1 && !across() && (piece.distance == length_ || piece.count == 1);
  }
  /// f(first row, first place, rows, places) for tiles of a piece.
  template <class F>
  void each_tile(const Piece& piece, F f) const;
  [[nodiscard]] std::byte* element(const Piece& piece, std::int64_t row, std::int64_t place) const {
    return piece.at + (row * piece.distance + place * step_) * size_of(dtype_);
  }

  std::byte* base_ = nullptr;
  DType dtype_ = DType::f32;
  std::int64_t length_ = 1, step_ = 1, rows_ = 1;
  Shape outer_;
  Dims strides_;
};

/// Elements in a block of rows: 8 KiB of f32 an operand. A longer row is a block of its own.
inline constexpr std::int64_t kRowBlock = 2048;

/// Whether results may be put where the first input is, element by element, if both are in buffers.
enum class Buffers : std::uint8_t { apart, shared };

namespace detail {
/// A body of for_row_blocks by address, its blocks without their type.
struct RowBody {
  const void* body;
  void (*call)(const void* body, const RowBlock<void>& out, const RowBlock<void>* in, std::int64_t begin,
               std::int64_t count);
};
inline constexpr std::size_t kMostRowInputs = 4;
void for_row_blocks(DType type, const RowOperand* out, std::span<const RowOperand> in, const RowBody& body,
                    std::int64_t unit, Buffers buffers);
}  // namespace detail

/// Calls `body(out, in, begin, count)` for blocks of rows, threads over chunks of blocks: `out` and `in` are
/// RowBlocks of T for rows [begin, begin + count), and what `body` leaves in `out` is stored. `out` may be
/// nullptr; then the body keeps its results itself. All operands have rows of one length and number. Rows
/// [k * unit, (k + 1) * unit) are of one chunk, hence come in order and on one thread.
template <class T, std::size_t N, class Body>
void for_row_blocks(const RowOperand* out, const std::array<RowOperand, N>& in, const Body& body,
                    std::int64_t unit = 1, Buffers buffers = Buffers::apart) {
  static_assert(N <= detail::kMostRowInputs);
  const auto call = [](const void* raw, const RowBlock<void>& result, const RowBlock<void>* blocks,
                       std::int64_t begin, std::int64_t count) {
    std::array<RowBlock<T>, N> typed;
    for (std::size_t k = 0; k < N; ++k) typed[k] = blocks[k].template as<T>();
    (*static_cast<const Body*>(raw))(result.template as<T>(), typed, begin, count);
  };
  detail::for_row_blocks(dtype_of<T>, out, in, {&body, call}, unit, buffers);
}

}  // namespace mezzo::kernels::cpu
