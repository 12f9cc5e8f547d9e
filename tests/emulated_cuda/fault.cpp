// Says what a page fault is when it lies in device memory or below a kernel thread's stack.
#include <unistd.h>
#include <csignal>
#include <cstring>

#include "block.h"
#include "fibers.h"
#include "runtime.h"

namespace emulated_cuda {
namespace {

struct sigaction previous_action;

void say(const char* text) {
  [[maybe_unused]] const auto written = write(STDERR_FILENO, text, std::strlen(text));
}

void on_fault(int /*signal*/, siginfo_t* info, void* /*context*/) {
  const void* const address = info->si_addr;
  if (in_fiber_guard(address)) {
    say("emulated CUDA: a kernel thread's stack overflowed\n");
  } else if (device_of(address) >= 0 && block().active()) {
    say("emulated CUDA: a kernel touched device memory that was never allocated, or another device's\n");
  } else if (device_of(address) >= 0) {
    say("emulated CUDA: host access to emulated device memory; copy it with cudaMemcpyAsync\n");
  }
  // The access is done again on return, and then ends as without this handler.
  sigaction(SIGSEGV, &previous_action, nullptr);
}

/// A stack for the handler, as the one that faults may be full. Sanitizers bring their own.
void need_signal_stack() {
  stack_t stack{};
  sigaltstack(nullptr, &stack);
  if ((stack.ss_flags & SS_DISABLE) == 0) return;
  static std::byte memory[64 * 1024];
  stack = {};
  stack.ss_sp = memory;
  stack.ss_size = sizeof(memory);
  sigaltstack(&stack, nullptr);
}

}  // namespace

void install_fault_handler() {
  static bool installed = false;
  if (installed) return;
  installed = true;
  need_signal_stack();
  struct sigaction action {};
  action.sa_sigaction = on_fault;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK;
  sigaction(SIGSEGV, &action, &previous_action);
}

}  // namespace emulated_cuda
