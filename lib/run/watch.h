// SPDX-License-Identifier: Apache-2.0
// Sees that a rank hangs, by the ranks' records. Time is counted in the watcher's own beats, so that a machine that slept
// or a job that was stopped as a whole does not look hung.
#pragma once
#include <condition_variable>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "run/records.h"

namespace motley {

struct Limits {
  double hung_seconds = 30;          // MOTLEY_HUNG_SECONDS
  double start_seconds = 60;         // MOTLEY_START_SECONDS
  static Limits from_environment();  // UserError: no number above 0
};

// Who hangs, and why. rank -1: all of them, or several.
struct Hung {
  int rank = -1;
  std::string text{};
};

class Watch {
 public:
  Watch(const std::filesystem::path& directory, int ranks, Limits limits);
  // One look at all records, every kBeatSeconds: who hangs and why, once somebody does.
  std::optional<Hung> beat();
  // By the last look. Told once per rank: it waits for one that computes on and on. That is slow, not hung.
  std::optional<std::string> slow(int rank);
  const std::optional<Record>& record(int rank) const { return ranks_[static_cast<std::size_t>(rank)].now; }
  bool all_ready() const;

 private:
  struct Seen {
    RecordReader reader;
    std::optional<Record> now{};
    std::uint64_t beat = 0, exchange = 0, moved = 0;  // at the last look
    std::int64_t bytes = 0;
    int silent = 0, idle = 0;  // looks without a beat; looks in which it waited and nothing moved
    bool told = false;
  };
  void look(Seen& rank);
  std::optional<Hung> not_ready() const;
  std::optional<Hung> deadlock() const;
  std::vector<Seen> ranks_;
  Limits limits_;
  int looks_ = 0;
};

// A thread that beats in this rank's record and watches the others'. Whoever sees a hung rank writes the reason into its own
// record and leaves by _exit(86), without an MPI call and without the rank's main thread.
class Heartbeat {
 public:
  // speaks: on stderr too (there is no launcher that reads the records).
  enum class Voice { silent, speaks };
  Heartbeat(RecordWriter& record, Watch watch, int rank, Voice voice);
  ~Heartbeat();
  Heartbeat(const Heartbeat&) = delete;
  Heartbeat& operator=(const Heartbeat&) = delete;

 private:
  void run();
  RecordWriter& record_;
  Watch watch_;
  int rank_;
  Voice voice_;
  std::mutex mutex_;
  std::condition_variable wake_;
  bool over_ = false;
  std::thread thread_;
};

}  // namespace motley
