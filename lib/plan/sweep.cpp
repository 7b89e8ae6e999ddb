// SPDX-License-Identifier: Apache-2.0
#include "plan/sweep.h"

#include <motley/error.h>

#include <algorithm>

#include "base/at.h"
#include "base/overlaps.h"
#include "plan/infer_required.h"
#include "plan/kernel_of.h"

namespace motley {

namespace {

std::vector<Shard> held_of(const std::vector<std::vector<Box>>& boxes) {
  std::vector<Shard> out;
  for (std::size_t r = 0; r < boxes.size(); r++)
    for (const Box& b : boxes[r]) out.push_back({static_cast<int>(r), b});
  std::sort(out.begin(), out.end());
  return out;
}

}  // namespace

Sweeper::Sweeper(const Passes& passes, const Mesh& mesh, Layouts layouts, const Cost& cost, const Ownership& ownership)
    : passes_(passes), mesh_(mesh), layouts_(std::move(layouts)), cost_(cost), ownership_(ownership) {
  writers_.resize(passes.tensors.size());
  for (std::size_t i = 0; i < passes.passes.size(); i++)
    at(writers_, passes.passes[i].writes.tensor).push_back(static_cast<int>(i));
  known_.resize(passes.tensors.size());
  candidates_.resize(passes.passes.size());
  for (double seconds : seconds_alone(passes, mesh, cost)) speeds_.push_back(1 / std::max(seconds, 1e-30));
  const auto of_data = [&](const Pass& p) {  // a kernel for the gradient of a layer's input
    return p.op != KernelOp::map && p.kind != PassKind::backward_filter &&
           at(passes.tensors, p.writes.tensor).role == TensorRole::gradient;
  };
  // A tensor is decided after all its readers: in reverse order of its last writer; tensors that no pass writes come last.
  std::vector<bool> added(passes.tensors.size(), false);
  auto add = [&](int t) {
    if (!at(added, t)) order_.push_back(t);
    at(added, t) = true;
  };
  for (std::size_t i = passes.passes.size(); i-- > 0;) {
    const Pass& p = passes.passes[i];
    auto here = pass_order_.end();
    const auto after = [&](const Pass& other) {  // it may be decided after this one
      return other.layer == p.layer && std::none_of(other.reads.begin(), other.reads.end(),
                                                    [&](const PassOperand& o) { return o.tensor == p.writes.tensor; });
    };
    while (of_data(p) && here != pass_order_.begin() && after(at(passes.passes, here[-1]))) here--;
    pass_order_.insert(here, static_cast<int>(i));
  }
  for (int p : pass_order_) add(at(passes.passes, p).writes.tensor);
  for (std::size_t t = 0; t < passes.tensors.size(); t++) add(static_cast<int>(t));
  position_.resize(order_.size());
  readers_.resize(order_.size());
  for (std::size_t i = 0; i < order_.size(); i++) {
    const int t = order_[i];
    at(position_, t) = i;
    for (std::size_t k = 0; k < at(writers_, t).size(); k++)
      for (const PassOperand& o : at(passes.passes, at(writers_, t)[k]).reads) at(readers_, o.tensor).push_back({t, k, &o});
  }
}

// Adds to a set of disjoint boxes what it lacks of `more`; a set that fills its hull becomes the hull.
void Sweeper::want(std::vector<Box>& have, const Box& more) {
  if (volume(more) == 0) return;
  for (const Box& b : have)
    if (contains(b, more)) return;
  for (Box& b : subtract(more, have)) have.push_back(std::move(b));
  if (have.size() < 2) return;
  Box all = have.front();
  Index held = 0;
  for (const Box& b : have) {
    all = hull(all, b);
    held += volume(b);
  }
  if (held == volume(all)) have = {all};
}

int Sweeper::key(int rank, const std::vector<bool>& axes) const {
  const Coord c = mesh_.coord(rank);
  int k = 0;
  for (std::size_t a = 0; a < axes.size(); a++)
    if (axes[a]) k = k * mesh_.axes()[a].size + c[a];
  return k;
}

// Whether the layout cuts over the axis, for each.
std::vector<bool> Sweeper::ruled(const Layout& layout) const {
  std::vector<bool> out(mesh_.axes().size(), false);
  for (const auto& [dim, cut] : layout.cuts)
    for (int a : cut.axes) at(out, a) = true;
  return out;
}

// Ranks that have a part of the step's work. If the rules give parts of this parameter to other ranks too (which then have nothing
// else): all ranks.
std::vector<Shard> Sweeper::holders(int parameter) const {
  const StepTensor& t = at(passes_.tensors, parameter);
  std::vector<Shard> held;
  std::vector<Box> boxes;
  auto take = [&](int rank) {
    held.push_back({rank, layouts_.of(parameter).box(mesh_, rank)});
    boxes.push_back(held.back().box);
  };
  for (int r : layouts_.placed(t.layer) ? layouts_.place(t.layer) : layouts_.busy()) take(r);
  if (!subtract(whole(t.shape), boxes).empty()) {
    held.clear();
    for (int r = 0; r < mesh_.ranks(); r++) take(r);
  }
  check(subtract(whole(t.shape), boxes).empty(), "every element of a parameter has an owner");
  return held;
}

// Depends on passes and layouts alone, so that a plan file need not contain it. Small parameters are distributed in turn, from the
// longest parameter to the shortest: to the rank that has fewest so far; of these to the one that has fewest elements; of these to
// the first.
const std::vector<Shard>& Sweeper::home(int parameter) const {
  if (homes_.empty()) {
    std::vector<std::pair<Index, Index>> given(static_cast<std::size_t>(mesh_.ranks()));  // number of small ones, their elements
    const auto in_turn = [&](const std::vector<int>& ranks, Index elements) {
      const int next = *std::min_element(ranks.begin(), ranks.end(), [&](int a, int b) { return at(given, a) < at(given, b); });
      at(given, next).first++;
      at(given, next).second += elements;
      return next;
    };
    std::vector<int> order = passes_.parameters;
    const auto elements = [&](int t) { return at(passes_.tensors, t).shape.elements(); };
    std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return elements(a) > elements(b); });
    for (int t : order) {
      const auto* elsewhere = layouts_.home(at(passes_.tensors, t).name);  // another plan's
      homes_[t] = elsewhere != nullptr ? *elsewhere : owners(holders(t), in_turn, ownership_);
    }
  }
  return homes_.at(parameter);
}

// A tensor with a rule is stored as it says; on its other axes a coordinate holds what it reads.
std::vector<Shard> Sweeper::resting(int tensor, const std::vector<Shard>& needs) const {
  const Layout& layout = layouts_.of(tensor);
  if (layout.cuts.empty()) return needs;
  std::vector<bool> other = ruled(layout);
  other.flip();
  std::vector<std::vector<Box>> rest(static_cast<std::size_t>(mesh_.ranks()));
  for (int r = 0; r < mesh_.ranks(); r++) {
    const Box mine = layout.box(mesh_, r);
    if (volume(mine) == 0) continue;
    for (const Shard& need : needs)
      if (key(need.rank, other) == key(r, other)) want(at(rest, r), intersect(mine, need.box));
  }
  return held_of(rest);
}

PassPlan Sweeper::work(int pass, const Pick& pick, const std::vector<Shard>& required) const {
  const Pass& p = at(passes_.passes, pass);
  std::vector<bool> demanded(mesh_.axes().size(), true), summed(mesh_.axes().size(), false);
  for (const PickPart& part : pick) {
    const auto& made = p.writes.indices;
    const bool reduced = std::find(made.begin(), made.end(), part.index) == made.end();
    for (int a : part.cut.axes) {
      at(demanded, a) = false;
      at(summed, a) = reduced;
    }
  }
  PassPlan out;
  out.pick = pick;
  const auto ranks = static_cast<std::size_t>(mesh_.ranks());
  out.work.resize(ranks);
  std::vector<bool> on(ranks, !layouts_.placed(p.layer));
  std::vector<int> keys;
  for (int r : layouts_.place(p.layer)) {
    at(on, r) = true;
    keys.push_back(key(r, demanded));
  }
  for (int r = 0; r < mesh_.ranks(); r++) {
    const int k = key(r, demanded);
    out.alternative_of.push_back(std::find(keys.begin(), keys.end(), k) != keys.end() ? k : keys.front());
  }
  std::map<int, Box> wanted;  // per alternative: the hull of what its readers require
  for (const Shard& a : required) {
    auto [here, fresh] = wanted.emplace(at(out.alternative_of, a.rank), a.box);
    if (!fresh) here->second = hull(here->second, a.box);
  }
  for (int r = 0; r < mesh_.ranks(); r++) {
    auto want_at = wanted.find(key(r, demanded));
    if (!at(on, r) || want_at == wanted.end()) continue;
    Work& w = at(out.work, r);
    for (const PassIndex& i : p.indices) w.box.push_back({0, i.size});
    for (std::size_t d = 0; d < p.writes.indices.size(); d++) at(w.box, p.writes.indices[d]) = want_at->second[d];
    if (p.own.of >= 0) at(w.box, p.own.of) = {0, at(p.indices, p.own.of).size};  // its own part, whatever ranks read of it
    for (const PickPart& part : pick) {
      Range& range = at(w.box, part.index);
      range = intersect(range, part.cut.at(mesh_, r));
    }
    infer_required(p, w.box);
    w.any = volume(w.box) > 0;
    w.alternative = key(r, demanded);
    w.partial = key(r, summed);
  }
  return out;
}

Sweeper::Moves Sweeper::route(const std::vector<int>& writers, const std::vector<PassPlan>& plans,
                              const std::vector<Shard>& targets) const {
  struct Made {
    int rank;
    Box box;
    int alternative, partial;
  };
  std::vector<std::vector<Made>> made(writers.size());
  std::vector<bool> writes(static_cast<std::size_t>(mesh_.ranks()), false);
  for (std::size_t k = 0; k < writers.size(); k++) {
    const Pass& p = at(passes_.passes, writers[k]);
    for (int r = 0; r < mesh_.ranks(); r++) {
      const Work& w = at(plans[k].work, r);
      if (!w.any) continue;
      made[k].push_back({r, operand_box(p.writes, w.box), w.alternative, w.partial});
      at(writes, r) = true;
    }
  }
  bool lone = true;
  for (const auto& boxes : made)
    for (std::size_t i = 0; i < boxes.size() && lone; i++)
      for (std::size_t j = i + 1; j < boxes.size() && lone; j++)
        lone = boxes[i].alternative != boxes[j].alternative || boxes[i].partial == boxes[j].partial ||
               !overlaps(boxes[i].box, boxes[j].box);
  bool shared = false;
  for (std::size_t i = 0; i < targets.size() && !lone && !shared; i++)
    for (std::size_t j = i + 1; j < targets.size() && !shared; j++)
      shared = targets[i].rank != targets[j].rank && overlaps(targets[i].box, targets[j].box);
  Moves moves;
  moves.owners = targets;
  if (shared) {
    std::vector<Shard> may;
    for (const Shard& h : targets)
      if (at(writes, h.rank)) may.push_back(h);
    std::vector<Box> boxes;
    for (const Shard& h : may) boxes.push_back(h.box);
    const bool covers = may.size() == targets.size() ||
                        std::all_of(targets.begin(), targets.end(), [&](const Shard& t) { return subtract(t.box, boxes).empty(); });
    // Divided, however small: the readers wait for the sum, and a single owner would first receive every other rank's whole partial
    // sum.
    moves.owners = owners(covers ? may : targets);
  }
  std::vector<BoxMessage> parts;  // for one owner, of one writer each
  for (const Shard& owner : moves.owners) {
    parts.clear();
    for (std::size_t k = 0; k < writers.size(); k++)
      for (const Made& m : made[k])
        if (m.alternative == at(plans[k].alternative_of, owner.rank) && overlaps(owner.box, m.box))
          parts.push_back({m.rank, owner.rank, intersect(owner.box, m.box), {static_cast<int>(k)}});
    if (writers.size() > 1) std::sort(parts.begin(), parts.end());  // else they are in the order of ranks
    const std::size_t first = moves.add.size();
    for (BoxMessage& part : parts) {
      BoxMessage* const last = moves.add.size() > first ? &moves.add.back() : nullptr;
      if (last != nullptr && last->from == part.from && last->box == part.box)
        last->writers.push_back(part.writers.front());
      else
        moves.add.push_back(std::move(part));
    }
  }
  if (shared) moves.copy = copies(moves.owners, targets);
  return moves;
}

std::vector<double> Sweeper::seconds_of(int pass, const PassPlan& plan) const {
  std::vector<double> out(plan.work.size(), 0.0);
  for (int r = 0; r < mesh_.ranks(); r++)
    if (const Work& its = at(plan.work, r); its.any) at(out, r) = cost_.pass(r, pass, its.box);
  return out;
}

double Sweeper::compute(int pass, const PassPlan& plan) const {
  const std::vector<double> seconds = seconds_of(pass, plan);
  return *std::max_element(seconds.begin(), seconds.end());
}

// Which ranks copy what they read from ranks of their host, because their kernels need it beside other parts of the tensor. Not
// those that add it to their own partial sums while they read it; nor all holders on a host if each holds the same box: then the
// tensor is stored once for them (lib/program's CommonPlan).
std::vector<bool> Sweeper::copies_arrivals(const std::vector<BoxMessage>& messages, const std::vector<Shard>& holders) const {
  if (!cost_.measured()) return std::vector<bool>(static_cast<std::size_t>(mesh_.ranks()), false);  // a copy costs nothing
  struct Held {
    Box hull{};
    Index elements = 0;
    int ranks = 1;  // of a host
    bool same = true;
    void add(const Box& box) {
      hull = elements == 0 ? box : motley::hull(hull, box);
      elements += volume(box);
    }
  };
  std::map<int, Held> by_rank, by_host;
  for (const Shard& h : holders) by_rank[h.rank].add(h.box);
  for (const auto& [rank, held] : by_rank) {
    const auto [host, first] = by_host.try_emplace(cost_.host(rank), held);
    if (first) continue;
    host->second.ranks++;
    host->second.same = host->second.same && held.hull == host->second.hull && held.elements == host->second.elements;
  }
  std::vector<Index> arrives(static_cast<std::size_t>(mesh_.ranks()), 0);
  for (const BoxMessage& m : messages) at(arrives, m.to) += volume(m.box);
  std::vector<bool> out(arrives.size(), false);
  for (const auto& [rank, held] : by_rank) {
    const Held& host = by_host.at(cost_.host(rank));
    const bool stored_once = host.ranks > 1 && host.same && held.elements == volume(held.hull);
    at(out, rank) = !stored_once && at(arrives, rank) <= held.elements;
  }
  return out;
}

std::vector<Sweeper::Transfer> Sweeper::transfers(int tensor, const std::vector<BoxMessage>& messages,
                                                  const std::vector<Shard>& holders) const {
  std::vector<Transfer> out;
  if (messages.empty()) return out;
  const std::vector<bool> copies = copies_arrivals(messages, holders);
  std::vector<bool> met(static_cast<std::size_t>(mesh_.ranks() * mesh_.ranks()), false);  // reader and writer
  for (const BoxMessage& m : messages) {
    if (m.from == m.to) continue;
    const Index elements = volume(m.box), bytes = elements * cost_.item_bytes(tensor);
    MessageSeconds takes = cost_.message(m.from, m.to, bytes);
    if (at(copies, m.to) && cost_.host(m.from) == cost_.host(m.to)) takes.seconds += cost_.copy(m.to, tensor, elements);
    auto before = met[static_cast<std::size_t>(m.to * mesh_.ranks() + m.from)];
    if (!before) takes.seconds += cost_.exchange(m.from, m.to);
    before = true;
    out.push_back({m.from, m.to, bytes, takes});
  }
  return out;
}

double Sweeper::seconds_of(const std::vector<Transfer>& transfers) const {
  Wires wires(cost_.machines());
  double last = 0;
  for (const Transfer& t : transfers) last = std::max(last, wires.arrival(t.from, t.to, 0, t.takes));
  return last;
}

// The tensor's layout, what its readers need, and where it is stored before they read it.
TensorPlan Sweeper::stored(int t, const Boxes& needs) const {
  const StepTensor& tensor = at(passes_.tensors, t);
  TensorPlan plan;
  plan.layout = layouts_.of(t);
  const bool owned = tensor.role == TensorRole::parameter_gradient;
  plan.readers = owned ? home(tensor.of) : held_of(needs);
  if (at(writers_, t).empty())  // inputs, constants: read where the data is, nothing is sent
    plan.home = tensor.role == TensorRole::parameter ? home(t) : plan.readers;
  else
    plan.home = owned ? plan.readers : resting(t, plan.readers);
  return plan;
}

void Sweeper::add_messages(int t, const std::vector<PassPlan>& writers, TensorPlan& plan) const {
  const TensorRole role = at(passes_.tensors, t).role;
  if (writers.empty()) {
    if (role == TensorRole::parameter) plan.fill.messages = copies(plan.home, plan.readers);
    plan.owners = plan.home;
    return;
  }
  Moves moves = route(at(writers_, t), writers, plan.home);
  plan.add.messages = std::move(moves.add);
  plan.copy.messages = std::move(moves.copy);
  plan.owners = std::move(moves.owners);
  if (role == TensorRole::parameter_gradient || plan.layout.cuts.empty()) return;
  std::vector<bool> other = ruled(plan.layout);
  other.flip();
  for (const BoxMessage& m : copies(plan.home, plan.readers))
    if (key(m.from, other) == key(m.to, other)) plan.fill.messages.push_back(m);
}

std::array<std::vector<Sweeper::Transfer>, 3> Sweeper::transfers_of(int t, const TensorPlan& plan) const {
  return {transfers(t, plan.add.messages, plan.owners), transfers(t, plan.copy.messages, plan.home),
          transfers(t, plan.fill.messages, plan.readers)};
}

// Decides one tensor, given what its readers need of it and its writers' picks (an absent one is chosen).
Sweeper::Decided Sweeper::decide(int t, const std::vector<Boxes>& needs, const std::map<int, Pick>& picks) const {
  Decided out;
  out.needs = at(needs, t);
  out.plan = stored(t, out.needs);
  if (!at(writers_, t).empty() && out.plan.readers.empty()) return out;
  for (int w : at(writers_, t)) {
    auto given = picks.find(w);
    out.picks.push_back(given != picks.end() ? given->second : cheapest(w, out.plan.home, needs));
    out.passes.push_back(work(w, out.picks.back(), out.plan.home));
    const std::vector<double>& seconds = out.seconds.emplace_back(seconds_of(w, out.passes.back()));
    out.cost += *std::max_element(seconds.begin(), seconds.end());
  }
  add_messages(t, out.passes, out.plan);
  std::array<std::vector<Transfer>, 3> hops = transfers_of(t, out.plan);
  for (const std::vector<Transfer>& hop : hops) out.cost += seconds_of(hop);
  if (relaid_) out.hops = std::move(hops);
  out.plan.add = out.plan.copy = out.plan.fill = {};  // they follow from the rest: see whole_of
  return out;
}

PassPlan Sweeper::work_of(int pass, const Pick& pick) const {
  const Box all = whole(at(passes_.tensors, at(passes_.passes, pass).writes.tensor).shape);
  std::vector<Shard> required;
  for (int r = 0; r < mesh_.ranks(); r++) required.push_back({r, all});
  return work(pass, pick, required);
}

double Sweeper::cost_of_tensor(int t, const std::vector<PassPlan>& writers, const Boxes& needs) const {
  TensorPlan plan = stored(t, needs);
  if (plan.readers.empty()) return 0;
  add_messages(t, writers, plan);
  double sum = 0;
  for (const std::vector<Transfer>& hop : transfers_of(t, plan)) sum += seconds_of(hop);
  return sum;
}

}  // namespace motley
