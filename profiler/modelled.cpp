// SPDX-License-Identifier: Apache-2.0
#include "profiler/modelled.h"

#include <motley/error.h>

#include <algorithm>

namespace motley {

Index rounded_up(Index extent, Index granule) {
  return (extent + granule - 1) / granule * granule;
}

namespace {

KernelSpec in_granules(KernelSpec spec, const DeviceNumbers::Granules& granules) {
  Roles& e = spec.roles;
  const bool convolution = spec.op == KernelOp::conv2d;
  if (!convolution && spec.op != KernelOp::dense) return spec;
  e.n = rounded_up(e.n, granules.batch);
  if (convolution) e.p = rounded_up(e.p, granules.rows);
  if (convolution && e.g > 1 && e.c == 1) {
    e.g = rounded_up(e.g, granules.channels);
  } else {
    e.f = rounded_up(e.f, granules.filters);
    e.c = rounded_up(e.c, granules.channels);
  }
  return spec;
}

double efficiency_of(const DeviceNumbers::Efficiency& efficiency, const KernelSpec& spec) {
  switch (spec.op) {
    case KernelOp::conv2d: return spec.roles.g > 1 && spec.roles.c == 1 ? efficiency.depthwise : efficiency.conv2d;
    case KernelOp::dense:
    case KernelOp::attention: return efficiency.dense;
    case KernelOp::max_pool2d:
    case KernelOp::avg_pool2d:
    case KernelOp::map: break;
  }
  return efficiency.map;
}

// Per rank: its device in the profile of those that are here; -1: modelled.
std::vector<int> measured_devices(const Mesh& mesh, const Profile& measured) {
  std::vector<int> out;
  for (const Device& device : mesh.devices()) {
    const auto found = std::find_if(measured.devices.begin(), measured.devices.end(),
                                    [&](const DeviceFacts& facts) { return facts.name == device.name; });
    if (device.kind != DeviceKind::modelled && found == measured.devices.end())
      throw UserError("the mesh has modelled devices beside \"" + device.name + "\", which the profile does not have",
                      Exit::missing);
    out.push_back(device.kind == DeviceKind::modelled ? -1 : static_cast<int>(found - measured.devices.begin()));
  }
  return out;
}

}  // namespace

double seconds_by_numbers(const DeviceNumbers& numbers, const KernelSpec& spec) {
  const double rate = numbers.flops_per_second * efficiency_of(numbers.efficiency, spec);
  return numbers.launch_seconds + std::max(flops(in_granules(spec, numbers.granules)) / rate,
                                           static_cast<double>(bytes_touched(spec)) / numbers.memory_bytes_per_second);
}

bool has_modelled(const Mesh& mesh) {
  return std::any_of(mesh.devices().begin(), mesh.devices().end(), [](const Device& d) { return d.kind == DeviceKind::modelled; });
}

Profile modelled_profile(const Mesh& mesh, const Profile& measured) {
  const std::vector<int> was = measured_devices(mesh, measured);
  std::vector<int> now(measured.devices.size(), -1);
  Profile out;
  out.notes = measured.notes;
  for (int r = 0; r < mesh.ranks(); r++) {
    const Device& device = mesh.device(r);
    const int before = was[static_cast<std::size_t>(r)];
    if (before >= 0) {
      now[static_cast<std::size_t>(before)] = r;
      out.devices.push_back(measured.devices[static_cast<std::size_t>(before)]);
    } else {
      out.devices.push_back({.name = device.name, .kind = to_string(device.kind), .host = device.host});
      out.modelled.emplace(r, device.numbers);
    }
    for (int q = 0; q < mesh.ranks(); q++)
      if (const MeshLink* link = q == r ? nullptr : mesh.link(r, q); link != nullptr)
        if (before < 0 || was[static_cast<std::size_t>(q)] < 0)
          out.links.push_back({r, q, {{Index{1} << 53, link->seconds, link->bytes_per_second}}});
  }
  const auto rank_of = [&](int device) { return now[static_cast<std::size_t>(device)]; };
  for (KernelPoint point : measured.kernels())
    if ((point.device = rank_of(point.device)) >= 0) out.add(std::move(point));
  for (Link link : measured.links)
    if ((link.from = rank_of(link.from)) >= 0 && (link.to = rank_of(link.to)) >= 0) out.links.push_back(std::move(link));
  for (DeviceLink link : measured.device_links)
    if ((link.device = rank_of(link.device)) >= 0) out.device_links.push_back(std::move(link));
  std::sort(out.links.begin(), out.links.end(),
            [](const Link& x, const Link& y) { return std::pair(x.from, x.to) < std::pair(y.from, y.to); });
  return out;
}

}  // namespace motley
