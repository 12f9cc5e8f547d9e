// Mapping by mmap, of the file that InputFile opened.
#include "mezzo/io/detail/mapped_file.h"

#include <sys/mman.h>

#include <cerrno>
#include <system_error>
#include <utility>

#include "mezzo/core/error.h"
#include "mezzo/io/detail/file.h"

namespace mezzo::io {

MappedFile::MappedFile(const std::string& path, std::string op, Access access)
    : MappedFile(InputFile(path, std::move(op)), access) {}

MappedFile::MappedFile(const InputFile& file, Access access)
    : op_(file.op()), size_(static_cast<std::size_t>(file.size())), access_(access) {
  if (size_ == 0) return;
  const int protection = access == Access::read_only ? PROT_READ : PROT_READ | PROT_WRITE;
  void* const memory = ::mmap(nullptr, size_, protection, MAP_PRIVATE, file.descriptor(), 0);
  if (memory == MAP_FAILED) {
    throw IoError(op_, "a file that can be mapped into memory", std::generic_category().message(errno),
                  "copy it to a file system of this machine");
  }
  data_ = static_cast<std::byte*>(memory);
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) ::munmap(data_, size_);
}

std::span<std::byte> MappedFile::writable_bytes() const {
  if (access_ == Access::read_only)
    throw StateError(op_, "a file mapped with copy_on_write", "one mapped read-only", "");
  return {data_, size_};
}

}  // namespace mezzo::io
