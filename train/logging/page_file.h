// Files that a sink rewrites as a whole: pages and pictures.
#pragma once

#include <string>
#include <string_view>

namespace mezzo::train::detail {

/// Refuses a path that cannot be written, before there is anything to write. Throws: IoError.
void check_page_path(const std::string& path);
/// Renames a file that is there to "<path>.bak". Throws: IoError.
void keep_old_page(const std::string& path);
/// Writes all of the text or nothing. Throws: IoError.
void write_page(const std::string& path, std::string_view text);

}  // namespace mezzo::train::detail
