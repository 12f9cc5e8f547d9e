// Pages are AtomicFiles.
#include "mezzo/train/logging/page_file.h"

#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <system_error>

#include "mezzo/core/error.h"
#include "mezzo/io/detail/file.h"

namespace mezzo::train::detail {

void check_page_path(const std::string& path) {
  // Makes and removes its temporary file.
  const io::AtomicFile probe(path);
}

void keep_old_page(const std::string& path) {
  std::error_code error;
  if (!std::filesystem::exists(path, error)) return;
  if (std::rename(path.c_str(), (path + ".bak").c_str()) == 0) return;
  throw IoError("write '" + path + "'", "an old file that can be renamed to *.bak",
                std::generic_category().message(errno), "check the folder's permissions");
}

void write_page(const std::string& path, std::string_view text) {
  io::AtomicFile file(path);
  file.write(text);
  file.commit();
}

}  // namespace mezzo::train::detail
