// Shared by row-wise kernels of all types: how rows are gathered and scattered, the loop over blocks, and the
// memory that a thread keeps for them.
#include "mezzo/kernels/cpu/rows.h"

#include <bit>
#include <new>
#include <optional>

#include "mezzo/core/memory/allocator.h"
#include "mezzo/core/memory/per_thread.h"

namespace mezzo::kernels::cpu {

namespace detail {
namespace {

constexpr std::align_val_t kAlignment{64};

/// Blocks that a thread has given back, by size: powers of two.
class KeptBlocks : mezzo::detail::NoCopy {
 public:
  static constexpr std::size_t kLargest = std::size_t{1} << 16;

  KeptBlocks() = default;
  ~KeptBlocks() {
    for (const Blocks& blocks : sizes_) {
      for (std::size_t i = 0; i < blocks.count; ++i) ::operator delete(blocks.memory[i], kAlignment);
    }
  }

  [[nodiscard]] void* take(std::size_t bytes) {
    Blocks& blocks = of_size(bytes);
    if (blocks.count > 0) return blocks.memory[--blocks.count];
    return ::operator new(std::bit_ceil(bytes), kAlignment);
  }
  void give(void* memory, std::size_t bytes) noexcept {
    Blocks& blocks = of_size(bytes);
    if (blocks.count < blocks.memory.size())
      blocks.memory[blocks.count++] = memory;
    else
      ::operator delete(memory, kAlignment);
  }

 private:
  struct Blocks {
    std::array<void*, 4> memory;  ///< as many as one kernel has of one size
    std::size_t count = 0;
  };
  [[nodiscard]] Blocks& of_size(std::size_t bytes) {
    return sizes_[static_cast<std::size_t>(std::bit_width(bytes - 1))];
  }
  std::array<Blocks, std::bit_width(kLargest)> sizes_{};
};
constinit mezzo::detail::PerThread<KeptBlocks> kept;

[[nodiscard]] bool is_kept(std::size_t bytes) { return bytes > 0 && bytes <= KeptBlocks::kLargest; }

}  // namespace

void* take_row_scratch(std::size_t bytes) {
  return is_kept(bytes) ? kept.get().take(bytes) : mezzo::detail::allocate_bytes(bytes, Device::cpu());
}

void give_row_scratch(void* memory, std::size_t bytes) noexcept {
  if (is_kept(bytes))
    kept.get().give(memory, bytes);
  else
    mezzo::detail::deallocate_bytes(memory, bytes, Device::cpu());
}

}  // namespace detail

template <class F>
void RowOperand::each_piece(std::int64_t begin, std::int64_t count, F f) const {
  const std::int64_t inner = outer_.empty() ? 1 : outer_.back();
  for (std::int64_t done = 0; done < count;) {
    const std::int64_t row = begin + done;
    const std::int64_t n = std::min(count - done, inner - row % inner);
    f(Piece{base_ + offset_of(row) * size_of(dtype_), distance(), done, n});
    done += n;
  }
}

template <class F>
void RowOperand::each_tile(const Piece& piece, F f) const {
  for (std::int64_t r = 0; r < piece.count; r += kAcross) {
    for (std::int64_t i = 0; i < length_; i += kAcross)
      f(r, i, std::min(kAcross, piece.count - r), std::min(kAcross, length_ - i));
  }
}

std::int64_t RowOperand::offset_of(std::int64_t row) const {
  std::int64_t offset = 0;
  for (std::size_t d = outer_.size(); d-- > 0; row /= outer_[d]) offset += row % outer_[d] * strides_[d];
  return offset;
}

RowBlock<void> RowOperand::read(std::int64_t begin, std::int64_t count, DType to, void* buffer) const {
  if (in_place(to)) return here(begin);
  each_piece(begin, count,
             [&](const Piece& piece) { gather_piece(piece, to, static_cast<std::byte*>(buffer)); });
  return {buffer, pitch()};
}

const std::byte* RowOperand::packed(std::int64_t begin, std::int64_t count) const {
  const std::byte* found = nullptr;
  each_piece(begin, count, [&](const Piece& piece) {
    if (piece.count == count && is_packed(piece)) found = piece.at;
  });
  return found;
}

void RowOperand::finish(std::int64_t begin, std::int64_t count, DType from, const void* buffer) const {
  if (in_place(from)) return;
  each_piece(begin, count,
             [&](const Piece& piece) { scatter_piece(piece, from, static_cast<const std::byte*>(buffer)); });
}

void RowOperand::gather_piece(const Piece& piece, DType to, std::byte* buffer) const {
  const std::int64_t row_size = pitch() * size_of(to);
  std::byte* const rows = buffer + piece.first * row_size;
  if (is_packed(piece)) return convert(piece.at, dtype_, rows, to, piece.count * length_);
  if (!across()) {
    for (std::int64_t r = 0; r < piece.count; ++r)
      gather(element(piece, r, 0), dtype_, step_, rows + r * row_size, to, length_);
    return;
  }
  with_bits(size_of(to), [&]<class Bits>(Bits) {
    Bits* const typed = reinterpret_cast<Bits*>(rows);
    each_tile(piece, [&](std::int64_t r, std::int64_t i, std::int64_t height, std::int64_t width) {
      Bits tile[kAcross][kAcross];  // [place in the row][row]
      for (std::int64_t k = 0; k < width; ++k)
        gather(element(piece, r, i + k), dtype_, piece.distance, tile[k], to, height);
      for (std::int64_t j = 0; j < height; ++j) {
        for (std::int64_t k = 0; k < width; ++k) typed[(r + j) * pitch() + i + k] = tile[k][j];
      }
    });
  });
}

void RowOperand::scatter_piece(const Piece& piece, DType from, const std::byte* buffer) const {
  const std::int64_t row_size = pitch() * size_of(from);
  const std::byte* const rows = buffer + piece.first * row_size;
  if (is_packed(piece)) return convert(rows, from, piece.at, dtype_, piece.count * length_);
  if (!across()) {
    for (std::int64_t r = 0; r < piece.count; ++r)
      scatter(rows + r * row_size, from, element(piece, r, 0), dtype_, step_, length_);
    return;
  }
  with_bits(size_of(from), [&]<class Bits>(Bits) {
    const Bits* const typed = reinterpret_cast<const Bits*>(rows);
    each_tile(piece, [&](std::int64_t r, std::int64_t i, std::int64_t height, std::int64_t width) {
      Bits tile[kAcross][kAcross];
      for (std::int64_t j = 0; j < height; ++j) {
        for (std::int64_t k = 0; k < width; ++k) tile[k][j] = typed[(r + j) * pitch() + i + k];
      }
      for (std::int64_t k = 0; k < width; ++k)
        scatter(tile[k], from, element(piece, r, i + k), dtype_, piece.distance, height);
    });
  });
}

namespace detail {
namespace {

/// The arguments that all chunks of for_row_blocks share.
struct RowLoop {
  DType type;
  const RowOperand* out;
  std::span<const RowOperand> in;
  const RowBody& body;
  std::int64_t block;  ///< rows
  Buffers buffers;
  using Scratch = std::optional<RowScratch<std::byte>>;

  /// Memory for one block of an operand; nullptr where it is used in place.
  [[nodiscard]] std::byte* take(Scratch& scratch, const RowOperand& operand, std::int64_t rows) const {
    if (operand.in_place(type)) return nullptr;
    return scratch.emplace(std::min(block, rows) * operand.pitch() * size_of(type)).data();
  }
  [[nodiscard]] RowBlock<void> read(const RowOperand& x, std::int64_t at, std::int64_t end,
                                    std::byte* buffer) const {
    RowBlock<void> rows = x.read(at, std::min(block, end - at), type, buffer);
    if (x.in_place(type) || at + block >= end) return rows;
    rows.ahead = x.packed(at + block, std::min(block, end - at - block));
    rows.ahead_distance = x.row_bytes();
    return rows;
  }
  [[nodiscard]] RowBlock<void> target(std::int64_t at, std::int64_t count, std::byte* buffer) const {
    RowBlock<void> rows = out->target(at, type, buffer);
    const bool in_place = out->in_place(type);
    rows.ahead = in_place ? static_cast<std::byte*>(rows.data) : out->packed(at, count);
    if (!in_place) rows.ahead_distance = out->row_bytes();
    return rows;
  }
  [[nodiscard]] bool in_place() const {
    return (out == nullptr || out->in_place(type)) &&
           std::all_of(in.begin(), in.end(), [&](const RowOperand& x) { return x.in_place(type); });
  }
  void run(std::int64_t begin, std::int64_t end) const {
    std::array<Scratch, kMostRowInputs> scratch;
    std::array<std::byte*, kMostRowInputs> memory{};
    for (std::size_t k = 0; k < in.size(); ++k) memory[k] = take(scratch[k], in[k], end - begin);
    // Half of the cache, where a row is long.
    const bool shared = buffers == Buffers::shared && out != nullptr && !in[0].in_place(type) &&
                        in[0].pitch() == out->pitch();
    Scratch own;
    std::byte* const result = shared ? memory[0] : out != nullptr ? take(own, *out, end - begin) : nullptr;
    // With nothing to gather or scatter all rows are one block.
    const std::int64_t step = in_place() ? end - begin : block;
    for (std::int64_t at = begin; at < end; at += step) {
      const std::int64_t count = std::min(step, end - at);
      std::array<RowBlock<void>, kMostRowInputs> blocks;
      for (std::size_t k = 0; k < in.size(); ++k) blocks[k] = read(in[k], at, end, memory[k]);
      body.call(body.body, out != nullptr ? target(at, count, result) : RowBlock<void>(), blocks.data(), at,
                count);
      if (out != nullptr) out->finish(at, count, type, result);
    }
  }
};

}  // namespace

void for_row_blocks(DType type, const RowOperand* out, std::span<const RowOperand> in, const RowBody& body,
                    std::int64_t unit, Buffers buffers) {
  const std::int64_t rows = in[0].rows();
  const std::int64_t length = in[0].length();
  if (rows == 0 || length == 0) return;
  const bool across = (out != nullptr && out->across()) ||
                      std::any_of(in.begin(), in.end(), [](const auto& x) { return x.across(); });
  const std::int64_t least = across ? RowOperand::kAcross : 1;
  const std::int64_t block = std::min(std::max(kRowBlock / length, least), rows);
  const std::int64_t blocks_per_chunk = std::max<std::int64_t>(16 * kRowBlock / (block * length), 1);
  const std::int64_t units_per_chunk = (block * blocks_per_chunk + unit - 1) / unit;
  const RowLoop loop{type, out, in, body, block, buffers};
  cpu::parallel_for(rows, unit * units_per_chunk,
                    [&](std::int64_t begin, std::int64_t end) { loop.run(begin, end); });
}

}  // namespace detail

}  // namespace mezzo::kernels::cpu
