// SPDX-License-Identifier: Apache-2.0
#include "app/reach_hosts.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <motley/error.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <map>
#include <string>

#include "app/launch.h"
#include "base/at.h"
#include "base/host.h"

extern char** environ;

namespace motley {

namespace {

constexpr auto kHostPatience = std::chrono::seconds(10);

std::string variable(const char* name, const char* otherwise) {
  const char* value = std::getenv(name);
  return value == nullptr || *value == '\0' ? otherwise : value;
}

std::string address_text(const sockaddr* address) {
  std::array<char, INET6_ADDRSTRLEN> text{};
  const void* bits = nullptr;
  if (address != nullptr && address->sa_family == AF_INET) bits = &reinterpret_cast<const sockaddr_in*>(address)->sin_addr;
  if (address != nullptr && address->sa_family == AF_INET6) bits = &reinterpret_cast<const sockaddr_in6*>(address)->sin6_addr;
  return bits == nullptr || inet_ntop(address->sa_family, bits, text.data(), text.size()) == nullptr ? "" : text.data();
}

// Whether it is this machine, by its name or one of its addresses: mpiexec starts ranks there itself.
bool is_here(const std::string& host) {
  bool here = host == "localhost" || host == host_name();
  ifaddrs* all = nullptr;
  if (getifaddrs(&all) != 0) return here;
  for (const ifaddrs* one = all; one != nullptr; one = one->ifa_next) here = here || host == address_text(one->ifa_addr);
  freeifaddrs(all);
  return here;
}

// One ssh to one host.
struct Try {
  std::vector<int> ranks{};
  std::string said{};
  pid_t process = -1;
  Handle errors{};
  bool ended = false, good = false;
};

void start(Try& one, const std::string& program, const std::string& host) {
  std::array<int, 2> pipe{};
  if (pipe2(pipe.data(), O_CLOEXEC | O_NONBLOCK) != 0) throw io_error("pipe");
  one.errors = Handle(pipe[0]);
  const Handle to(pipe[1]);
  std::array<std::string, 6> words{program, "-x", "-oBatchMode=yes", "-oConnectTimeout=8", host, "true"};
  std::array<char*, 7> argv{};
  for (std::size_t i = 0; i < words.size(); i++) argv[i] = words[i].data();
  posix_spawn_file_actions_t files;
  posix_spawn_file_actions_init(&files);
  posix_spawn_file_actions_addopen(&files, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&files, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
  posix_spawn_file_actions_adddup2(&files, to.get(), STDERR_FILENO);
  const int failed = posix_spawnp(&one.process, program.c_str(), &files, nullptr, argv.data(), environ);
  posix_spawn_file_actions_destroy(&files);
  if (failed == 0) return;
  one.ended = true;
  one.said = program + ": " + std::strerror(failed) + "; install it: apt-get install openssh-client";
}

void read_errors(Try& one) {
  std::array<char, 512> text{};
  for (ssize_t n = 0; (n = read(one.errors.get(), text.data(), text.size())) > 0;)
    if (one.said.size() < 1000) one.said.append(text.data(), static_cast<std::size_t>(n));
}

// True: the try has ended.
bool poll(Try& one) {
  if (one.ended) return true;
  read_errors(one);
  int status = 0;
  if (waitpid(one.process, &status, WNOHANG) != one.process) return false;
  read_errors(one);
  one.good = WIFEXITED(status) && WEXITSTATUS(status) == 0;
  return one.ended = true;
}

void give_up(Try& one, const char* why) {
  kill(one.process, SIGKILL);
  waitpid(one.process, nullptr, 0);
  one.ended = true;
  if (one.said.empty()) one.said = why;
}

}  // namespace

std::vector<Unreached> unreached_hosts(const std::vector<Device>& devices) {
  if (variable("HYDRA_LAUNCHER", "ssh") != "ssh") return {};
  std::map<std::string, Try> tries;
  for (std::size_t r = 0; r < devices.size(); r++)
    if (!devices[r].host.empty() && !is_here(devices[r].host)) tries[devices[r].host].ranks.push_back(static_cast<int>(r));
  const std::string program = variable("HYDRA_LAUNCHER_EXEC", "ssh");
  for (auto& [host, one] : tries) start(one, program, host);
  const auto until = std::chrono::steady_clock::now() + kHostPatience;
  auto all_ended = [&] {
    bool all = true;
    for (auto& [host, one] : tries) all = poll(one) && all;
    return all;
  };
  bool all = false, late = false;
  while (!(all = all_ended()) && !(late = std::chrono::steady_clock::now() > until) && signals_so_far() == 0)
    ::poll(nullptr, 0, 20);
  for (auto& [host, one] : tries)
    if (!one.ended) give_up(one, "no answer within 10 s");
  std::vector<Unreached> out;
  if (!all && !late) return out;  // the caller that was stopped by the signal reports that
  for (auto& [host, one] : tries) {
    if (one.good) continue;
    while (!one.said.empty() && one.said.back() <= ' ') one.said.pop_back();
    std::string text = "host \"" + host + "\" of ";
    for (const int r : one.ranks)
      text += (r == one.ranks.front() ? "rank " : ", rank ") + std::to_string(r) + " (" + at(devices, r).name + ")";
    out.push_back({one.ranks, text + " cannot be reached: " + (one.said.empty() ? program + " failed" : one.said)});
  }
  return out;
}

void reach_hosts(const std::vector<Device>& devices) {
  std::string text;
  for (const Unreached& one : unreached_hosts(devices)) text += one.text + "\n";
  if (!text.empty())
    throw DeviceError(
        text +
        "ranks on other hosts are started by ssh without a password, this program at the same path there; try: ssh HOST true");
}

}  // namespace motley
