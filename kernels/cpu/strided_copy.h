// Copies between arrays of any strides, in any number of dims, at the rate of memory: blocks that are
// transposed in registers where source and result lie in different orders, whole runs where their last dims
// agree.
#pragma once

#include <cstddef>
#include <cstdint>

#include "mezzo/core/layout.h"
#include "mezzo/kernels/view.h"

namespace mezzo::kernels::cpu {

/// A copy from one array into another of the same shape, cut into blocks that may be copied in any order and
/// on any thread. Equal dtypes keep their bits; others are converted as convert() does.
class StridedCopy {
 public:
  StridedCopy(const View& out, const View& in);

  /// Whether there are loops for this copy. All of one dtype are; others where a block is worth a call of
  /// convert().
  [[nodiscard]] bool possible() const { return way_ != Way::none; }
  [[nodiscard]] std::int64_t blocks() const { return outer_count_ * row_blocks_ * column_blocks_; }
  [[nodiscard]] std::int64_t block_elements() const { return high_ * wide_; }
  /// Copies blocks [begin, end), on the calling thread.
  void run(std::int64_t begin, std::int64_t end) const;

 private:
  enum class Way : std::uint8_t {
    none,
    runs,        ///< the columns are neighbours in both arrays
    transposed,  ///< the rows are neighbours in the source, the columns in the result
    single,      ///< one element after the other
  };
  struct Block {
    std::byte* to;
    const std::byte* from;
    std::int64_t rows, columns;
  };

  void choose_dims();
  void cut();
  [[nodiscard]] Block block(std::int64_t index) const;
  void copy_runs(const Block& block) const;
  template <class U>
  void copy_single(const Block& block) const;
  template <class U>
  void copy_transposed(const Block& block, const std::byte* next) const;

  /// Of the two inner dims: size, and the steps from one element to the next in elements of the array.
  struct Inner {
    std::int64_t size = 1, to = 0, from = 0;
  };

  std::byte* to_;
  const std::byte* from_;
  DType to_dtype_, from_dtype_;
  Shape outer_;
  Dims outer_to_, outer_from_;
  Inner row_, column_;
  Way way_ = Way::none;
  std::int64_t high_ = 1, wide_ = 1;  ///< of a block
  std::int64_t outer_count_ = 1, row_blocks_ = 1, column_blocks_ = 1;
};

/// out = in, on the threads. False, and nothing is done, where StridedCopy has no loops.
bool copy_elements(const View& out, const View& in);

}  // namespace mezzo::kernels::cpu
