// Opens oneDNN so that its names and those of a program's other libraries do not meet. LibTorch has a oneDNN
// of another version in it: inline functions that both export would be taken from the library that was loaded
// first, and then the other's products are refused (status 3), or worse. Empty in a build without oneDNN.
#include "mezzo/kernels/gemm/cpu_tile.h"

#ifdef MEZZO_HAVE_ONEDNN

#include <dlfcn.h>
#include <link.h>

#include <cstddef>
#include <string>
#include <string_view>

#include "mezzo/core/error.h"
#include "mezzo/core/warning.h"
#include "mezzo/kernels/cpu/onednn.h"

namespace mezzo::kernels::cpu {

#ifdef MEZZO_ONEDNN_LIBRARY
namespace {

/// Where the library lies that has the address; nullptr for none.
const void* library_of(const void* address) noexcept {
  Dl_info info{};
  return address != nullptr && dladdr(address, &info) != 0 ? info.dli_fbase : nullptr;
}

/// Whether the process's memory comes from the C and C++ libraries. Others (allocators, sanitizers) have to
/// be called by all: what one allocates another frees.
bool has_usual_allocator() noexcept {
  const auto is_beside = [](const char* name, const char* neighbour) {
    const void* const library = library_of(dlsym(RTLD_DEFAULT, neighbour));
    return library != nullptr && library == library_of(dlsym(RTLD_DEFAULT, name));
  };
  for (const char* const name : {"_Znwm", "_ZnwmRKSt9nothrow_t", "_ZdlPv", "_ZdlPvm"})
    if (!is_beside(name, "_ZSt17__throw_bad_allocv")) return false;
  for (const char* const name : {"malloc", "posix_memalign", "free"})
    if (!is_beside(name, "gnu_get_libc_version")) return false;
  return true;
}

#ifdef __x86_64__
constexpr auto kCalls = R_X86_64_JUMP_SLOT, kAddresses = R_X86_64_GLOB_DAT;
#elif defined __aarch64__
constexpr auto kCalls = R_AARCH64_JUMP_SLOT, kAddresses = R_AARCH64_GLOB_DAT;
#else
constexpr auto kCalls = ~0U, kAddresses = ~0U;  // not known: the products' status has to tell
#endif

/// Whether calls inside of an open oneDNN lead out of it: it has a name that another library has too.
bool calls_another(void* handle) noexcept {
  link_map* map = nullptr;
  if (dlinfo(handle, RTLD_DI_LINKMAP, &map) != 0) return false;
  const auto at = [map](ElfW(Addr) place) {  // glibc has added the library's address already, others have not
    return reinterpret_cast<const std::byte*>(place < map->l_addr ? place + map->l_addr : place);
  };
  const std::byte *symbols = nullptr, *names = nullptr, *tables[2]{};
  std::size_t sizes[2]{};
  for (const ElfW(Dyn)* entry = map->l_ld; entry->d_tag != DT_NULL; ++entry) {
    if (entry->d_tag == DT_SYMTAB) symbols = at(entry->d_un.d_ptr);
    if (entry->d_tag == DT_STRTAB) names = at(entry->d_un.d_ptr);
    if (entry->d_tag == DT_RELA) tables[0] = at(entry->d_un.d_ptr);
    if (entry->d_tag == DT_RELASZ) sizes[0] = entry->d_un.d_val;
    if (entry->d_tag == DT_JMPREL) tables[1] = at(entry->d_un.d_ptr);
    if (entry->d_tag == DT_PLTRELSZ) sizes[1] = entry->d_un.d_val;
  }
  const void* const own = library_of(dlsym(handle, "dnnl_version"));
  if (symbols == nullptr || names == nullptr || own == nullptr) return false;
  for (int table = 0; table < 2; ++table) {
    for (std::size_t byte = 0; tables[table] != nullptr && byte < sizes[table]; byte += sizeof(ElfW(Rela))) {
      const auto& place = *reinterpret_cast<const ElfW(Rela)*>(tables[table] + byte);
      const auto type = ELF64_R_TYPE(place.r_info);
      if (type != kCalls && type != kAddresses) continue;
      const auto& symbol = reinterpret_cast<const ElfW(Sym)*>(symbols)[ELF64_R_SYM(place.r_info)];
      const std::string_view name = reinterpret_cast<const char*>(names) + symbol.st_name;
      if (symbol.st_shndx == SHN_UNDEF || name.find("dnnl") == std::string_view::npos) continue;
      const void* const target = *reinterpret_cast<void* const*>(map->l_addr + place.r_offset);
      const void* const library = library_of(target);
      if (library != nullptr && library != own) return true;
    }
  }
  return false;
}

#ifdef RTLD_DEEPBIND
constexpr int kDeepBind = RTLD_DEEPBIND;
#else
constexpr int kDeepBind = 0;
#endif

/// oneDNN, open to the end of the process, or why it is not.
struct Library {
  void* handle = nullptr;
  bool looks_inside_first = false;
  std::string why_not;

  Library() {
    for (const char* const file : {MEZZO_ONEDNN_LIBRARY, MEZZO_ONEDNN_SONAME}) {
      if (handle == nullptr) open(file);
    }
    if (handle != nullptr && calls_another(handle)) {
      handle = nullptr;
      why_not = std::string(MEZZO_ONEDNN_SONAME) + " is mixed with another oneDNN of this program";
    }
  }

 private:
  void open(const std::string& file) {
    // Its names stay its own (RTLD_LOCAL), and no name waits for a library that is opened later (RTLD_NOW).
    constexpr int kApart = RTLD_LOCAL | RTLD_NOW;
    handle = dlopen(file.c_str(), kApart | RTLD_NOLOAD);
    if (handle != nullptr) {
      looks_inside_first = dlsym(RTLD_DEFAULT, "dnnl_version") == nullptr;  // another copy of mezzo opened it
      return;
    }
    looks_inside_first = kDeepBind != 0 && has_usual_allocator();
    open_with_needs(file, kApart | (looks_inside_first ? kDeepBind : 0));
  }

  /// Where packages were unpacked by hand, what oneDNN needs lies beside it and not where the system looks.
  void open_with_needs(const std::string& file, int mode) {
    constexpr int kMostNeeds = 8;
    for (int needs = 0; handle == nullptr && needs <= kMostNeeds; ++needs) {
      handle = dlopen(file.c_str(), mode);
      const char* const error = handle == nullptr ? dlerror() : nullptr;
      if (error == nullptr) return;
      why_not = error;  // "libOpenCL.so.1: cannot open shared object file: ..."
      const std::string beside = file.substr(0, file.rfind('/') + 1) + why_not.substr(0, why_not.find(':'));
      if (beside.front() != '/' || dlopen(beside.c_str(), mode) == nullptr) return;
    }
  }
};

const Library& library() {
  static const Library opened;
  return opened;
}

/// With libmezzo, as if it were linked with it: what a process runs out of later does not change who
/// multiplies.
[[maybe_unused]] const bool opened_early = library().handle != nullptr;

}  // namespace

void* onednn_function(const char* name) {
  const Library& onednn = library();
  void* const found = onednn.handle == nullptr ? nullptr : dlsym(onednn.handle, name);
  if (found != nullptr) return found;
  throw Error("oneDNN", std::string(name) + " in " + MEZZO_ONEDNN_LIBRARY,
              onednn.handle == nullptr ? onednn.why_not : "none",
              "install the oneDNN that mezzo was built with");
}

void* openmp_function(const char* name) {
  const Library& onednn = library();
  void* const everybodys = onednn.looks_inside_first ? nullptr : dlsym(RTLD_DEFAULT, name);
  return everybodys != nullptr || onednn.handle == nullptr ? everybodys : dlsym(onednn.handle, name);
}

std::string why_no_onednn() { return library().why_not; }

bool onednn_is_there() {
  static const bool there = [] {
    if (library().handle == nullptr)
      warn_once("onednn_missing", "oneDNN: expected the library that mezzo was built with, got none (" +
                                      library().why_not + "); products go to Eigen, which is slower");
    return library().handle != nullptr;
  }();
  return there;
}
#else
void* openmp_function(const char* name) { return dlsym(RTLD_DEFAULT, name); }
std::string why_no_onednn() { return ""; }
bool onednn_is_there() { return true; }
#endif

}  // namespace mezzo::kernels::cpu

#endif  // MEZZO_HAVE_ONEDNN
