// /proc/self/cgroup names the groups; lines read number:controllers:path, in version 2 without controllers.
#include "mezzo/core/parallel/cgroup.h"

#include <fstream>

namespace mezzo::detail {

namespace {

bool names(std::string_view controllers, std::string_view controller) {
  while (!controllers.empty()) {
    const std::size_t end = controllers.find(',');
    if (controllers.substr(0, end) == controller) return true;
    controllers.remove_prefix(end == std::string_view::npos ? controllers.size() : end + 1);
  }
  return false;
}

}  // namespace

std::vector<Cgroup> cgroups_of(std::string_view controller, const std::string& root) {
  std::vector<Cgroup> found;
  std::ifstream groups(root + "/proc/self/cgroup");
  for (std::string line; std::getline(groups, line);) {
    const std::size_t first = line.find(':'), second = line.find(':', first + 1);
    if (second == std::string::npos || line.find('/', second) != second + 1) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const bool version2 = controllers.empty();
    if (!version2 && !names(controllers, controller)) continue;
    const std::string mount = root + "/sys/fs/cgroup" + (version2 ? "" : "/" + controllers);
    for (std::string group = line.substr(second + 1);; group.resize(group.find_last_of('/'))) {
      const bool top = group.empty() || group == "/";
      found.push_back({top ? mount : mount + group, version2});
      if (top) break;
    }
  }
  return found;
}

std::string word_of_file(const std::string& path, int index) {
  std::ifstream file(path);
  std::string word;
  for (int i = 0; i <= index; ++i) {
    if (!(file >> word)) return {};
  }
  return word;
}

}  // namespace mezzo::detail
