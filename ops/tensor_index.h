// What stands between the brackets of `x[...]`, and what comes out of them.
#pragma once

#include <concepts>
#include <cstdint>
#include <iterator>
#include <optional>
#include <utility>

#include "mezzo/core/tensor.h"

// X11's headers define None as 0L, and may come before or after this one.
#pragma push_macro("None")
#undef None

namespace mezzo {

/// Python's None as an index: a new dim of size 1. As a bound of a Slice: none. Beside X11's headers, whose
/// macro of that name is the number 0: `NoneType()`.
struct NoneType {};
inline constexpr NoneType None;
/// Python's `...` as an index: all dims that the other indices leave.
struct EllipsisType {};
inline constexpr EllipsisType Ellipsis;

/// Python's start:stop:step, bounds as for `slice` (ops/shape.h): `Slice(1, 5)`, `Slice(None, -1)`,
/// `Slice()`.
class Slice {
 public:
  /// A number or None.
  class Bound {
   public:
    constexpr Bound(NoneType /*none*/ = None) {}
    template <std::integral I>
    requires(!std::same_as<I, bool>) constexpr Bound(I value) : value_(static_cast<std::int64_t>(value)) {}
    [[nodiscard]] constexpr std::optional<std::int64_t> value() const { return value_; }

   private:
    std::optional<std::int64_t> value_;
  };
  constexpr Slice(Bound start = None, Bound stop = None, std::int64_t step = 1)
      : start_(start), stop_(stop), step_(step) {}
  [[nodiscard]] constexpr std::optional<std::int64_t> start() const { return start_.value(); }
  [[nodiscard]] constexpr std::optional<std::int64_t> stop() const { return stop_.value(); }
  [[nodiscard]] constexpr std::int64_t step() const { return step_; }

 private:
  Bound start_, stop_;
  std::int64_t step_;
};

/// One index: a position, a Slice, None, Ellipsis, or a tensor of positions or of bools (a mask).
class Index {
 public:
  enum class Kind : std::uint8_t { position, slice, none, ellipsis, tensor };
  template <std::integral I>
  requires(!std::same_as<I, bool>) Index(I position)
      : kind_(Kind::position), position_(static_cast<std::int64_t>(position)) {}
  Index(const Slice& slice) : kind_(Kind::slice), slice_(slice) {}
  Index(NoneType /*none*/) : kind_(Kind::none) {}
  Index(EllipsisType /*ellipsis*/) : kind_(Kind::ellipsis) {}
  Index(Tensor tensor) : kind_(Kind::tensor), tensor_(std::move(tensor)) {}

  [[nodiscard]] Kind kind() const { return kind_; }
  [[nodiscard]] std::int64_t position() const { return position_; }
  [[nodiscard]] const Slice& slice() const { return slice_; }
  [[nodiscard]] const Tensor& tensor() const { return tensor_; }

 private:
  Kind kind_;
  std::int64_t position_ = 0;
  Slice slice_;
  Tensor tensor_;
};

/// The result of `x[...]`: a tensor, and while it has no name yet, a place in x that can be written to.
///   x[0] = y;             // writes
///   Tensor row = x[0];    // a view of x
///   row = y;              // row is y now, x is as it was, as in Python
/// What is written broadcasts to the place, and is converted to x's dtype. Where gradients are to follow, the
/// result takes x's place in the graph, as of all in-place writes (Tensor::add_), and x must not be a view:
/// write `x[{0, 1}] = y` and not `x[0][1] = y`. Throws: IndexError for a position that is not there and for
/// more indices than dims, ValueError for a second Ellipsis or a step below 1, ShapeError for what does not
/// broadcast, AutogradError, and what `index` and `index_put` (ops/indexing.h) throw.
class TensorItem : public Tensor {
 public:
  TensorItem(const Tensor& base, SmallVector<Index, 2> indices);
  TensorItem(const TensorItem&) = default;
  TensorItem(TensorItem&&) = default;
  ~TensorItem() = default;
  TensorItem& operator=(const TensorItem& other) & = default;
  TensorItem& operator=(TensorItem&& other) & = default;
  TensorItem& operator=(const Tensor& other) & {
    static_cast<Tensor&>(*this) = other;
    return *this;
  }

  void operator=(const TensorItem& values) && { write(values); }
  void operator=(const Tensor& values) && { write(values); }
  void operator=(Scalar value) && { write(value); }
  void operator+=(const Tensor& other) && { write(add(other)); }
  void operator+=(Scalar other) && { write(add(other)); }
  void operator-=(const Tensor& other) && { write(sub(other)); }
  void operator-=(Scalar other) && { write(sub(other)); }
  void operator*=(const Tensor& other) && { write(mul(other)); }
  void operator*=(Scalar other) && { write(mul(other)); }
  void operator/=(const Tensor& other) && { write(div(other)); }
  void operator/=(Scalar other) && { write(div(other)); }
  template <class Other>
  void operator&=(const Other& other) && {
    write(*this & other);
  }
  template <class Other>
  void operator|=(const Other& other) && {
    write(*this | other);
  }
  template <class Other>
  void operator^=(const Other& other) && {
    write(*this ^ other);
  }
  // With a name of its own it is a tensor as any other.
  using Tensor::operator&=, Tensor::operator|=, Tensor::operator^=;
  void operator+=(const Tensor& other) & { add_(other); }
  void operator+=(Scalar other) & { add_(other); }
  void operator-=(const Tensor& other) & { sub_(other); }
  void operator-=(Scalar other) & { sub_(other); }
  void operator*=(const Tensor& other) & { mul_(other); }
  void operator*=(Scalar other) & { mul_(other); }
  void operator/=(const Tensor& other) & { div_(other); }
  void operator/=(Scalar other) & { div_(other); }

 private:
  void write(const Tensor& values);
  void write(Scalar value);

  Tensor base_;
  SmallVector<Index, 2> indices_;
};

/// Walks along the first dim of a tensor; each element is a view.
class TensorIterator {
 public:
  using iterator_category = std::input_iterator_tag;
  using value_type = Tensor;
  using difference_type = std::ptrdiff_t;
  using pointer = const Tensor*;
  using reference = Tensor;

  TensorIterator(Tensor tensor, std::int64_t at) : tensor_(std::move(tensor)), at_(at) {}
  [[nodiscard]] Tensor operator*() const { return tensor_.select(0, at_); }
  TensorIterator& operator++() {
    ++at_;
    return *this;
  }
  TensorIterator operator++(int) { return {tensor_, at_++}; }
  friend bool operator==(const TensorIterator& a, const TensorIterator& b) { return a.at_ == b.at_; }

 private:
  Tensor tensor_;
  std::int64_t at_;
};

}  // namespace mezzo

#pragma pop_macro("None")
