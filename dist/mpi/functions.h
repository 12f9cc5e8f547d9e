// The table of functions by which libmezzo speaks to MPI. libmezzo_mpi.so, the only part that includes mpi.h
// and is linked with MPI, fills it; libmezzo opens that library when a launcher has started the program. So
// it holds plain C types only: the two may be built by different compilers.
#pragma once

#include <stddef.h>
#include <stdint.h>

extern "C" {

/// Changes with the table: a module of another version is refused.
enum { MEZZO_MPI_VERSION = 1 };

typedef struct MezzoMpiGroup MezzoMpiGroup;      // an MPI communicator
typedef struct MezzoMpiRequest MezzoMpiRequest;  // a collective under way

enum MezzoMpiType { MEZZO_MPI_F32, MEZZO_MPI_F64, MEZZO_MPI_I32, MEZZO_MPI_I64, MEZZO_MPI_U8 };
enum MezzoMpiOp { MEZZO_MPI_SUM, MEZZO_MPI_MIN, MEZZO_MPI_MAX };

/// The result of start().
typedef struct MezzoMpiWorld {
  int rank, size;
  int local_rank, local_size;  // among the processes of this machine
  MezzoMpiGroup* group;        // of all processes, for collectives
  MezzoMpiGroup* control;      // the same processes, for messages and for the end of a session
} MezzoMpiWorld;

/// A short message between two processes.
typedef struct MezzoMpiMessage {
  int peer;  // whom it is from, or for
  int kind;
  int bytes;
  char text[1000];
} MezzoMpiMessage;

/// All calls are made by one thread. Functions that return a text return null when all is well, else what
/// MPI says, valid until the next call. Counts are of elements and fit an int; bytes are of any size.
/// Collectives begin the call, and `*request` is there until test() says that it is done.
typedef struct MezzoMpiFunctions {
  int version;
  const char* (*start)(MezzoMpiWorld* world);
  void (*finish)(void);
  void (*abort)(int status);

  /// A collective of all of `group` that waits for all: called where they have met just before. `*part` is
  /// null in a process that is not among the ranks. Groups live until finish().
  const char* (*split)(MezzoMpiGroup* group, const int* ranks, int count, MezzoMpiGroup** part);
  const char* (*broadcast)(MezzoMpiGroup* group, void* data, size_t bytes, int root,
                           MezzoMpiRequest** request);
  /// In place.
  const char* (*all_reduce)(MezzoMpiGroup* group, void* data, int count, int type, int op,
                            MezzoMpiRequest** request);
  /// In place on the root.
  const char* (*reduce)(MezzoMpiGroup* group, void* data, int count, int type, int op, int root,
                        MezzoMpiRequest** request);
  /// `whole` has size parts of `count`. The result goes to `part`, or to the beginning of `whole` where
  /// `part` is null.
  const char* (*reduce_scatter)(MezzoMpiGroup* group, void* whole, void* part, int count, int type, int op,
                                MezzoMpiRequest** request);
  /// `part` is null where it stands in its place in `whole`.
  const char* (*all_gather)(MezzoMpiGroup* group, const void* part, void* whole, size_t bytes,
                            MezzoMpiRequest** request);
  const char* (*all_to_all)(MezzoMpiGroup* group, const void* from, void* to, size_t bytes,
                            MezzoMpiRequest** request);
  const char* (*barrier)(MezzoMpiGroup* group, MezzoMpiRequest** request);
  const char* (*test)(MezzoMpiRequest* request, int* is_done);

  /// Sends a message on its way and returns. A lost one is nobody's error.
  void (*send)(MezzoMpiGroup* control, const MezzoMpiMessage* message);
  /// Takes a message that has arrived; 0 when there is none.
  int (*receive)(MezzoMpiGroup* control, MezzoMpiMessage* message);
} MezzoMpiFunctions;

/// The one name that the module exports.
typedef const MezzoMpiFunctions* (*MezzoMpiFunctionsOf)(void);
}
