// The scheduler of a block's threads, and the block's barrier.
#include "block.h"

#include <cstdio>
#include <cstdlib>
#include <exception>

#include "emulated_cuda/device.h"
#include "report.h"
#include "shared_memory.h"

uint3 threadIdx{}, blockIdx{};
dim3 blockDim, gridDim;

void __syncthreads(const char* file, int line) { emulated_cuda::block().barrier(file, line); }

namespace emulated_cuda {

Block& block() {
  static Block instance;
  return instance;
}

void Block::run(const KernelCall& call) {
  const dim3 size = call.block;
  call_ = &call;
  size_ = size.x * size.y * size.z;
  gridDim = call.grid;
  blockDim = size;
  // Kernels cannot write to their arguments: each thread is called with copies of these.
  auto* const bytes = const_cast<std::byte*>(reinterpret_cast<const std::byte*>(call.bytes.data()));
  for (std::size_t i = 0; i < call.offsets.size(); ++i) arguments_[i] = bytes + call.offsets[i];
  for (unsigned i = 0; i < size_; ++i) {
    threads_[i].index = {i % size.x, i / size.x % size.y, i / (size.x * size.y)};
  }
  for (unsigned z = 0; z < call.grid.z; ++z) {
    for (unsigned y = 0; y < call.grid.y; ++y) {
      for (unsigned x = 0; x < call.grid.x; ++x) {
        blockIdx = {x, y, z};
        run_block();
      }
    }
  }
  threads_run += std::uint64_t{size_} * call.grid.x * call.grid.y * call.grid.z;
  call_ = nullptr;
}

void Block::run_block() {
  started_ = finished_ = at_barrier_ = ready_count_ = 0;
  lanes_in_function_.fill(0);
  for (unsigned i = 0; i < size_; ++i) {
    threads_[i].state = Thread::State::waiting_to_start;
    threads_[i].warp_tick = 0;
  }
  start_tick_ = barrier_tick_ = next_tick();
  shared_memory().start_block(call_->shared_bytes);
  here_ = &host_;
  change(host_, take_fiber(fiber_loop));
}

void Block::change(Fiber& from, Fiber& to) {
  ++switches;
  here_ = &to;
  switch_fiber(from, to);
}

void Block::fiber_loop(Fiber& fiber) {
  for (;;) block().serve(fiber);
}

/// One step of a fiber that keeps no thread: threads that can go on come first, so that few stacks are in
/// use.
void Block::serve(Fiber& fiber) {
  if (ready_count_ > 0) {
    give_back_fiber(fiber);
    Fiber& next = *threads_[next_ready()].fiber;
    change(fiber, next);
  } else if (started_ < size_) {
    run_thread(started_++);
  } else if (finished_ == size_) {
    give_back_fiber(fiber);
    change(fiber, host_);
  } else {
    report_stuck();
  }
}

void Block::run_thread(unsigned number) {
  Thread& thread = threads_[number];
  current_ = number;
  threadIdx = thread.index;
  thread.state = Thread::State::running;
  try {
    call_->run(call_->kernel, arguments_.data());
  } catch (const std::exception& error) {
    fail("an exception left the kernel: %s", error.what());
  } catch (...) {
    fail("an exception left the kernel");
  }
  thread.state = Thread::State::finished;
  ++finished_;
}

unsigned Block::next_ready() {
  const unsigned number = ready_[first_ready_];
  first_ready_ = (first_ready_ + 1) % kMaxThreads;
  --ready_count_;
  current_ = number;
  threadIdx = threads_[number].index;
  threads_[number].state = Thread::State::running;
  return number;
}

void Block::resume(unsigned number) {
  threads_[number].state = Thread::State::ready;
  ready_[(first_ready_ + ready_count_) % kMaxThreads] = number;
  ++ready_count_;
}

void Block::wait() {
  Fiber& own = *here_;
  current().fiber = &own;
  if (ready_count_ > 0) {
    change(own, *threads_[next_ready()].fiber);
  } else if (started_ < size_) {
    change(own, take_fiber(fiber_loop));
  } else {
    report_stuck();
  }
}

void Block::barrier(const char* file, int line) {
  if (!active()) {
    std::fputs("emulated CUDA: __syncthreads outside a kernel\n", stderr);
    std::abort();
  }
  Thread& own = current();
  own.file = file;
  own.line = line;
  if (at_barrier_ > 0) {
    // One other thread is enough to compare with: all before it were.
    for (unsigned i = 0; i < size_; ++i) {
      const Thread& other = threads_[i];
      if (other.state != Thread::State::at_barrier) continue;
      if (!same_place(own, other)) report_two_barriers(own, other);
      break;
    }
  }
  own.state = Thread::State::at_barrier;
  if (++at_barrier_ < size_) {
    wait();
    return;
  }
  at_barrier_ = 0;
  barrier_tick_ = next_tick();
  const unsigned last = current_;
  for (unsigned i = 0; i < size_; ++i) {
    if (i != last) resume(i);
  }
  own.state = Thread::State::running;
}

/// No thread can go on, and not all have finished: names one that waits and one that it waits for.
void Block::report_stuck() {
  for (unsigned i = 0; i < size_; ++i) {
    const Thread& thread = threads_[i];
    if (thread.state == Thread::State::in_warp) report_missing_lane(i);
  }
  for (unsigned i = 0; i < size_; ++i) {
    if (threads_[i].state != Thread::State::finished) report_missing_at_barrier(i);
  }
  std::abort();
}

}  // namespace emulated_cuda
