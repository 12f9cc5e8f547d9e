// Each collective as calls of MPI that do not block, with counts cut to what an int holds.
#include "mezzo/dist/mpi/transport.h"

#include <algorithm>
#include <climits>
#include <cstring>
#include <utility>

#include "mezzo/core/error.h"

namespace mezzo::dist {

namespace {

int most_elements = INT_MAX;

/// all_reduce is cut to this size as well: Open MPI allocates memory for each call, which the system clears
/// each time where it is larger than 32 MB. 100 MB take less than half of the time in pieces.
constexpr std::int64_t kPieceBytes = std::int64_t{16} << 20;

int type_of(DType dtype) {
  constexpr std::pair<DType, int> kTypes[] = {{DType::f32, MEZZO_MPI_F32},
                                              {DType::f64, MEZZO_MPI_F64},
                                              {DType::i32, MEZZO_MPI_I32},
                                              {DType::i64, MEZZO_MPI_I64},
                                              {DType::u8, MEZZO_MPI_U8}};
  for (const auto& [known, type] : kTypes) {
    if (known == dtype) return type;
  }
  throw DTypeError("dist", "f32, f64, i32, i64 or u8", mezzo::to_string(dtype), "");
}

int op_of(ReduceOp op) {
  if (op == ReduceOp::sum) return MEZZO_MPI_SUM;
  if (op == ReduceOp::min) return MEZZO_MPI_MIN;
  if (op == ReduceOp::max) return MEZZO_MPI_MAX;
  throw ValueError("dist", "sum, min or max", std::string(to_string(op)), "");
}

/// Calls `piece(first element, elements)` for pieces of up to `most` elements.
template <class F>
void for_pieces(std::int64_t count, std::int64_t most, F piece) {
  for (std::int64_t first = 0; first < count; first += most)
    piece(first, static_cast<int>(std::min(most, count - first)));
}

}  // namespace

MpiTransport::MpiTransport(MpiWorld& world)
    : Transport(world.place().rank, world.place().size, Device::cpu()),
      world_(world),
      group_(world.place().group) {}

MpiTransport::MpiTransport(MpiWorld& world, MezzoMpiGroup* group, int rank, int size, std::string name)
    : Transport(rank, size, Device::cpu()), world_(world), group_(group), name_(std::move(name)) {}

void MpiTransport::set_most_elements(int count) noexcept { most_elements = count; }

template <class F>
void MpiTransport::run(F begin) {
  MezzoMpiRequest* request = nullptr;
  world_.check(begin(&request));
  world_.wait(request);
}

template <class F>
void MpiTransport::run_call(CollectiveCall call, F body) {
  if (!world_.is_open()) {
    throw StateError(std::string("dist.") + call.name, "an open session", "one that has ended",
                     "keep what init() returned until the last collective");
  }
  call.number = ++calls_;
  progress().begin(call, name_);
  body();
  progress().end();
}

void MpiTransport::broadcast(void* data, std::size_t bytes, int root) {
  run_alone(call_of("broadcast", bytes, "root " + std::to_string(root)), [&](MezzoMpiRequest** request) {
    return world_.functions().broadcast(group_, data, bytes, root, request);
  });
}

void MpiTransport::all_reduce(void* data, std::int64_t count, DType dtype, ReduceOp op) {
  const CollectiveCall call = call_of("all_reduce", count, dtype, op);
  const int type = type_of(dtype), mpi_op = op_of(op);
  const std::int64_t most = std::min<std::int64_t>(most_elements, kPieceBytes / size_of(dtype));
  run_call(call, [&] {
    for_pieces(count, most, [&](std::int64_t first, int n) {
      std::byte* const piece = static_cast<std::byte*>(data) + first * size_of(dtype);
      run([&](MezzoMpiRequest** request) {
        return world_.functions().all_reduce(group_, piece, n, type, mpi_op, request);
      });
    });
  });
}

void MpiTransport::reduce_scatter(void* whole, void* part, std::int64_t count, DType dtype, ReduceOp op) {
  const CollectiveCall call = call_of("reduce_scatter", count, dtype, op);
  const int type = type_of(dtype), mpi_op = op_of(op);
  auto* const parts = static_cast<std::byte*>(whole);
  const auto bytes = static_cast<std::size_t>(count * size_of(dtype));
  run_call(call, [&] {
    if (count == 0) return;
    if (count > most_elements) {
      reduce_to_each(parts, static_cast<std::byte*>(part), count, dtype, mpi_op);
      return;
    }
    // MPI takes no memory that is both read and written, but for one that begins where the parts begin.
    const bool is_inside = part >= parts && part < parts + bytes * static_cast<std::size_t>(size());
    run([&](MezzoMpiRequest** request) {
      return world_.functions().reduce_scatter(group_, whole, is_inside ? nullptr : part,
                                               static_cast<int>(count), type, mpi_op, request);
    });
    if (is_inside) std::memmove(part, whole, bytes);
  });
}

void MpiTransport::reduce_to_each(std::byte* whole, std::byte* part, std::int64_t count, DType dtype,
                                  int op) {
  const std::int64_t size_of_one = size_of(dtype);
  for (int r = 0; r < size(); ++r) {
    std::byte* const from = whole + r * count * size_of_one;
    for_pieces(count, most_elements, [&](std::int64_t first, int n) {
      run([&](MezzoMpiRequest** request) {
        return world_.functions().reduce(group_, from + first * size_of_one, n, type_of(dtype), op, r,
                                         request);
      });
    });
    if (r == rank() && part != from) std::memmove(part, from, static_cast<std::size_t>(count * size_of_one));
  }
}

void MpiTransport::all_gather(const void* part, void* whole, std::size_t bytes) {
  const void* const place = static_cast<std::byte*>(whole) + static_cast<std::size_t>(rank()) * bytes;
  run_alone(call_of("all_gather", bytes), [&](MezzoMpiRequest** request) {
    return world_.functions().all_gather(group_, part == place ? nullptr : part, whole, bytes, request);
  });
}

void MpiTransport::all_to_all(const void* from, void* to, std::size_t bytes) {
  run_alone(call_of("all_to_all", bytes), [&](MezzoMpiRequest** request) {
    return world_.functions().all_to_all(group_, from, to, bytes, request);
  });
}

void MpiTransport::barrier() {
  run_alone({.name = "barrier"},
            [&](MezzoMpiRequest** request) { return world_.functions().barrier(group_, request); });
}

Ref<Transport> MpiTransport::split(std::span<const int> ranks) {
  MezzoMpiGroup* group = nullptr;
  run_call({.name = "split"}, [&] {
    // MPI_Comm_split waits for all without a limit; when they have met here, nobody is late there.
    run([&](MezzoMpiRequest** request) { return world_.functions().barrier(group_, request); });
    world_.check(world_.functions().split(group_, ranks.data(), static_cast<int>(ranks.size()), &group));
  });
  const auto found = std::find(ranks.begin(), ranks.end(), rank());
  if (group == nullptr || found == ranks.end()) return {};
  std::string name = "the group of ranks";
  for (const int rank : ranks) name += (name.back() == 's' ? " " : ", ") + std::to_string(rank);
  if (!name_.empty()) name += " of " + name_;
  return make_ref<MpiTransport>(world_, group, static_cast<int>(found - ranks.begin()),
                                static_cast<int>(ranks.size()), std::move(name));
}

}  // namespace mezzo::dist
