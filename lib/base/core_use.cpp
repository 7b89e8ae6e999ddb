// SPDX-License-Identifier: Apache-2.0
#include "base/core_use.h"

#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <mutex>
#include <set>
#include <string>
#include <thread>

namespace motley {
namespace {

// Reads a file of /proc, whose size is not known before; empty if it cannot be read.
std::string text_in(const std::filesystem::path& file) {
  std::ifstream in(file);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

// The whole numbers of a line, separated by blanks.
std::vector<double> numbers(std::string_view line) {
  std::vector<double> out;
  for (const char *at = line.data(), *end = at + line.size(); at < end;) {
    unsigned long long value = 0;
    const auto [next, error] = std::from_chars(at, end, value);
    if (error == std::errc{}) out.push_back(static_cast<double>(value));
    at = error == std::errc{} ? next : at + 1;
  }
  return out;
}

double ticks_per_second() {
  return static_cast<double>(sysconf(_SC_CLK_TCK));
}

double seconds_of(clockid_t clock) {
  timespec now{};
  clock_gettime(clock, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

}  // namespace

std::optional<double> busy_core_seconds(std::string_view proc_stat, const std::vector<int>& cores, double ticks_per_second) {
  double ticks = 0;
  for (const int core : cores) {
    const std::string name = "\ncpu" + std::to_string(core) + ' ';
    const std::size_t line = proc_stat.find(name);
    if (line == std::string_view::npos) return std::nullopt;
    const std::size_t first = line + name.size();
    // user nice system idle iowait irq softirq steal guest guest_nice; guests are in user and nice already
    const std::vector<double> of = numbers(proc_stat.substr(first, proc_stat.find('\n', first) - first));
    if (of.size() < 8) return std::nullopt;
    ticks += of[0] + of[1] + of[2] + of[5] + of[6] + of[7];
  }
  return ticks / ticks_per_second;
}

std::optional<double> waited_seconds(std::string_view schedstat) {
  const std::vector<double> of = numbers(schedstat);  // seconds on a core, seconds waiting, number of turns
  return of.size() < 2 ? std::nullopt : std::optional(of[1] * 1e-9);
}

namespace {

struct OtherUse {
  std::mutex mutex{};
  std::set<std::string> threads{};  // their numbers
  double ended_seconds = 0;         // time on a core of threads that have ended
};
OtherUse& beside() {
  static OtherUse all;
  return all;
}

}  // namespace

ThreadBeside::ThreadBeside() {
  const std::scoped_lock lock(beside().mutex);
  beside().threads.insert(std::to_string(gettid()));
}

ThreadBeside::~ThreadBeside() {
  const std::scoped_lock lock(beside().mutex);
  beside().threads.erase(std::to_string(gettid()));
  beside().ended_seconds += seconds_of(CLOCK_THREAD_CPUTIME_ID);
}

CoreUse::CoreUse(std::vector<int> cores) : cores_(std::move(cores)), start_(read()) {}

CoreUse::Reading CoreUse::read() const {
  Reading now;
  now.busy = busy_core_seconds(text_in("/proc/stat"), cores_, ticks_per_second());
  now.wall = seconds_of(CLOCK_MONOTONIC);
  std::error_code gone;  // a thread may end while the folder is read
  const std::scoped_lock lock(beside().mutex);
  now.own = seconds_of(CLOCK_PROCESS_CPUTIME_ID) - beside().ended_seconds;
  for (std::filesystem::directory_iterator task("/proc/self/task", gone), end; !gone && task != end; task.increment(gone)) {
    const std::string schedstat = text_in(task->path() / "schedstat");
    if (!beside().threads.contains(task->path().filename().string()))
      now.waited += waited_seconds(schedstat).value_or(0);
    else if (const std::vector<double> of = numbers(schedstat); !of.empty())
      now.own -= of[0] * 1e-9;
  }
  return now;
}

std::optional<double> CoreUse::others_share() const {
  const Reading now = read();
  const double all = (now.wall - start_.wall) * static_cast<double>(cores_.size());
  if (!now.busy || !start_.busy || all <= 0) return std::nullopt;
  const double unresolved = 2 * static_cast<double>(cores_.size()) / ticks_per_second();
  const double others = (*now.busy - *start_.busy) - (now.own - start_.own) - unresolved, waited = now.waited - start_.waited;
  return std::clamp(std::max(others, waited) / all, 0.0, 1.0);
}

bool others_use(const std::vector<int>& cores) {
  const CoreUse use(cores);
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  return use.others_share().value_or(0) > kDisturbed;
}

}  // namespace motley
