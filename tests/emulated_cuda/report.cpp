// The messages for kernels that do what they must not.
#include "report.h"

#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "emulated_cuda/device.h"

namespace emulated_cuda {
namespace {

void print_failure(const uint3& thread, const char* message, va_list arguments) {
  std::fflush(stdout);
  std::fprintf(stderr, "emulated CUDA: %s: ", place_of(thread).text);
  std::vfprintf(stderr, message, arguments);
  std::fputc('\n', stderr);
  std::fflush(stderr);
}

[[noreturn, gnu::format(printf, 2, 3)]] void fail_at(const Thread& thread, const char* message, ...) {
  va_list arguments;
  va_start(arguments, message);
  print_failure(thread.index, message, arguments);
  va_end(arguments);
  std::abort();
}

struct Text {
  char text[512];
};

/// What a thread is doing, for the other half of a message.
Text doing(const Thread& thread) {
  Text result;
  switch (thread.state) {
    case Thread::State::finished:
      std::snprintf(result.text, sizeof(result.text), "has returned");
      break;
    case Thread::State::at_barrier:
      std::snprintf(result.text, sizeof(result.text), "waits at __syncthreads at %s:%d", thread.file,
                    thread.line);
      break;
    case Thread::State::in_warp:
      std::snprintf(result.text, sizeof(result.text), "waits in %s with mask 0x%08x at %s:%d",
                    name_of(thread.op), thread.mask, thread.file, thread.line);
      break;
    default:
      std::snprintf(result.text, sizeof(result.text), "is still running");
  }
  return result;
}

}  // namespace

Place place_of(const uint3& thread) {
  Place place;
  char name[768] = "?";
  if (block().active()) kernel_name(block().call()->kernel, name, sizeof(name));
  std::snprintf(place.text, sizeof(place.text), "kernel %s, block (%u, %u, %u), thread (%u, %u, %u)", name,
                blockIdx.x, blockIdx.y, blockIdx.z, thread.x, thread.y, thread.z);
  return place;
}

void fail(const char* message, ...) {
  va_list arguments;
  va_start(arguments, message);
  print_failure(threadIdx, message, arguments);
  va_end(arguments);
  std::abort();
}

bool same_place(const Thread& a, const Thread& b) {
  return a.line == b.line && (a.file == b.file || std::strcmp(a.file, b.file) == 0);
}

void report_two_barriers(const Thread& own, const Thread& other) {
  fail_at(own,
          "divergent barrier: came to __syncthreads at %s:%d while thread (%u, %u, %u) waits at the one at "
          "%s:%d",
          own.file, own.line, other.index.x, other.index.y, other.index.z, other.file, other.line);
}

void report_missing_lane(unsigned waiting) {
  Block& all = block();
  const Thread& own = all.thread(waiting);
  const unsigned first = waiting / kLanes * kLanes;
  for (unsigned lane = 0; lane < kLanes; ++lane) {
    if ((own.mask >> lane & 1U) == 0) continue;
    if (first + lane >= all.size()) {
      fail_at(own, "%s at %s:%d: its mask 0x%08x names lane %u, but the block has only %u threads",
              name_of(own.op), own.file, own.line, own.mask, lane, all.size());
    }
    const Thread& other = all.thread(first + lane);
    const bool same = other.state == Thread::State::in_warp && other.mask == own.mask && other.op == own.op;
    if (same) continue;
    fail_at(own, "%s at %s:%d: its mask 0x%08x names lane %u, but that lane %s", name_of(own.op), own.file,
            own.line, own.mask, lane, doing(other).text);
  }
  fail_at(own, "%s at %s:%d: the lanes of its mask do not meet", name_of(own.op), own.file, own.line);
}

void report_missing_at_barrier(unsigned waiting) {
  Block& all = block();
  const Thread& own = all.thread(waiting);
  for (unsigned i = 0; i < all.size(); ++i) {
    const Thread& other = all.thread(i);
    if (other.state == Thread::State::at_barrier) continue;
    fail_at(own, "divergent barrier: waits at __syncthreads at %s:%d, but thread (%u, %u, %u) %s", own.file,
            own.line, other.index.x, other.index.y, other.index.z, doing(other).text);
  }
  fail_at(own, "waits at __syncthreads at %s:%d forever", own.file, own.line);
}

const char* name_of(detail::WarpOp op) {
  switch (op) {
    case detail::WarpOp::sync:
      return "__syncwarp";
    case detail::WarpOp::shuffle:
      return "__shfl_sync";
    case detail::WarpOp::shuffle_xor:
      return "__shfl_xor_sync";
    case detail::WarpOp::shuffle_down:
      return "__shfl_down_sync";
    case detail::WarpOp::ballot:
      return "__ballot_sync";
    case detail::WarpOp::any:
      return "__any_sync";
    case detail::WarpOp::all:
      return "__all_sync";
    case detail::WarpOp::together:
      return "a function of the matrix units";
  }
  return "?";
}

}  // namespace emulated_cuda
