// Whole-file reading, mapping, and writing that is all or nothing. One place for all, so that JSON,
// safetensors and checkpoints fail with the same words and never leave half a file behind.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "mezzo/core/ref_counted.h"
#include "mezzo/core/scope.h"

namespace mezzo::io {

/// A regular file opened for reading. Each error is an IoError whose op is "<op> '<path>'" and whose text
/// holds the system's reason.
class InputFile : mezzo::detail::NoCopy {
 public:
  /// Throws IoError when `path` cannot be opened or is no regular file (directories, pipes and devices are
  /// refused).
  InputFile(const std::string& path, std::string op);
  ~InputFile();

  /// Size in bytes when it was opened.
  [[nodiscard]] std::uint64_t size() const noexcept { return size_; }
  /// "<op> '<path>'".
  [[nodiscard]] const std::string& op() const noexcept { return op_; }
  /// Fills `out` with the next bytes; throws IoError when the file ends before.
  void read(std::span<std::byte> out);
  /// Fills `out` with the bytes from `offset` on. Several threads may read at once, and the next byte that
  /// `read` gives stays the same.
  void read_at(std::uint64_t offset, std::span<std::byte> out) const;
  /// The next byte to read is the one at `offset`.
  void seek(std::uint64_t offset);
  /// The system's number of the open file.
  [[nodiscard]] int descriptor() const noexcept { return descriptor_; }

 private:
  /// Takes what a call to the system gave off `out`; false where it is to be made again.
  [[nodiscard]] bool take(std::ptrdiff_t count, std::span<std::byte>& out) const;

  std::string op_;
  std::uint64_t size_ = 0;
  int descriptor_ = -1;
};

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

/// All bytes of `path`. Throws IoError (see InputFile), and OutOfMemoryError when they do not fit into
/// memory.
[[nodiscard]] std::vector<std::byte> read_file(const std::string& path);

/// A file that appears under its name complete or not at all: bytes go to a temporary file beside it, which
/// `commit` flushes to disk and renames. Readers see the old content or the new one, also when the process or
/// the machine dies. A symbolic link is followed, and the file it leads to made or replaced; its mode stays.
/// Files that a killed process left beside it are removed. Throws IoError with the system's reason.
class AtomicFile : mezzo::detail::NoCopy {
 public:
  /// Throws IoError when the folder cannot be written, and when `path` exists and is read-only or no regular
  /// file.
  explicit AtomicFile(const std::string& path);
  /// Removes the temporary file unless it was committed.
  ~AtomicFile();

  void write(std::span<const std::byte> bytes);
  void write(std::string_view text) { write(std::as_bytes(std::span(text))); }
  /// Has what is written so far on disk: a commit soon after takes no time but for giving a new name.
  void flush();
  /// To be called once, last.
  void commit();

 private:
  std::string path_;
  std::string temporary_;
  int descriptor_ = -1;
};

/// Removes the temporary files of `path` that processes which are gone have left.
void remove_orphans(const std::string& path);

/// Makes renames in a folder survive a power cut. Some file systems refuse this for folders; nothing is lost
/// then but that guarantee, so errors are passed over.
void sync_folder(const std::string& folder);

namespace detail {

/// Throws: IoError in the name of `op` for a name that occurs twice.
void require_distinct(std::string_view op, std::vector<std::string_view> names,
                      std::string_view expected = "distinct names",
                      std::string_view fix = "rename one of them");
/// Number of elements, or -1 for a shape of a file that no tensor can have: a negative size, or a product of
/// the sizes, zeros left out, that reaches layout::kMaxElements.
[[nodiscard]] std::int64_t checked_count(std::span<const std::int64_t> shape) noexcept;

/// Bytes that come one after the other, from a file as they are or unpacked on the way: the input of format
/// readers, so that one reader serves both. Every error is an IoError whose op is `op()`.
class ByteSource : mezzo::detail::NoCopy {
 public:
  explicit ByteSource(std::string op) : op_(std::move(op)) {}
  virtual ~ByteSource() = default;

  /// "<op> '<path>'".
  [[nodiscard]] const std::string& op() const noexcept { return op_; }
  /// Puts the next bytes into `out`, at least one and at most out.size(), and returns how many; 0 at the end,
  /// and for an empty `out`.
  [[nodiscard]] virtual std::size_t read_some(std::span<std::byte> out) = 0;
  /// Fills `out`. Throws: IoError when the bytes end before.
  void read(std::span<std::byte> out);
  /// Throws: IoError when more bytes follow, saying how many there were to be.
  void expect_end(std::uint64_t size);

 private:
  std::string op_;
};

/// A part of an open file, which nobody else reads meanwhile.
class FileRange final : public ByteSource {
 public:
  FileRange(InputFile& file, std::uint64_t begin, std::uint64_t size)
      : ByteSource(file.op()), file_(file), begin_(begin), rest_(size) {}
  [[nodiscard]] std::size_t read_some(std::span<std::byte> out) override;

 private:
  InputFile& file_;
  std::uint64_t begin_, rest_;
  bool is_there_ = false;
};

}  // namespace detail

}  // namespace mezzo::io
