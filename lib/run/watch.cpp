// SPDX-License-Identifier: Apache-2.0
#include "run/watch.h"

#include <motley/error.h>
#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdlib>

namespace motley {

namespace {

double seconds_from(const char* name, double usual) {
  const char* text = std::getenv(name);
  if (text == nullptr) return usual;
  char* end = nullptr;
  const double value = std::strtod(text, &end);
  if (end == text || *end != 0 || !(value > 0) || !std::isfinite(value))
    throw UserError(std::string(name) + "=" + text + " in the environment: a number of seconds above 0 belongs here");
  return value;
}

int looks(double seconds) {
  return std::max(1, static_cast<int>(std::lround(std::min(seconds, 1e6) / kBeatSeconds)));
}

std::string seconds_text(double seconds) {
  return std::to_string(std::lround(seconds)) + " s";
}

std::string waits_for(const Record& r) {
  return "rank " + std::to_string(r.rank) + " waits for " +
         (r.waits_for < 0 ? std::string("the other ranks") : "rank " + std::to_string(r.waits_for)) + " in \"" + r.what + "\"";
}

bool runs(const std::optional<Record>& r) {
  return r && r->code == -1;
}

// stderr, whole, as far as it goes.
void say(const std::string& line) {
  if (::write(STDERR_FILENO, line.data(), line.size()) < 0) return;
}

}  // namespace

Limits Limits::from_environment() {
  Limits limits;
  limits.hung_seconds = seconds_from("MOTLEY_HUNG_SECONDS", limits.hung_seconds);
  limits.start_seconds = seconds_from("MOTLEY_START_SECONDS", limits.start_seconds);
  return limits;
}

Watch::Watch(const std::filesystem::path& directory, int ranks, Limits limits) : limits_(limits) {
  for (int r = 0; r < ranks; r++) {
    ranks_.push_back({.reader = RecordReader(record_path(directory, r))});
    look(ranks_.back());
  }
}

void Watch::look(Seen& rank) {
  if (auto record = rank.reader.read()) rank.now = record;
  if (!runs(rank.now)) {
    rank.silent = rank.idle = 0;
    return;
  }
  const Record& r = *rank.now;
  const bool moved = r.exchange != rank.exchange || r.moved != rank.moved || r.bytes != rank.bytes;
  rank.silent = r.beat != rank.beat ? 0 : rank.silent + 1;
  rank.idle = moved || r.waiting == 0 ? 0 : rank.idle + 1;
  rank.beat = r.beat;
  rank.exchange = r.exchange;
  rank.moved = r.moved;
  rank.bytes = r.bytes;
}

std::optional<Hung> Watch::beat() {
  looks_++;
  for (Seen& rank : ranks_) look(rank);
  for (const Seen& rank : ranks_)
    if (rank.silent >= looks(limits_.hung_seconds))
      return Hung{rank.now->rank, who(*rank.now) + " hung in phase '" + rank.now->phase + "': no heartbeat for " +
                                      seconds_text(limits_.hung_seconds)};
  if (auto late = not_ready()) return late;
  return deadlock();
}

bool Watch::all_ready() const {
  return std::all_of(ranks_.begin(), ranks_.end(), [](const Seen& s) { return s.now && s.now->ready != 0; });
}

std::optional<Hung> Watch::not_ready() const {
  if (looks_ < looks(limits_.start_seconds)) return std::nullopt;
  std::string names;
  for (std::size_t r = 0; r < ranks_.size(); r++) {
    const auto& now = ranks_[r].now;
    if (now && (now->ready != 0 || now->code != -1)) continue;
    names += (names.empty() ? "" : ", ") + (now ? who(*now) : "rank " + std::to_string(r));
  }
  if (names.empty()) return std::nullopt;
  return Hung{-1, "not ready " + seconds_text(limits_.start_seconds) + " after the start: " + names};
}

std::optional<Hung> Watch::deadlock() const {
  std::string waits;
  bool all_left = true;
  for (const Seen& rank : ranks_) {
    if (!rank.now) return std::nullopt;
    // A rank that has seen it first has just left because of it.
    const bool has_left = rank.now->code == static_cast<int>(Exit::hung) && rank.now->waiting != 0;
    if (!runs(rank.now) && !has_left) continue;
    if (runs(rank.now) && rank.idle < looks(limits_.hung_seconds)) return std::nullopt;
    all_left = all_left && has_left;
    waits += (waits.empty() ? "" : "; ") + waits_for(*rank.now);
  }
  if (all_left) return std::nullopt;
  return Hung{-1, "every rank waits and nothing has moved for " + seconds_text(limits_.hung_seconds) + ": " + waits};
}

std::optional<std::string> Watch::slow(int rank) {
  Seen& me = ranks_[static_cast<std::size_t>(rank)];
  if (me.idle == 0) me.told = false;
  if (me.told || me.idle < looks(limits_.hung_seconds) || me.now->waits_for < 0) return std::nullopt;
  const auto& other = ranks_[static_cast<std::size_t>(me.now->waits_for)].now;
  if (!runs(other) || other->waiting != 0) return std::nullopt;
  me.told = true;
  return waits_for(*me.now) + " since " + seconds_text(limits_.hung_seconds) + ": " + who(*other) + " computes in phase '" +
         other->phase + "'";
}

Heartbeat::Heartbeat(RecordWriter& record, Watch watch, int rank, Voice voice)
    : record_(record), watch_(std::move(watch)), rank_(rank), voice_(voice) {
  // Signals are the main thread's.
  sigset_t all, before;
  sigfillset(&all);
  if (pthread_sigmask(SIG_SETMASK, &all, &before) != 0) throw InternalError("pthread_sigmask failed");
  thread_ = std::thread([this] { run(); });
  if (pthread_sigmask(SIG_SETMASK, &before, nullptr) != 0) throw InternalError("pthread_sigmask failed");
}

Heartbeat::~Heartbeat() {
  {
    const std::lock_guard lock(mutex_);
    over_ = true;
  }
  wake_.notify_all();
  thread_.join();
}

void Heartbeat::run() {
  std::unique_lock lock(mutex_);
  while (!wake_.wait_for(lock, std::chrono::duration<double>(kBeatSeconds), [this] { return over_; })) {
    record_.beat();
    if (auto hung = watch_.beat()) {
      record_.ended(static_cast<int>(Exit::hung), hung->text);
      if (voice_ == Voice::speaks) say("motley: " + hung->text + "\n");
      _exit(static_cast<int>(Exit::hung));
    }
    if (auto slow = watch_.slow(rank_)) say("motley: " + *slow + "\n");
  }
}

}  // namespace motley
