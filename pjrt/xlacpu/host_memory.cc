#include "host_memory.h"

#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <string>
#include <string_view>

namespace xlacpu {
namespace {

constexpr char kVersion2[] = "/sys/fs/cgroup";
constexpr char kVersion1[] = "/sys/fs/cgroup/memory";

// The number in a control file; a file that is absent or says "max" limits
// nothing.
size_t ReadLimit(const std::string& path) {
  size_t bytes = 0;
  std::ifstream file(path);
  return file >> bytes ? bytes : SIZE_MAX;
}

// The least limit on the way from a group up to the root of its hierarchy.
size_t LeastLimit(const std::string& root, std::string group,
                  const std::string& file) {
  size_t least = SIZE_MAX;
  while (true) {
    least = std::min(least, ReadLimit(root + group + "/" + file));
    const size_t slash = group.rfind('/');
    if (slash == std::string::npos) return least;
    group.resize(slash);
  }
}

// Lines of /proc/self/cgroup read "number:controllers:group"; version 2 has no
// controllers. In a container the group may lie outside of what is mounted, and
// then only the root, which is the container's own group, can be read.
size_t ControlGroupLimit() {
  size_t least = SIZE_MAX;
  std::ifstream groups("/proc/self/cgroup");
  for (std::string line; std::getline(groups, line);) {
    const size_t first = line.find(':');
    const size_t second = line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string_view names(line.data() + first + 1, second - first - 1);
    std::string group = line.substr(second + 1);
    if (group == "/") group.clear();
    if (names.empty()) {
      least = std::min(least, LeastLimit(kVersion2, group, "memory.max"));
    } else if (names.find("memory") != std::string_view::npos) {
      least = std::min(least,
                       LeastLimit(kVersion1, group, "memory.limit_in_bytes"));
    }
  }
  return least;
}

}  // namespace

size_t HostMemoryBytes() {
  const size_t physical = static_cast<size_t>(sysconf(_SC_PHYS_PAGES)) *
                          static_cast<size_t>(sysconf(_SC_PAGESIZE));
  return std::min(physical, ControlGroupLimit());
}

}  // namespace xlacpu
