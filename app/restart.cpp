// SPDX-License-Identifier: Apache-2.0
#include "app/restart.h"

#include <fmt/format.h>
#include <motley/error.h>

#include "app/reach_hosts.h"
#include "app/resume.h"

namespace motley::app {

namespace {

constexpr int kHung = static_cast<int>(Exit::hung), kDevice = static_cast<int>(Exit::device);

}  // namespace

bool goes_again(const std::vector<Attempt>& so_far) {
  const Attempt& last = so_far.back();
  return last.end.code == kHung || (last.end.code == kDevice && (so_far.size() > 1 || (last.stepped && last.end.rank >= 0)));
}

Gone gone_after(const std::vector<Attempt>& so_far, const Mesh& mesh) {
  Gone out;
  for (const Unreached& host : unreached_hosts(mesh.devices())) {
    out.ranks.insert(out.ranks.end(), host.ranks.begin(), host.ranks.end());
    out.why.push_back(host.text);
  }
  const auto& [end, device, stepped] = so_far.back();
  if (device.empty() || !out.ranks.empty()) return out;  // another rank may have failed because it lost such a host
  const std::string who = fmt::format("rank {} ({})", end.rank, device);
  const bool again = so_far.size() > 1 && !stepped && so_far[so_far.size() - 2].device == device;
  if (end.code == kDevice) out.why.push_back(who + " cannot use its device");
  if (end.code == kHung && again) out.why.push_back(who + " was lost twice without a completed step in between");
  if (end.code == kDevice || again) out.ranks.push_back(end.rank);
  return out;
}

void go_on(RunDirectory& directory, bool stepped, Options& options, Console& console) {
  std::vector<std::string> said;
  if (const auto checkpoint = stepped ? last_good(directory.path(), said) : std::nullopt)
    options.from = std::filesystem::absolute(*checkpoint);
  for (const std::string& text : said) console.say(LogLevel::warning, text);
  directory.go_on();
}

}  // namespace motley::app
