// SPDX-License-Identifier: Apache-2.0
#include "run/host_watch.h"

#include <motley/error.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

namespace motley {

namespace {

Hung died(const Record& record) {
  return {record.rank, who(record) + " died in phase '" + record.phase + "'"};
}

}  // namespace

Successor::Successor(std::vector<WatchedRank> ranks, Limits limits) : limits_(limits) {
  for (WatchedRank& rank : ranks) ranks_.emplace_back(std::move(rank));
}

Successor::Successor(Successor&& other) noexcept
    : ranks_(std::move(other.ranks_)),
      limits_(other.limits_),
      at_(other.at_),
      process_(std::exchange(other.process_, -1)),
      died_(other.died_),
      gone_(other.gone_),
      reads_(other.reads_) {}

void Successor::release() {
  if (process_ >= 0) ::close(process_);
  process_ = -1;
}

void Successor::hold() {
  if (process_ >= 0 || died_) return;
  process_ = static_cast<int>(syscall(SYS_pidfd_open, ranks_[at_].now->pid, 0));
  gone_ = process_ < 0 && errno == ESRCH;
}

std::optional<Hung> Successor::beat() {
  for (; at_ < ranks_.size(); at_++) {
    Seen& rank = ranks_[at_];
    rank.poll();
    reads_++;
    if (auto hung = silence(rank, limits_)) return hung;
    if (!rank.now || rank.runs()) break;
    release();
    died_ = false;
  }
  if (at_ < ranks_.size() && ranks_[at_].now) hold();
  return std::nullopt;
}

std::optional<Hung> Successor::process_ended() {
  release();
  gone_ = false;
  Seen& rank = ranks_[at_];
  rank.poll();
  reads_++;
  if (!rank.runs()) return std::nullopt;
  died_ = true;
  return died(*rank.now);
}

bool Successor::quiet() const {
  return at_ >= ranks_.size() || is_beating(ranks_[at_], limits_);
}

HostWatch::HostWatch(Options options, Successor successor, std::unique_ptr<Watch> watch, std::vector<FarHost> far)
    : options_(options), successor_(std::move(successor)), watch_(std::move(watch)), far_(std::move(far)) {}

std::optional<Hung> HostWatch::dies(std::optional<Hung> who) {
  if (!who) return std::nullopt;
  if (options_.death_seconds <= 0) return who;
  if (!dead_) dead_ = std::move(who);
  return std::nullopt;
}

void HostWatch::send() {
  if (far_.empty()) return;
  std::vector<Record> records = watch_->of_this_host();
  if (options_.host == 0) std::erase_if(records, [this](const Record& r) { return r.rank != options_.rank; });
  for (FarHost& other : far_) other.link.send(options_.host, records);
}

std::optional<Hung> HostWatch::beat() {
  if (auto hung = successor_.beat()) return hung;
  if (successor_.gone())
    if (auto dead = dies(successor_.process_ended())) return dead;
  if (watch_)
    if (auto hung = watch_->beat()) return hung;
  send();
  if (!dead_ || ++dead_polls_ < beats_in(options_.death_seconds)) return std::nullopt;
  return dead_;
}

void HostWatch::add_files(std::vector<pollfd>& to) const {
  if (successor_.process() >= 0) to.push_back({successor_.process(), POLLIN, 0});
  for (const FarHost& other : far_)
    if (other.link.open()) to.push_back({other.link.fd(), POLLIN, 0});
}

std::optional<Hung> HostWatch::event() {
  pollfd process{successor_.process(), POLLIN, 0};
  if (process.fd >= 0 && ::poll(&process, 1, 0) == 1)
    if (auto dead = dies(successor_.process_ended())) return dead;
  for (FarHost& other : far_) {
    if (!other.link.open()) continue;
    for (const Record& record : other.link.receive()) watch_->hear(record);
    const auto& now = watch_->record(other.rank);
    if (now && now->code == static_cast<int>(Exit::hung)) return Hung{now->blames, now->reason};
    if (other.link.open() || !now || now->code != -1 || now->agreed != -1) continue;
    Hung hung = died(*now);
    if (other.ranks > 1) hung.text += ", or was ended because another rank of its host died";
    if (auto dead = dies(std::move(hung))) return dead;
  }
  return std::nullopt;
}

std::optional<std::string> HostWatch::slow() {
  return watch_ ? watch_->slow() : std::nullopt;
}

void HostWatch::last_word() {
  if (far_.empty()) return;
  for (FarHost& other : far_) static_cast<void>(other.link.receive());  // a connection with unread bytes is reset when it closes
  watch_->poll();
  send();
}

}  // namespace motley
