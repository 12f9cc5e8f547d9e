// The arithmetic of the emulated NCCL: all ranks' memory at once.
#include <algorithm>
#include <cstring>

#include "state.h"

namespace emulated_cuda::nccl_library {
namespace {

template <class T>
T combine(ncclRedOp_t op, T a, T b) {
  if (op == ncclMin) return std::min(a, b);
  if (op == ncclMax) return std::max(a, b);
  return static_cast<T>(a + b);
}

/// Elements of all ranks as one, with the ranks in an order that depends on the place, as in a ring.
template <class T>
std::vector<T> reduced(const Collective& c, std::size_t count) {
  const std::size_t ranks = c.parts.size();
  std::vector<T> result(count);
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t first = i * ranks / count + 1;
    T value{};
    for (std::size_t r = 0; r < ranks; ++r) {
      const T next = static_cast<const T*>(c.parts[(first + r) % ranks].from)[i];
      value = r == 0 ? next : combine(c.signature.op, value, next);
    }
    result[i] = value;
  }
  return result;
}

template <class T>
void reduce(const Collective& c) {
  const std::size_t count = c.signature.count, ranks = c.parts.size();
  const bool is_scattered = c.signature.kind == Kind::reduce_scatter;
  const std::vector<T> result = reduced<T>(c, is_scattered ? count * ranks : count);
  for (std::size_t r = 0; r < ranks; ++r) {
    const T* const from = result.data() + (is_scattered ? r * count : 0);
    if (count > 0) std::memcpy(c.parts[r].to, from, count * sizeof(T));
  }
}

void reduce_any(const Collective& c) {
  switch (c.signature.type) {
    case ncclFloat32:
      return reduce<float>(c);
    case ncclFloat64:
      return reduce<double>(c);
    case ncclInt32:
      return reduce<std::int32_t>(c);
    case ncclInt64:
      return reduce<std::int64_t>(c);
    default:
      return reduce<std::uint8_t>(c);
  }
}

void gather(const Collective& c) {
  const std::size_t bytes = c.signature.count * size_of(c.signature.type);
  std::vector<std::byte> all(bytes * c.parts.size());
  for (std::size_t r = 0; r < c.parts.size(); ++r)
    if (bytes > 0) std::memcpy(all.data() + r * bytes, c.parts[r].from, bytes);
  for (const Part& part : c.parts)
    if (bytes > 0) std::memcpy(part.to, all.data(), all.size());
}

void broadcast(const Collective& c) {
  const std::size_t bytes = c.signature.count * size_of(c.signature.type);
  const void* const from = c.parts[static_cast<std::size_t>(c.signature.root)].from;
  for (const Part& part : c.parts)
    if (part.to != from && bytes > 0) std::memcpy(part.to, from, bytes);
}

/// The transfers of a pair meet in the order in which they were called.
void exchange(const Collective& c) {
  for (std::size_t from = 0; from < c.parts.size(); ++from) {
    for (std::size_t to = 0; to < c.parts.size(); ++to) {
      const auto& receives = c.parts[to].receives;
      auto next = receives.begin();
      for (const Transfer& send : c.parts[from].sends) {
        if (send.peer != static_cast<int>(to)) continue;
        next = std::find_if(next, receives.end(),
                            [&](const Transfer& x) { return x.peer == static_cast<int>(from); });
        if (send.bytes > 0) std::memcpy(next->data, send.data, send.bytes);
        ++next;
      }
    }
  }
}

}  // namespace

void compute(const Collective& collective) {
  switch (collective.signature.kind) {
    case Kind::all_reduce:
    case Kind::reduce_scatter:
      return reduce_any(collective);
    case Kind::all_gather:
      return gather(collective);
    case Kind::broadcast:
      return broadcast(collective);
    case Kind::exchange:
      return exchange(collective);
  }
}

std::size_t size_of(ncclDataType_t type) {
  switch (type) {
    case ncclInt8:
    case ncclUint8:
      return 1;
    case ncclInt32:
    case ncclFloat32:
      return 4;
    case ncclInt64:
    case ncclFloat64:
      return 8;
    default:
      return 0;
  }
}

std::string text_of(const Signature& s) {
  constexpr const char* names[] = {"all_reduce", "reduce_scatter", "all_gather", "broadcast", "exchange"};
  std::string text = names[static_cast<std::size_t>(s.kind)];
  if (s.kind == Kind::exchange) return text;
  text += " of " + std::to_string(s.count) + " elements of type " + std::to_string(s.type);
  if (s.kind == Kind::broadcast) return text + " from rank " + std::to_string(s.root);
  return s.kind == Kind::all_gather ? text : text + ", operation " + std::to_string(s.op);
}

}  // namespace emulated_cuda::nccl_library
