// SPDX-License-Identifier: Apache-2.0
// All ranks' Programs in virtual time: a kernel takes its profiled seconds, less while other ranks of its host are idle; a message
// is in flight from when both ends have posted it, also while kernels run; a rank receives one message after another, and the ranks
// of a host share its network card (Wires). What a CPU's cores do to receive a message they do between kernels, whenever it
// arrived. What a peer of the same host has written is read in place: that makes the next kernel longer by the link's in_place
// seconds, and the wait for its flag takes the link's exchange_seconds. Before the update all ranks agree to run it: on the loss,
// which is sent while gradients are computed, and on the gradients' norm if they are clipped; and once more on the norms of
// parameters and directions, if the optimizer has a direction.
#include <motley/error.h>
#include <motley/program.h>
#include <motley/schedule.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <string>
#include <utility>

namespace motley {

namespace {

// Bytes per second that a CPU's cores receive, polling between kernels: 8.4 MB in 5.5 ms by TCP (bench/overlap). Not measured by
// profiles.
constexpr double kTakenInPerSecond = 1.5e9;
constexpr Index kAgreementBytes = 256;  // of a control message

class Simulator {
 public:
  Simulator(const std::vector<Program>& programs, const Profile& profile, const SimulateOptions& options)
      : programs_(programs),
        profile_(profile),
        ranks_(programs.size()),
        machines_(profile.hosts()),
        wires_(machines_),
        timeline_(options.timeline),
        meetings_(std::any_of(programs.begin(), programs.end(), [](const Program& p) { return p.directs; }) ? 2 : 1),
        verdicts_(static_cast<std::size_t>(options.steps) * meetings_),
        ends_(static_cast<std::size_t>(options.steps), 0) {
    for (std::size_t r = 0; r < std::min(programs.size(), profile.devices.size()); r++) {
      ranks_[r].host = &hosts_[profile.devices[r].host];
      ranks_[r].host->ranks++;
    }
    out_.busy_seconds.assign(programs.size(), 0);
    out_.estimated_seconds.assign(programs.size(), 0);
    out_.waiting_seconds.assign(programs.size(), 0);
    for (std::size_t r = 0; r < programs.size(); r++) {  // small messages between each pair of ranks
      double seconds = 0;
      for (std::size_t q = 0; q < programs.size(); q++)
        if (q != r) seconds += profile.wire_seconds(static_cast<int>(q), static_cast<int>(r), kAgreementBytes).seconds;
      agreement_seconds_ = std::max(agreement_seconds_, seconds);
    }
    auto any = [&](auto holds) { return std::any_of(programs.begin(), programs.end(), holds); };
    agrees_ = programs.size() > 1 && any([](const Program& p) { return p.update_begin > 0; }) &&
              any([](const Program& p) { return static_cast<std::size_t>(p.update_begin) < p.steps.size(); });
    clips_ = any([](const Program& p) { return !p.norms.empty(); });
    out_.agreement.resize(programs.size());
    if (meetings_ > 1) out_.norms.resize(programs.size());
    for (std::size_t r = 0; r < programs.size() && timeline_; r++) {
      out_.timeline.emplace_back(programs[r].steps.size());
      out_.spent.emplace_back(programs[r].steps.size(), 0);
    }
  }

  Simulated run() {
    for (;;) {
      for (bool moved = true; moved;) {
        moved = false;
        for (std::size_t r = 0; r < ranks_.size(); r++) moved = go_on(r) || moved;
      }
      const double passes = to_next_event();
      if (!std::isfinite(passes)) break;
      let_pass(passes);
    }
    for (std::size_t r = 0; r < ranks_.size(); r++) check(is_done(r) && is_last_step(r), "every rank's Program comes to its end");
    return of_last_step();
  }

 private:
  enum class Doing { next, computing, arriving, blocked, meeting, agreeing };
  struct Host {
    int ranks = 0, computing = 0;
  };
  struct Rank {
    Host* host = nullptr;  // null: the profile does not have it
    std::size_t at = 0;
    int step = 0, micro_batch = 0;
    Doing doing = Doing::next;
    std::size_t sent = 0, agreed = 0;  // of the step's meetings: the verdict on the update, the norms of what moves
    double begin = 0, busy = 0, waiting = 0, estimated = 0;  // of the last step: when it began; seconds before it
    bool is_estimated = false;                               // while computing: the kernel's seconds are
    double to_read = 0;                                      // profiled seconds of reading in place, added to the next kernel
    double left = 0;                                         // while computing: profiled seconds; while messages arrive: seconds
    double down = 0, up = 0;                                 // when all copies from and to the device's memory will be done
    double since = 0;                                        // when the previous step ended
  };
  struct Posted {
    const Post* post = nullptr;
    std::vector<double> copied{};  // per send: when the host has the data
  };

  struct Verdict {         // of one meeting of all ranks
    std::size_t sent = 0;  // number of ranks that have sent what the others wait for
    double last = 0;       // when the last of them did
  };

  // Starts the next work of this rank if possible; false: nothing can start.
  bool go_on(std::size_t r) {
    Rank& rank = ranks_[r];
    if (rank.doing != Doing::next && rank.doing != Doing::blocked && rank.doing != Doing::meeting) return false;
    if (sends_here(r)) {
      Verdict& verdict = verdict_of(r, rank.sent++);
      verdict.sent++;
      verdict.last = std::max(verdict.last, out_.step_seconds);
    }
    if (agrees_here(r)) return meet(r);
    if (is_done(r)) return next_step(r);
    const auto& what = programs_[r].steps[rank.at].what;
    if (const auto* kernel = std::get_if<RunKernel>(&what)) {
      rank.doing = Doing::computing;
      if (rank.host != nullptr) rank.host->computing++;
      const Estimate its = profile_.seconds(static_cast<int>(r), kernel->spec);
      rank.left = its.seconds + std::exchange(rank.to_read, 0);
      rank.is_estimated = its.is_guess();
      return true;
    }
    if (const auto* post = std::get_if<Post>(&what)) {
      // The readers of a window acknowledge before they wait for their own readers in the same exchange.
      const int exchange = number_of(post->exchange, r);
      Posted& mine = posted_[{exchange, r}] = {post, {}};
      for (const Piece& piece : post->sends) {
        rank.down = std::max(rank.down, out_.step_seconds) +
                    (piece.window ? 0 : profile_.from_device_seconds(static_cast<int>(r), piece.bytes));
        mine.copied.push_back(rank.down);
      }
      const auto peers = [&](const std::vector<Piece>& pieces) {
        std::set<std::size_t> out;
        for (const Piece& piece : pieces)
          if (const auto peer = static_cast<std::size_t>(piece.peer); !piece.window && posted_.contains({exchange, peer}))
            out.insert(peer);
        return out;
      };
      for (std::size_t peer : peers(post->receives)) travel(exchange, peer, r);
      for (std::size_t peer : peers(post->sends)) travel(exchange, r, peer);
      end_step(r);
      return true;
    }
    const int exchange = number_of(std::get<Wait>(what).exchange, r);
    for (const Piece& piece : posted_.at({exchange, r}).post->receives)
      if (!posted_.contains({exchange, static_cast<std::size_t>(piece.peer)})) {
        rank.doing = Doing::blocked;
        return false;
      }
    for (const Piece& piece : posted_.at({exchange, r}).post->receives)
      if (piece.window) rank.to_read += profile_.in_place_seconds(piece.peer, static_cast<int>(r), piece.bytes).seconds;
    rank.doing = Doing::arriving;
    rank.left = of_flags(exchange, r);
    if (const auto all = arrived_.find({exchange, r}); all != arrived_.end())
      rank.left = std::max({rank.left, taking_in(exchange, r), all->second - out_.step_seconds});
    return true;
  }

  // Of an exchange in shared memory, however little it moves.
  double of_flags(int exchange, std::size_t r) const {
    std::set<int> peers;
    double seconds = 0;
    for (const Piece& piece : posted_.at({exchange, r}).post->receives)
      if (piece.window && peers.insert(piece.peer).second)
        seconds += profile_.exchange_seconds(piece.peer, static_cast<int>(r)).seconds;
    return seconds;
  }

  bool is_done(std::size_t r) const { return ranks_[r].at == programs_[r].steps.size() && !agrees_here(r); }
  bool is_last_step(std::size_t r) const { return static_cast<std::size_t>(ranks_[r].step) + 1 == ends_.size(); }
  Verdict& verdict_of(std::size_t r, std::size_t meeting) {
    return verdicts_[static_cast<std::size_t>(ranks_[r].step) * meetings_ + meeting];
  }
  bool next_step(std::size_t r) {
    Rank& rank = ranks_[r];
    if (is_last_step(r)) return false;
    rank.step++;
    rank.at = 0;
    rank.micro_batch = 0;
    rank.sent = rank.agreed = 0;
    rank.begin = out_.step_seconds;
    rank.busy = out_.busy_seconds[r];
    rank.waiting = out_.waiting_seconds[r];
    rank.estimated = out_.estimated_seconds[r];
    if (timeline_) std::fill(out_.spent[r].begin(), out_.spent[r].end(), 0);
    return true;
  }
  Simulated of_last_step() {
    double begin = HUGE_VAL;
    for (const Rank& rank : ranks_) begin = std::min(begin, rank.begin);
    for (std::size_t r = 0; r < ranks_.size(); r++) {
      out_.busy_seconds[r] -= ranks_[r].busy;
      out_.waiting_seconds[r] -= ranks_[r].waiting;
      out_.estimated_seconds[r] -= ranks_[r].estimated;
      if (!agrees_) out_.agreement[r] = {ranks_[r].begin, ranks_[r].begin};
      auto shift = [&](SimulatedStep& s) { s = {s.begin - begin, s.end - begin}; };
      shift(out_.agreement[r]);
      if (agrees_ && meetings_ > 1) shift(out_.norms[r]);
      if (timeline_) std::for_each(out_.timeline[r].begin(), out_.timeline[r].end(), shift);
    }
    out_.step_seconds = ends_.back() - (ends_.size() > 1 ? ends_[ends_.size() - 2] : 0);
    return std::move(out_);
  }

  // The number of an exchange in the rank's current step and micro-batch: all ranks run the same steps.
  int number_of(int exchange, std::size_t r) const {
    const Rank& rank = ranks_[r];
    return exchange +
           (rank.step * programs_[r].micro_batches + rank.micro_batch) * static_cast<int>(programs_[r].exchange_names.size());
  }
  // A rank that computes no gradients has no micro-batches.
  bool is_last(std::size_t r) const {
    return programs_[r].combine_begin == 0 || ranks_[r].micro_batch + 1 == programs_[r].micro_batches;
  }
  // Whether it is before the update of a training step, or before the part that needs the norms; a rank without work agrees too.
  bool agrees_here(std::size_t r) const {
    const Program& program = programs_[r];
    const std::size_t agreed = ranks_[r].agreed;
    return agrees_ && agreed < meetings_ &&
           ranks_[r].at == static_cast<std::size_t>(agreed == 0 ? program.update_begin : program.move_begin);
  }
  // Whether the rank knows what the others wait for: the loss, or its part of the norms.
  bool sends_here(std::size_t r) const {
    if (ranks_[r].sent > ranks_[r].agreed) return false;
    if (clips_ || ranks_[r].agreed > 0) return agrees_here(r);
    return is_last(r) && ranks_[r].at >= static_cast<std::size_t>(programs_[r].forward_steps);
  }
  // True: all ranks have come to this meeting.
  bool meet(std::size_t r) {
    Rank& rank = ranks_[r];
    if (rank.doing != Doing::meeting) (rank.agreed == 0 ? out_.agreement : out_.norms)[r].begin = out_.step_seconds;
    rank.doing = Doing::meeting;
    const Verdict& verdict = verdict_of(r, rank.agreed);
    if (verdict.sent < ranks_.size()) return false;
    rank.doing = Doing::agreeing;
    rank.agreed++;
    rank.left = std::max(0.0, verdict.last + agreement_seconds_ - out_.step_seconds);
    return true;
  }

  double taking_in(int exchange, std::size_t r) const {
    if (profile_.modelled.contains(static_cast<int>(r))) return 0;  // messages go straight to the device's memory
    double seconds = 0;
    for (const Piece& piece : posted_.at({exchange, r}).post->receives)
      if (const int rank = static_cast<int>(r); !piece.window && profile_.to_device_seconds(rank, piece.bytes) == 0)
        seconds += std::min(profile_.wire_seconds(piece.peer, rank, piece.bytes).seconds,
                            static_cast<double>(piece.bytes) / kTakenInPerSecond);
    return seconds;
  }

  // Both ends have posted the exchange: sends its pieces, in the same order on both.
  void travel(int exchange, std::size_t from, std::size_t to) {
    const Posted& sender = posted_.at({exchange, from});
    Rank& rank = ranks_[to];
    std::size_t k = 0;
    for (const Piece& piece : posted_.at({exchange, to}).post->receives) {
      if (piece.window || piece.peer != static_cast<int>(from)) continue;
      while (k < sender.copied.size() && (sender.post->sends[k].window || sender.post->sends[k].peer != static_cast<int>(to))) k++;
      check(k < sender.copied.size(), "what is received is sent");
      const double ready = std::max(out_.step_seconds, sender.copied[k++]);
      const MessageSeconds takes{profile_.wire_seconds(piece.peer, static_cast<int>(to), piece.bytes).seconds,
                                 profile_.card_seconds(piece.peer, static_cast<int>(to), piece.bytes)};
      const double there = wires_.arrival(piece.peer, static_cast<int>(to), ready, takes);
      rank.up = std::max(rank.up, there) + profile_.to_device_seconds(static_cast<int>(to), piece.bytes);
      arrived_[{exchange, to}] = rank.up;
    }
  }

  // Current seconds per profiled second of a rank that computes: the profile was measured while all ranks of a host computed.
  double pace(std::size_t r) const {
    const Host* host = ranks_[r].host;
    if (host == nullptr || host->ranks == 1) return 1;
    const double alone = profile_.devices[r].alone_over_shared;
    return alone + (1 - alone) * (host->computing - 1) / (host->ranks - 1);
  }

  double to_next_event() const {
    double least = HUGE_VAL;
    for (std::size_t r = 0; r < ranks_.size(); r++) {
      if (ranks_[r].doing == Doing::computing) least = std::min(least, ranks_[r].left * pace(r));
      if (ranks_[r].doing == Doing::arriving || ranks_[r].doing == Doing::agreeing) least = std::min(least, ranks_[r].left);
    }
    return least;
  }

  void let_pass(double seconds) {
    std::vector<double> paces;
    for (std::size_t r = 0; r < ranks_.size(); r++) paces.push_back(ranks_[r].doing == Doing::computing ? pace(r) : 1);
    out_.step_seconds += seconds;
    for (std::size_t r = 0; r < ranks_.size(); r++) {
      Rank& rank = ranks_[r];
      if (rank.doing == Doing::next) continue;
      (rank.doing == Doing::computing ? out_.busy_seconds : out_.waiting_seconds)[r] += seconds;
      if (rank.doing == Doing::computing && rank.is_estimated) out_.estimated_seconds[r] += seconds;
      if (rank.doing == Doing::blocked || rank.doing == Doing::meeting) continue;
      const bool ends = rank.left * paces[r] <= seconds * (1 + 1e-12);
      rank.left -= seconds / paces[r];
      if (!ends) continue;
      if (rank.doing == Doing::computing && rank.host != nullptr) rank.host->computing--;
      ends_[static_cast<std::size_t>(rank.step)] = out_.step_seconds;
      if (std::exchange(rank.doing, Doing::next) != Doing::agreeing) {
        end_step(r);
        continue;
      }
      rank.since = out_.step_seconds;
      (rank.agreed == 1 ? out_.agreement : out_.norms)[r].end = rank.since;
    }
  }

  void end_step(std::size_t r) {
    Rank& rank = ranks_[r];
    if (timeline_) {
      out_.timeline[r].at(rank.at) = {rank.since, out_.step_seconds};
      out_.spent[r].at(rank.at) += out_.step_seconds - rank.since;
    }
    rank.since = out_.step_seconds;
    do {
      rank.at++;
      if (rank.at == static_cast<std::size_t>(programs_[r].combine_begin) && !is_last(r)) {
        rank.at = 0;
        rank.micro_batch++;
      }
    } while (rank.micro_batch > 0 && rank.at < programs_[r].steps.size() && programs_[r].steps[rank.at].once);
  }

  const std::vector<Program>& programs_;
  const Profile& profile_;
  std::vector<Rank> ranks_;
  std::map<std::string, Host> hosts_{};  // by name
  const std::vector<int> machines_;      // by rank: which hosts have a network card in common
  Wires wires_;
  const bool timeline_;
  std::map<std::pair<int, std::size_t>, Posted> posted_{};
  std::map<std::pair<int, std::size_t>, double> arrived_{};  // arrival of the last message of an exchange, at a rank
  double agreement_seconds_ = 0;
  bool agrees_ = false, clips_ = false;
  const std::size_t meetings_;     // of a training step
  std::vector<Verdict> verdicts_;  // by training step and meeting of all ranks
  std::vector<double> ends_;       // by training step: when the last rank ended it
  Simulated out_{};
};

}  // namespace

Simulated simulate(const std::vector<Program>& programs, const Profile& profile, const SimulateOptions& options) {
  check(options.steps >= 1, "a simulation has a training step");
  return Simulator(programs, profile, options).run();
}

}  // namespace motley
