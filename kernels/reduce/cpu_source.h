// How the input of a reduction reaches the loops: in place where it lies as they want it, else widened,
// gathered or transposed a block at a time. Apart from the loops because sums and positions of extrema share
// it.
#pragma once

#include <cstddef>
#include <cstdint>

#include "mezzo/kernels/reduce/cpu_plan.h"

namespace mezzo::kernels::cpu::detail {

/// Elements [row, row + rows) of outputs `column`, `column` + 1, ... of a unit: row r at data + r * pitch.
template <class T>
struct Block {
  const T* data;
  std::int64_t pitch;
  std::int64_t row, rows;
  std::int64_t column, columns;
};

/// The callback of each_block, by address: one loop over blocks for all types and reducers.
struct BlockTaker {
  const void* taker;
  void (*take)(const void* taker, const Block<void>& block);
};

/// An input: where it starts and of what dtype it is.
class ReduceSource {
 public:
  explicit ReduceSource(const View& view)
      : base_(static_cast<const std::byte*>(view.data)), dtype_(view.dtype) {}

  [[nodiscard]] DType dtype() const { return dtype_; }
  /// The element that is `offset` elements from the start.
  [[nodiscard]] const std::byte* at(std::int64_t offset) const { return base_ + offset * size_of(dtype_); }
  /// Where positions [begin, begin + n) of `space`, which starts `origin` elements from the start, lie one
  /// after the other; nullptr where they do not.
  [[nodiscard]] const std::byte* packed(const StridedSpace& space, std::int64_t origin, std::int64_t begin,
                                        std::int64_t n) const {
    if (n <= 0) return nullptr;
    const auto run = space.single_run(begin, n);
    return run && run->stride == 1 ? at(origin + run->offset) : nullptr;
  }
  /// Positions [begin, begin + n) of `space`, which starts `origin` elements from the start, as `to`: the
  /// array itself when they lie in it so, else `buffer`.
  const void* read(const StridedSpace& space, std::int64_t origin, std::int64_t begin, std::int64_t n,
                   DType to, void* buffer) const;
  template <class T>
  const T* read(const StridedSpace& space, std::int64_t origin, std::int64_t begin, std::int64_t n,
                T* buffer) const {
    return static_cast<const T*>(read(space, origin, begin, n, dtype_of<T>, buffer));
  }

  /// Cuts the given elements of outputs [first, first + n) into blocks, in order of the elements for every
  /// output: take(const Block<T>&).
  template <class T, class Take>
  void each_block(const ReducePlan& plan, std::int64_t first, std::int64_t n, ReducePlan::Range elements,
                  const Take& take) const {
    const auto typed = [](const void* taker, const Block<void>& block) {
      (*static_cast<const Take*>(taker))(Block<T>{static_cast<const T*>(block.data), block.pitch, block.row,
                                                  block.rows, block.column, block.columns});
    };
    each_block(plan, first, n, elements, dtype_of<T>, {&take, typed});
  }

 private:
  void each_block(const ReducePlan& plan, std::int64_t first, std::int64_t n, ReducePlan::Range elements,
                  DType type, const BlockTaker& take) const;
  void copied(const StridedSpace& kept, std::int64_t first, std::int64_t n, StridedSpace::Run down,
              ReducePlan::Range rows, DType type, const BlockTaker& take) const;
  void widened(std::int64_t offset, std::int64_t n, std::int64_t stride, ReducePlan::Range rows, DType type,
               const BlockTaker& take) const;

  const std::byte* base_;
  DType dtype_;
};

/// Sums of f16 and bf16 straight from memory (cpu_direct_sum.cpp): written with the instructions of one
/// processor family, as compilers find no short way from 16 to 64 bits.
///
/// total = the sum of n elements of `dtype` from `x` on, in the order and hence with the bits of
/// RowRun<float, Sum<>, 1> from 0 on the widened elements. False, with `total` as it was, where it cannot: no
/// AVX-512, another dtype, or a 16-bit element that is infinite or NaN.
[[nodiscard]] bool direct_sum(const std::byte* x, DType dtype, std::int64_t n, double& total);

}  // namespace mezzo::kernels::cpu::detail
