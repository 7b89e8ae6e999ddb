// SPDX-License-Identifier: Apache-2.0
// Ranks of one host read each other's memory. A message between them becomes a flag: the sender's block stays where it is, the
// reader's kernels read it in place and acknowledge it, and its memory is used again when all readers have done so. A tensor that
// several of these ranks read completely is stored once, in the arena of its home: each rank writes its part there after the home
// has granted that the memory is free, which it is again when all have acknowledged their last read. If an exchange also has
// messages to other hosts, its flags become a separate exchange, so that the messages can overlap with kernels.
//
// Ranks do not wait in a cycle: order the points of all Programs by (pass, exchange of that pass, end of that pass). Every wait is
// for something that the other rank does at an earlier point: data for its post, a grant for the first pass that writes the tensor,
// an acknowledgement (awaited one exchange later at the earliest) for the exchange or for the end of the last pass that reads.
#include <motley/error.h>

#include <algorithm>
#include <utility>

#include "kernels/operands.h"
#include "program/compile.h"

namespace motley {

namespace {

class Sharer {
 public:
  explicit Sharer(Draft& draft) : draft_(draft), plan_(draft.plan), rank_(draft.plan.rank()) {}

  void run() {
    number();
    if (!draft_.program.windows) return;
    std::vector<DraftStep> before = std::exchange(draft_.steps, {});
    draft_.steps.reserve(before.size() + before.size() / 2);
    auto step = before.begin();
    const int last = plan_.move_turn();
    std::vector<std::vector<int>> opened(static_cast<std::size_t>(last) + 1), closed(opened.size());  // per turn: tensors
    for (const auto& [t, flags] : shared_) {
      at(opened, plan_.opened_at(t)).push_back(t);
      at(closed, plan_.closed_at(t)).push_back(t);
    }
    for (int turn = 0; turn <= last; turn++) {
      draft_.turn = turn;
      if (turn == plan_.combine_turn()) end_micro_batches();
      for (int t : at(opened, turn)) open(t, shared_.at(t));
      draft_.once = false;
      for (; step != before.end() && step->turn == turn; ++step) rewrite(*step);
      draft_.once = false;
      for (int t : at(closed, turn))
        if (!plan_.once(t)) close(t, shared_.at(t));
    }
    drop_unused_packs();
    acknowledge();
  }

 private:
  struct Flags {
    int granted = -1, acknowledged = -1;  // exchanges
  };
  struct Unpack {
    int tensor = -1;
    View from{}, to{};
  };

  int number(const std::string& name) {
    draft_.program.moved.push_back({});
    draft_.program.exchange_names.push_back(name);
    return static_cast<int>(draft_.program.moved.size()) - 1;
  }
  // All ranks number the flags of all ranks: first those of messages, then those of tensors that some ranks share.
  void number() {
    const auto exchanges = static_cast<int>(draft_.program.moved.size());
    for (int e = 0; e < exchanges; e++) {
      const Moved of = at(draft_.program.moved, e);
      bool same_host = false, remote = false;
      for (int t : of.tensors) {
        const Reach& reach = plan_.reach_of(t, of.hop, of.stage);
        same_host = same_host || reach.same_memory;
        remote = remote || reach.apart;
      }
      if (!same_host) continue;
      const std::string name = at(draft_.program.exchange_names, e);
      const int flags = remote ? number(name + ", same host") : e;
      if (remote) draft_.program.moved.back() = {of.tensors, of.hop, of.stage, true};
      flags_of_[e] = flags;
      acknowledged_[flags] = number("acknowledge " + name);
    }
    for (int t = 0; t < static_cast<int>(plan_.passes().tensors.size()); t++) {
      if (!plan_.is_shared(t) || plan_.opened_at(t) < 0) continue;
      const std::string& name = plan_.tensor(t).name;
      const int granted = number("grant for " + name);
      const Flags flags{granted, number("acknowledge " + name)};
      if (plan_.shared(t).has(rank_)) shared_[t] = flags;
    }
    draft_.program.windows = static_cast<int>(draft_.program.moved.size()) > exchanges;
  }

  // ---- shared tensors
  void open(int t, const Flags& flags) {
    const SharedTensor& shared = plan_.shared(t);
    const int buffer = draft_.shared_buffer(t);
    stored_once_.insert(buffer);
    if (shared.home != rank_) {
      draft_.buffer(buffer).exchange = flags.granted;
      draft_.buffer(buffer).piece = 0;
      not_granted_[buffer] = flags.granted;
      return;
    }
    std::vector<Piece> others;
    for (int r : shared.ranks)
      if (r != rank_) others.push_back({r, {buffer, 0}, 0, true});
    const auto early =
        draft_.steps.begin() + static_cast<std::ptrdiff_t>(settled_);  // so that no rank waits for this one's kernels
    const int turn = early == draft_.steps.end() ? draft_.turn : early->turn;
    draft_.steps.insert(early, {Post{flags.granted, std::move(others), {}}, turn, -1, {}, {}, plan_.once(t)});
    settled_++;
  }
  void close(int t, const Flags& flags) {
    const SharedTensor& shared = plan_.shared(t);
    const int buffer = draft_.shared_buffer(t);
    std::vector<Piece> others;
    for (int r : shared.ranks)
      if (r != rank_ && (shared.home == rank_ || shared.home == r)) others.push_back({r, {buffer, 0}, 0, true});
    if (shared.home == rank_)
      shown_.emplace_back(flags.acknowledged, std::move(others));
    else
      draft_.add(Post{flags.acknowledged, std::move(others), {}});
  }
  // A rank that writes into memory of the tensor's home waits for the grant.
  void enter(int buffer) {
    const auto closed = not_granted_.find(buffer);
    if (closed == not_granted_.end()) return;
    const int granted = closed->second;
    not_granted_.erase(closed);
    draft_.add(Post{granted, {}, {{draft_.buffer(buffer).peer, {buffer, 0}, 0, true}}});
    draft_.add(Wait{granted});
  }

  // ---- steps
  void rewrite(DraftStep& step) {
    draft_.once = step.once;
    if (auto* run = std::get_if<RunKernel>(&step.what)) {
      if (std::any_of(run->operands.begin(), run->operands.end() - 1, [&](const Place& p) { return dropped_.contains(p.buffer); }))
        return;  // unpacks
      const auto results = static_cast<std::ptrdiff_t>(result_count(run->spec));
      std::for_each(run->operands.end() - results, run->operands.end(), [&](const Place& p) { enter(p.buffer); });
      draft_.steps.push_back(std::move(step));
    } else if (auto* post = std::get_if<Post>(&step.what)) {
      rewrite(*post, step);
    } else {
      const int exchange = std::get<Wait>(step.what).exchange, flags = flags_of(exchange);
      if (posted_.contains(exchange)) draft_.steps.push_back(std::move(step));
      if (flags != exchange && posted_.contains(flags)) draft_.add(Wait{flags});
      await_acknowledgements();
      if (auto shown = showing_.find(flags); shown != showing_.end())
        (draft_.once ? shown_once_ : shown_).emplace_back(acknowledged_.at(flags), std::move(shown->second));
      for (const auto& [t, from, to] : std::exchange(unpacks_, {})) {
        enter(to.buffer);
        draft_.copy(from, to, "unpack " + plan_.tensor(t).name);
      }
    }
  }

  void rewrite(Post& post, DraftStep& step) {
    const bool sums = at(draft_.program.moved, post.exchange).hop == 0;
    auto shared = [&](const Payload& holds) { return shared_.contains(holds.tensor) && !sums; };
    const int flags = flags_of(post.exchange);
    for (std::size_t k = 0; k < post.sends.size(); k++)
      if (plan_.same_memory(rank_, post.sends[k].peer)) show(post.sends[k], step.sent[k], shared(step.sent[k]), flags);
    std::map<int, int> counts;  // per peer
    for (std::size_t k = 0; k < post.receives.size(); k++)
      if (plan_.same_memory(rank_, post.receives[k].peer)) {
        int& count = counts[post.receives[k].peer];
        read_in_place(post.receives[k], step.received[k], shared(step.received[k]), flags, count++);
      }
    auto others_read = [&](const Piece& p) {  // a message may arrive while a peer still reads its place
      return !p.window && std::any_of(shown_.begin(), shown_.end(), [&](const auto& shown) {
        return std::any_of(shown.second.begin(), shown.second.end(), [&](const Piece& s) { return s.at.buffer == p.at.buffer; });
      });
    };
    if (std::any_of(post.receives.begin(), post.receives.end(), others_read)) await_acknowledgements();
    for (const Piece& p : post.receives)
      if (!p.window) enter(p.at.buffer);
    Post on_host{flags, {}, {}};
    if (flags != post.exchange)
      for (auto [all, same_host] : {std::pair{&post.sends, &on_host.sends}, {&post.receives, &on_host.receives}}) {
        std::copy_if(all->begin(), all->end(), std::back_inserter(*same_host), [](const Piece& p) { return p.window; });
        std::erase_if(*all, [](const Piece& p) { return p.window; });
      }
    auto has_part = [&](const Post& p) { return (!p.sends.empty() || !p.receives.empty()) && posted_.insert(p.exchange).second; };
    if (has_part(post)) draft_.steps.push_back(std::move(step));
    if (has_part(on_host)) draft_.add(std::move(on_host));
  }

  // The exchange that has the flags of this exchange.
  int flags_of(int exchange) const {
    const auto found = flags_of_.find(exchange);
    return found == flags_of_.end() ? exchange : found->second;
  }

  // A peer reads this rank's arena; tensors that are stored once for several ranks are treated separately.
  void show(Piece& piece, const Payload& holds, bool shared, int exchange) {
    const auto& [t, box] = holds;
    piece.window = true;
    if (shared) {
      const int buffer = draft_.shared_buffer(t);
      if (draft_.packed.contains(piece.at.buffer)) packs_.insert(piece.at.buffer);
      piece.at = {buffer, 0};
      return;
    }
    if (draft_.buffer(piece.at.buffer).space != Space::arena || stored_once_.contains(piece.at.buffer)) {
      const View to = draft_.fresh_view("packed " + plan_.tensor(t).name, t, box);
      View from = to;  // as dense
      from.buffer = piece.at.buffer;
      from.element = piece.at.element;
      draft_.copy(from, to, "pack " + plan_.tensor(t).name);
      piece.at = {to.buffer, 0};
    }
    showing_[exchange].push_back({piece.peer, piece.at, 0, true});
  }

  void read_in_place(Piece& piece, const Payload& holds, bool shared, int exchange, int count) {
    const auto& [t, box] = holds;
    piece.window = true;
    if (shared) {
      const int buffer = draft_.shared_buffer(t);
      if (piece.at.buffer != buffer) dropped_.insert(piece.at.buffer);
      piece.at = {buffer, 0};
      return;
    }
    int buffer = piece.at.buffer;
    if (!draft_.received.contains(buffer)) {  // a message would have arrived directly where kernels read it
      const View from = draft_.fresh_view("", t, box);
      View to = from;
      to.buffer = buffer;
      to.element = piece.at.element;
      unpacks_.push_back({t, from, to});
      buffer = from.buffer;
    }
    Buffer& b = draft_.buffer(buffer);
    b.name = "rank " + std::to_string(piece.peer) + "'s " + plan_.tensor(t).name;
    b.space = Space::peer;
    b.peer = piece.peer;
    b.exchange = exchange;
    b.piece = count;
    piece.at = {buffer, 0};
    (draft_.once ? to_acknowledge_once_ : to_acknowledge_)[exchange].push_back({piece.peer, piece.at, 0, true});
  }

  void await_acknowledgements() {
    const bool once = std::exchange(draft_.once, false);
    for (auto& [exchange, pieces] : std::exchange(shown_, {})) {
      draft_.add(Post{exchange, {}, std::move(pieces)});
      draft_.add(Wait{exchange});
    }
    draft_.once = once;
    settled_ = draft_.steps.size();
  }

  // An update, or the next micro-batch, writes what other ranks read; only the update writes what they read in all micro-batches.
  // Each rank first says that it has read, then waits until others have said so.
  void end_micro_batches() {
    draft_.turn = plan_.sum_turn();
    await_acknowledgements();
    draft_.turn = plan_.combine_turn();
    for (auto& [exchange, pieces] : to_acknowledge_once_) draft_.add(Post{acknowledged_.at(exchange), std::move(pieces), {}});
    shown_ = std::exchange(shown_once_, {});
    for (const auto& [t, flags] : shared_)
      if (plan_.once(t)) close(t, flags);
    await_acknowledgements();
  }

  // Drops packing for messages of a tensor that is stored once.
  void drop_unused_packs() {
    if (packs_.empty()) return;
    for (const DraftStep& step : draft_.steps) {
      if (const auto* run = std::get_if<RunKernel>(&step.what))
        for (std::size_t k = 0; k + 1 < run->operands.size(); k++) packs_.erase(run->operands[k].buffer);
      if (const auto* post = std::get_if<Post>(&step.what)) for_buffers(*post, [&](int buffer) { packs_.erase(buffer); });
    }
    std::erase_if(draft_.steps, [&](const DraftStep& step) {
      const auto* run = std::get_if<RunKernel>(&step.what);
      return run != nullptr && packs_.contains(run->operands.back().buffer);
    });
  }

  // Acknowledges what an exchange showed to this rank, after its last read of that.
  void acknowledge() {
    if (to_acknowledge_.empty()) return;
    std::vector<std::size_t> last(draft_.program.buffers.size(), 0);  // per buffer: the last step that uses it
    for (std::size_t s = 0; s < draft_.steps.size(); s++) {
      if (const auto* run = std::get_if<RunKernel>(&draft_.steps[s].what))
        for (const Place& p : run->operands) at(last, p.buffer) = s;
      if (const auto* wait = std::get_if<Wait>(&draft_.steps[s].what))
        if (const auto of = to_acknowledge_.find(wait->exchange); of != to_acknowledge_.end())
          for (const Piece& p : of->second) at(last, p.at.buffer) = s;
    }
    std::map<std::size_t, std::vector<int>> after;  // step -> exchanges
    for (const auto& [exchange, pieces] : to_acknowledge_) {
      std::size_t s = 0;
      for (const Piece& p : pieces) s = std::max(s, at(last, p.at.buffer));
      after[s].push_back(exchange);
    }
    std::vector<DraftStep> out;
    out.reserve(draft_.steps.size() + to_acknowledge_.size());
    for (std::size_t s = 0; s < draft_.steps.size(); s++) {
      const int turn = draft_.steps[s].turn;
      out.push_back(std::move(draft_.steps[s]));
      if (const auto of = after.find(s); of != after.end())
        for (int exchange : of->second)
          out.push_back({Post{acknowledged_.at(exchange), to_acknowledge_.at(exchange), {}}, turn, -1, {}, {}, false});
    }
    draft_.steps = std::move(out);
  }

  Draft& draft_;
  const LocalPlan& plan_;
  int rank_;
  std::map<int, int> flags_of_{};      // exchange -> the exchange with its flags: itself if no message leaves the host
  std::map<int, int> acknowledged_{};  // flags -> the exchange by which readers acknowledge
  std::set<int> posted_{};             // exchanges of which this rank is a part
  std::map<int, Flags> shared_{};      // per tensor that this rank shares
  std::set<int> stored_once_{};        // the buffers of these tensors
  std::map<int, int> not_granted_{};   // such a buffer in a peer's memory -> exchange to wait for before it is written
  std::map<int, std::vector<Piece>> showing_{}, to_acknowledge_{};  // per exchange
  std::vector<std::pair<int, std::vector<Piece>>> shown_{};         // what peers may still read: the acknowledging exchange, pieces
  std::map<int, std::vector<Piece>> to_acknowledge_once_{};         // the same two for what is read in all micro-batches
  std::vector<std::pair<int, std::vector<Piece>>> shown_once_{};
  std::vector<Unpack> unpacks_{};      // to run after the wait
  std::set<int> packs_{}, dropped_{};  // buffers that may not be needed for shared tensors
  std::size_t settled_ = 0;            // the step after the last wait for others' reads
};

}  // namespace

void share(Draft& draft) {
  Sharer(draft).run();
}

}  // namespace motley
