// The POSIX calls behind io/detail/file.h, separate so that no header includes them.
#include "mezzo/io/detail/file.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <filesystem>
#include <memory>
#include <system_error>
#include <utility>

#include "mezzo/core/error.h"
#include "mezzo/core/layout.h"
#include "mezzo/core/value.h"

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

/// The file that `path` leads to, which need not be there yet: itself, unless it is a symbolic link. Links
/// that lead to themselves stay what they are.
std::string follow_links(const std::string& path) {
  constexpr int kMost = 40;  // as many as the system follows
  std::filesystem::path file(path);
  std::error_code error;
  for (int i = 0; i < kMost && std::filesystem::is_symlink(file, error); ++i) {
    const std::filesystem::path target = std::filesystem::read_symlink(file, error);
    if (error) return path;
    file = file.parent_path() / target;
  }
  return file.string();
}

/// ::open, again where a signal interrupted it.
int open_file(const std::string& path, int flags, mode_t mode = 0) {
  int descriptor = -1;
  do {
    descriptor = ::open(path.c_str(), flags | O_CLOEXEC, mode);
  } while (descriptor < 0 && errno == EINTR);
  return descriptor;
}

/// ::fsync, again where a signal interrupted it. Whether it succeeded.
bool sync_file(int descriptor) {
  while (::fsync(descriptor) != 0) {
    if (errno != EINTR) return false;
  }
  return true;
}

/// A path with a zero byte would name another file to the system, which reads up to there.
void refuse_zero_byte(const std::string& op, const std::string& path) {
  if (path.find('\0') == std::string::npos) return;
  throw IoError(op.substr(0, op.find('\0')) + "...'", "a path without a zero byte",
                "one at position " + std::to_string(path.find('\0')), "check where the path comes from");
}

/// A name of a file as the names of its temporary files begin: with what follows there they must fit into the
/// 255 bytes that a name may have.
std::string_view kept_of(std::string_view name) { return name.substr(0, 230); }

/// The process of a temporary file `name` + ".tmp-<process>-<attempt>"; 0 for any other name.
pid_t process_of(std::string_view temporary, std::string_view name) {
  constexpr std::string_view kMark = ".tmp-";
  if (temporary.substr(0, name.size()) != name || temporary.substr(name.size(), kMark.size()) != kMark)
    return 0;
  const std::string_view rest = temporary.substr(name.size() + kMark.size());
  pid_t process = 0;
  int attempt = 0;
  const auto [dash, error] = std::from_chars(rest.data(), rest.data() + rest.size(), process);
  if (error != std::errc() || process <= 0 || dash == rest.data() + rest.size() || *dash != '-') return 0;
  const auto [end, last_error] = std::from_chars(dash + 1, rest.data() + rest.size(), attempt);
  return last_error == std::errc() && attempt >= 0 && end == rest.data() + rest.size() ? process : 0;
}

/// Whether the process that wrote a temporary file is gone. A writer also holds a lock on its file, which
/// shows that it lives to processes of other containers.
bool is_orphan(const std::string& temporary, pid_t process) {
  if (::kill(process, 0) == 0 || errno != ESRCH) return false;
  const int descriptor = open_file(temporary, O_RDONLY | O_NOFOLLOW | O_NONBLOCK);
  if (descriptor < 0) return false;
  struct stat status {};
  const bool orphan = ::fstat(descriptor, &status) == 0 && S_ISREG(status.st_mode) &&
                      ::flock(descriptor, LOCK_EX | LOCK_NB) == 0;
  ::close(descriptor);
  return orphan;
}

struct FolderCloser {
  void operator()(DIR* folder) const { ::closedir(folder); }
};

/// The folder of `path`, "." for a bare name.
std::string folder_of(const std::string& path) {
  const std::string folder = std::filesystem::path(path).parent_path().string();
  return folder.empty() ? "." : folder;
}

}  // namespace

void remove_orphans(const std::string& path) {
  const std::filesystem::path file(path);
  const std::string name = file.filename().string();
  const std::unique_ptr<DIR, FolderCloser> entries(::opendir(folder_of(path).c_str()));
  if (entries == nullptr) return;
  while (const dirent* const entry = ::readdir(entries.get())) {
    const pid_t process = process_of(entry->d_name, kept_of(name));
    const std::string temporary = (file.parent_path() / entry->d_name).string();
    if (process != 0 && is_orphan(temporary, process)) ::unlink(temporary.c_str());
  }
}

void sync_folder(const std::string& folder) {
  const int descriptor = open_file(folder, O_RDONLY | O_DIRECTORY);
  if (descriptor < 0) return;
  static_cast<void>(sync_file(descriptor));
  ::close(descriptor);
}

InputFile::InputFile(const std::string& path, std::string op) : op_(std::move(op) + " '" + path + "'") {
  refuse_zero_byte(op_, path);
  // O_NONBLOCK: opening a pipe that nobody writes to must report, not wait. It has no effect on regular
  // files.
  descriptor_ = open_file(path, O_RDONLY | O_NONBLOCK);
  if (descriptor_ < 0)
    throw IoError(op_, "a readable file", reason(errno), "check the path and its permissions");
  struct stat status {};
  const bool known = ::fstat(descriptor_, &status) == 0;
  if (known && S_ISREG(status.st_mode)) {
    size_ = static_cast<std::uint64_t>(status.st_size);
    return;
  }
  const int error = errno;
  ::close(descriptor_);
  const std::string got = known ? kind_name(status.st_mode) : reason(error);
  throw IoError(op_, "a regular file", got, "give the path of a file");
}

InputFile::~InputFile() { ::close(descriptor_); }

bool InputFile::take(std::ptrdiff_t count, std::span<std::byte>& out) const {
  if (count < 0 && errno == EINTR) return false;
  if (count < 0) throw IoError(op_, "a readable file", reason(errno), "check the disk");
  if (count == 0) {
    throw IoError(op_, std::to_string(out.size()) + " more bytes", "the end of the file",
                  "write the file completely before it is read");
  }
  out = out.subspan(static_cast<std::size_t>(count));
  return true;
}

void InputFile::read(std::span<std::byte> out) {
  while (!out.empty())
    static_cast<void>(take(::read(descriptor_, out.data(), std::min(out.size(), kMaxTransfer)), out));
}

void InputFile::read_at(std::uint64_t offset, std::span<std::byte> out) const {
  while (!out.empty()) {
    const std::size_t before = out.size();
    const auto place = static_cast<off_t>(offset);
    if (take(::pread(descriptor_, out.data(), std::min(out.size(), kMaxTransfer), place), out))
      offset += before - out.size();
  }
}

void InputFile::seek(std::uint64_t offset) {
  if (::lseek(descriptor_, static_cast<off_t>(offset), SEEK_SET) < 0)
    throw IoError(op_, "a readable file", reason(errno), "check the disk");
}

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
  const std::string op = "write '" + path + "'";
  refuse_zero_byte(op, path);
  struct stat status {};
  const bool replaces = ::stat(path_.c_str(), &status) == 0;
  if (!replaces && (errno == ELOOP || errno == ENAMETOOLONG))
    throw IoError(op, "a path that can lead to a file", reason(errno), "choose another path");
  if (replaces && !S_ISREG(status.st_mode))
    throw IoError(op, "a regular file or a new name", kind_name(status.st_mode), "choose another path");
  // Also for root, whom the system would let write it.
  if (replaces && ((status.st_mode & 0222U) == 0 || ::access(path_.c_str(), W_OK) != 0)) {
    throw IoError(op, "a file that may be written, or a new name", "one that is read-only",
                  "chmod u+w it, or choose another path");
  }
  remove_orphans(path_);
  const std::size_t name = path_.rfind('/') + 1;  // npos + 1 is 0
  const std::string start = path_.substr(0, name).append(kept_of(std::string_view(path_).substr(name)));
  // A name that a crashed process left behind is stepped over; O_EXCL keeps threads and processes apart.
  int error = EEXIST;
  for (int attempt = 0; attempt < 1000 && descriptor_ < 0 && error == EEXIST; ++attempt) {
    temporary_ = start + ".tmp-" + std::to_string(::getpid()) + "-" + std::to_string(attempt);
    descriptor_ = open_file(temporary_, O_WRONLY | O_CREAT | O_EXCL, 0666);
    error = errno;
  }
  if (descriptor_ < 0)
    throw IoError(op, "a folder that can be written", reason(error), "create it or check permissions");
  static_cast<void>(::flock(descriptor_, LOCK_EX | LOCK_NB));
  // Some file systems have no modes.
  if (replaces) static_cast<void>(::fchmod(descriptor_, status.st_mode & 07777U));
}

AtomicFile::~AtomicFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
  if (!temporary_.empty()) ::unlink(temporary_.c_str());
}

void AtomicFile::write(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t count = ::write(descriptor_, bytes.data(), std::min(bytes.size(), kMaxTransfer));
    const int error = errno;
    if (count < 0 && error == EINTR) continue;
    if (count < 0)
      throw IoError("write '" + path_ + "'", "a disk that takes it", reason(error), "free some space");
    bytes = bytes.subspan(static_cast<std::size_t>(count));
  }
}

void AtomicFile::flush() {
  const bool synced = sync_file(descriptor_);
  const int error = errno;
  if (!synced)
    throw IoError("write '" + path_ + "'", "a disk that takes it", reason(error), "free some space");
}

void AtomicFile::commit() {
  // The content must be on disk before the name points to it, or a power cut leaves an empty file.
  flush();
  // Made here: once the name points to the new content nothing may fail any more.
  const std::string folder = folder_of(path_);
  // Interrupted, it is closed all the same.
  const bool closed = ::close(descriptor_) == 0 || errno == EINTR;
  descriptor_ = -1;
  if (!closed || ::rename(temporary_.c_str(), path_.c_str()) != 0) {
    const int reason_of_rename = errno;
    throw IoError("write '" + path_ + "'", "a name that can be replaced", reason(reason_of_rename),
                  "check the folder's permissions");
  }
  temporary_.clear();
  sync_folder(folder);
}

namespace detail {

void ByteSource::read(std::span<std::byte> out) {
  while (!out.empty()) {
    const std::size_t count = read_some(out);
    if (count == 0) {
      throw IoError(op_, std::to_string(out.size()) + " more bytes", "the end of the file",
                    "fetch or write the file again");
    }
    out = out.subspan(count);
  }
}

void ByteSource::expect_end(std::uint64_t size) {
  std::byte next{};
  if (read_some({&next, 1}) == 0) return;
  throw IoError(op_, "the end after " + std::to_string(size) + " bytes", "more",
                "fetch or write the file again");
}

std::size_t FileRange::read_some(std::span<std::byte> out) {
  const auto count = static_cast<std::size_t>(std::min<std::uint64_t>(out.size(), rest_));
  if (count == 0) return 0;
  if (!is_there_) file_.seek(begin_);
  is_there_ = true;
  file_.read(out.first(count));
  rest_ -= count;
  return count;
}

void require_distinct(std::string_view op, std::vector<std::string_view> names, std::string_view expected,
                      std::string_view fix) {
  std::sort(names.begin(), names.end());
  const auto twin = std::adjacent_find(names.begin(), names.end());
  if (twin != names.end()) throw IoError(op, expected, quote(*twin) + " twice", fix);
}

std::int64_t checked_count(std::span<const std::int64_t> shape) noexcept {
  std::int64_t count = 1;
  bool is_empty = false;
  for (const std::int64_t size : shape) {
    if (size < 0) return -1;
    is_empty = is_empty || size == 0;
    if (size > 0 && count > (layout::kMaxElements - 1) / size) return -1;
    if (size > 0) count *= size;
  }
  return is_empty ? 0 : count;
}

}  // namespace detail

}  // namespace mezzo::io
