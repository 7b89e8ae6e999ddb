// SPDX-License-Identifier: Apache-2.0
#include "profiler/join.h"

#include <algorithm>

#include "profiler/measure_links.h"

namespace motley {

std::vector<DeviceLink> own_device_links(Backend& backend, const Transport& transport, double budget_seconds) {
  DeviceMemory* device = backend.device_memory();
  if (device == nullptr || transport.takes_device_memory()) return {};
  return {measure_device_link(*device, 0, {.budget_seconds = std::min(2.0, budget_seconds / 30)})};
}

void add_links(Profile& profile, Backend& backend, Transport& transport, double budget_seconds) {
  if (transport.size() == 1) return;
  profile.links =
      measure_links(transport, {.budget_seconds = std::min(10.0, budget_seconds / 6), .device = backend.device_memory()});
  measure_reads(transport, profile.links, {.most_bytes = Index{4} << 20});
  const std::byte mine{transport.crowded()};
  const auto crowded = transport.gather_all({&mine, 1});
  std::string ranks;
  for (std::size_t r = 0; r < crowded.size(); r++)
    if (crowded[r].front() != std::byte{0}) ranks += (ranks.empty() ? "" : ", ") + std::to_string(r);
  if (!ranks.empty())
    profile.notes.push_back("links: contended: the ranks " + ranks + " shared cores, and messages waited for a free core");
}

Profile joined(Transport& transport, const Profile& mine) {
  Profile out;
  const std::string text = mine.json();
  for (const auto& bytes : transport.gather_all(std::as_bytes(std::span(text)))) {
    const Profile one = Profile::parse("a rank's profile", {reinterpret_cast<const char*>(bytes.data()), bytes.size()});
    const int device = static_cast<int>(out.devices.size());
    out.devices.push_back(one.devices.back());
    for (KernelPoint point : one.kernels()) {
      point.device = device;
      out.add(std::move(point));
    }
    for (DeviceLink link : one.device_links) {
      link.device = device;
      out.device_links.push_back(std::move(link));
    }
    for (const std::string& note : one.notes)
      if (std::find(out.notes.begin(), out.notes.end(), note) == out.notes.end()) out.notes.push_back(note);
  }
  return out;
}

}  // namespace motley
