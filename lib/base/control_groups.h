// SPDX-License-Identifier: Apache-2.0
// The control groups of Linux that limit this process (containers, batch systems).
#pragma once
#include <filesystem>
#include <string>
#include <vector>

namespace motley {

struct ControlGroup {
  std::filesystem::path directory{};
  std::string name{};  // its path in its hierarchy, "/" the root
  int version = 2;     // 1: a hierarchy of this controller alone
};

// With this controller ("cpu", "memory"), from the process's own group up to the root of the mount. In a container the path may be
// the host's, of which only the root is mounted: directories that are not there are listed too. root: of the file system.
std::vector<ControlGroup> control_groups(const std::string& controller, const std::filesystem::path& root = "/");

// Seconds of processor time per second that all processes of the group may take; the least of all groups. Infinity: no limit.
struct CpuQuota {
  double cores = 0;
  std::string group{};
};
CpuQuota cpu_quota(const std::filesystem::path& root = "/");

}  // namespace motley
