// How samples become a batch: tensors are stacked along a new first dim, and an Example, array, pair or tuple
// of tensors becomes one of batches.
#pragma once

#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "mezzo/core/function.h"
#include "mezzo/core/tensor.h"
#include "mezzo/data/example.h"

namespace mezzo::data {

/// The samples along a new first dim, copied, without history. Throws: ShapeError and DTypeError, naming the
/// first sample of the batch that differs from the one at 0, ValueError for none and for an undefined one.
[[nodiscard]] Tensor stack_samples(std::span<const Tensor* const> samples);
/// `source[i]` for each of the indices, stacked. Throws: IndexError.
[[nodiscard]] Tensor gather_samples(const Tensor& source, std::span<const std::int64_t> indices);

namespace detail {

using mezzo::detail::Function;
/// Called with each tensor of a batch.
using TensorVisitor = Function<void(Tensor&)>;

/// The batch type of samples of type S and how a batch is made; empty for types of a program's own. `of`
/// takes a number of samples and a function that returns a reference to the i-th.
template <class S>
struct Collate {};

template <class S>
concept Collatable = requires {
  typename Collate<S>::Batch;
};

template <>
struct Collate<Tensor> {
  using Batch = Tensor;
  template <class Get>
  static Tensor of(std::size_t count, Get get) {
    std::vector<const Tensor*> samples(count);
    for (std::size_t i = 0; i < count; ++i) samples[i] = &get(i);
    return stack_samples(samples);
  }
  static void visit(Tensor& batch, const TensorVisitor& visitor) { visitor(batch); }
};

template <>
struct Collate<Example> {
  using Batch = Example;
  template <class Get>
  static Example of(std::size_t count, Get get) {
    return {Collate<Tensor>::of(count, [&](std::size_t i) -> const Tensor& { return get(i).data; }),
            Collate<Tensor>::of(count, [&](std::size_t i) -> const Tensor& { return get(i).target; })};
  }
  static void visit(Example& batch, const TensorVisitor& visitor) {
    visitor(batch.data);
    visitor(batch.target);
  }
};

/// Numbers become a tensor of one dim: bool, i64 of integers, f32 of float, f64 of double.
[[nodiscard]] Tensor numbers_tensor(const std::vector<std::int64_t>& values, bool are_bools);
[[nodiscard]] Tensor numbers_tensor(const std::vector<double>& values, DType dtype);

template <class S>
requires(std::integral<S> || std::floating_point<S>) struct Collate<S> {
  using Batch = Tensor;
  template <class Get>
  static Tensor of(std::size_t count, Get get) {
    std::vector<std::conditional_t<std::integral<S>, std::int64_t, double>> values(count);
    for (std::size_t i = 0; i < count; ++i) values[i] = get(i);
    if constexpr (std::integral<S>)
      return numbers_tensor(values, std::same_as<S, bool>);
    else
      return numbers_tensor(values, std::same_as<S, float> ? DType::f32 : DType::f64);
  }
  static void visit(Tensor& batch, const TensorVisitor& visitor) { visitor(batch); }
};

template <>
struct Collate<std::string> {
  using Batch = std::vector<std::string>;
  template <class Get>
  static Batch of(std::size_t count, Get get) {
    Batch batch;
    for (std::size_t i = 0; i < count; ++i) batch.push_back(get(i));
    return batch;
  }
  static void visit(Batch& /*batch*/, const TensorVisitor& /*visitor*/) {}
};

template <class T, std::size_t N>
requires Collatable<T>
struct Collate<std::array<T, N>> {
  using Batch = std::array<typename Collate<T>::Batch, N>;
  template <class Get>
  static Batch of(std::size_t count, Get get) {
    Batch batch;
    for (std::size_t n = 0; n < N; ++n)
      batch[n] = Collate<T>::of(count, [&](std::size_t i) -> const T& { return get(i)[n]; });
    return batch;
  }
  static void visit(Batch& batch, const TensorVisitor& visitor) {
    for (auto& part : batch) Collate<T>::visit(part, visitor);
  }
};

template <class... T>
requires(Collatable<T>&&...) struct Collate<std::tuple<T...>> {
  using Batch = std::tuple<typename Collate<T>::Batch...>;
  template <class Get>
  static Batch of(std::size_t count, Get get) {
    return of_parts(count, get, std::index_sequence_for<T...>());
  }
  static void visit(Batch& batch, const TensorVisitor& visitor) {
    std::apply([&](auto&... part) { (Collate<T>::visit(part, visitor), ...); }, batch);
  }

 private:
  template <class Get, std::size_t... N>
  static Batch of_parts(std::size_t count, Get get, std::index_sequence<N...> /*parts*/) {
    return {Collate<T>::of(count, [&](std::size_t i) -> const T& { return std::get<N>(get(i)); })...};
  }
};

template <class A, class B>
requires(Collatable<A>&& Collatable<B>) struct Collate<std::pair<A, B>> {
  using Batch = std::pair<typename Collate<A>::Batch, typename Collate<B>::Batch>;
  template <class Get>
  static Batch of(std::size_t count, Get get) {
    return {Collate<A>::of(count, [&](std::size_t i) -> const A& { return get(i).first; }),
            Collate<B>::of(count, [&](std::size_t i) -> const B& { return get(i).second; })};
  }
  static void visit(Batch& batch, const TensorVisitor& visitor) {
    Collate<A>::visit(batch.first, visitor);
    Collate<B>::visit(batch.second, visitor);
  }
};

/// The tensors of any batch of a known type; a loader moves them to its device.
template <class Batch>
struct BatchTensors {
  static constexpr bool kKnown = false;
  static void visit(Batch& /*batch*/, const TensorVisitor& /*visitor*/) {}
};
template <Collatable Batch>
requires std::same_as<typename Collate<Batch>::Batch, Batch>
struct BatchTensors<Batch> {
  static constexpr bool kKnown = true;
  static void visit(Batch& batch, const TensorVisitor& visitor) { Collate<Batch>::visit(batch, visitor); }
};
template <class T>
struct BatchTensors<std::vector<T>> {
  static constexpr bool kKnown = BatchTensors<T>::kKnown || std::same_as<T, std::string>;
  static void visit(std::vector<T>& batch, const TensorVisitor& visitor) {
    for (T& part : batch) BatchTensors<T>::visit(part, visitor);
  }
};

/// Leaves a tensor of a batch no sample. Throws: ShapeError for one without dims.
void drop_samples(Tensor& tensor);

/// Leaves the lists of texts in a batch no sample.
template <class B>
void drop_texts(B& batch) {
  if constexpr (std::same_as<B, std::vector<std::string>>)
    batch.clear();
  else if constexpr (requires { std::tuple_size<B>::value; })
    std::apply([](auto&... part) { (drop_texts(part), ...); }, batch);
}
template <class T>
void drop_texts(std::vector<T>& batch) {
  if constexpr (std::same_as<T, std::string>)
    batch.clear();
  else
    for (T& part : batch) drop_texts(part);
}

struct NoBatch {};
template <class S>
struct BatchType {
  using type = NoBatch;
};
template <Collatable S>
struct BatchType<S> {
  using type = typename Collate<S>::Batch;
};

}  // namespace detail

/// The batch type that a loader makes of samples of type S unless it is given a collate: Tensor of Tensor,
/// Example of Example, Tensor of numbers, vector of strings, and the same array, pair or tuple of these.
template <class S>
using BatchOf = typename detail::BatchType<S>::type;

/// The batch of these samples.
template <detail::Collatable S>
[[nodiscard]] BatchOf<S> collate(std::span<const S> samples) {
  return detail::Collate<S>::of(samples.size(), [&](std::size_t i) -> const S& { return samples[i]; });
}
template <detail::Collatable S>
[[nodiscard]] BatchOf<S> collate(const std::vector<S>& samples) {
  return collate(std::span<const S>(samples));
}

}  // namespace mezzo::data
