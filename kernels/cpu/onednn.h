// The common part of mezzo's uses of oneDNN. Included by the .cpp files that call it, in builds that have it.
#pragma once

#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <string_view>

#include "mezzo/core/scope.h"
#include "mezzo/kernels/cpu/onednn_functions.h"

namespace mezzo::kernels::cpu {

/// The address of a function of the OpenMP that oneDNN uses; nullptr for none (onednn_library.cpp).
[[nodiscard]] void* openmp_function(const char* name);

/// Stands around every call of oneDNN.
///  * It keeps oneDNN on the calling thread: it would start threads of OpenMP, and split the work differently
///    for every number of them.
///  * It lets the process end while threads compute: exit() destroys objects that oneDNN's calls use, so it
///    waits for the calls that run; what begins then is computed without oneDNN (onednn_is_ending), and who
///    chose it before waits here for the end of the process.
///  * It lets the process fork() while threads compute: fork() waits for the calls that run, and what begins
///  then
///    waits for it, so that a child finds oneDNN's locks free.
class OnednnCall : mezzo::detail::NoCopy {
 public:
  OnednnCall();
  ~OnednnCall();

 private:
  int threads_before_;
};

/// To be called after the first run of each primitive. Objects that end with the process end in the reverse
/// order of their beginning, and a first run may begin some of oneDNN's: the wait for calls has to be begun
/// after them.
void onednn_has_new_objects();

/// Keeps signals from the calling thread. Before 3.12 the f32 kernels of oneDNN's implementation "gemm" point
/// the stack pointer at memory of the heap (for which k and which strides differs between them), and what a
/// handler writes to its stack then lands in front of that memory (uxlfoundation/oneDNN issue 4845). Faults
/// of the thread itself are let through.
class SignalsHeld : mezzo::detail::NoCopy {
 public:
  explicit SignalsHeld(bool needed) : needed_(needed) {
    if (needed_) change(SIG_BLOCK, ~of_faults(), &before_);
  }
  ~SignalsHeld() {
    if (needed_) change(SIG_SETMASK, before_, nullptr);
  }

  /// Whether an implementation, as oneDNN names it, has to be run under one.
  [[nodiscard]] static bool needed_by(std::string_view implementation) {
#ifdef __x86_64__
    const dnnl_version_t* const version = dnnl_version();
    const bool mended = version->major > 3 || (version->major == 3 && version->minor >= 12);
    return !mended && implementation.find("gemm") != std::string_view::npos;
#else
    static_cast<void>(implementation);
    return false;
#endif
  }

 private:
  using Mask = unsigned long;  // a bit per signal, as Linux has them on 64-bit processors
  static Mask of_faults() noexcept {
    Mask mask = 0;
    for (const int fault : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS}) mask |= Mask{1} << (fault - 1);
    return mask;
  }
  /// The system's own call: pthread_sigmask leaves out the signals that glibc uses itself.
  static void change(int how, Mask mask, Mask* before) noexcept {
    ::syscall(SYS_rt_sigprocmask, how, &mask, before, sizeof mask);
  }

  bool needed_;
  Mask before_ = 0;
};

inline const dnnl::engine& onednn_engine() {
  static const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  return engine;
}

}  // namespace mezzo::kernels::cpu
