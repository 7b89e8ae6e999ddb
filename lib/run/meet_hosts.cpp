// SPDX-License-Identifier: Apache-2.0
#include "run/meet_hosts.h"

#include <fcntl.h>
#include <motley/error.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>

#include "base/at.h"
#include "base/host.h"

namespace motley {

namespace {

// For the links of all hosts together; the other ranks wait in that time.
constexpr double kLinkPatienceSeconds = 5;
// If motley's launcher runs on the host of a rank that died, it knows which rank died first and ends the others within
// milliseconds.
constexpr double kLauncherSeconds = 1;

// What determines whether ranks share files and process numbers; and how rank 0 is reached.
struct Introduction {
  std::array<char, kHostNameSize> machine{};
  std::array<char, 32> mounts{}, processes{};
  std::array<char, kHostNameSize> name{};
  bool same_host(const Introduction& o) const { return machine == o.machine && mounts == o.mounts && processes == o.processes; }
};

// How the other hosts reach rank 0.
struct Meeting {
  std::uint64_t token = 0;
  std::uint32_t addresses = 0;
  std::array<HostAddress, 16> at{};
};

void read_link(const char* path, std::array<char, 32>& to) {
  if (readlink(path, to.data(), to.size() - 1) < 0) to[0] = 0;  // no /proc: hosts are distinguished only by the machine
}

Introduction introduction() {
  Introduction me;
  host_name().copy(me.name.data(), me.name.size() - 1);
  machine_id().copy(me.machine.data(), me.machine.size() - 1);
  read_link("/proc/self/ns/mnt", me.mounts);
  read_link("/proc/self/ns/pid", me.processes);
  return me;
}

Meeting meeting_at(const HostListener& listener) {
  Meeting out;
  std::random_device random;
  out.token = (std::uint64_t{random()} << 32U) | random();
  const auto addresses = listener.addresses();
  out.addresses = static_cast<std::uint32_t>(std::min(addresses.size(), out.at.size()));
  std::copy_n(addresses.begin(), out.addresses, out.at.begin());
  return out;
}

std::string text_from(const std::vector<std::byte>& bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// The job as its ranks introduced themselves.
struct Hosts {
  std::vector<std::vector<int>> ranks{};  // by host, in order; host 0 is rank 0's
  std::vector<std::string> names{};
  std::size_t mine = 0, slot = 0;  // this rank's host, its position there
  const std::vector<int>& here() const { return ranks[mine]; }
};

Hosts hosts_of(const std::vector<Introduction>& all, int rank) {
  Hosts out;
  std::vector<std::size_t> first;
  for (std::size_t r = 0; r < all.size(); r++) {
    std::size_t h = 0;
    while (h < first.size() && !all[first[h]].same_host(all[r])) h++;
    if (h == first.size()) {
      first.push_back(r);
      out.ranks.emplace_back();
      out.names.emplace_back(all[r].name.data());
    }
    if (static_cast<int>(r) == rank) {
      out.mine = h;
      out.slot = out.ranks[h].size();
    }
    out.ranks[h].push_back(static_cast<int>(r));
  }
  return out;
}

// One file per host, a slot for each of its ranks.
class HostFile {
 public:
  explicit HostFile(bool first) {
    if (!first) return;
    const char* const named = std::getenv("TMPDIR");
    for (const char* base : {named, "/tmp"}) {
      if (base == nullptr || *base == 0 || !directory_.empty()) continue;
      std::string name = std::string(base) + "/motley-XXXXXX";
      if (mkdtemp(name.data()) != nullptr) directory_ = name;
    }
  }
  ~HostFile() {
    std::error_code ignored;
    if (!directory_.empty()) std::filesystem::remove_all(directory_, ignored);
  }
  HostFile(const HostFile&) = delete;
  HostFile& operator=(const HostFile&) = delete;
  std::string path() const { return directory_.empty() ? "" : (directory_ / "records").string(); }

 private:
  std::filesystem::path directory_{};
};

off_t slot_offset(std::size_t slot) {
  return static_cast<off_t>(slot * sizeof(Record));
}

// Collective. Returns why this job has no records, or nothing.
std::string make_record(Transport& transport, const Hosts& hosts, OnWatch& watched, std::string& file) {
  const HostFile made(hosts.slot == 0);
  std::string why;
  auto write = [&](const std::string& path) {
    if (path.empty()) {
      why = "no directory for records can be made in TMPDIR or /tmp";
      return;
    }
    try {
      watched.record = std::make_unique<RecordWriter>(RecordPlace{path, slot_offset(hosts.slot)}, transport.rank(), "");
    } catch (const Error& e) {
      why = e.what();
      return;
    }
    // Opened again by this name, also when the file no longer has a name.
    const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
    if (fd < 0) why = path + ": " + std::strerror(errno);
    file = "/proc/self/fd/" + std::to_string(fd);
  };
  if (hosts.slot == 0) write(made.path());
  const std::string mine = made.path();
  const auto paths = transport.gather_all(std::as_bytes(std::span(mine)));
  if (hosts.slot > 0) write(text_from(at(paths, hosts.here()[0])));
  if (watched.record) watched.record->ready();
  const Verdict worst = agree(transport, why.empty() ? 0 : 1, why);
  if (worst.status != 0) watched.record.reset();
  return worst.text;
}

// Collective: by host, whether rank 0 and the host's first rank are linked; and this rank's ends of these links.
std::vector<bool> link_hosts(Transport& transport, const Hosts& hosts, std::vector<FarHost>& far) {
  const std::size_t count = hosts.ranks.size();
  if (count == 1) return {true};  // no port is opened
  std::unique_ptr<HostListener> listener;
  Meeting zero;
  if (transport.rank() == 0) {
    listener = std::make_unique<HostListener>();
    zero = meeting_at(*listener);
  }
  const auto its = std::as_bytes(std::span(&zero, 1));
  std::memcpy(&zero, at(transport.gather_all(transport.rank() == 0 ? its : its.first(0)), 0).data(), sizeof zero);
  const double patience = std::min(kLinkPatienceSeconds, deadline_seconds() / 3);  // the others wait in this time
  std::vector<HostLink> links;                                                     // rank 0: by host
  std::vector<std::byte> mine;
  if (listener != nullptr) {
    links = listener->accept(count, zero.token, patience);
  } else if (hosts.mine > 0 && hosts.slot == 0) {
    const std::span<const HostAddress> addresses(zero.at.data(), zero.addresses);
    links.push_back(reach(addresses, static_cast<std::uint32_t>(hosts.mine), zero.token, patience));
  }
  for (const HostLink& link : links) mine.push_back(static_cast<std::byte>(link.open()));
  const auto all = transport.gather_all(mine);
  std::vector<bool> linked(count, true);
  for (std::size_t h = 1; h < count; h++) {
    linked[h] = all[0].at(h) != std::byte{0} && at(all, hosts.ranks[h][0]).at(0) != std::byte{0};
    if (linked[h] && listener != nullptr)
      far.push_back({hosts.ranks[h][0], static_cast<int>(hosts.ranks[h].size()), std::move(links[h])});
    if (linked[h] && hosts.mine == h && hosts.slot == 0)
      far.push_back({0, static_cast<int>(hosts.ranks[0].size()), std::move(links[0])});
  }
  return linked;
}

// Where this rank's host has its ranks' records.
RecordPlace place_of(const Hosts& hosts, std::size_t slot, const Start& start, const std::string& file) {
  if (start.launched) return {record_path(start.records, hosts.here()[slot])};
  return {file, slot_offset(slot)};
}

std::unique_ptr<HostWatch> host_watch(const Hosts& hosts, const std::vector<bool>& linked, std::vector<FarHost> far,
                                      const Start& start, const Limits& limits, const std::string& file, int ranks) {
  const std::vector<int>& here = hosts.here();
  std::vector<WatchedRank> next, all;
  for (std::size_t i = 0; i < here.size(); i++) {
    const std::size_t slot = (hosts.slot + 1 + i) % here.size();
    const WatchedRank rank{here[slot], place_of(hosts, slot, start, file)};
    if (slot != hosts.slot) next.push_back(rank);
    all.push_back(rank);
  }
  std::unique_ptr<Watch> watch;
  if (hosts.slot == 0) {
    for (std::size_t h = 0; h < hosts.ranks.size(); h++) {
      if (h == hosts.mine || !linked[h] || !linked[hosts.mine]) continue;
      for (const int rank : hosts.ranks[h])
        if (hosts.mine == 0 || rank == 0) all.push_back({rank});
    }
    watch = std::make_unique<Watch>(std::move(all), ranks, limits);
  }
  return std::make_unique<HostWatch>(HostWatch::Options{.rank = here[hosts.slot],
                                                        .host = static_cast<std::uint32_t>(hosts.mine),
                                                        .death_seconds = start.launched ? kLauncherSeconds : 0},
                                     Successor(std::move(next), limits), std::move(watch), std::move(far));
}

std::vector<bool> sight_of(const Hosts& hosts, const std::vector<bool>& linked, int ranks) {
  if (std::find(linked.begin(), linked.end(), false) == linked.end()) return {};
  std::vector<bool> out(static_cast<std::size_t>(ranks), true);
  for (std::size_t h = 0; h < hosts.ranks.size(); h++)
    for (const int rank : hosts.ranks[h]) at(out, rank) = h == hosts.mine || (linked[h] && linked[hosts.mine]);
  return out;
}

void say_note(const std::string& text) {
  if (std::fputs(("motley: note: " + text + "\n").c_str(), stderr) < 0) return;  // nothing reads stderr
}

}  // namespace

std::string unheard_note(const std::vector<std::vector<int>>& hosts, const std::vector<bool>& linked,
                         const std::vector<std::string>& names, double hung_seconds) {
  std::string text;
  for (std::size_t h = 0; h < hosts.size(); h++) {
    if (linked[h]) continue;
    std::string ranks;
    for (const int rank : hosts[h]) ranks += (ranks.empty() ? "" : ", ") + std::to_string(rank);
    text += (text.empty() ? "" : ", ") + ("host " + names[h] + " (ranks " + ranks + ")");
  }
  if (text.empty()) return "";
  return "rank 0 cannot be reached over TCP by " + text +
         ", so no rank can see whether a rank there hangs; a wait between hosts ends the job after " +
         std::to_string(std::lround(hung_seconds)) +
         " s, even if the other rank is computing: open TCP between the hosts, or set MOTLEY_HUNG_SECONDS above the longest "
         "computation";
}

void meet_hosts(Transport& transport, const Start& start, const Limits& limits, OnWatch& watched) {
  const Introduction me = introduction();
  const auto heard = transport.gather_all(std::as_bytes(std::span(&me, 1)));
  std::vector<Introduction> all(heard.size());
  for (std::size_t r = 0; r < heard.size(); r++) std::memcpy(&all[r], heard[r].data(), sizeof(Introduction));
  const Hosts hosts = hosts_of(all, transport.rank());
  std::string file;
  if (!start.launched) {
    if (const std::string why = make_record(transport, hosts, watched, file); !why.empty()) {
      if (transport.rank() == 0)
        say_note("the ranks cannot monitor each other's heartbeat (" + why + "); a wait of " +
                 std::to_string(std::lround(limits.hung_seconds)) + " s ends the job (MOTLEY_HUNG_SECONDS)");
      return;
    }
    watched.heartbeat = std::make_unique<Heartbeat>(*watched.record, limits, Heartbeat::Voice::speaks);
  }
  std::vector<FarHost> far;
  const std::vector<bool> linked = link_hosts(transport, hosts, far);
  watched.record->in_sight(sight_of(hosts, linked, transport.size()));
  if (const std::string note = unheard_note(hosts.ranks, linked, hosts.names, limits.hung_seconds);
      transport.rank() == 0 && !note.empty())
    say_note(note);
  watched.heartbeat->watch(host_watch(hosts, linked, std::move(far), start, limits, file, transport.size()));
}

}  // namespace motley
