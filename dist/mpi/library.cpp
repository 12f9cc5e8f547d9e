// Where libmezzo_mpi.so may be. Its names become global, as parts of an MPI that are opened later need them.
#include "mezzo/dist/mpi/library.h"

#include <dlfcn.h>
#include <unistd.h>

#include <cstdlib>
#include <vector>

namespace mezzo::dist {

namespace {

constexpr const char* kName = "libmezzo_mpi.so";

void add_folders_of(const std::string& program, std::vector<std::string>* files) {
  const std::size_t slash = program.rfind('/');
  const std::string folder = slash == std::string::npos ? "./" : program.substr(0, slash + 1);
  for (const char* const place : {"", "../", "../lib/"}) files->push_back(folder + place + kName);
}

std::vector<std::string> candidates() {
  std::vector<std::string> files;
  Dl_info info{};
  if (dladdr(reinterpret_cast<void*>(&open_mpi), &info) != 0 && info.dli_fname != nullptr)
    add_folders_of(info.dli_fname, &files);
  char program[4096];
  const ssize_t length = readlink("/proc/self/exe", program, sizeof program);
  if (length > 0) add_folders_of(std::string(program, static_cast<std::size_t>(length)), &files);
#ifdef MEZZO_MPI_INSTALLED
  files.emplace_back(MEZZO_MPI_INSTALLED);
#endif
  return files;
}

const MezzoMpiFunctions* open_file(const std::string& file, std::string* why) {
  void* const handle = dlopen(file.c_str(), RTLD_NOW | RTLD_GLOBAL);
  if (handle == nullptr) {
    const char* const error = dlerror();
    *why = error == nullptr ? file + " cannot be opened" : error;
    return nullptr;
  }
  void* const function = dlsym(handle, "mezzo_mpi_functions");
  const MezzoMpiFunctions* const table =
      function == nullptr ? nullptr : reinterpret_cast<MezzoMpiFunctionsOf>(function)();
  if (table == nullptr || table->version != MEZZO_MPI_VERSION) {
    *why = file + " is of another version of mezzo";
    return nullptr;
  }
  return table;
}

}  // namespace

const MezzoMpiFunctions* open_mpi(std::string* why) {
  const char* const named = std::getenv("MEZZO_MPI_MODULE");
  if (named != nullptr && *named != '\0') return open_file(named, why);
#ifdef MEZZO_HAVE_MPI
  *why = std::string("no ") + kName + " beside libmezzo or the program";
#else
  *why = "mezzo was built without MPI";
#endif
  for (const std::string& file : candidates()) {
    if (access(file.c_str(), F_OK) == 0) return open_file(file, why);
  }
  return nullptr;
}

}  // namespace mezzo::dist
