// SPDX-License-Identifier: Apache-2.0
// Memory that ranks of one host use together. A peer's block is looked at in place, and stays until its readers have said that they
// looked. A tensor that each of them reads whole lies once, in the arena of its home: each writes its part there when the home has
// said that there is room, and its memory is free when all have said that they looked.
// Nobody waits in a circle: order the points of all programs by (pass, exchange of that pass, end of that pass). Every wait is for
// something that its rank does at an earlier point: messages and windows for their post, room for the first pass that writes the
// tensor, looks (awaited one exchange later at the earliest) for the exchange or for the end of the last pass that reads.
#include <motley/error.h>

#include <algorithm>
#include <utility>

#include "run/compiler.h"

namespace motley {

bool Compiler::near(int a, int b) const {
  const auto i = static_cast<std::size_t>(a), k = static_cast<std::size_t>(b);
  return !data_.hosts.empty() && data_.hosts[i] == data_.hosts[k] && !data_.on_device[i] && !data_.on_device[k] &&
         (options_.hosts.empty() || options_.hosts[i] == options_.hosts[k]);
}

int Compiler::number(const std::string& name) {
  out_.exchange_names.push_back(name);
  return static_cast<int>(out_.exchange_names.size()) - 1;
}

// Every rank numbers all exchanges, those too that it has no part in.
Compiler::Hop Compiler::next_exchange(const std::vector<BoxMessage>& messages, const std::string& name) {
  Hop hop;
  auto any = [&](auto holds) { return std::any_of(messages.begin(), messages.end(), holds); };
  if (any([](const BoxMessage& m) { return m.from != m.to; })) hop.exchange = number(name);
  if (any([&](const BoxMessage& m) { return m.from != m.to && near(m.from, m.to); })) hop.looked = number("acknowledge " + name);
  out_.windows = out_.windows || hop.looked >= 0;
  return hop;
}

std::vector<Compiler::Hop> Compiler::hops_of(const Stages& stages, const std::string& name) {
  std::vector<Hop> out;
  for (std::size_t k = 0; k < stages.size(); k++) out.push_back(next_exchange(stages[k], k == 0 ? name : name + ", stage " + std::to_string(k + 1)));
  return out;
}

void Compiler::post_and_wait(const Hop& hop, const std::vector<Piece>& sends, const std::vector<Piece>& receives) {
  if (sends.empty() && receives.empty()) return;
  auto meets_look = [&](const Piece& p) {  // a message may come while a peer still looks at what lies there
    auto there = [&](const Piece& shown) { return shown.at.buffer == p.at.buffer; };
    return !p.window && std::any_of(looks_.begin(), looks_.end(), [&](const auto& look) { return std::any_of(look.second.begin(), look.second.end(), there); });
  };
  if (std::any_of(receives.begin(), receives.end(), meets_look)) await_looks();
  std::vector<Piece> shown;
  for (const Piece& p : sends)
    if (p.window && !together_.contains(p.at.buffer)) shown.push_back({p.peer, p.at, 0, true});
  out_.steps.push_back({Post{hop.exchange, in_pieces(sends), in_pieces(receives)}});
  out_.steps.push_back({Wait{hop.exchange}});
  await_looks();
  if (!shown.empty()) looks_.emplace_back(hop.looked, std::move(shown));
}

// Behind this rank's last look at what came by windows.
void Compiler::tell_looked(const Hop& hop, const std::vector<Piece>& received) {
  std::vector<Piece> told;
  for (const Piece& p : received)
    if (p.window && !together_.contains(p.at.buffer)) told.push_back({p.peer, p.at, 0, true});
  if (!told.empty()) out_.steps.push_back({Post{hop.looked, std::move(told), {}}});
}

void Compiler::await_looks() {
  for (auto& [exchange, pieces] : std::exchange(looks_, {})) {
    out_.steps.push_back({Post{exchange, {}, std::move(pieces)}});
    out_.steps.push_back({Wait{exchange}});
  }
  settled_ = out_.steps.size();
}

// Whether the ranks that can see this one's memory keep the tensor together, and where.
Compiler::Together Compiler::together(int t, int rank) {
  const TensorRole role = tensor(t).role;
  auto named = [&](const std::vector<int>& list) { return std::find(list.begin(), list.end(), t) != list.end(); };
  if (role == TensorRole::input || role == TensorRole::label || role == TensorRole::seed || named(all_.outputs) ||
      named(options_.keep))
    return {};
  if (options_.keep_gradients && role == TensorRole::parameter_gradient) return {};
  const TensorPlan& plan = plan_of(t);
  if (plan.arrives_in_blocks > 0) return {};
  const std::vector<Held>& written = role == TensorRole::parameter ? plan.rest : plan.tiles;
  Together out;
  auto holds = [&](int r) { return std::find(out.ranks.begin(), out.ranks.end(), r) != out.ranks.end(); };
  for (const Held& need : plan.needs) {
    if (!near(need.rank, rank)) continue;
    out.box = out.ranks.empty() ? need.box : hull(out.box, need.box);
    if (!holds(need.rank)) out.ranks.push_back(need.rank);
  }
  if (out.ranks.size() < 2) return {};
  for (int r : out.ranks) {  // each reads it whole
    Index reads = 0;
    for (const Held& need : plan.needs) reads += need.rank == r ? volume(need.box) : 0;
    if (reads != volume(out.box)) return {};
  }
  std::vector<Box> parts;  // one of them writes each element, or gets it from elsewhere
  for (const Held& part : written) {
    if (!near(part.rank, rank)) continue;
    if (!holds(part.rank) || !contains(out.box, part.box)) return {};
    parts.push_back(part.box);
  }
  for (const Stages* stages : {&stages_of(t)[1], &stages_of(t)[2]})
    for (const auto& stage : *stages)
      for (const BoxMessage& m : stage)
        if (holds(m.to) && !holds(m.from)) parts.push_back(m.box);
  Index filled = 0;
  for (const Box& part : parts) filled += volume(part);
  if (filled != volume(out.box) || !subtract(out.box, parts).empty()) return {};
  for (const Held& rest : plan.rest)
    if (role != TensorRole::parameter && near(rest.rank, rank) && !holds(rest.rank)) return {};
  out.home = out.ranks[static_cast<std::size_t>(t) % out.ranks.size()];
  return out;
}

// Before the first pass that writes the tensor, or before a parameter's values are put together.
void Compiler::make_room(int t) {
  const auto ranks = static_cast<int>(data_.hosts.size());
  bool any = false;
  for (int r = 0; r < ranks; r++) any = any || together(t, r).home >= 0;
  if (!any) return;
  out_.windows = true;
  const Hop hop{number("grant for " + tensor(t).name), number("acknowledge " + tensor(t).name)};
  const Together& mine = together_at(t);
  if (std::find(mine.ranks.begin(), mine.ranks.end(), rank_) == mine.ranks.end()) return;
  rooms_[t] = hop;
  const int buffer = main_buffer(t);
  together_.insert(buffer);
  std::vector<Piece> others;
  for (int r : mine.ranks)
    if (r != rank_) others.push_back({r, {buffer, 0}, 0, true});
  if (mine.home == rank_) {  // as early as nobody has to wait for this rank on its account
    out_.steps.insert(out_.steps.begin() + static_cast<std::ptrdiff_t>(settled_), {Post{hop.exchange, std::move(others), {}}});
    if (backward_ && settled_ < static_cast<std::size_t>(out_.forward_steps)) out_.forward_steps++;
    settled_++;
  } else {
    closed_[buffer] = hop.exchange;
  }
  leaves_[last_look(t)].push_back(t);
}

// The pass behind which no rank reads the tensor any more.
int Compiler::last_look(int t) const {
  int last = writers_[static_cast<std::size_t>(t)].empty() ? -1 : writers_[static_cast<std::size_t>(t)].back();
  for (int p : readers_[static_cast<std::size_t>(t)])  // a view is read where the tensor that it is a term of is put together
    last = std::max(last, is_view(p) ? writers_[static_cast<std::size_t>(pass(p).writes.tensor)].back() : p);
  return last;
}

// A kernel that writes into memory of the tensor's home waits until there is room.
void Compiler::enter(int buffer) {
  const auto closed = closed_.find(buffer);
  if (closed == closed_.end()) return;
  const int exchange = closed->second;
  closed_.erase(closed);
  out_.steps.push_back({Post{exchange, {}, {{out_.buffers[static_cast<std::size_t>(buffer)].peer, {buffer, 0}, 0, true}}}});
  out_.steps.push_back({Wait{exchange}});
}

// Behind pass p: this rank has done with these tensors.
void Compiler::leave(int p) {
  const auto at = leaves_.find(p);
  if (at == leaves_.end()) return;
  for (int t : at->second) {
    const Together& mine = together_at(t);
    const int buffer = main_buffer(t), looked = rooms_.at(t).looked;
    std::vector<Piece> others;
    for (int r : mine.ranks)
      if (r != rank_ && (mine.home == rank_ || mine.home == r)) others.push_back({r, {buffer, 0}, 0, true});
    if (mine.home == rank_)
      looks_.emplace_back(looked, std::move(others));
    else
      out_.steps.push_back({Post{looked, std::move(others), {}}});
  }
}

const Compiler::Together& Compiler::together_at(int t) {
  auto known = kept_.find(t);
  if (known == kept_.end()) known = kept_.emplace(t, together(t, rank_)).first;
  return known->second;
}

}  // namespace motley
