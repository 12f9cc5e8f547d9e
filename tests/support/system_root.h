// A folder that stands for / where the library reads files of the system.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

namespace mezzo::test {

class SystemRoot {
 public:
  SystemRoot() {
    std::string name = (std::filesystem::temp_directory_path() / "mezzo-root-XXXXXX").string();
    path_ = mkdtemp(name.data());
  }
  ~SystemRoot() { std::filesystem::remove_all(path_); }
  SystemRoot(const SystemRoot&) = delete;
  SystemRoot& operator=(const SystemRoot&) = delete;

  SystemRoot& write(const std::string& file, const std::string& text) {
    const std::filesystem::path path(path_ + file);
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path) << text;
    return *this;
  }
  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  std::string path_;
};

}  // namespace mezzo::test
