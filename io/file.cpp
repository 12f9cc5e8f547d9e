// The POSIX calls behind io/file.h, separate so that no header includes them.
#include "mezzo/io/file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <new>
#include <stdexcept>
#include <system_error>

#include "mezzo/core/error.h"

namespace mezzo::io {

namespace {

/// One call to the system moves at most this much: Linux stops short of 2 GiB anyway, and a signal costs
/// little.
constexpr std::size_t kMaxTransfer = std::size_t{1} << 30U;

std::string reason(int error) { return std::generic_category().message(error); }

std::string kind_name(mode_t mode) {
  if (S_ISDIR(mode)) return "a directory";
  if (S_ISFIFO(mode)) return "a pipe";
  if (S_ISSOCK(mode)) return "a socket";
  return "a device";
}

/// The file that `path` leads to: itself, unless it is a symbolic link to something that exists.
std::string follow_links(const std::string& path) {
  std::error_code error;
  if (!std::filesystem::is_symlink(path, error)) return path;
  const std::filesystem::path target = std::filesystem::canonical(path, error);
  return error ? path : target.string();
}

/// Makes the rename itself survive a power cut. Some file systems refuse this for folders; nothing is lost
/// then but that guarantee, so errors are passed over.
void sync_folder_of(const std::string& path) {
  const std::string folder = std::filesystem::path(path).parent_path().string();
  const int descriptor = ::open(folder.empty() ? "." : folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor < 0) return;
  static_cast<void>(::fsync(descriptor));
  ::close(descriptor);
}

}  // namespace

InputFile::InputFile(const std::string& path, std::string op) : op_(std::move(op) + " '" + path + "'") {
  // O_NONBLOCK: opening a pipe that nobody writes to must report, not wait. It has no effect on regular
  // files.
  descriptor_ = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (descriptor_ < 0)
    throw IoError(op_, "a readable file", reason(errno), "check the path and its permissions");
  struct stat status {};
  const bool known = ::fstat(descriptor_, &status) == 0;
  if (known && S_ISREG(status.st_mode)) {
    size_ = static_cast<std::uint64_t>(status.st_size);
    return;
  }
  const std::string got = known ? kind_name(status.st_mode) : reason(errno);
  ::close(descriptor_);
  throw IoError(op_, "a regular file", got, "give the path of a file");
}

InputFile::~InputFile() { ::close(descriptor_); }

void InputFile::read(std::span<std::byte> out) {
  while (!out.empty()) {
    const ssize_t count = ::read(descriptor_, out.data(), std::min(out.size(), kMaxTransfer));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) throw IoError(op_, "a readable file", reason(errno), "check the disk");
    if (count == 0) {
      throw IoError(op_, std::to_string(out.size()) + " more bytes", "the end of the file",
                    "write the file completely before it is read");
    }
    out = out.subspan(static_cast<std::size_t>(count));
  }
}

std::vector<std::byte> read_file(const std::string& path) {
  InputFile file(path, "read_file");
  std::vector<std::byte> bytes;
  try {
    bytes.resize(file.size());
  } catch (const std::exception&) {  // bad_alloc or length_error
    throw OutOfMemoryError(file.op(), "a file that fits into memory", std::to_string(file.size()) + " bytes",
                           "");
  }
  file.read(bytes);
  return bytes;
}

AtomicFile::AtomicFile(const std::string& path) : path_(follow_links(path)) {
  struct stat status {};
  if (::stat(path_.c_str(), &status) == 0 && !S_ISREG(status.st_mode)) {
    throw IoError("write '" + path + "'", "a regular file or a new name", kind_name(status.st_mode),
                  "choose another path");
  }
  // A name that a crashed process left behind is stepped over; O_EXCL keeps threads and processes apart.
  int error = EEXIST;
  for (int attempt = 0; attempt < 1000 && descriptor_ < 0 && error == EEXIST; ++attempt) {
    temporary_ = path_ + ".tmp-" + std::to_string(::getpid()) + "-" + std::to_string(attempt);
    descriptor_ = ::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    error = errno;
  }
  if (descriptor_ < 0) {
    throw IoError("write '" + path + "'", "a folder that can be written", reason(error),
                  "create it or check permissions");
  }
}

AtomicFile::~AtomicFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
  if (!temporary_.empty()) ::unlink(temporary_.c_str());
}

void AtomicFile::write(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t count = ::write(descriptor_, bytes.data(), std::min(bytes.size(), kMaxTransfer));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0)
      throw IoError("write '" + path_ + "'", "a disk that takes it", reason(errno), "free some space");
    bytes = bytes.subspan(static_cast<std::size_t>(count));
  }
}

void AtomicFile::commit() {
  // The content must be on disk before the name points to it, or a power cut leaves an empty file.
  const bool synced = ::fsync(descriptor_) == 0;
  const int error = errno;
  if (!synced)
    throw IoError("write '" + path_ + "'", "a disk that takes it", reason(error), "free some space");
  const int closed = ::close(descriptor_);
  descriptor_ = -1;
  if (closed != 0 || ::rename(temporary_.c_str(), path_.c_str()) != 0) {
    throw IoError("write '" + path_ + "'", "a name that can be replaced", reason(errno),
                  "check the folder's permissions");
  }
  temporary_.clear();
  sync_folder_of(path_);
}

}  // namespace mezzo::io
