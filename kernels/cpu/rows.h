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
#include <type_traits>
#include <utility>

#include "mezzo/core/layout.h"
#include "mezzo/kernels/cpu/convert.h"
#include "mezzo/kernels/cpu/parallel.h"
#include "mezzo/kernels/view.h"

namespace mezzo::kernels::cpu {

/// Consecutive rows: row r starts at data + r * distance.
template <class T>
struct RowBlock {
  T* data = nullptr;
  std::int64_t distance = 0;
  const std::byte* ahead = nullptr;  ///< memory that will be used soon, or nullptr; see next()
  std::int64_t ahead_distance = 0;   ///< in bytes

  /// What a pass over row r may fetch meanwhile, a cache line for each line of its own: the row after it, or
  /// where a buffer is filled from next; of results, where row r itself goes. Fetching all of that at once
  /// would be dropped by the processor, and waiting for it takes longer than the pass. Not to be read;
  /// nullptr where nothing is known.
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
class RowScratch {
 public:
  explicit RowScratch(std::int64_t count)
      : bytes_(static_cast<std::size_t>(count) * sizeof(T)),
        data_(static_cast<T*>(detail::take_row_scratch(bytes_))) {}
  ~RowScratch() { detail::give_row_scratch(data_, bytes_); }
  RowScratch(const RowScratch&) = delete;
  RowScratch& operator=(const RowScratch&) = delete;
  [[nodiscard]] T* data() const noexcept { return data_; }

 private:
  std::size_t bytes_;
  T* data_;
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

  /// The same rows from place `first` on, `count` elements of each.
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
  template <class T>
  [[nodiscard]] bool in_place() const {
    return dtype_ == dtype_of<T> && step_ == 1 && outer_.size() <= 1;
  }
  /// Rows [begin, begin + count) as T: in place, or widened into `buffer`.
  template <class T>
  [[nodiscard]] RowBlock<T> read(std::int64_t begin, std::int64_t count, T* buffer) const {
    if (in_place<T>()) return here<T>(begin);
    each_piece(begin, count, [&](const Piece& piece) { gather_piece(piece, buffer); });
    return {buffer, pitch()};
  }
  /// The memory of rows [begin, begin + count) if `read` or `finish` would convert them as one run; otherwise
  /// nullptr.
  [[nodiscard]] const std::byte* packed(std::int64_t begin, std::int64_t count) const {
    const std::byte* found = nullptr;
    each_piece(begin, count, [&](const Piece& piece) {
      if (piece.count == count && is_packed(piece)) found = piece.at;
    });
    return found;
  }
  [[nodiscard]] std::int64_t row_bytes() const { return length_ * size_of(dtype_); }
  /// Where results for these rows go before `finish`.
  template <class T>
  [[nodiscard]] RowBlock<T> target(std::int64_t begin, T* buffer) const {
    return in_place<T>() ? here<T>(begin) : RowBlock<T>{buffer, pitch()};
  }
  /// Narrows and scatters results that are in `buffer`; nothing to do when they are in place.
  template <class T>
  void finish(std::int64_t begin, std::int64_t count, const T* buffer) const {
    if (in_place<T>()) return;
    each_piece(begin, count, [&](const Piece& piece) { scatter_piece(piece, buffer); });
  }

  static constexpr std::int64_t kAcross = 16;  ///< rows of a tile, at least half a cache line
  /// One element, for kernels that touch few of them.
  template <class T>
  [[nodiscard]] T load(std::int64_t row, std::int64_t place) const {
    T value;
    convert(element(row, place), dtype_, &value, dtype_of<T>, 1);
    return value;
  }
  template <class T>
  void store(std::int64_t row, std::int64_t place, T value) const {
    convert(&value, dtype_of<T>, element(row, place), dtype_, 1);
  }

 private:
  /// `count` rows at even distances, the first of them row `first` of the block.
  struct Piece {
    std::byte* at;
    std::int64_t distance, first, count;
  };

  [[nodiscard]] std::int64_t distance() const { return outer_.empty() ? length_ : strides_.back(); }
  template <class T>
  [[nodiscard]] RowBlock<T> here(std::int64_t begin) const {
    T* const row = reinterpret_cast<T*>(base_) + begin * distance();
    return {row, distance(), reinterpret_cast<const std::byte*>(row + distance()),
            distance() * static_cast<std::int64_t>(sizeof(T))};
  }

  /// Splits the rows into pieces that lie along the last outer dim.
  template <class F>
  void each_piece(std::int64_t begin, std::int64_t count, F f) const {
    const std::int64_t inner = outer_.empty() ? 1 : outer_.back();
    for (std::int64_t done = 0; done < count;) {
      const std::int64_t row = begin + done;
      const std::int64_t n = std::min(count - done, inner - row % inner);
      f(Piece{base_ + offset_of(row) * size_of(dtype_), distance(), done, n});
      done += n;
    }
  }
  [[nodiscard]] std::int64_t offset_of(std::int64_t row) const {
    std::int64_t offset = 0;
    for (std::size_t d = outer_.size(); d-- > 0; row /= outer_[d]) offset += row % outer_[d] * strides_[d];
    return offset;
  }

  template <class T>
  void gather_piece(const Piece& piece, T* buffer) const {
    constexpr DType to = dtype_of<T>;
    T* const rows = buffer + piece.first * pitch();
    if (is_packed(piece)) return convert(piece.at, dtype_, rows, to, piece.count * length_);
    if (!across()) {
      for (std::int64_t r = 0; r < piece.count; ++r)
        gather(element(piece, r, 0), dtype_, step_, rows + r * pitch(), to, length_);
      return;
    }
    each_tile(piece, [&](std::int64_t r, std::int64_t i, std::int64_t height, std::int64_t width) {
      T tile[kAcross][kAcross];  // [place in the row][row]
      for (std::int64_t k = 0; k < width; ++k)
        gather(element(piece, r, i + k), dtype_, piece.distance, tile[k], to, height);
      for (std::int64_t j = 0; j < height; ++j) {
        for (std::int64_t k = 0; k < width; ++k) rows[(r + j) * pitch() + i + k] = tile[k][j];
      }
    });
  }

  template <class T>
  void scatter_piece(const Piece& piece, const T* buffer) const {
    constexpr DType from = dtype_of<T>;
    const T* const rows = buffer + piece.first * pitch();
    if (is_packed(piece)) return convert(rows, from, piece.at, dtype_, piece.count * length_);
    if (!across()) {
      for (std::int64_t r = 0; r < piece.count; ++r)
        scatter(rows + r * pitch(), from, element(piece, r, 0), dtype_, step_, length_);
      return;
    }
    each_tile(piece, [&](std::int64_t r, std::int64_t i, std::int64_t height, std::int64_t width) {
      T tile[kAcross][kAcross];
      for (std::int64_t j = 0; j < height; ++j) {
        for (std::int64_t k = 0; k < width; ++k) tile[k][j] = rows[(r + j) * pitch() + i + k];
      }
      for (std::int64_t k = 0; k < width; ++k)
        scatter(tile[k], from, element(piece, r, i + k), dtype_, piece.distance, height);
    });
  }

  /// The rows of the piece and of a buffer lie the same way: one run without gaps.
  [[nodiscard]] bool is_packed(const Piece& piece) const {
    return step_ == 1 && !across() && (piece.distance == length_ || piece.count == 1);
  }
  /// f(first row, first place, rows, places) for tiles of a piece.
  template <class F>
  void each_tile(const Piece& piece, F f) const {
    for (std::int64_t r = 0; r < piece.count; r += kAcross) {
      for (std::int64_t i = 0; i < length_; i += kAcross)
        f(r, i, std::min(kAcross, piece.count - r), std::min(kAcross, length_ - i));
    }
  }
  [[nodiscard]] std::byte* element(std::int64_t row, std::int64_t place) const {
    return base_ + (offset_of(row) + place * step_) * size_of(dtype_);
  }
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

/// Calls `body(out, in, begin, count)` for blocks of rows, threads over chunks of blocks: `out` and `in` are
/// RowBlocks of T for rows [begin, begin + count), and what `body` leaves in `out` is stored. `out` may be
/// nullptr; then the body keeps its results itself. All operands have rows of one length and number. Rows
/// [k * unit, (k + 1) * unit) are of one chunk, hence come in order and on one thread.
template <class T, std::size_t N, class Body>
void for_row_blocks(const RowOperand* out, const std::array<RowOperand, N>& in, const Body& body,
                    std::int64_t unit = 1, Buffers buffers = Buffers::apart) {
  const std::int64_t rows = in[0].rows();
  const std::int64_t length = in[0].length();
  if (rows == 0 || length == 0) return;
  const bool across = (out != nullptr && out->across()) ||
                      std::any_of(in.begin(), in.end(), [](const auto& x) { return x.across(); });
  const std::int64_t least = across ? RowOperand::kAcross : 1;
  const std::int64_t block = std::min(std::max(kRowBlock / length, least), rows);
  const std::int64_t blocks_per_chunk = std::max<std::int64_t>(16 * kRowBlock / (block * length), 1);
  const std::int64_t units_per_chunk = (block * blocks_per_chunk + unit - 1) / unit;
  parallel_for(rows, unit * units_per_chunk, [&](std::int64_t begin, std::int64_t end) {
    const auto scratch_for = [&](const RowOperand& operand) {
      return operand.in_place<T>() ? 0 : std::min(block, end - begin) * operand.pitch();
    };
    const auto scratch = [&]<std::size_t... I>(std::index_sequence<I...> /*indices*/) {
      return std::array<RowScratch<T>, N>{RowScratch<T>(scratch_for(in[I]))...};
    }
    (std::make_index_sequence<N>{});
    // Half of the cache, where a row is long.
    const bool shared = buffers == Buffers::shared && out != nullptr && !in[0].template in_place<T>() &&
                        in[0].pitch() == out->pitch();
    const RowScratch<T> own(out == nullptr || shared ? 0 : scratch_for(*out));
    T* const result = shared ? scratch[0].data() : own.data();
    for (std::int64_t at = begin; at < end; at += block) {
      const std::int64_t count = std::min(block, end - at);
      std::array<RowBlock<T>, N> blocks;
      for (std::size_t k = 0; k < N; ++k) {
        blocks[k] = in[k].template read<T>(at, count, scratch[k].data());
        if (in[k].template in_place<T>() || at + block >= end) continue;
        blocks[k].ahead = in[k].packed(at + block, std::min(block, end - at - block));
        blocks[k].ahead_distance = in[k].row_bytes();
      }
      RowBlock<T> results;
      if (out != nullptr) {
        results = out->template target<T>(at, result);
        const bool in_place = out->template in_place<T>();
        results.ahead = in_place ? reinterpret_cast<std::byte*>(results.data) : out->packed(at, count);
        if (!in_place) results.ahead_distance = out->row_bytes();
      }
      body(results, blocks, at, count);
      if (out != nullptr) out->template finish<T>(at, count, result);
    }
  });
}

}  // namespace mezzo::kernels::cpu
