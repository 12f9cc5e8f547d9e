// Runs the blocks of one launch, one after another. A thread runs until it has to wait for others; its stack
// is then kept and another thread goes on. Threads that never wait run one after another on the same stack.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "emulated_cuda/launch.h"
#include "emulated_cuda/warp.h"
#include "fibers.h"

namespace emulated_cuda {

inline constexpr unsigned kMaxThreads = 1024;
inline constexpr unsigned kLanes = 32;

/// A launch with its arguments, as it is queued and recorded.
struct KernelCall {
  detail::AnyKernel kernel;
  detail::RunThread run;
  dim3 grid, block;
  std::size_t shared_bytes;
  std::vector<std::max_align_t> bytes;  ///< the arguments' values
  std::vector<std::size_t> offsets;     ///< where each begins, in bytes
};

struct Thread {
  enum class State : unsigned char { waiting_to_start, running, ready, at_barrier, in_warp, finished };
  Fiber* fiber = nullptr;  ///< kept while it waits
  uint3 index{};
  State state = State::waiting_to_start;
  const char* file = "";  ///< where it waits
  int line = 0;
  detail::WarpOp op{};  ///< of the warp function it waits in, with its arguments:
  unsigned mask = 0, operand = 0, width = 0;
  unsigned long long bits = 0;  ///< given to the others
  unsigned long long result = 0;
  detail::WarpWork work = nullptr;  ///< of WarpOp::together
  void* brought = nullptr;          ///< to that
  std::uint64_t warp_tick = 0;      ///< of its last __syncwarp, see SharedMemory
};

/// The block that runs. There is one: nothing runs at the same time.
class Block {
 public:
  /// All blocks of `call`. Aborts the process with a message on anything that a kernel must not do.
  void run(const KernelCall& call);

  /// Whether a kernel is running. Safe in a signal handler.
  [[nodiscard]] bool active() const { return call_ != nullptr; }
  [[nodiscard]] const KernelCall* call() const { return call_; }
  [[nodiscard]] Thread& current() { return threads_[current_]; }
  [[nodiscard]] unsigned current_number() const { return current_; }
  [[nodiscard]] unsigned size() const { return size_; }
  [[nodiscard]] Thread& thread(unsigned number) { return threads_[number]; }
  [[nodiscard]] std::uint64_t barrier_tick() const { return barrier_tick_; }
  [[nodiscard]] std::uint64_t start_tick() const { return start_tick_; }
  /// A moment later than all before.
  std::uint64_t next_tick() { return ++tick_; }
  [[nodiscard]] std::uint64_t tick() const { return tick_; }

  /// A bit for each lane of a warp that waits in a warp function.
  unsigned& lanes_in_function(unsigned warp) { return lanes_in_function_[warp]; }

  /// The current thread waits at the block's barrier.
  void barrier(const char* file, int line);
  /// Leaves the current thread, whose state says what it waits for. Returns when it is resumed.
  void wait();
  /// Thread `number` may go on.
  void resume(unsigned number);

  std::uint64_t threads_run = 0, switches = 0;

 private:
  static void fiber_loop(Fiber& fiber);
  void run_block();
  void run_thread(unsigned number);
  void serve(Fiber& fiber);
  void change(Fiber& from, Fiber& to);
  unsigned next_ready();
  [[noreturn]] void report_stuck();

  const KernelCall* call_ = nullptr;
  std::array<Thread, kMaxThreads> threads_;
  std::array<void*, 64> arguments_;
  std::array<unsigned, kMaxThreads> ready_;  ///< a ring
  unsigned first_ready_ = 0, ready_count_ = 0;
  std::array<unsigned, kMaxThreads / kLanes> lanes_in_function_;
  unsigned size_ = 0, started_ = 0, finished_ = 0, at_barrier_ = 0, current_ = 0;
  std::uint64_t tick_ = 0, barrier_tick_ = 0, start_tick_ = 0;
  Fiber host_;
  Fiber* here_ = nullptr;
};

Block& block();

/// "kernel f, block (0, 0, 0), thread (3, 0, 0)" of what runs, for messages.
struct Place {
  char text[1024];
};
Place place_of(const uint3& thread);

/// Prints "emulated CUDA: <place of the current thread>: <message>" and aborts.
[[noreturn, gnu::format(printf, 1, 2)]] void fail(const char* message, ...);

}  // namespace emulated_cuda
