// SPDX-License-Identifier: Apache-2.0
#include "app/launch_processes.h"

#include <linux/filter.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <charconv>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <set>
#include <thread>

#include "app/launch.h"

namespace motley {

namespace {

namespace fs = std::filesystem;

// /dev/shm/NAME at the beginning of the text (" (deleted)" may follow), if it belongs to one of these libraries.
void note_segment(const std::string& text, std::set<std::string>& out) {
  for (const char* prefix : {"/dev/shm/ucx_shm_posix_", "/dev/shm/mpich_shar_tmp"})
    if (text.starts_with(prefix)) out.insert(text.substr(0, text.find(' ')));
}

void segments_of(pid_t pid, std::set<std::string>& out) {
  std::error_code error;
  const fs::path process = "/proc/" + std::to_string(pid);
  for (fs::directory_iterator at(process / "fd", error), end; !error && at != end; at.increment(error)) {
    std::error_code unreadable;
    note_segment(fs::read_symlink(at->path(), unreadable).string(), out);
  }
  std::ifstream maps(process / "maps");
  for (std::string line; std::getline(maps, line);)
    if (const std::size_t path = line.find('/'); path != std::string::npos) note_segment(line.substr(path), out);
}

std::vector<pid_t> all_processes() {
  std::vector<pid_t> out;
  std::error_code error;
  for (fs::directory_iterator at("/proc", error), end; !error && at != end; at.increment(error)) {
    const std::string name = at->path().filename();
    pid_t pid = 0;
    const auto [last, bad] = std::from_chars(name.data(), name.data() + name.size(), pid);
    if (bad == std::errc{} && last == name.data() + name.size()) out.push_back(pid);
  }
  return out;
}

// What follows `begin` in the process's environment.
std::optional<std::string> variable_of(pid_t pid, const std::string& begin) {
  std::ifstream environment("/proc/" + std::to_string(pid) + "/environ", std::ios::binary);
  for (std::string entry; std::getline(environment, entry, '\0');)
    if (entry.starts_with(begin)) return entry.substr(begin.size());
  return std::nullopt;
}

std::vector<pid_t> children_of(pid_t pid) {
  const std::string text = std::to_string(pid);
  std::ifstream list("/proc/" + text + "/task/" + text + "/children");
  return {std::istream_iterator<pid_t>(list), {}};
}

void signal_all(const std::vector<pid_t>& processes, int signal) {
  for (const pid_t pid : processes)
    if (kill(pid, signal) != 0) continue;  // already ended
}

}  // namespace

std::vector<pid_t> processes_with(const std::string& variable) {
  std::vector<pid_t> out;
  for (const pid_t pid : all_processes())
    if (pid != getpid() && variable_of(pid, variable) == "") out.push_back(pid);
  return out;
}

std::map<int, pid_t> ranks_below(pid_t mpiexec) {
  std::map<int, pid_t> out;
  for (const pid_t proxy : children_of(mpiexec))
    for (const pid_t pid : children_of(proxy))
      if (const auto rank = variable_of(pid, "PMI_RANK=")) {
        int number = 0;
        if (std::from_chars(rank->data(), rank->data() + rank->size(), number).ec == std::errc{}) out.emplace(number, pid);
      }
  return out;
}

bool end_processes_with(const std::string& variable) {
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(5);
  std::vector<pid_t> left = processes_with(variable);
  for (std::size_t known = left.size() + 1; known != left.size();) {
    known = left.size();
    signal_all(left, SIGSTOP);
    left = processes_with(variable);
  }
  for (; !left.empty() && std::chrono::steady_clock::now() < until; left = processes_with(variable)) {
    signal_all(left, SIGKILL);
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return left.empty();
}

void drop_new_connections(int process, pid_t pid) {
  sock_filter drop_all = BPF_STMT(BPF_RET | BPF_K, 0);  // keeps 0 bytes of every packet
  const sock_fprog filter{1, &drop_all};
  std::error_code failed;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/" + std::to_string(pid) + "/fd", failed)) {
    const std::string target = std::filesystem::read_symlink(entry.path(), failed).string();
    if (failed || !target.starts_with("socket:")) continue;
    const Handle socket(static_cast<int>(syscall(SYS_pidfd_getfd, process, std::stoi(entry.path().filename().string()), 0)));
    int listens = 0;
    socklen_t size = sizeof listens;
    if (!socket || getsockopt(socket.get(), SOL_SOCKET, SO_ACCEPTCONN, &listens, &size) != 0 || listens == 0) continue;
    static_cast<void>(setsockopt(socket.get(), SOL_SOCKET, SO_ATTACH_FILTER, &filter, sizeof filter));
  }
}

void remove_orphan_segments(std::chrono::system_clock::time_point since) {
  std::set<std::string> there, used;
  std::error_code error;
  for (fs::directory_iterator at("/dev/shm", error), end; !error && at != end; at.increment(error))
    note_segment(at->path().string(), there);
  if (there.empty()) return;
  for (const pid_t pid : all_processes()) segments_of(pid, used);
  const auto oldest = std::chrono::system_clock::to_time_t(since);
  for (const std::string& segment : there) {
    struct stat info {};
    if (used.contains(segment) || lstat(segment.c_str(), &info) != 0 || info.st_uid != geteuid() || info.st_mtim.tv_sec < oldest)
      continue;
    fs::remove(segment, error);
  }
}

}  // namespace motley
