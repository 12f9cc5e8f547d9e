// A vector whose first N elements live inside it. Shapes, input lists and graph edges are short, and a tensor
// library that goes to the heap for each of them spends its time there.
#pragma once

#include <cassert>
#include <cstddef>
#include <initializer_list>
#include <memory>
#include <span>
#include <type_traits>
#include <utility>

#include "mezzo/core/host_device.h"

namespace mezzo {

/// Sequence with inline room for N elements; grows on the heap beyond. Same meaning as std::vector's members.
template <class T, std::size_t N>
class SmallVector {
 public:
  using value_type = T;
  using iterator = T*;
  using const_iterator = const T*;

  SmallVector() noexcept = default;
  explicit SmallVector(std::size_t count) { resize(count); }
  SmallVector(std::size_t count, const T& value) { resize(count, value); }
  SmallVector(std::initializer_list<T> values) : SmallVector(values.begin(), values.end()) {}
  template <class It>
  requires(!std::is_integral_v<It>) SmallVector(It first, It last) {
    reserve(static_cast<std::size_t>(std::distance(first, last)));
    for (; first != last; ++first) push_back(*first);
  }
  /// From anything that converts to a span of T. (A template: with a parameter of type std::span the compiler
  /// would check at each copy of a SmallVector whether it converts to one.)
  template <class R>
  requires(!std::is_arithmetic_v<R> && !std::is_base_of_v<SmallVector, R> &&
           !std::is_same_v<R, std::initializer_list<T>> &&
           std::is_convertible_v<const R&, std::span<const T>>) explicit SmallVector(const R& values) {
    const std::span<const T> span = values;
    reserve(span.size());
    for (const T& value : span) push_back(value);
  }
  SmallVector(const SmallVector& other) : SmallVector(other.begin(), other.end()) {}
  SmallVector(SmallVector&& other) noexcept { take(other); }
  SmallVector& operator=(const SmallVector& other) {
    if (this != &other) {
      clear();
      reserve(other.size());
      for (const T& value : other) push_back(value);
    }
    return *this;
  }
  SmallVector& operator=(SmallVector&& other) noexcept {
    if (this != &other) {
      release();
      take(other);
    }
    return *this;
  }
  ~SmallVector() { release(); }

  [[nodiscard]] std::size_t size() const noexcept { return size_; }
  [[nodiscard]] bool empty() const noexcept { return size_ == 0; }
  [[nodiscard]] T* data() noexcept { return data_; }
  [[nodiscard]] const T* data() const noexcept { return data_; }
  T* begin() noexcept { return data_; }
  T* end() noexcept { return data_ + size_; }
  const T* begin() const noexcept { return data_; }
  const T* end() const noexcept { return data_ + size_; }
  T& operator[](std::size_t i) & noexcept {
    assert(i < size_);
    return data_[i];
  }
  const T& operator[](std::size_t i) const& noexcept {
    assert(i < size_);
    return data_[i];
  }
  T operator[](std::size_t i) && { return std::move((*this)[i]); }
  T& front() & noexcept { return (*this)[0]; }
  const T& front() const& noexcept { return (*this)[0]; }
  T front() && { return std::move((*this)[0]); }
  T& back() & noexcept { return (*this)[size_ - 1]; }
  const T& back() const& noexcept { return (*this)[size_ - 1]; }
  T back() && { return std::move((*this)[size_ - 1]); }

  template <class... Args>
  T& emplace_back(Args&&... args) {
    if (size_ == capacity_) {
      T value(std::forward<Args>(args)...);  // built first: an argument may live inside this vector
      grow(2 * size_ + N);
      return *std::construct_at(data_ + size_++, std::move(value));
    }
    return *std::construct_at(data_ + size_++, std::forward<Args>(args)...);
  }
  void push_back(const T& value) { emplace_back(value); }
  void push_back(T&& value) { emplace_back(std::move(value)); }
  void pop_back() noexcept { std::destroy_at(data_ + --size_); }
  void clear() noexcept {
    std::destroy(begin(), end());
    size_ = 0;
  }
  void reserve(std::size_t count) {
    if (count > capacity_) grow(count);
  }
  void resize(std::size_t count) {
    while (size_ > count) pop_back();
    reserve(count);
    while (size_ < count) emplace_back();
  }
  void resize(std::size_t count, const T& value) {
    while (size_ > count) pop_back();
    reserve(count);
    while (size_ < count) push_back(value);
  }
  T* insert(const T* position, T value) {
    const auto at = static_cast<std::size_t>(position - data_);
    push_back(std::move(value));
    for (std::size_t i = size_ - 1; i > at; --i) std::swap(data_[i], data_[i - 1]);
    return data_ + at;
  }
  T* erase(const T* position) {
    T* at = data_ + (position - data_);
    for (T* next = at + 1; next != end(); ++next) *(next - 1) = std::move(*next);
    pop_back();
    return at;
  }
  operator std::span<const T>() const noexcept { return {data_, size_}; }
  friend bool operator==(const SmallVector& a, const SmallVector& b) {
    if (a.size_ != b.size_) return false;
    for (std::size_t i = 0; i < a.size_; ++i) {
      if (!(a.data_[i] == b.data_[i])) return false;
    }
    return true;
  }

 private:
  T* inline_data() noexcept { return reinterpret_cast<T*>(inline_); }
  void grow(std::size_t count) {
    T* bigger = std::allocator<T>().allocate(count);
    std::uninitialized_move(begin(), end(), bigger);
    std::destroy(begin(), end());
    free_heap();
    data_ = bigger;
    capacity_ = count;
  }
  void free_heap() noexcept {
    if (data_ != inline_data()) std::allocator<T>().deallocate(data_, capacity_);
  }
  void release() noexcept {
    std::destroy(begin(), end());
    free_heap();
    data_ = inline_data();
    size_ = 0;
    capacity_ = N;
  }
  void take(SmallVector& other) noexcept {
    if (other.data_ != other.inline_data()) {
      data_ = std::exchange(other.data_, other.inline_data());
      size_ = std::exchange(other.size_, 0);
      capacity_ = std::exchange(other.capacity_, N);
    } else {
      std::uninitialized_move(other.begin(), other.end(), data_);
      size_ = other.size_;
      other.clear();
    }
  }

  alignas(T) std::byte inline_[N * sizeof(T)];
  T* data_ = inline_data();
  std::size_t size_ = 0;
  std::size_t capacity_ = N;
};

}  // namespace mezzo
