// SPDX-License-Identifier: Apache-2.0
#include "plan/sweep.h"

#include <motley/error.h>

#include <algorithm>
#include <tuple>

#include "plan/kernel_of.h"
#include "plan/narrow.h"

namespace motley {

namespace {

// Adds to a set of disjoint boxes what it lacks; a set that fills its hull becomes the hull.
void want(std::vector<Box>& have, const Box& more) {
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

std::vector<Held> held_of(const std::vector<std::vector<Box>>& boxes) {
  std::vector<Held> out;
  for (std::size_t r = 0; r < boxes.size(); r++)
    for (const Box& b : boxes[r]) out.push_back({static_cast<int>(r), b});
  std::sort(out.begin(), out.end());
  return out;
}

}  // namespace

Sweeper::Sweeper(const Passes& passes, const Mesh& mesh, Layouts layouts, const Cost& cost)
    : passes_(passes), mesh_(mesh), layouts_(std::move(layouts)), cost_(cost) {
  for (std::size_t t = 0; t < passes.tensors.size(); t++) writers_.push_back(passes.writers_of(static_cast<int>(t)));
}

int Sweeper::key(int rank, const std::vector<bool>& axes) const {
  const Coord c = mesh_.coord(rank);
  int k = 0;
  for (std::size_t a = 0; a < axes.size(); a++)
    if (axes[a]) k = k * mesh_.axes()[a].size + c[a];
  return k;
}

std::vector<bool> Sweeper::ruled(int tensor) const {
  std::vector<bool> out(mesh_.axes().size(), false);
  for (const auto& [dim, cut] : layouts_.of(tensor).cuts)
    for (int a : cut.axes) out[static_cast<std::size_t>(a)] = true;
  return out;
}

std::vector<Held> Sweeper::home(int parameter) const {
  std::vector<Held> held;
  const std::string& layer = passes_.tensors[static_cast<std::size_t>(parameter)].layer;
  for (int r : layouts_.placed(layer) ? layouts_.place(layer) : layouts_.busy()) held.push_back({r, layouts_.of(parameter).box(mesh_, r)});
  return owners(held);
}

// A tensor with a rule lies by it; on its other axes a coordinate holds what it reads.
std::vector<Held> Sweeper::resting(int tensor, const std::vector<Held>& needs) const {
  const Layout& layout = layouts_.of(tensor);
  if (layout.cuts.empty()) return needs;
  std::vector<bool> other = ruled(tensor);
  other.flip();
  std::vector<std::vector<Box>> rest(static_cast<std::size_t>(mesh_.ranks()));
  for (int r = 0; r < mesh_.ranks(); r++) {
    const Box mine = layout.box(mesh_, r);
    if (volume(mine) == 0) continue;
    for (const Held& need : needs)
      if (key(need.rank, other) == key(r, other)) want(rest[static_cast<std::size_t>(r)], intersect(mine, need.box));
  }
  return held_of(rest);
}

PassPlan Sweeper::work(int pass, const Pick& pick, const std::vector<Held>& asked) const {
  const Pass& p = passes_.passes[static_cast<std::size_t>(pass)];
  std::vector<bool> asked_axes(mesh_.axes().size(), true), summed(mesh_.axes().size(), false);
  for (const PickPart& part : pick) {
    const auto& made = p.writes.indices;
    const bool reduced = std::find(made.begin(), made.end(), part.index) == made.end();
    for (int a : part.cut.axes) {
      asked_axes[static_cast<std::size_t>(a)] = false;
      summed[static_cast<std::size_t>(a)] = reduced;
    }
  }
  PassPlan out;
  out.pick = pick;
  const auto ranks = static_cast<std::size_t>(mesh_.ranks());
  out.work.resize(ranks);
  std::vector<bool> on(ranks, !layouts_.placed(p.layer));
  std::vector<int> keys;
  for (int r : layouts_.place(p.layer)) {
    on[static_cast<std::size_t>(r)] = true;
    keys.push_back(key(r, asked_axes));
  }
  for (int r = 0; r < mesh_.ranks(); r++) {
    const int k = key(r, asked_axes);
    out.alternative_of.push_back(std::find(keys.begin(), keys.end(), k) != keys.end() ? k : keys.front());
  }
  std::map<int, Box> wanted;  // per alternative: the hull of what its readers ask
  for (const Held& a : asked) {
    auto [at, fresh] = wanted.emplace(out.alternative_of[static_cast<std::size_t>(a.rank)], a.box);
    if (!fresh) at->second = hull(at->second, a.box);
  }
  for (int r = 0; r < mesh_.ranks(); r++) {
    auto want_at = wanted.find(key(r, asked_axes));
    if (!on[static_cast<std::size_t>(r)] || want_at == wanted.end()) continue;
    Work& w = out.work[static_cast<std::size_t>(r)];
    for (const PassIndex& i : p.indices) w.box.push_back({0, i.size});
    for (std::size_t d = 0; d < p.writes.indices.size(); d++) w.box[static_cast<std::size_t>(p.writes.indices[d])] = want_at->second[d];
    for (const PickPart& part : pick) {
      Range& range = w.box[static_cast<std::size_t>(part.index)];
      range = intersect(range, part.cut.at(mesh_, r));
    }
    narrow(p, w.box);
    w.any = volume(w.box) > 0;
    w.alternative = key(r, asked_axes);
    w.term = key(r, summed);
  }
  return out;
}

Sweeper::Moves Sweeper::route(const std::vector<int>& writers, const std::vector<PassPlan>& plans, const std::vector<Held>& targets) const {
  struct Made {
    int rank;
    Box box;
    int alternative, term;
  };
  std::vector<std::vector<Made>> made(writers.size());
  std::vector<bool> writes(static_cast<std::size_t>(mesh_.ranks()), false);
  for (std::size_t k = 0; k < writers.size(); k++) {
    const Pass& p = passes_.passes[static_cast<std::size_t>(writers[k])];
    for (int r = 0; r < mesh_.ranks(); r++) {
      const Work& w = plans[k].work[static_cast<std::size_t>(r)];
      if (!w.any) continue;
      made[k].push_back({r, operand_box(p.writes, w.box), w.alternative, w.term});
      writes[static_cast<std::size_t>(r)] = true;
    }
  }
  bool lone = true;
  for (const auto& boxes : made)
    for (std::size_t i = 0; i < boxes.size(); i++)
      for (std::size_t j = i + 1; j < boxes.size(); j++)
        if (boxes[i].alternative == boxes[j].alternative && boxes[i].term != boxes[j].term && volume(intersect(boxes[i].box, boxes[j].box)) > 0)
          lone = false;
  bool shared = false;
  for (std::size_t i = 0; i < targets.size() && !lone && !shared; i++)
    for (std::size_t j = i + 1; j < targets.size() && !shared; j++)
      shared = targets[i].rank != targets[j].rank && volume(intersect(targets[i].box, targets[j].box)) > 0;
  Moves moves;
  moves.tiles = targets;
  if (shared) {
    std::vector<Held> may;
    for (const Held& h : targets)
      if (writes[static_cast<std::size_t>(h.rank)]) may.push_back(h);
    const bool covers = std::all_of(targets.begin(), targets.end(), [&](const Held& t) {
      std::vector<Box> boxes;
      for (const Held& h : may) boxes.push_back(h.box);
      return subtract(t.box, boxes).empty();
    });
    moves.tiles = owners(covers ? may : targets);
  }
  for (const Held& tile : moves.tiles) {
    std::map<std::pair<int, Box>, std::vector<int>> parts;
    for (std::size_t k = 0; k < writers.size(); k++)
      for (const Made& m : made[k]) {
        if (m.alternative != plans[k].alternative_of[static_cast<std::size_t>(tile.rank)]) continue;
        Box part = intersect(tile.box, m.box);
        if (volume(part) > 0) parts[{m.rank, std::move(part)}].push_back(static_cast<int>(k));
      }
    for (auto& [at, ks] : parts) moves.first.push_back({at.first, tile.rank, at.second, ks});
  }
  if (shared) moves.second = copies(moves.tiles, targets);
  return moves;
}

double Sweeper::compute(int pass, const PassPlan& plan) const {
  double slowest = 0;
  for (int r = 0; r < mesh_.ranks(); r++)
    if (plan.work[static_cast<std::size_t>(r)].any) slowest = std::max(slowest, cost_.pass(r, pass, plan.work[static_cast<std::size_t>(r)].box));
  return slowest;
}

double Sweeper::exchange(int tensor, const std::vector<BoxMessage>& messages, std::vector<Index>* received) const {
  std::vector<double> seconds(static_cast<std::size_t>(mesh_.ranks()), 0.0);
  for (const BoxMessage& m : messages) {
    if (m.from == m.to) continue;
    const Index bytes = volume(m.box) * cost_.item_bytes(tensor);
    seconds[static_cast<std::size_t>(m.to)] += cost_.message(m.from, m.to, bytes);
    if (received != nullptr) (*received)[static_cast<std::size_t>(m.to)] += bytes;
  }
  return *std::max_element(seconds.begin(), seconds.end());
}

bool Sweeper::fold_of_whole(const Pass& p) const {
  return p.op == KernelOp::fold && p.flat < 0 && p.writes.indices.size() == p.indices.size() && !p.indices.empty();
}

std::vector<Pick> Sweeper::candidates(int pass) const {
  const Pass& p = passes_.passes[static_cast<std::size_t>(pass)];
  std::vector<PickPart> cuts;
  const bool pool = p.op == KernelOp::max_pool2d || p.op == KernelOp::avg_pool2d;
  auto offer = [&](const PassOperand& o) {
    const Layout& layout = layouts_.of(o.tensor);
    for (std::size_t d = 0; d < layout.shape.rank(); d++) {
      auto cut = layout.cuts.find(layout.shape[d].name);
      if (cut == layout.cuts.end()) continue;
      const int index = o.indices[d];
      const bool made = std::find(p.writes.indices.begin(), p.writes.indices.end(), index) != p.writes.indices.end();
      if ((!made && p.flat >= 0) || std::find(p.whole.begin(), p.whole.end(), index) != p.whole.end()) continue;
      const PickPart part{index, cut->second};
      if (std::find(cuts.begin(), cuts.end(), part) == cuts.end()) cuts.push_back(part);
    }
  };
  for (const PassOperand& o : p.reads) offer(o);
  offer(p.writes);
  if (fold_of_whole(p) || pool) {  // on an axis without a rule: an even slab of the first uncut dim, contiguous in memory
    const std::vector<bool> has = ruled(p.writes.tensor);
    for (std::size_t a = 0; a < has.size(); a++) {
      if (has[a] || mesh_.axes()[a].size == 1 || layouts_.placed(p.layer)) continue;
      const int index = p.writes.indices.front();
      if (std::any_of(cuts.begin(), cuts.end(), [&](const PickPart& c) { return c.index == index; })) continue;
      std::vector<double> shares(static_cast<std::size_t>(mesh_.axes()[a].size), 0.0);
      for (int r : layouts_.busy()) shares[static_cast<std::size_t>(mesh_.coord(r)[a])] = 1.0;
      cuts.push_back({index, {{static_cast<int>(a)}, -1, {Partition::proportional(p.indices[static_cast<std::size_t>(index)].size, shares)}}});
    }
  }
  std::vector<Pick> out;
  for (std::size_t bits = 0; bits < (std::size_t{1} << cuts.size()); bits++) {
    Pick pick;
    std::vector<int> axes, indices;
    bool good = true;
    for (std::size_t i = 0; i < cuts.size(); i++) {
      if ((bits >> i & 1U) == 0) continue;
      for (int a : cuts[i].cut.axes) {
        good = good && std::find(axes.begin(), axes.end(), a) == axes.end();
        axes.push_back(a);
      }
      good = good && std::find(indices.begin(), indices.end(), cuts[i].index) == indices.end();
      indices.push_back(cuts[i].index);
      pick.push_back(cuts[i]);
    }
    std::vector<const Cut*> together;
    for (const PickPart& part : pick) together.push_back(&part.cut);
    good = good && !in_a_circle(together);
    if (good && layouts_.placed(p.layer)) {
      const std::vector<int>& place = layouts_.place(p.layer);
      for (const PickPart& part : pick)
        for (int r = 0; r < mesh_.ranks(); r++)
          good = good && (std::find(place.begin(), place.end(), r) != place.end() || part.cut.at(mesh_, r).size() == 0);
    }
    if (good) out.push_back(std::move(pick));
  }
  std::stable_sort(out.begin(), out.end(), [](const Pick& a, const Pick& b) { return a.size() < b.size(); });
  return out;
}

// Compute of the slowest + bytes in (from the layout's box; free where there is no rule: its producer pays) + bytes out.
Pick Sweeper::cheapest(int pass, const std::vector<Held>& asked, const std::vector<Boxes>& needs) const {
  const Pass& p = passes_.passes[static_cast<std::size_t>(pass)];
  const std::vector<Pick> all = candidates(pass);
  if (all.size() == 1) return all.front();
  Pick best;
  std::tuple<double, Index, std::size_t> best_cost{};
  bool first = true;
  for (const Pick& pick : all) {
    std::vector<PassPlan> plan{work(pass, pick, asked)};
    const Moves moves = route({pass}, plan, asked);
    std::vector<Index> bytes(static_cast<std::size_t>(mesh_.ranks()), 0);
    double seconds = compute(pass, plan[0]) + exchange(p.writes.tensor, moves.first, &bytes) + exchange(p.writes.tensor, moves.second, &bytes);
    std::vector<double> in(static_cast<std::size_t>(mesh_.ranks()), 0.0);
    for (const PassOperand& o : p.reads) {
      const StepTensor& t = passes_.tensors[static_cast<std::size_t>(o.tensor)];
      if (t.role == TensorRole::input || t.role == TensorRole::label || t.role == TensorRole::seed) continue;
      const bool parameter = t.role == TensorRole::parameter;
      if (!parameter && layouts_.of(o.tensor).cuts.empty()) continue;
      const std::vector<Held> owned = parameter ? home(o.tensor) : std::vector<Held>{};
      for (int r = 0; r < mesh_.ranks(); r++) {
        const Work& w = plan[0].work[static_cast<std::size_t>(r)];
        if (!w.any) continue;
        std::vector<Box> have = needs[static_cast<std::size_t>(o.tensor)][static_cast<std::size_t>(r)];
        if (!parameter) have.push_back(layouts_.of(o.tensor).box(mesh_, r));
        for (const Held& h : owned)
          if (h.rank == r) have.push_back(h.box);
        Index missing = 0;
        for (const Box& b : subtract(operand_box(o, w.box), have)) missing += volume(b);
        missing *= cost_.item_bytes(o.tensor);
        bytes[static_cast<std::size_t>(r)] += missing;
        in[static_cast<std::size_t>(r)] += cost_.message(r == 0 ? mesh_.ranks() - 1 : 0, r, missing);
      }
    }
    seconds += *std::max_element(in.begin(), in.end());
    Index total = 0;
    for (Index b : bytes) total += b;
    const std::tuple<double, Index, std::size_t> cost{seconds, total, pick.size()};
    // What differs by rounding alone is a tie: fewer bytes, then fewer cuts, then the first.
    const double scale = 1e-9 * std::max(std::get<0>(best_cost), 1e-12);
    const bool less = first || seconds < std::get<0>(best_cost) - scale ||
                      (seconds < std::get<0>(best_cost) + scale &&
                       std::pair(total, pick.size()) < std::pair(std::get<1>(best_cost), std::get<2>(best_cost)));
    if (less) {
      best = pick;
      best_cost = cost;
      first = false;
    }
  }
  return best;
}

Sweep Sweeper::run(const std::map<int, Pick>& picks) {
  const std::size_t tensors = passes_.tensors.size();
  const auto ranks = static_cast<std::size_t>(mesh_.ranks());
  Sweep out;
  out.passes.resize(passes_.passes.size());
  out.tensors.resize(tensors);
  out.received.assign(tensors, std::vector<Index>(ranks, 0));
  std::vector<Boxes> needs(tensors, Boxes(ranks));
  for (int o : passes_.outputs) {
    const int reader = layouts_.busy().front();
    if (o != passes_.logits || o == passes_.loss) needs[static_cast<std::size_t>(o)][static_cast<std::size_t>(reader)] = {whole(passes_.tensors[static_cast<std::size_t>(o)].shape)};
  }
  // A tensor is decided when all its readers are: in reverse order of its last writer.
  std::vector<int> order;
  for (std::size_t i = passes_.passes.size(); i-- > 0;) {
    const int t = passes_.passes[i].writes.tensor;
    if (std::find(order.begin(), order.end(), t) == order.end()) order.push_back(t);
  }
  for (int t : order) {
    const auto at = static_cast<std::size_t>(t);
    const StepTensor& tensor = passes_.tensors[at];
    TensorPlan& plan = out.tensors[at];
    const bool owned = tensor.role == TensorRole::parameter_gradient;
    plan.needs = owned ? home(tensor.of) : held_of(needs[at]);
    if (plan.needs.empty()) continue;
    plan.rest = owned ? plan.needs : resting(t, plan.needs);
    std::vector<PassPlan> plans;
    for (int w : writers_[at]) {
      auto told = picks.find(w);
      const Pick pick = told != picks.end() ? told->second : cheapest(w, plan.rest, needs);
      plans.push_back(work(w, pick, plan.rest));
      const Pass& p = passes_.passes[static_cast<std::size_t>(w)];
      for (std::size_t r = 0; r < ranks; r++)
        if (plans.back().work[r].any)
          for (const PassOperand& o : p.reads) want(needs[static_cast<std::size_t>(o.tensor)][r], operand_box(o, plans.back().work[r].box));
      out.cost += compute(w, plans.back());
    }
    Moves moves = route(writers_[at], plans, plan.rest);
    plan.first = std::move(moves.first);
    plan.second = std::move(moves.second);
    plan.tiles = std::move(moves.tiles);
    if (!owned && !layouts_.of(t).cuts.empty()) {
      std::vector<bool> other = ruled(t);
      other.flip();
      for (const BoxMessage& m : copies(plan.rest, plan.needs))
        if (key(m.from, other) == key(m.to, other)) plan.third.push_back(m);
    }
    for (std::size_t k = 0; k < plans.size(); k++) out.passes[static_cast<std::size_t>(writers_[at][k])] = std::move(plans[k]);
    for (const auto* hop : {&plan.first, &plan.second, &plan.third}) out.cost += exchange(t, *hop, &out.received[at]);
  }
  for (std::size_t t = 0; t < tensors; t++) {
    TensorPlan& plan = out.tensors[t];
    plan.layout = layouts_.of(static_cast<int>(t));
    if (!writers_[t].empty()) continue;
    plan.needs = held_of(needs[t]);
    if (passes_.tensors[t].role == TensorRole::parameter) {
      plan.rest = home(static_cast<int>(t));
      plan.third = copies(plan.rest, plan.needs);
      out.cost += exchange(static_cast<int>(t), plan.third, &out.received[t]);
    } else {
      plan.rest = plan.needs;  // read from where the data is, or constant: nothing travels
    }
    plan.tiles = plan.rest;
  }
  return out;
}

Sweep Sweeper::improve() {
  Sweep best = run({});
  auto picks_of = [&](const Sweep& s) {
    std::map<int, Pick> picks;
    for (std::size_t i = 0; i < s.passes.size(); i++)
      if (!s.passes[i].work.empty()) picks[static_cast<int>(i)] = s.passes[i].pick;
    return picks;
  };
  std::map<int, Pick> picks = picks_of(best);
  const double enough = 1e-9;
  for (int parameter : passes_.parameters) {  // which of two dims on one axis is cut
    const std::size_t options = layouts_.options(parameter), kept = layouts_.chosen(parameter);
    std::size_t chosen = kept;
    for (std::size_t k = 0; k < options && options > 1; k++) {
      if (k == kept) continue;
      layouts_.choose(parameter, k);
      std::map<int, Pick> others = picks;
      std::erase_if(others, [&](const auto& entry) {
        const Pass& p = passes_.passes[static_cast<std::size_t>(entry.first)];
        auto is = [&](const PassOperand& o) { return o.tensor == parameter || passes_.tensors[static_cast<std::size_t>(o.tensor)].of == parameter; };
        return is(p.writes) || std::any_of(p.reads.begin(), p.reads.end(), is);
      });
      Sweep other = run(others);
      if (other.cost < best.cost * (1 - enough)) {
        best = std::move(other);
        chosen = k;
      }
    }
    layouts_.choose(parameter, chosen);
    if (chosen != kept) picks = picks_of(best);
  }
  for (int round = 0; round < 2; round++) {
    const double before = best.cost;
    for (std::size_t i = passes_.passes.size(); i-- > 0;) {
      const int pass = static_cast<int>(i);
      if (!picks.contains(pass)) continue;
      for (const Pick& pick : candidates(pass)) {
        if (pick == picks[pass]) continue;
        std::map<int, Pick> others = picks;
        others[pass] = pick;
        Sweep other = run(others);
        if (other.cost < best.cost * (1 - enough)) {
          best = std::move(other);
          picks = others;
        }
      }
    }
    if (best.cost > before * (1 - enough)) break;
  }
  return best;
}

}  // namespace motley
