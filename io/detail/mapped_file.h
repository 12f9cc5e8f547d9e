// A file's bytes as memory, without a copy of them: what is not read is not loaded.
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "mezzo/core/ref_counted.h"

namespace mezzo::io {

class InputFile;

/// A regular file mapped into memory. Storages of tensors hold a Ref to it as their owner. The file must not
/// be made shorter while it is mapped: the system ends a program that reads what is gone. A file that is
/// replaced as AtomicFile does it stays as it was for who has mapped it.
class MappedFile final : public RefCounted {
 public:
  /// Who may write: nobody, or this process into copies of its own that the file never sees.
  enum class Access { read_only, copy_on_write };

  /// Throws: IoError (op: "<op> '<path>'", with the system's reason) when `path` cannot be opened, is no
  /// regular file or cannot be mapped. A file of no bytes is an empty span.
  MappedFile(const std::string& path, std::string op, Access access = Access::read_only);
  /// The file that is open, whatever its path leads to by now.
  explicit MappedFile(const InputFile& file, Access access = Access::read_only);
  ~MappedFile() override;

  /// "<op> '<path>'".
  [[nodiscard]] const std::string& op() const noexcept { return op_; }
  [[nodiscard]] std::span<const std::byte> bytes() const noexcept { return {data_, size_}; }
  /// The bytes for writing. Throws: StateError unless mapped with copy_on_write.
  [[nodiscard]] std::span<std::byte> writable_bytes() const;

 private:
  std::string op_;
  std::byte* data_ = nullptr;
  std::size_t size_ = 0;
  Access access_;
};

}  // namespace mezzo::io
