// SPDX-License-Identifier: Apache-2.0
#include "mesh/host_memory.h"

#include <motley/error.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <fstream>
#include <limits>
#include <map>
#include <optional>
#include <utility>

#include "base/control_groups.h"
#include "base/host.h"

namespace motley {

namespace {

namespace fs = std::filesystem;

// "KEY: NUMBER" or "KEY NUMBER", one per line.
std::uint64_t number_of(const fs::path& file, const std::string& key) {
  std::ifstream in(file);
  std::uint64_t value = 0;
  for (std::string word; in >> word; in.ignore(std::numeric_limits<std::streamsize>::max(), '\n'))
    if (word == key && in >> value) return value;
  return 0;
}

std::optional<std::uint64_t> whole_number(const fs::path& file) {
  std::ifstream in(file);
  std::uint64_t value = 0;
  if (in >> value) return value;
  return std::nullopt;  // no file, or "max"
}

// The file names of one version of control groups.
struct Version {
  const char *limit, *used, *inactive, *active;
};
constexpr Version kSecond{"memory.max", "memory.current", "inactive_file", "active_file"};
constexpr Version kFirst{"memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file", "total_active_file"};

void add_group(const fs::path& group, const std::string& name, const Version& version, std::vector<MemoryLimit>& out) {
  const auto limit = whole_number(group / version.limit);
  const auto used = whole_number(group / version.used);
  struct stat info {};
  if (!limit || !used || stat(group.c_str(), &info) != 0) return;
  const std::uint64_t cached =
      number_of(group / "memory.stat", version.inactive) + number_of(group / "memory.stat", version.active);
  const std::uint64_t taken = *used - std::min(*used, cached);
  const std::uint64_t id = (static_cast<std::uint64_t>(info.st_dev) << 40U) ^ static_cast<std::uint64_t>(info.st_ino);
  out.push_back({std::max<std::uint64_t>(id, 1), *limit - std::min(*limit, taken), "the control group " + name});
}

// The message: a rank's need, its machine, its limits.
struct Line {
  std::array<char, kHostNameSize> machine{}, host{};
  std::uint64_t bytes = 0, limits = 0;
};
struct MappedPart {
  std::uint64_t id = 0, free = 0;
  std::array<char, 112> name{};
};

template <std::size_t N>
void put_text(std::array<char, N>& to, const std::string& text) {
  std::copy_n(text.begin(), std::min(text.size(), N - 1), to.begin());
}

std::vector<std::byte> packed(std::uint64_t bytes, const MemoryReading& reading) {
  Line line{.bytes = bytes, .limits = reading.limits.size()};
  put_text(line.machine, reading.machine);
  put_text(line.host, reading.host);
  std::vector<std::byte> out(sizeof line);
  std::memcpy(out.data(), &line, sizeof line);
  for (const MemoryLimit& limit : reading.limits) {
    MappedPart part{.id = limit.id, .free = limit.free};
    put_text(part.name, limit.name);
    const auto* at = reinterpret_cast<const std::byte*>(&part);
    out.insert(out.end(), at, at + sizeof part);
  }
  return out;
}

// A limit, and the ranks under it.
struct Shared {
  std::string host{}, name{};
  std::uint64_t free = std::numeric_limits<std::uint64_t>::max(), needed = 0;
  std::string ranks{};  // and the need of each
};

}  // namespace

MemoryReading read_memory(const fs::path& root) {
  MemoryReading out;
  out.host = host_name();
  out.machine = machine_id(root);
  if (const std::uint64_t kib = number_of(root / "proc/meminfo", "MemAvailable:"); kib > 0)
    out.limits.push_back({0, kib * 1024, "the machine"});
  for (const ControlGroup& group : control_groups("memory", root))
    add_group(group.directory, group.name, group.version == 2 ? kSecond : kFirst, out.limits);
  return out;
}

std::uint64_t free_bytes(const MemoryReading& reading) {
  std::uint64_t least = std::numeric_limits<std::uint64_t>::max();
  for (const MemoryLimit& limit : reading.limits) least = std::min(least, limit.free);
  return least;
}

void check_host_memory(Transport& transport, std::uint64_t bytes, const MemoryReading& reading) {
  std::map<std::pair<std::string, std::uint64_t>, Shared> limits;  // by machine and id
  const auto all = transport.gather_all(packed(bytes, reading));
  for (std::size_t r = 0; r < all.size(); r++) {
    Line line;
    check(all[r].size() >= sizeof line, "all ranks are in the same check_host_memory()");
    std::memcpy(&line, all[r].data(), sizeof line);
    for (std::uint64_t k = 0; k < line.limits; k++) {
      MappedPart part;
      std::memcpy(&part, all[r].data() + sizeof line + k * sizeof part, sizeof part);
      Shared& one = limits[{line.machine.data(), part.id}];
      one.host = line.host.data();
      one.name = part.name.data();
      one.free = std::min(one.free, part.free);
      one.needed += line.bytes;
      one.ranks += (one.ranks.empty() ? "rank " : ", rank ") + std::to_string(r) + " " + std::to_string(line.bytes);
    }
  }
  for (const auto& [where, one] : limits)
    if (one.needed > one.free)
      throw DeviceError(
          "the ranks of host " + one.host + " need " + std::to_string(one.needed) + " bytes of its memory together (" + one.ranks +
          "), but " + one.name + " has " + std::to_string(one.free) +
          " bytes free; use a smaller batch, give the devices of this host smaller parts, or start fewer of its ranks");
}

}  // namespace motley
