// SPDX-License-Identifier: Apache-2.0
// Detects from the ranks' records that a rank hangs. Time is counted in the watcher's own beats, so that a machine that slept or a
// job that was stopped as a whole does not look hung.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "run/records.h"

namespace motley {

struct Limits {
  double hung_seconds = 30;          // deadline_seconds()
  double start_seconds = 60;         // MOTLEY_START_SECONDS
  double end_seconds = 10;           // in MPI_Finalize, once all have agreed how the job ended; hung_seconds if that is less
  double orphan_seconds = 600;       // MOTLEY_ORPHAN_SECONDS: of a rank whose launcher has ended, until it exits by itself
  static Limits from_environment();  // UserError: not a number above 0
};

int beats_in(double seconds);  // at least 1

// Which rank hangs or has died, and why. rank -1: all of them, or several.
struct Hung {
  int rank = -1;
  std::string text{};
  bool known = false;  // another rank of this host has recorded and printed it (what other hosts print may be lost when they end)
};

// A rank that a watch observes.
struct WatchedRank {
  int rank = 0;
  std::optional<RecordPlace> place{};  // none: on another host, hear() gets its records
};

// One rank's record, followed from poll to poll.
struct Seen {
  explicit Seen(WatchedRank of) : rank(of.rank), far(!of.place), reader(of.place.value_or(RecordPlace{})) {}
  void poll();  // uses a record that is read here, or was received
  bool runs() const { return now && now->code == -1; }
  int rank = 0;
  bool far = false;
  RecordReader reader;
  std::optional<Record> now{};
  std::uint64_t beat = 0, exchange = 0, moved = 0;  // at the last poll
  std::int64_t bytes = 0;
  int silent = 0, idle = 0;  // polls without a beat; polls in which it waited and no message progressed
  bool reported = false;     // as slow
};

bool is_beating(const Seen& rank, const Limits& limits);  // it has ended, or has beaten in the last 2 s
// For a rank that is only checked for beating. A remote one gets 2 s more: its own host notices it first and knows more.
std::optional<Hung> silence(const Seen& rank, const Limits& limits);

class Watch {
 public:
  // `of`: number of ranks of the job. That all ranks wait, or that some are not ready, can be seen only if all of them are watched.
  Watch(std::vector<WatchedRank> ranks, int of, Limits limits);
  Watch(const std::filesystem::path& directory, int ranks, Limits limits);  // all ranks, by the files of one directory
  void hear(const Record& record);
  void poll();
  // One poll of all records, every kBeatSeconds: which rank hangs and why, once one does.
  std::optional<Hung> beat();
  // By the last poll, once per wait: a rank waits for one that computes for very long. That is slow, not hung.
  std::optional<std::string> slow();
  const std::optional<Record>& record(int rank);
  bool all_ready() const;
  bool quiet() const;
  std::vector<Record> of_this_host() const;
  std::uint64_t reads() const { return reads_; }  // number of record reads so far

 private:
  bool whole() const { return static_cast<int>(ranks_.size()) == of_; }
  Seen* find(int rank);
  std::optional<Hung> not_ready() const;
  std::optional<Hung> deadlock() const;
  std::vector<Seen> ranks_;  // by rank
  int of_;
  Limits limits_;
  int polls_ = 0;
  std::uint64_t reads_ = 0;
};

}  // namespace motley
