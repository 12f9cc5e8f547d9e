// libmezzo_mpi.so: the functions of dist/mpi/functions.h, each a call or two of MPI.
// The C++ classes of old MPIs are not used, and their headers warn.
#define OMPI_SKIP_MPICXX 1
#define MPICH_SKIP_MPICXX 1
#include <mpi.h>

#include <climits>
#include <cstdio>
#include <deque>
#include <memory>
#include <vector>

#include "mezzo/dist/mpi/functions.h"

struct MezzoMpiGroup {
  MPI_Comm comm = MPI_COMM_NULL;
};

struct MezzoMpiRequest {
  MPI_Request request = MPI_REQUEST_NULL;
  MPI_Datatype type = MPI_DATATYPE_NULL;  ///< made for this call, or null
};

namespace {

constexpr int kTag = 4711;

/// A message that MPI has not sent yet.
struct Outgoing {
  MPI_Request request = MPI_REQUEST_NULL;
  MezzoMpiMessage message{};
};

struct State {
  std::vector<std::unique_ptr<MezzoMpiGroup>> groups;
  std::deque<std::unique_ptr<Outgoing>> outgoing;
  bool has_initialized = false;
};

State& state() {
  static auto& state = *new State();
  return state;
}

const char* text_of(int code) {
  static char text[MPI_MAX_ERROR_STRING + 1];
  if (code == MPI_SUCCESS) return nullptr;
  int length = 0;
  if (MPI_Error_string(code, text, &length) != MPI_SUCCESS)
    std::snprintf(text, sizeof text, "MPI error %d", code);
  return text;
}

MPI_Datatype type_of(int type) {
  const MPI_Datatype types[] = {MPI_FLOAT, MPI_DOUBLE, MPI_INT32_T, MPI_INT64_T, MPI_UINT8_T};
  return types[type];
}

MPI_Op op_of(int op) {
  const MPI_Op ops[] = {MPI_SUM, MPI_MIN, MPI_MAX};
  return ops[op];
}

MezzoMpiGroup* add_group(MPI_Comm comm) {
  MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
  auto group = std::make_unique<MezzoMpiGroup>();
  group->comm = comm;
  state().groups.push_back(std::move(group));
  return state().groups.back().get();
}

/// So many bytes as `count` elements of a type: MPI counts by int.
struct Block {
  MPI_Datatype type = MPI_BYTE;
  int count = 0;
  bool is_made = false;
};

int block_of(std::size_t bytes, Block* block) {
  if (bytes <= INT_MAX) {
    block->count = static_cast<int>(bytes);
    return MPI_SUCCESS;
  }
  constexpr std::size_t kPage = std::size_t{1} << 20;
  const int pages = static_cast<int>(bytes / kPage);
  const int rest = static_cast<int>(bytes % kPage);
  MPI_Datatype page = MPI_DATATYPE_NULL;
  int code = MPI_Type_contiguous(static_cast<int>(kPage), MPI_BYTE, &page);
  if (code != MPI_SUCCESS) return code;
  const int counts[] = {pages, rest};
  const MPI_Aint places[] = {0, static_cast<MPI_Aint>(kPage) * pages};
  const MPI_Datatype types[] = {page, MPI_BYTE};
  code = MPI_Type_create_struct(rest == 0 ? 1 : 2, counts, places, types, &block->type);
  if (code == MPI_SUCCESS) code = MPI_Type_commit(&block->type);
  MPI_Type_free(&page);
  block->count = 1;
  block->is_made = true;
  return code;
}

/// Hands out the request of a call that `begin(request)` begins.
template <class F>
const char* begin(MezzoMpiRequest** request, F call, const Block& block = {}) {
  auto made = std::make_unique<MezzoMpiRequest>();
  if (block.is_made) made->type = block.type;
  const int code = call(&made->request);
  if (code == MPI_SUCCESS) *request = made.release();
  return text_of(code);
}

/// begin() for a call that moves blocks of so many bytes: `call(block, request)`.
template <class F>
const char* begin_blocks(std::size_t bytes, MezzoMpiRequest** request, F call) {
  Block block;
  if (const int code = block_of(bytes, &block); code != MPI_SUCCESS) return text_of(code);
  return begin(
      request, [&](MPI_Request* made) { return call(block, made); }, block);
}

const char* start_mpi() {
  int is_finalized = 0;
  MPI_Finalized(&is_finalized);
  if (is_finalized != 0) return "MPI was finalized before; a process can begin with it only once";
  int is_initialized = 0;
  MPI_Initialized(&is_initialized);
  int provided = MPI_THREAD_SINGLE;
  if (is_initialized == 0) {
    if (const int code = MPI_Init_thread(nullptr, nullptr, MPI_THREAD_FUNNELED, &provided);
        code != MPI_SUCCESS)
      return text_of(code);
    state().has_initialized = true;
    // Open MPI reports what goes wrong in a call under way there.
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    return provided >= MPI_THREAD_FUNNELED ? nullptr : "this MPI does not support threads";
  }
  MPI_Query_thread(&provided);
  if (provided < MPI_THREAD_SERIALIZED)
    return "the program has called MPI_Init; it must call MPI_Init_thread with MPI_THREAD_SERIALIZED or more";
  return nullptr;
}

const char* start(MezzoMpiWorld* world) {
  if (const char* const error = start_mpi()) return error;
  MPI_Comm comms[2] = {MPI_COMM_NULL, MPI_COMM_NULL};
  MPI_Comm local = MPI_COMM_NULL;
  MPI_Comm_rank(MPI_COMM_WORLD, &world->rank);
  MPI_Comm_size(MPI_COMM_WORLD, &world->size);
  for (MPI_Comm& comm : comms)
    if (const int code = MPI_Comm_dup(MPI_COMM_WORLD, &comm); code != MPI_SUCCESS) return text_of(code);
  world->group = add_group(comms[0]);
  world->control = add_group(comms[1]);
  const int code =
      MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, world->rank, MPI_INFO_NULL, &local);
  if (code != MPI_SUCCESS) return text_of(code);
  MPI_Comm_rank(local, &world->local_rank);
  MPI_Comm_size(local, &world->local_size);
  MPI_Comm_free(&local);
  return nullptr;
}

void finish() {
  // Communicators of a program that goes on with MPI are given back; else MPI_Finalize does that.
  if (state().has_initialized) {
    MPI_Finalize();
    return;
  }
  for (const auto& group : state().groups) MPI_Comm_free(&group->comm);
  state().groups.clear();
}

void abort_all(int status) { MPI_Abort(MPI_COMM_WORLD, status); }

const char* split(MezzoMpiGroup* group, const int* ranks, int count, MezzoMpiGroup** part) {
  int rank = 0;
  MPI_Comm_rank(group->comm, &rank);
  int color = MPI_UNDEFINED, key = 0;
  for (int i = 0; i < count; ++i) {
    if (ranks[i] != rank) continue;
    color = 0;
    key = i;
  }
  MPI_Comm made = MPI_COMM_NULL;
  const int code = MPI_Comm_split(group->comm, color, key, &made);
  *part = code == MPI_SUCCESS && made != MPI_COMM_NULL ? add_group(made) : nullptr;
  return text_of(code);
}

const char* broadcast(MezzoMpiGroup* group, void* data, size_t bytes, int root, MezzoMpiRequest** request) {
  return begin_blocks(bytes, request, [&](const Block& block, MPI_Request* made) {
    return MPI_Ibcast(data, block.count, block.type, root, group->comm, made);
  });
}

const char* all_reduce(MezzoMpiGroup* group, void* data, int count, int type, int op,
                       MezzoMpiRequest** request) {
  return begin(request, [&](MPI_Request* made) {
    return MPI_Iallreduce(MPI_IN_PLACE, data, count, type_of(type), op_of(op), group->comm, made);
  });
}

const char* reduce(MezzoMpiGroup* group, void* data, int count, int type, int op, int root,
                   MezzoMpiRequest** request) {
  int rank = 0;
  MPI_Comm_rank(group->comm, &rank);
  const void* const from = rank == root ? MPI_IN_PLACE : data;
  return begin(request, [&](MPI_Request* made) {
    return MPI_Ireduce(from, rank == root ? data : nullptr, count, type_of(type), op_of(op), root,
                       group->comm, made);
  });
}

const char* reduce_scatter(MezzoMpiGroup* group, void* whole, void* part, int count, int type, int op,
                           MezzoMpiRequest** request) {
  const void* const from = part == nullptr ? MPI_IN_PLACE : whole;
  void* const to = part == nullptr ? whole : part;
  return begin(request, [&](MPI_Request* made) {
    return MPI_Ireduce_scatter_block(from, to, count, type_of(type), op_of(op), group->comm, made);
  });
}

const char* all_gather(MezzoMpiGroup* group, const void* part, void* whole, size_t bytes,
                       MezzoMpiRequest** request) {
  return begin_blocks(bytes, request, [&](const Block& block, MPI_Request* made) {
    return MPI_Iallgather(part == nullptr ? MPI_IN_PLACE : part, block.count, block.type, whole, block.count,
                          block.type, group->comm, made);
  });
}

const char* all_to_all(MezzoMpiGroup* group, const void* from, void* to, size_t bytes,
                       MezzoMpiRequest** request) {
  return begin_blocks(bytes, request, [&](const Block& block, MPI_Request* made) {
    return MPI_Ialltoall(from, block.count, block.type, to, block.count, block.type, group->comm, made);
  });
}

const char* barrier(MezzoMpiGroup* group, MezzoMpiRequest** request) {
  return begin(request, [&](MPI_Request* made) { return MPI_Ibarrier(group->comm, made); });
}

const char* test(MezzoMpiRequest* request, int* is_done) {
  const int code = MPI_Test(&request->request, is_done, MPI_STATUS_IGNORE);
  if (code == MPI_SUCCESS && *is_done == 0) return nullptr;
  const std::unique_ptr<MezzoMpiRequest> owned(request);
  if (owned->type != MPI_DATATYPE_NULL) MPI_Type_free(&owned->type);
  *is_done = 1;
  return text_of(code);
}

void send(MezzoMpiGroup* control, const MezzoMpiMessage* message) {
  auto& outgoing = state().outgoing;
  while (!outgoing.empty()) {
    int is_done = 0;
    MPI_Test(&outgoing.front()->request, &is_done, MPI_STATUS_IGNORE);
    if (is_done == 0) break;
    outgoing.pop_front();
  }
  outgoing.push_back(std::make_unique<Outgoing>());
  Outgoing& last = *outgoing.back();
  last.message = *message;
  MPI_Isend(&last.message, static_cast<int>(sizeof last.message), MPI_BYTE, message->peer, kTag,
            control->comm, &last.request);
}

int receive(MezzoMpiGroup* control, MezzoMpiMessage* message) {
  int has_arrived = 0;
  MPI_Status status;
  const int code = MPI_Iprobe(MPI_ANY_SOURCE, kTag, control->comm, &has_arrived, &status);
  if (code != MPI_SUCCESS || has_arrived == 0) return 0;
  MPI_Recv(message, static_cast<int>(sizeof *message), MPI_BYTE, status.MPI_SOURCE, kTag, control->comm,
           MPI_STATUS_IGNORE);
  message->peer = status.MPI_SOURCE;
  return 1;
}

constexpr MezzoMpiFunctions kFunctions{MEZZO_MPI_VERSION, start,      finish, abort_all,      split,
                                       broadcast,         all_reduce, reduce, reduce_scatter, all_gather,
                                       all_to_all,        barrier,    test,   send,           receive};

}  // namespace

extern "C" __attribute__((visibility("default"))) const MezzoMpiFunctions* mezzo_mpi_functions() {
  return &kFunctions;
}
