// Strides of contiguous and channels-last tensors, broadcasting, reshaping without a copy, wrapping of
// negative dims, and `collapse`, which merges dims that are one run in memory.
#include "mezzo/core/layout.h"

#include <algorithm>
#include <cstdlib>
#include <string>
#include <utility>

namespace mezzo {

void detail::refuse_dim() {
  throw ShapeError("shape", "at most 8 dimensions", "more", "flatten some of them");
}

namespace layout {

std::int64_t numel(const Shape& shape) {
  std::int64_t count = 1;
  for (const std::int64_t size : shape) count *= size;
  return count;
}

std::int64_t checked_numel(std::string_view op, const Shape& shape) {
  std::int64_t product = 1;  // without sizes of 0
  bool is_empty = false;
  for (const std::int64_t size : shape) {
    if (size < 0) throw ShapeError(op, "sizes of at least 0", to_string(shape), "check the shape");
    is_empty = is_empty || size == 0;
    if (size == 0) continue;
    if (__builtin_mul_overflow(product, size, &product) || product >= kMaxElements) {
      throw ShapeError(op, "fewer than 2^60 elements, sizes of 0 left out", to_string(shape),
                       "check the shape");
    }
  }
  return is_empty ? 0 : product;
}

Dims contiguous_strides(const Shape& shape) {
  Dims strides(shape.size(), 1);
  for (std::size_t i = shape.size(); i-- > 1;)
    strides[i - 1] = strides[i] * std::max<std::int64_t>(shape[i], 1);
  return strides;
}

bool is_contiguous(const Shape& shape, const Dims& strides) {
  std::int64_t expected = 1;
  for (std::size_t i = shape.size(); i-- > 0;) {
    if (shape[i] == 0) return true;
    if (shape[i] == 1) continue;
    if (strides[i] != expected) {
      return numel(shape) == 0;
    }
    expected *= shape[i];
  }
  return true;
}

Dims dense_strides(std::string_view op, const Shape& shape, MemoryFormat format) {
  Dims strides = contiguous_strides(shape);
  if (format != MemoryFormat::channels_last) return strides;
  if (shape.size() < 3 || shape.size() > 5) {
    throw ShapeError(op, "3 to 5 dims [N, C, spatial...] for channels_last", to_string(shape),
                     "use MemoryFormat::contiguous");
  }
  std::int64_t next = std::max<std::int64_t>(shape[1], 1);
  strides[1] = 1;
  for (std::size_t d = shape.size(); d-- > 2;) {
    strides[d] = next;
    next *= std::max<std::int64_t>(shape[d], 1);
  }
  strides[0] = next;
  return strides;
}

bool is_dense_in(const Shape& shape, const Dims& strides, MemoryFormat format) {
  if (format != MemoryFormat::channels_last) return is_contiguous(shape, strides);
  if (shape.size() < 3 || shape.size() > 5) return false;
  const Dims dense = dense_strides("", shape, format);
  for (std::size_t d = 0; d < shape.size(); ++d) {
    if (shape[d] > 1 && strides[d] != dense[d]) return numel(shape) == 0;
  }
  return true;
}

MemoryFormat format_of(const Shape& shape, const Dims& strides) {
  if (shape.size() < 3 || shape.size() > 5 || strides[1] == 0) return MemoryFormat::contiguous;
  std::int64_t least = 0;
  const auto fits = [&](std::size_t d) {
    if (strides[d] < least) return false;
    least = strides[d] * std::max<std::int64_t>(shape[d], 1);
    return true;
  };
  bool rises = fits(1);
  for (std::size_t d = shape.size(); rises && d-- > 2;) rises = fits(d);
  // Strides of a one-channel tensor fit both formats: they are row-major.
  return rises && least != strides[1] && fits(0) ? MemoryFormat::channels_last : MemoryFormat::contiguous;
}

Shape broadcast(std::string_view op, const Shape& a, const Shape& b) {
  if (a == b) return a;
  const std::size_t rank = std::max(a.size(), b.size());
  Shape result(rank, 1);
  for (std::size_t i = 0; i < rank; ++i) {  // i counts from the last dim
    const std::int64_t left = i < a.size() ? a[a.size() - 1 - i] : 1;
    const std::int64_t right = i < b.size() ? b[b.size() - 1 - i] : 1;
    if (left != right && left != 1 && right != 1) {
      throw ShapeError(op, "shapes that broadcast", to_string(a) + " and " + to_string(b),
                       "sizes must be equal or 1 from the last dim on: " + std::to_string(left) +
                           " != " + std::to_string(right));
    }
    result[rank - 1 - i] = left == 1 ? right : left;
  }
  checked_numel(op, result);
  return result;
}

Dims expand_strides(std::string_view op, const Shape& shape, const Dims& strides, const Shape& target) {
  const auto refuse = [&] {
    throw ShapeError(op, "a shape that broadcasts to " + to_string(target), to_string(shape),
                     "sizes must be equal or 1 from the last dim on");
  };
  if (shape.size() > target.size()) refuse();
  Dims result(target.size(), 0);
  const std::size_t lead = target.size() - shape.size();
  for (std::size_t i = 0; i < shape.size(); ++i) {
    if (shape[i] == target[lead + i])
      result[lead + i] = strides[i];
    else if (shape[i] != 1)
      refuse();
  }
  return result;
}

std::optional<Dims> reshape_strides(const Shape& shape, const Dims& strides, const Shape& target) {
  if (numel(target) == 0 || is_contiguous(shape, strides)) return contiguous_strides(target);
  Shape from = shape;
  std::array<Dims, 1> runs{strides};
  collapse(from, runs);
  // Fill the target's dims from the last one, each out of the run it lies in; a dim that spans two runs needs
  // a copy.
  Dims result(target.size(), 1);
  std::size_t run = from.size();
  std::int64_t left = 1;  // elements of the current run not yet used
  std::int64_t stride = 1;
  for (std::size_t i = target.size(); i-- > 0;) {
    if (target[i] == 1) continue;
    if (left == 1) {
      if (run == 0) return std::nullopt;
      --run;
      left = from[run];
      stride = runs[0][run];
    }
    if (left % target[i] != 0) return std::nullopt;
    result[i] = stride;
    stride *= target[i];
    left /= target[i];
  }
  return result;
}

Shape resolve_reshape(std::string_view op, std::int64_t count, Shape target) {
  std::optional<std::size_t> free;
  const std::string asked = to_string(target);
  for (std::size_t i = 0; i < target.size(); ++i) {
    if (target[i] >= 0) continue;
    if (target[i] != -1 || free)
      throw ShapeError(op, "sizes of at least 0 with at most one -1", asked, "leave one size to be found");
    free = i;
  }
  if (free) target[*free] = 1;
  const std::int64_t known = checked_numel(op, target);
  if (free && known != 0) target[*free] = count / known;
  if ((free && (known == 0 || count % known != 0)) || (!free && known != count)) {
    throw ShapeError(op, "a shape of " + std::to_string(count) + " elements", asked,
                     "check the product of the sizes");
  }
  return target;
}

std::int64_t wrap_dim(std::string_view op, std::int64_t dim, std::size_t rank) {
  const auto count = static_cast<std::int64_t>(std::max<std::size_t>(rank, 1));
  if (dim < -count || dim >= count) {
    throw IndexError(op, "a dim in [" + std::to_string(-count) + ", " + std::to_string(count - 1) + "]",
                     std::to_string(dim), "the tensor has " + std::to_string(rank) + " dims");
  }
  return dim < 0 ? dim + count : dim;
}

Dims wrap_dims(std::string_view op, std::span<const std::int64_t> dims, std::size_t rank) {
  Dims result;
  if (dims.empty()) {
    for (std::size_t i = 0; i < rank; ++i) result.push_back(static_cast<std::int64_t>(i));
    return result;
  }
  for (const std::int64_t dim : dims) {
    const std::int64_t wrapped = wrap_dim(op, dim, rank);
    if (result.contains(wrapped)) {
      throw IndexError(op, "each dim once", to_string(dims), "remove the repeated dim");
    }
    if (rank > 0) result.push_back(wrapped);
  }
  std::sort(result.begin(), result.end());
  return result;
}

Dims along_memory(Dims dims, const Dims& strides) {
  const auto stride = [&](std::size_t i) { return std::abs(strides[static_cast<std::size_t>(dims[i])]); };
  for (std::size_t i = 1; i < dims.size();
       ++i) {  // by insertion: std::stable_sort asks the system for memory
    for (std::size_t j = i; j > 0 && stride(j - 1) < stride(j); --j) std::swap(dims[j - 1], dims[j]);
  }
  return dims;
}

void order_along(Shape& shape, std::span<Dims> strides, std::size_t leader) {
  const Dims order = along_memory(wrap_dims("", {}, shape.size()), strides[leader]);
  const auto reorder = [&](auto& values) {
    const auto old = values;
    for (std::size_t i = 0; i < order.size(); ++i) values[i] = old[static_cast<std::size_t>(order[i])];
  };
  reorder(shape);
  for (Dims& s : strides) reorder(s);
}

void collapse(Shape& shape, std::span<Dims> strides) {
  std::size_t kept = 0;  // dims [0, kept) are final
  for (std::size_t i = 0; i < shape.size(); ++i) {
    if (shape[i] == 1) continue;
    const bool merges = kept > 0 && std::all_of(strides.begin(), strides.end(), [&](const Dims& s) {
                          return s[kept - 1] == s[i] * shape[i];
                        });
    const std::size_t at = merges ? kept - 1 : kept++;
    shape[at] = merges ? shape[at] * shape[i] : shape[i];
    for (Dims& s : strides) s[at] = s[i];
  }
  while (shape.size() > kept) {
    shape.pop_back();
    for (Dims& s : strides) s.pop_back();
  }
}

}  // namespace layout

}  // namespace mezzo
