// SPDX-License-Identifier: Apache-2.0
#include "base/control_groups.h"

#include <algorithm>
#include <fstream>
#include <limits>
#include <optional>

namespace motley {

namespace {

namespace fs = std::filesystem;

void add_path(const fs::path& mount, const std::string& path, int version, std::vector<ControlGroup>& out) {
  for (fs::path at = fs::path(path).relative_path();; at = at.parent_path()) {
    if (std::none_of(at.begin(), at.end(), [](const fs::path& part) { return part == ".."; }))
      out.push_back({mount / at, "/" + at.string(), version});
    if (at.empty()) return;
  }
}

// "50000 100000": microseconds of each period; "max 100000", -1: no limit.
std::optional<double> cores_of(const ControlGroup& group) {
  double quota = 0, period = 0;
  if (group.version == 2) {
    std::ifstream in(group.directory / "cpu.max");
    in >> quota >> period;
  } else {
    std::ifstream(group.directory / "cpu.cfs_quota_us") >> quota;
    std::ifstream(group.directory / "cpu.cfs_period_us") >> period;
  }
  return quota > 0 && period > 0 ? std::optional(quota / period) : std::nullopt;
}

}  // namespace

std::vector<ControlGroup> control_groups(const std::string& controller, const fs::path& root) {
  std::vector<ControlGroup> out;
  const fs::path mounts = root / "sys/fs/cgroup";
  std::ifstream groups(root / "proc/self/cgroup");  // number:controllers:path
  for (std::string line; std::getline(groups, line);) {
    const std::size_t first = line.find(':'), second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = "," + line.substr(first + 1, second - first - 1) + ",", path = line.substr(second + 1);
    if (controllers == ",,") {
      add_path(mounts, path, 2, out);
      add_path(mounts / "unified", path, 2, out);
    } else if (controllers.find("," + controller + ",") != std::string::npos) {
      add_path(mounts / controller, path, 1, out);
    }
  }
  return out;
}

CpuQuota cpu_quota(const fs::path& root) {
  CpuQuota out{std::numeric_limits<double>::infinity(), ""};
  for (const ControlGroup& group : control_groups("cpu", root))
    if (const auto cores = cores_of(group); cores && *cores < out.cores) out = {*cores, group.name};
  return out;
}

}  // namespace motley
