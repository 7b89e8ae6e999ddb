// SPDX-License-Identifier: Apache-2.0
#include "run/watch.h"

#include <motley/transport.h>

#include <algorithm>
#include <cmath>

#include "base/host.h"

namespace motley {

namespace {

constexpr double kFarSeconds = 2;      // additional seconds for a rank of another host
constexpr double kBeatingSeconds = 2;  // a rank that has not beaten for so long may be stopped

std::string whole_seconds_text(double seconds) {
  return std::to_string(std::lround(seconds)) + " s";
}

std::string waits_for(const Record& r) {
  return "rank " + std::to_string(r.rank) + " waits for " +
         (r.waits_for < 0 ? std::string("the other ranks") : "rank " + std::to_string(r.waits_for)) + " in \"" + r.what + "\"";
}

std::vector<WatchedRank> files_of(const std::filesystem::path& directory, int ranks) {
  std::vector<WatchedRank> out;
  for (int r = 0; r < ranks; r++) out.push_back({r, RecordPlace{record_path(directory, r)}});
  return out;
}

}  // namespace

Limits Limits::from_environment() {
  Limits limits;
  limits.hung_seconds = deadline_seconds();
  limits.start_seconds = seconds_of_environment("MOTLEY_START_SECONDS", limits.start_seconds);
  limits.orphan_seconds = seconds_of_environment("MOTLEY_ORPHAN_SECONDS", limits.orphan_seconds);
  limits.end_seconds = std::min(limits.end_seconds, limits.hung_seconds);
  return limits;
}

int beats_in(double seconds) {
  return std::max(1, static_cast<int>(std::lround(std::min(seconds, 1e6) / kBeatSeconds)));
}

void Seen::poll() {
  if (!far)
    if (auto record = reader.read()) now = record;
  if (!runs()) {
    silent = idle = 0;
    return;
  }
  const bool is_moved = now->exchange != exchange || now->moved != moved || now->bytes != bytes;
  silent = now->beat != beat ? 0 : silent + 1;
  idle = is_moved || now->waiting == 0 ? 0 : idle + 1;
  beat = now->beat;
  exchange = now->exchange;
  moved = now->moved;
  bytes = now->bytes;
}

bool is_beating(const Seen& rank, const Limits& limits) {
  return rank.silent < beats_in(std::min(kBeatingSeconds, limits.hung_seconds / 4));
}

std::optional<Hung> silence(const Seen& rank, const Limits& limits) {
  if (!rank.now) return std::nullopt;
  if (rank.now->code == static_cast<int>(Exit::hung)) return Hung{rank.now->blames, rank.now->reason, !rank.far};
  if (rank.silent < beats_in(limits.hung_seconds) + (rank.far ? beats_in(kFarSeconds) : 0)) return std::nullopt;
  return Hung{rank.rank, who(*rank.now) + " hung in phase '" + rank.now->phase + "': no heartbeat for " +
                             whole_seconds_text(limits.hung_seconds)};
}

Watch::Watch(std::vector<WatchedRank> ranks, int of, Limits limits) : of_(of), limits_(limits) {
  std::sort(ranks.begin(), ranks.end(), [](const WatchedRank& a, const WatchedRank& b) { return a.rank < b.rank; });
  for (WatchedRank& rank : ranks) ranks_.emplace_back(std::move(rank));
  poll();
}

Watch::Watch(const std::filesystem::path& directory, int ranks, Limits limits) : Watch(files_of(directory, ranks), ranks, limits) {}

Seen* Watch::find(int rank) {
  const auto at = std::lower_bound(ranks_.begin(), ranks_.end(), rank, [](const Seen& s, int r) { return s.rank < r; });
  return at != ranks_.end() && at->rank == rank ? &*at : nullptr;
}

void Watch::hear(const Record& record) {
  if (Seen* seen = find(record.rank); seen != nullptr && seen->far) seen->now = record;
}

const std::optional<Record>& Watch::record(int rank) {
  static const std::optional<Record> nothing;
  const Seen* seen = find(rank);
  return seen == nullptr ? nothing : seen->now;
}

void Watch::poll() {
  for (Seen& rank : ranks_) {
    rank.poll();
    reads_ += rank.far ? 0 : 1;
  }
}

std::optional<Hung> Watch::beat() {
  polls_++;
  poll();
  for (const Seen& rank : ranks_)
    if (auto hung = silence(rank, limits_)) return hung;
  if (!whole()) return std::nullopt;
  if (auto late = not_ready()) return late;
  return deadlock();
}

bool Watch::all_ready() const {
  return std::all_of(ranks_.begin(), ranks_.end(), [](const Seen& s) { return s.now && s.now->ready != 0; });
}

bool Watch::quiet() const {
  return std::all_of(ranks_.begin(), ranks_.end(), [this](const Seen& s) { return is_beating(s, limits_); });
}

std::vector<Record> Watch::of_this_host() const {
  std::vector<Record> out;
  for (const Seen& rank : ranks_)
    if (!rank.far && rank.now) out.push_back(*rank.now);
  return out;
}

std::optional<Hung> Watch::not_ready() const {
  if (polls_ < beats_in(limits_.start_seconds)) return std::nullopt;
  std::string names;
  for (const Seen& rank : ranks_) {
    if (rank.now && (rank.now->ready != 0 || rank.now->code != -1)) continue;
    names += (names.empty() ? "" : ", ") + (rank.now ? who(*rank.now) : "rank " + std::to_string(rank.rank));
  }
  if (names.empty()) return std::nullopt;
  return Hung{-1, "not ready " + whole_seconds_text(limits_.start_seconds) + " after the start: " + names};
}

std::optional<Hung> Watch::deadlock() const {
  std::string waits;
  for (const Seen& rank : ranks_) {
    if (!rank.now) return std::nullopt;
    if (!rank.runs()) continue;
    if (rank.idle < beats_in(limits_.hung_seconds)) return std::nullopt;
    waits += (waits.empty() ? "" : "; ") + waits_for(*rank.now);
  }
  if (waits.empty()) return std::nullopt;
  return Hung{-1, "every rank waits and no data has moved for " + whole_seconds_text(limits_.hung_seconds) + ": " + waits};
}

std::optional<std::string> Watch::slow() {
  for (Seen& rank : ranks_) {
    if (rank.idle == 0) rank.reported = false;
    if (rank.reported || rank.idle < beats_in(limits_.hung_seconds) || rank.now->waits_for < 0) continue;
    const Seen* other = find(rank.now->waits_for);
    if (other == nullptr || !other->runs() || other->now->waiting != 0 || !is_beating(*other, limits_)) continue;
    rank.reported = true;
    return waits_for(*rank.now) + " since " + whole_seconds_text(limits_.hung_seconds) + ": " + who(*other->now) +
           " computes in phase '" + other->now->phase + "'";
  }
  return std::nullopt;
}

}  // namespace motley
