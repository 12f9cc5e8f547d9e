// The first line of /proc/stat against the process's own use.
#include "processors.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <string>

namespace mlp_timing {

ProcessorUse::ProcessorUse() : start_(now()) {}

ProcessorUse::Seconds ProcessorUse::now() {
  Seconds seconds;
  rusage own{};
  getrusage(RUSAGE_SELF, &own);
  for (const timeval& time : {own.ru_utime, own.ru_stime})
    seconds.own += static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
  seconds.wall = std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
  std::ifstream file("/proc/stat");
  std::string name;
  double user = 0, nice = 0, system = 0, idle = 0, wait = 0, interrupts = 0, soft = 0, stolen = 0;
  seconds.known = (file >> name >> user >> nice >> system >> idle >> wait >> interrupts >> soft >> stolen) &&
                  name == "cpu";
  seconds.all =
      (user + nice + system + interrupts + soft + stolen) / static_cast<double>(sysconf(_SC_CLK_TCK));
  return seconds;
}

std::optional<double> ProcessorUse::others() const {
  const Seconds end = now();
  const double wall = end.wall - start_.wall;
  if (!start_.known || !end.known || wall < 0.5) return std::nullopt;
  const double others = (end.all - start_.all) - (end.own - start_.own);
  return std::clamp(others / (wall * static_cast<double>(sysconf(_SC_NPROCESSORS_ONLN))), 0.0, 1.0);
}

}  // namespace mlp_timing
