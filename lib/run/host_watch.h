// SPDX-License-Identifier: Apache-2.0
// Which rank watches which once all ranks run. Each rank watches the next one of its host: one read per beat, and the process
// handle. The first rank of a host reads the records of all its ranks and sends them to rank 0, which watches the whole job; rank 0
// sends its own record back. So a job of R ranks on H hosts reads less than 2 R records and sends 2 (H - 1) frames per beat.
#pragma once
#include <poll.h>

#include <memory>

#include "run/host_link.h"
#include "run/watch.h"

namespace motley {

// Watches the next rank of this host that has not ended.
class Successor {
 public:
  // The host's ranks after this one, in cyclic order. None: this rank is alone.
  Successor(std::vector<WatchedRank> ranks, Limits limits);
  Successor(Successor&& other) noexcept;
  ~Successor() { release(); }
  Successor& operator=(Successor&&) = delete;
  std::optional<Hung> beat();
  // Called when its process has ended: reports a death, or nothing if it ended in order. The next rank is watched from the next
  // beat on.
  std::optional<Hung> process_ended();
  bool gone() const { return gone_; }       // its process ended before it could be held: to be treated as process_ended()
  int process() const { return process_; }  // a handle that is readable once the process has ended; -1: not known
  bool quiet() const;
  std::uint64_t reads() const { return reads_; }

 private:
  void hold();
  void release();
  std::vector<Seen> ranks_;
  Limits limits_;
  std::size_t at_ = 0;
  int process_ = -1;
  bool died_ = false, gone_ = false;  // reported; there is no such process any more
  std::uint64_t reads_ = 0;
};

// The other end of a link: the first rank of another host, or rank 0.
struct FarHost {
  int rank = 0;
  int ranks = 1;  // of that host
  HostLink link;
};

class HostWatch {
 public:
  struct Options {
    int rank = 0;
    std::uint32_t host = 0;    // of this rank; 0: rank 0's
    double death_seconds = 0;  // before a death is reported: motley's launcher has more information and acts at once
  };
  HostWatch(Options options, Successor successor, std::unique_ptr<Watch> watch, std::vector<FarHost> far);
  std::optional<Hung> beat();   // every kBeatSeconds
  std::optional<Hung> event();  // called when one of the files is readable
  void add_files(std::vector<pollfd>& to) const;
  std::optional<std::string> slow();
  bool quiet() const { return successor_.quiet() && (!watch_ || watch_->quiet()); }
  void last_word();  // sends this rank's record to the other hosts
  std::uint64_t reads() const { return successor_.reads() + (watch_ ? watch_->reads() : 0); }

 private:
  std::optional<Hung> dies(std::optional<Hung> who);
  void send();
  Options options_;
  Successor successor_;
  std::unique_ptr<Watch> watch_;  // on the first rank of a host
  std::vector<FarHost> far_;
  std::optional<Hung> dead_{};
  int dead_polls_ = 0;
};

}  // namespace motley
