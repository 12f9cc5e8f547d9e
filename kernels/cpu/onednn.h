// What mezzo's uses of oneDNN have in common. Included by the .cpp files that call it, in builds that have
// it.
#pragma once

#include <dlfcn.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <string_view>

#include <dnnl.hpp>

namespace mezzo::kernels::cpu {

/// Keeps oneDNN on the calling thread: it would start threads of OpenMP, and split the work differently for
/// every number of them. Which OpenMP that is oneDNN's builder chose, so it is looked up among what the
/// process has loaded.
class OneThread {
 public:
  OneThread() : before_(openmp().get != nullptr && openmp().set != nullptr ? openmp().get() : 1) {
    if (before_ > 1) openmp().set(1);
  }
  ~OneThread() {
    if (before_ > 1) openmp().set(before_);
  }
  OneThread(const OneThread&) = delete;
  OneThread& operator=(const OneThread&) = delete;

 private:
  /// The calling thread's setting.
  struct OpenMp {
    int (*get)() = reinterpret_cast<int (*)()>(dlsym(RTLD_DEFAULT, "omp_get_max_threads"));
    void (*set)(int) = reinterpret_cast<void (*)(int)>(dlsym(RTLD_DEFAULT, "omp_set_num_threads"));
  };
  static const OpenMp& openmp() {
    static const OpenMp there;
    return there;
  }

  int before_;
};

/// Keeps signals from the calling thread. Before 3.12 the f32 kernels of oneDNN's implementation "gemm" point
/// the stack pointer at memory of the heap where k is above 128, and what a handler writes to its stack then
/// lands in front of that memory (uxlfoundation/oneDNN issue 4845). Faults of the thread itself are let
/// through.
class SignalsHeld {
 public:
  explicit SignalsHeld(bool needed) : needed_(needed) {
    if (needed_) change(SIG_BLOCK, ~of_faults(), &before_);
  }
  ~SignalsHeld() {
    if (needed_) change(SIG_SETMASK, before_, nullptr);
  }
  SignalsHeld(const SignalsHeld&) = delete;
  SignalsHeld& operator=(const SignalsHeld&) = delete;

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
