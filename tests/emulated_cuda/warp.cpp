// Warp functions: the lanes of a mask meet, and the last one to come works out every lane's result.
#include "emulated_cuda/warp.h"

#include <cstdio>
#include <cstdlib>

#include "block.h"
#include "report.h"

namespace emulated_cuda::detail {
namespace {

/// The lane whose value `lane` gets, by CUDA's rules for segments of `width` lanes.
unsigned source_lane(WarpOp op, unsigned lane, unsigned operand, unsigned width) {
  const unsigned first = lane & ~(width - 1), end = first + width;
  if (op == WarpOp::shuffle) return first + (operand & (width - 1));
  const unsigned source = op == WarpOp::shuffle_xor ? lane ^ operand : lane + operand;
  return source < end ? source : lane;
}

void share_results(unsigned first, unsigned mask) {
  Block& all = block();
  const WarpOp op = all.current().op;
  if (op == WarpOp::together) {
    std::array<void*, kLanes> of_lanes;
    for (unsigned lane = 0; lane < kLanes; ++lane) of_lanes[lane] = all.thread(first + lane).brought;
    all.current().work(of_lanes);
    return;
  }
  unsigned long long ballot = 0;
  const std::uint64_t tick = op == WarpOp::sync ? all.next_tick() : 0;
  for (unsigned lanes = mask; lanes != 0; lanes &= lanes - 1) {
    const auto lane = static_cast<unsigned>(__builtin_ctz(lanes));
    Thread& thread = all.thread(first + lane);
    if (op == WarpOp::shuffle || op == WarpOp::shuffle_xor || op == WarpOp::shuffle_down) {
      const unsigned source = source_lane(op, lane, thread.operand, thread.width);
      thread.result = (mask >> source & 1U) != 0 ? all.thread(first + source).bits : 0;
    } else if (op == WarpOp::sync) {
      thread.warp_tick = tick;
    } else {
      ballot |= (thread.bits & 1U) << lane;
    }
  }
  if (op != WarpOp::ballot && op != WarpOp::any && op != WarpOp::all) return;
  for (unsigned lanes = mask; lanes != 0; lanes &= lanes - 1) {
    all.thread(first + static_cast<unsigned>(__builtin_ctz(lanes))).result = ballot;
  }
}

/// Whether all lanes of the current thread's mask wait with the same function and mask (it counts as
/// waiting).
bool all_there(unsigned first, const Thread& own) {
  Block& all = block();
  if ((all.lanes_in_function(first / kLanes) & own.mask) != own.mask) return false;
  for (unsigned lanes = own.mask; lanes != 0; lanes &= lanes - 1) {
    const Thread& other = all.thread(first + static_cast<unsigned>(__builtin_ctz(lanes)));
    if (other.mask != own.mask || other.op != own.op) return false;
    if (own.op == WarpOp::together && other.work != own.work) return false;
  }
  return true;
}

unsigned long long meet(WarpOp op, unsigned mask, unsigned long long bits, unsigned operand, unsigned width,
                        const char* file, int line) {
  Block& all = block();
  if (!all.active()) {
    std::fprintf(stderr, "emulated CUDA: %s outside a kernel\n", name_of(op));
    std::abort();
  }
  const unsigned number = all.current_number(), lane = number % kLanes, first = number - lane;
  Thread& own = all.current();
  own.op = op;
  own.mask = mask;
  own.bits = bits;
  own.operand = operand;
  own.width = width;
  own.file = file;
  own.line = line;
  if ((mask >> lane & 1U) == 0) {
    fail("%s at %s:%d: its mask 0x%08x does not name its own lane %u", name_of(op), file, line, mask, lane);
  }
  own.state = Thread::State::in_warp;
  all.lanes_in_function(number / kLanes) |= 1U << lane;
  if (all_there(first, own)) {
    share_results(first, mask);
    all.lanes_in_function(number / kLanes) &= ~mask;
    for (unsigned lanes = mask & ~(1U << lane); lanes != 0; lanes &= lanes - 1) {
      all.resume(first + static_cast<unsigned>(__builtin_ctz(lanes)));
    }
    own.state = Thread::State::running;
  } else {
    all.wait();
  }
  return own.result;
}

}  // namespace

void together(WarpWork work, void* own, const char* file, int line) {
  if (block().active()) {
    block().current().work = work;
    block().current().brought = own;
  }
  meet(WarpOp::together, 0xffffffffU, 0, 0, kLanes, file, line);
}

unsigned vote(WarpOp op, unsigned mask, bool predicate, const char* file, int line) {
  return static_cast<unsigned>(meet(op, mask, predicate ? 1 : 0, 0, kLanes, file, line));
}

unsigned long long exchange(WarpOp op, unsigned mask, unsigned long long bits, unsigned operand,
                            unsigned width, const char* file, int line) {
  if (width == 0 || width > kLanes || (width & (width - 1)) != 0) {
    fail("%s at %s:%d: a width of 1, 2, 4, 8, 16 or 32 is expected, not %u", name_of(op), file, line, width);
  }
  const unsigned lane = block().current_number() % kLanes;
  const unsigned source = source_lane(op, lane, operand, width);
  if ((mask >> source & 1U) == 0) {
    fail("%s at %s:%d: reads lane %u, which its mask 0x%08x does not name", name_of(op), file, line, source,
         mask);
  }
  return meet(op, mask, bits, operand, width, file, line);
}

}  // namespace emulated_cuda::detail
