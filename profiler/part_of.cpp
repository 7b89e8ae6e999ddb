// SPDX-License-Identifier: Apache-2.0
#include "profiler/part_of.h"

#include <motley/mesh.h>

#include <algorithm>
#include <utility>

#include "base/at.h"

namespace motley {

Profile part_of(const Profile& profile, const std::vector<int>& ranks) {
  std::vector<int> now(profile.devices.size(), -1);
  Profile out;
  out.notes = profile.notes;
  for (const int was : ranks) {
    at(now, was) = static_cast<int>(out.devices.size());
    out.devices.push_back(at(profile.devices, was));
  }
  for (KernelPoint point : profile.kernels())
    if ((point.device = at(now, point.device)) >= 0) out.add(std::move(point));
  for (Link link : profile.links) {
    link.from = at(now, link.from);
    link.to = at(now, link.to);
    if (link.from >= 0 && link.to >= 0) out.links.push_back(std::move(link));
  }
  std::sort(out.links.begin(), out.links.end(),
            [](const Link& x, const Link& y) { return std::pair(x.from, x.to) < std::pair(y.from, y.to); });
  for (const auto& [device, numbers] : profile.modelled)
    if (at(now, device) >= 0) out.modelled[at(now, device)] = numbers;
  for (DeviceLink link : profile.device_links)
    if ((link.device = at(now, link.device)) >= 0) out.device_links.push_back(std::move(link));
  return out;
}

Profile in_order_of(const Mesh& mesh, Profile profile) {
  if (static_cast<int>(profile.devices.size()) != mesh.ranks()) return profile;
  std::vector<int> ranks;
  for (int r = 0; r < mesh.ranks(); r++) {
    const auto named = [&](const DeviceFacts& d) { return d.name == mesh.device(r).name; };
    const auto of = std::find_if(profile.devices.begin(), profile.devices.end(), named);
    if (of == profile.devices.end()) return profile;
    ranks.push_back(static_cast<int>(of - profile.devices.begin()));
  }
  if (std::is_sorted(ranks.begin(), ranks.end())) return profile;
  return part_of(profile, ranks);
}

}  // namespace motley
