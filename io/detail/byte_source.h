// Bytes that come one after the other, from a file as they are or unpacked on the way: the input of format
// readers, so that one reader serves both.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "mezzo/core/scope.h"
#include "mezzo/io/detail/file.h"

namespace mezzo::io::detail {

/// Every error is an IoError whose op is `op()`.
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

}  // namespace mezzo::io::detail
