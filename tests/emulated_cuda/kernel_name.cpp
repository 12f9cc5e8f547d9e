// The name of a kernel from its address, for messages: the symbol table of the file it was loaded from is
// read, because functions with internal linkage or hidden visibility are in no other table.
#include <cxxabi.h>
#include <dlfcn.h>
#include <elf.h>
#include <link.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

#include "report.h"

namespace emulated_cuda {
namespace {

/// Reads `count` objects of type T at `offset` of a file; empty if it ends before.
template <class T>
std::vector<T> read_table(std::ifstream& file, std::uint64_t offset, std::uint64_t count) {
  std::vector<T> table(count);
  file.clear();
  file.seekg(static_cast<std::streamoff>(offset));
  file.read(reinterpret_cast<char*>(table.data()), static_cast<std::streamsize>(count * sizeof(T)));
  if (!file) table.clear();
  return table;
}

/// The mangled name of the function at `address` of the ELF file `path`; empty if there is none.
std::string symbol_at(const char* path, std::uint64_t address) {
  std::ifstream file(path, std::ios::binary);
  const auto headers = read_table<ElfW(Ehdr)>(file, 0, 1);
  if (headers.empty()) return {};
  const auto sections = read_table<ElfW(Shdr)>(file, headers[0].e_shoff, headers[0].e_shnum);
  for (const ElfW(Shdr) & section : sections) {
    if (section.sh_type != SHT_SYMTAB || section.sh_link >= sections.size()) continue;
    const auto symbols = read_table<ElfW(Sym)>(file, section.sh_offset, section.sh_size / sizeof(ElfW(Sym)));
    const ElfW(Shdr)& strings = sections[section.sh_link];
    for (const ElfW(Sym) & symbol : symbols) {
      if (symbol.st_value != address || ELF64_ST_TYPE(symbol.st_info) != STT_FUNC) continue;
      const auto text = read_table<char>(file, strings.sh_offset, strings.sh_size);
      if (symbol.st_name < text.size()) return {text.data() + symbol.st_name};
    }
  }
  return {};
}

}  // namespace

void kernel_name(detail::AnyKernel kernel, char* name, std::size_t size) {
  const void* const address = reinterpret_cast<const void*>(kernel);
  std::snprintf(name, size, "at %p", address);
  Dl_info info;
  link_map* map = nullptr;
  if (dladdr1(address, &info, reinterpret_cast<void**>(&map), RTLD_DL_LINKMAP) == 0) return;
  // The main program's own name in the list of loaded files is empty.
  const char* const path = map->l_name[0] == '\0' ? "/proc/self/exe" : map->l_name;
  const std::string mangled = symbol_at(path, reinterpret_cast<std::uint64_t>(address) - map->l_addr);
  if (mangled.empty()) return;
  int status = 0;
  char* const readable = abi::__cxa_demangle(mangled.c_str(), nullptr, nullptr, &status);
  std::snprintf(name, size, "%s", status == 0 ? readable : mangled.c_str());
  std::free(readable);
}

}  // namespace emulated_cuda
