// A file that a training adds to, for sinks: nothing of it is ever half written or lost in a buffer.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "mezzo/core/function.h"
#include "mezzo/core/scope.h"

namespace mezzo::train::detail {

/// What is to become of a line (without its end) when a file is rewritten: `out` gets what takes its place,
/// ends of lines included, or nothing.
using LineEdit = mezzo::detail::Function<void(std::string_view line, std::uint64_t number, std::string& out)>;

/// Renames a file to "<path>.bak", in the place of an older one. Throws: IoError.
void set_aside(const std::string& path);

/// Records (lines, say) are with the system when append() returns, so a process that is killed has lost none;
/// what a full disk takes of one is taken back. All errors are IoErrors of "write '<path>'".
class LogFile : mezzo::detail::NoCopy {
 public:
  /// Throws: IoError when `path` cannot be written or is no regular file. An existing one stays as it is for
  /// now: see start().
  explicit LogFile(std::string path);
  ~LogFile();

  [[nodiscard]] const std::string& path() const noexcept { return path_; }
  /// Whether start() or rewrite() settled what becomes of an existing file.
  [[nodiscard]] bool is_started() const noexcept { return started_; }
  /// Begins an empty file; one that has content is renamed to "<path>.bak" (and an older one of that name
  /// replaced).
  void start();
  /// Adds whole records; of lines, their ends too.
  void append(std::string_view records);
  /// Passes every line through `edit` and goes on behind the result, all or nothing. A last line without an
  /// end, left by a killed process, is dropped. `edit` is called once more at the end, for the number after
  /// the last line, with a line of no data. Throws: IoError also for a line of more than 64 MB.
  void rewrite(const LineEdit& edit);
  /// Asks the disk to keep it.
  void sync();

 private:
  void open();
  void close_file() noexcept;

  std::string path_;
  int descriptor_ = -1;
  bool started_ = false;
};

}  // namespace mezzo::train::detail
