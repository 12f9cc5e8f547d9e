// The CUDA side of kernels/reduce/reduce.h: engines for reducers over one view or several, for extrema with
// their positions, and for variance in two passes. The loops are in cuda_kernels.h.
#pragma once

#include <array>
#include <cstdint>
#include <utility>

#include "mezzo/kernels/cuda/access.h"
#include "mezzo/kernels/cuda/strided.h"
#include "mezzo/kernels/reduce/cuda_kernels.h"
#include "mezzo/kernels/reduce/cuda_octets.h"
#include "mezzo/kernels/reduce/reducers.h"

namespace mezzo::kernels::cuda {

/// A view split into the dims that are kept and those that are reduced. `out` has the shape of `in`, with
/// stride 0 in the dims that are reduced and in no other of more than one element.
struct ReduceSpaces {
  ReduceSpaces(const View& out, const View& in) {
    Shape kept_shape, reduced_shape;
    Dims kept_in, kept_out, reduced_in;
    for (std::size_t d = 0; d < in.shape.size(); ++d) {
      if (out.strides[d] == 0) {
        reduced_shape.push_back(in.shape[d]);
        reduced_in.push_back(in.strides[d]);
      } else {
        kept_shape.push_back(in.shape[d]);
        kept_in.push_back(in.strides[d]);
        if (in.shape[d] > 1) distances |= in.strides[d];
        kept_out.push_back(out.strides[d]);
      }
    }
    side_by_side = nearest(kept_shape, kept_in) < nearest(reduced_shape, reduced_in);
    kept = Space<2>(kept_shape, {kept_in, kept_out});
    reduced = Space<1>(reduced_shape, {reduced_in});
    std::array<Dims, 1> joined{reduced_in};
    layout::collapse(reduced_shape, joined);
    stepped = reduced_shape.size() <= 1;
    if (reduced_shape.size() == 1) step = joined[0][0];
  }

  Space<2> kept;     ///< strides of the input and of the output
  Space<1> reduced;  ///< strides of the input
  bool side_by_side = false;
  std::int64_t distances = 0;  ///< the input's strides in the dims that are kept, joined by |

  std::int64_t step = 0;  ///< between the input's elements that are reduced, if `stepped`
  bool stepped = false;   ///< whether they are one distance apart

  /// How any output's elements can be read as T, from any whole octet on.
  template <class T>
  [[nodiscard]] ReduceReads reads(const Array& in) const {
    if (reduced.linear(0) && takes_octets<T>(in, distances)) return ReduceReads::octets;
    return stepped && has_octets<T>(in.dtype) ? ReduceReads::steps : ReduceReads::single;
  }

 private:
  /// The smallest distance between neighbours along any of the dims.
  static std::int64_t nearest(const Shape& shape, const Dims& strides) {
    std::int64_t least = INT64_MAX;
    for (std::size_t d = 0; d < shape.size(); ++d) {
      if (shape[d] > 1 && strides[d] != 0) least = std::min(least, std::abs(strides[d]));
    }
    return least;
  }
};

/// A reducer (kernels/reduce/reducers.h) over one view read as T. kShifted reducers take one f64 per output
/// from `shifts`.
template <class T, class R>
struct ViewReduction {
  using Acc = typename R::template Acc<T>;
  struct Place {
    std::int64_t offset;
    double shift;
  };
  using Value = T;
  R reducer;
  Array in, out;
  ReduceSpaces spaces;
  ReduceReads reads;
  const double* shifts = nullptr;

  [[nodiscard]] __device__ Acc identity() const { return reducer.template identity<T>(); }
  [[nodiscard]] __device__ Place place(std::int64_t output) const {
    std::int64_t at[2];
    spaces.kept.offsets(output, at);
    return {at[0], R::kShifted ? shifts[output] : 0};
  }
  template <int kOctets>
  __device__ MEZZO_ALWAYS_INLINE void octets(const Place& place, std::int64_t first, std::int64_t distance,
                                             T* values) const {
    load_octets<T, kOctets>(in, place.offset + first, distance, values);
  }
  __device__ MEZZO_ALWAYS_INLINE void steps(const Place& place, std::int64_t first, T* values) const {
    load_steps<T>(in, place.offset + first * spaces.step, spaces.step, values);
  }
  [[nodiscard]] __device__ MEZZO_ALWAYS_INLINE T value(const Place& place, std::int64_t i) const {
    return load<T>(in.data, in.dtype, place.offset + spaces.reduced.offset(i));
  }
  __device__ MEZZO_ALWAYS_INLINE void accumulate(Acc& acc, const Place& place, std::int64_t /*i*/,
                                                 T x) const {
    if constexpr (R::kShifted)
      acc = reducer.combine(acc, reducer.map(x, place.shift));
    else
      acc = reducer.combine(acc, reducer.map(x));
  }
  [[nodiscard]] __device__ Acc combine(const Acc& a, const Acc& b) const { return reducer.combine(a, b); }
  __device__ void store(std::int64_t output, const Acc& acc) const {
    std::int64_t at[2];
    spaces.kept.offsets(output, at);
    cuda::store(out.data, out.dtype, at[1], reducer.finish(acc, spaces.reduced.total()));
  }
};

/// See kernels::reduce; `in` is read as T.
template <class T, class R>
void reduce(Device device, R reducer, const View& out, const View& in, const double* shifts = nullptr) {
  const ReduceSpaces spaces(out, in);
  const Array from = array_of(in);
  const ViewReduction<T, R> engine{reducer, from, array_of(out), spaces, spaces.reads<T>(from), shifts};
  run_reduction(device, engine, spaces.kept.total(), spaces.reduced.total(), spaces.side_by_side);
}

/// A Sum of f(in[0]_i, ..., in[N-1]_i) over all elements of N views of one shape.
template <class T, class R, std::size_t N>
struct MapReduction {
  using Acc = typename R::template Acc<T>;
  using Place = int;
  struct Value {
    T inputs[N];
  };
  R reducer;
  Array in[N];
  Array out;
  Space<N> space;
  ReduceReads reads;

  [[nodiscard]] __device__ Acc identity() const { return reducer.template identity<T>(); }
  [[nodiscard]] __device__ Place place(std::int64_t /*output*/) const { return 0; }
  template <int kOctets>
  __device__ MEZZO_ALWAYS_INLINE void octets(Place /*place*/, std::int64_t first, std::int64_t distance,
                                             Value* values) const {
    constexpr int kCount = kOctets * kOctet;
    T elements[N][kCount];
    for (std::size_t k = 0; k < N; ++k) load_octets<T, kOctets>(in[k], first, distance, elements[k]);
    for (int i = 0; i < kCount; ++i) {
      for (std::size_t k = 0; k < N; ++k) values[i].inputs[k] = elements[k][i];
    }
  }
  [[nodiscard]] __device__ MEZZO_ALWAYS_INLINE Value value(Place /*place*/, std::int64_t i) const {
    std::int64_t at[N];
    space.offsets(i, at);
    Value result;
    for (std::size_t k = 0; k < N; ++k) result.inputs[k] = load<T>(in[k].data, in[k].dtype, at[k]);
    return result;
  }
  __device__ MEZZO_ALWAYS_INLINE void accumulate(Acc& acc, Place /*place*/, std::int64_t /*i*/,
                                                 const Value& value) const {
    acc = reducer.combine(acc, mapped(value, std::make_index_sequence<N>{}));
  }
  [[nodiscard]] __device__ Acc combine(const Acc& a, const Acc& b) const { return reducer.combine(a, b); }
  __device__ void store(std::int64_t /*output*/, const Acc& acc) const {
    cuda::store(out.data, out.dtype, 0, reducer.finish(acc, space.total()));
  }

 private:
  template <std::size_t... I>
  __device__ MEZZO_ALWAYS_INLINE Acc mapped(const Value& value, std::index_sequence<I...> /*all*/) const {
    return reducer.map(value.inputs[I]...);
  }
};

/// See kernels::map_reduce; `reducer` is a Sum.
template <class T, class R, std::size_t N>
void map_reduce(Device device, R reducer, const View& out, const std::array<View, N>& in) {
  std::array<Dims, N> strides;
  for (std::size_t k = 0; k < N; ++k) strides[k] = in[k].strides;
  MapReduction<T, R, N> engine{
      reducer, {}, array_of(out), Space<N>(in[0].shape, strides), ReduceReads::octets};
  for (std::size_t k = 0; k < N; ++k) {
    engine.in[k] = array_of(in[k]);
    if (!engine.space.linear(k) || !takes_octets<T>(engine.in[k], 0)) engine.reads = ReduceReads::single;
  }
  run_reduction(device, engine, 1, engine.space.total(), false);
}

/// See kernels::variance: means first, then squared deviations from them.
template <class T>
void variance(Device device, Deviation last, const View& out, const View& in) {
  View means = out;  // in f64, contiguous over the outputs
  means.dtype = DType::f64;
  std::int64_t outputs = 1;
  for (std::size_t d = means.shape.size(); d-- > 0;) {
    if (out.strides[d] == 0) continue;
    means.strides[d] = outputs;
    outputs *= means.shape[d];
  }
  const Scratch memory(device, outputs * std::int64_t{sizeof(double)});
  means.data = memory.data();
  reduce<T>(device, Sum<>{{}, kDivideByCount}, means, in);
  reduce<T>(device, SumOfSquaredDeviations(last), out, in, static_cast<const double*>(memory.data()));
}

/// A value and its position among the elements of its output; position -1 before the first element.
template <class T>
struct Candidate {
  T value;
  std::int64_t position;
};

/// The first largest (or least) element along the reduced dims. Positions are compared, as threads do not
/// meet the elements in order.
template <class T, bool Least>
struct ArgReduction {
  using Acc = Candidate<T>;
  using Place = std::int64_t;
  using Value = T;
  Array in, values, indices;
  ReduceSpaces spaces;
  ReduceReads reads;

  [[nodiscard]] __device__ Acc identity() const { return {T(0), -1}; }
  [[nodiscard]] __device__ Place place(std::int64_t output) const {
    std::int64_t at[2];
    spaces.kept.offsets(output, at);
    return at[0];
  }
  template <int kOctets>
  __device__ MEZZO_ALWAYS_INLINE void octets(Place place, std::int64_t first, std::int64_t distance,
                                             T* elements) const {
    load_octets<T, kOctets>(in, place + first, distance, elements);
  }
  __device__ MEZZO_ALWAYS_INLINE void steps(Place place, std::int64_t first, T* elements) const {
    load_steps<T>(in, place + first * spaces.step, spaces.step, elements);
  }
  [[nodiscard]] __device__ MEZZO_ALWAYS_INLINE T value(Place place, std::int64_t i) const {
    return load<T>(in.data, in.dtype, place + spaces.reduced.offset(i));
  }
  __device__ MEZZO_ALWAYS_INLINE void accumulate(Acc& acc, Place /*place*/, std::int64_t i, T value) const {
    acc = combine(acc, {value, i});
  }
  [[nodiscard]] __device__ Acc combine(const Acc& a, const Acc& b) const {
    if (a.position < 0) return b;
    if (b.position < 0) return a;
    const bool ahead = Ahead<Least>{}(b.value, a.value), behind = Ahead<Least>{}(a.value, b.value);
    return ahead || (!behind && b.position < a.position) ? b : a;
  }
  __device__ void store(std::int64_t output, const Acc& acc) const {
    std::int64_t at[2];
    spaces.kept.offsets(output, at);
    if (values.data != nullptr) cuda::store(values.data, values.dtype, at[1], acc.value);
    cuda::store(indices.data, indices.dtype, at[1], acc.position);
  }
};

/// See kernels::arg_reduce.
template <class T, bool Least>
void arg_reduce(Device device, const View& values, const View& indices, const View& in) {
  const ReduceSpaces spaces(indices, in);
  const Array from = array_of(in);
  const ArgReduction<T, Least> engine{from, array_of(values), array_of(indices), spaces,
                                      spaces.reads<T>(from)};
  run_reduction(device, engine, spaces.kept.total(), spaces.reduced.total(), spaces.side_by_side);
}

}  // namespace mezzo::kernels::cuda
