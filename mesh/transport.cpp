// SPDX-License-Identifier: Apache-2.0
// The wait loop, and agreement over any transport.
#include <motley/transport.h>
#include <sched.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstring>
#include <mutex>
#include <thread>

#include "base/host.h"
#include "mesh/backoff.h"
#include "mesh/control.h"

namespace motley {

namespace {

using Ticket = Transport::Ticket;

constexpr double kDeadlineSeconds = 30;     // without progress (DESIGN: 30 s)
std::atomic<double> g_deadline_seconds{0};  // 0: not yet read from the environment

constexpr double kLongGapSeconds = 0.25;
constexpr double kTellSeconds = 0.05;  // shorter waits are not reported to the observer

std::int64_t now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

void relax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

std::string late(const Transport& t, int from, const std::string& what, double seconds) {
  const std::string whom = from < 0 ? "for the other ranks" : "for rank " + std::to_string(from);
  return "rank " + std::to_string(t.rank()) + " has waited " + std::to_string(static_cast<int>(std::lround(seconds))) + " s " +
         whom + " in \"" + what +
         "\", and no data has moved; if a rank computes for longer than this, set MOTLEY_HUNG_SECONDS above that time";
}

// Removes the finished tickets from the list; returns whether there were any, or parts of a message. all: tests each of them; last:
// from the back to the first unfinished one, since one test lets every message progress, and over TCP takes about one microsecond
// (bench/exchange between two hosts, 1 KiB: 9 us with one test a round, 10 with two).
enum class Look : std::uint8_t { all, last };
bool sweep(Transport& transport, std::vector<Ticket>& open, Look look) {
  const std::size_t before = open.size();
  const std::uint64_t parts = transport.parts();
  if (look == Look::all)
    std::erase_if(open, [&](Ticket t) { return transport.test(t); });
  else
    while (!open.empty() && transport.test(open.back())) open.pop_back();
  return open.size() != before || transport.parts() != parts;
}

}  // namespace

void Backoff::pause() {
  // On an uncrowded rank a yielded core would stay idle: spin ~50 us, then yield; sleep only where latency no longer matters.
  const std::uint64_t spins = crowded_ ? 20 : 500, yields = crowded_ ? 200 : 100000;
  polls_++;
  if (polls_ <= spins)
    relax();
  else if (polls_ <= spins + yields)
    sched_yield();
  else {
    sleeping_ = true;
    std::this_thread::sleep_for(std::chrono::microseconds(20));
  }
}

void Backoff::restart() {
  polls_ = 0;
  sleeping_ = false;
}

double Backoff::seconds() {
  const std::int64_t now = now_ns();
  if (last_ns_ != 0) seconds_ += std::min(kLongGapSeconds, 1e-9 * static_cast<double>(now - last_ns_));
  last_ns_ = now;
  return seconds_;
}

void set_deadline_seconds(double seconds) {
  if (!(seconds >= 0) || !std::isfinite(seconds))
    throw UserError("a deadline of " + std::to_string(seconds) + " seconds; expected a number of at least 0");
  g_deadline_seconds = seconds;
}
double deadline_seconds() {
  if (g_deadline_seconds == 0) g_deadline_seconds = seconds_of_environment("MOTLEY_HUNG_SECONDS", kDeadlineSeconds);
  return g_deadline_seconds;
}

void Transport::leak_kept() {
  static std::mutex mutex;
  static auto* const leaked = new std::vector<std::shared_ptr<const void>>;
  const std::lock_guard lock(mutex);
  leaked->insert(leaked->end(), kept_.begin(), kept_.end());
}

void wait(Transport& transport, std::span<const Ticket> tickets, const std::string& what, const std::function<bool()>& also) {
  thread_local std::vector<Ticket> open;  // unfinished tickets, the first at the back; kept, so that a wait allocates nothing
  open.assign(tickets.rbegin(), tickets.rend());
  bool device_busy = static_cast<bool>(also);
  WaitObserver* const observer = transport.observer();
  const double deadline = deadline_seconds();
  Backoff backoff(transport.crowded());
  double moved_at = 0;
  bool news = true, moved = sweep(transport, open, Look::last);
  for (;; moved = sweep(transport, open, backoff.due() ? Look::all : Look::last)) {
    if (device_busy && also()) {
      device_busy = false;
      moved = true;
    }
    if (open.empty() && !device_busy) break;
    if (moved) {
      backoff.restart();
      news = true;
    }
    backoff.pause();
    if (!moved && !backoff.due()) continue;
    const double now = backoff.seconds();
    if (moved) moved_at = now;
    if (observer != nullptr) {
      // While its device works a rank computes; only waiting for other ranks is reported.
      if (news && now > kTellSeconds && !device_busy) observer->waiting(what, transport.peer(open.back()));
      if (now > kTellSeconds) news = false;
    }
    if (observer != nullptr && (open.empty() || observer->sees(transport.peer(open.back())))) continue;
    if (now - moved_at > deadline) {
      throw Error(Exit::hung, open.empty() ? "rank " + std::to_string(transport.rank()) + "'s device has not finished \"" + what +
                                                 "\" after " + std::to_string(std::lround(now - moved_at)) + " s"
                                           : late(transport, transport.peer(open.back()), what, now - moved_at));
    }
  }
  if (observer != nullptr) observer->done(transport.bytes_received());
}

Verdict agree(Transport& transport, int status, const std::string& text) {
  std::vector<std::byte> mine(sizeof status + text.size());
  std::memcpy(mine.data(), &status, sizeof status);
  if (!text.empty()) std::memcpy(mine.data() + sizeof status, text.data(), text.size());
  const auto all = transport.gather_all(mine);
  Verdict worst;
  for (std::size_t r = 0; r < all.size(); r++) {
    int its = 0;
    check(all[r].size() >= sizeof its, "all ranks are in the same agree()");
    std::memcpy(&its, all[r].data(), sizeof its);
    if (worst.rank >= 0 && its <= worst.status) continue;
    worst = {its, static_cast<int>(r),
             std::string(reinterpret_cast<const char*>(all[r].data()) + sizeof its, all[r].size() - sizeof its)};
  }
  return worst;
}

}  // namespace motley
