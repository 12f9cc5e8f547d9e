// The POSIX calls behind log_file.h.
#include "mezzo/train/logging/log_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <system_error>
#include <utility>

#include "mezzo/core/error.h"
#include "mezzo/io/detail/file.h"

namespace mezzo::train::detail {

namespace {

constexpr std::size_t kLongestLine = 64'000'000;

[[noreturn]] void refuse_file(const std::string& path, const char* expected, int error, const char* fix) {
  throw IoError("write '" + path + "'", expected, std::generic_category().message(error), fix);
}

/// Passes the finished lines of a file to `edit` and what that gives to `out`.
void edit_lines(io::InputFile& in, io::AtomicFile& out, const LineEdit& edit) {
  std::string rest, edited;
  std::array<char, 65536> block{};
  std::uint64_t left = in.size(), number = 1;
  while (left > 0) {
    const std::size_t size = std::min<std::uint64_t>(left, block.size());
    in.read(std::as_writable_bytes(std::span(block.data(), size)));
    left -= size;
    std::string_view text(block.data(), size);
    for (std::size_t end = text.find('\n'); end != std::string_view::npos; end = text.find('\n')) {
      rest += text.substr(0, end);
      text.remove_prefix(end + 1);
      edit(rest, number++, edited);
      rest.clear();
    }
    rest += text;
    if (rest.size() > kLongestLine) {
      throw IoError(in.op(), "lines of at most " + std::to_string(kLongestLine) + " bytes",
                    "a longer line " + std::to_string(number), "check the path");
    }
    out.write(edited);
    edited.clear();
  }
  edit({}, number, edited);
  out.write(edited);
}

}  // namespace

void set_aside(const std::string& path) {
  if (std::rename(path.c_str(), (path + ".bak").c_str()) == 0) return;
  refuse_file(path, "an old file that can be renamed to *.bak", errno, "check the folder's permissions");
}

LogFile::LogFile(std::string path) : path_(std::move(path)) { open(); }

LogFile::~LogFile() { close_file(); }

void LogFile::close_file() noexcept {
  if (descriptor_ >= 0) ::close(descriptor_);
  descriptor_ = -1;
}

void LogFile::open() {
  if (path_.find('\0') != std::string::npos)
    refuse_file(path_, "a path without a zero byte", EINVAL, "check it");
  close_file();
  do {
    // O_NONBLOCK: a pipe that nobody reads must be refused and not waited for.
    descriptor_ = ::open(path_.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NONBLOCK, 0666);
  } while (descriptor_ < 0 && errno == EINTR);
  if (descriptor_ < 0)
    refuse_file(path_, "a file that can be written", errno, "create the folder or check permissions");
  struct stat status {};
  if (::fstat(descriptor_, &status) == 0 && S_ISREG(status.st_mode)) return;
  close_file();
  throw IoError("write '" + path_ + "'", "a regular file or a new name", "a device or pipe",
                "choose another path");
}

void LogFile::start() {
  if (descriptor_ < 0) open();  // an earlier start failed in between
  struct stat status {};
  if (::fstat(descriptor_, &status) != 0)
    refuse_file(path_, "a file that can be written", errno, "check the disk");
  if (status.st_size > 0) {
    set_aside(path_);
    open();
  }
  started_ = true;
}

void LogFile::append(std::string_view records) {
  if (descriptor_ < 0) open();  // an earlier rewrite failed in between
  struct stat before {};
  const bool known = ::fstat(descriptor_, &before) == 0;
  while (!records.empty()) {
    const ssize_t count = ::write(descriptor_, records.data(), records.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) {
      const int error = errno;
      if (known) static_cast<void>(::ftruncate(descriptor_, before.st_size) == 0);
      refuse_file(path_, "a disk that takes it", error, "free some space");
    }
    records.remove_prefix(static_cast<std::size_t>(count));
  }
}

void LogFile::rewrite(const LineEdit& edit) {
  {
    io::InputFile in(path_, "read");
    io::AtomicFile out(path_);
    edit_lines(in, out, edit);
    out.commit();
  }
  started_ = true;
  open();
}

void LogFile::sync() {
  if (descriptor_ < 0) return;
  while (::fsync(descriptor_) != 0) {
    if (errno == EINTR) continue;
    if (errno == EINVAL || errno == EROFS) return;  // a file system without it
    refuse_file(path_, "a disk that takes it", errno, "free some space");
  }
}

}  // namespace mezzo::train::detail
