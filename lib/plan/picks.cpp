// SPDX-License-Identifier: Apache-2.0
// Which picks a pass has, the cheapest of them, and the improving sweep.
#include <algorithm>
#include <tuple>

#include "kernels/operands.h"
#include "plan/kernel_of.h"
#include "plan/sweep.h"

namespace motley {

bool Sweeper::fold_of_whole(const Pass& p) const {
  return p.op == KernelOp::fold && p.ties.empty() && p.writes.indices.size() == p.indices.size() && !p.indices.empty();
}

std::vector<Pick> Sweeper::candidates(int pass) const {
  const Pass& p = passes_.passes[static_cast<std::size_t>(pass)];
  std::vector<PickPart> cuts;
  const bool pool = is_pool(p.op);
  auto offer = [&](const PassOperand& o) {
    const Layout& layout = layouts_.of(o.tensor);
    for (std::size_t d = 0; d < layout.shape.rank(); d++) {
      auto cut = layout.cuts.find(layout.shape[d].name);
      if (cut == layout.cuts.end()) continue;
      const int index = o.indices[d];
      if (std::find(p.whole.begin(), p.whole.end(), index) != p.whole.end()) continue;
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

void Sweeper::choose(int parameter, std::size_t option) {
  if (layouts_.chosen(parameter) == option) return;
  layouts_.choose(parameter, option);
  for (auto& of_tensor : known_) of_tensor.clear();
}

Sweep Sweeper::improve(const std::map<int, Pick>& from) {
  Trial best = attempt(from);
  auto picks_of = [&](const Trial& trial) {
    std::map<int, Pick> picks;
    for (std::size_t t = 0; t < trial.tensors.size(); t++)
      for (std::size_t k = 0; k < trial.tensors[t]->passes.size(); k++) picks[writers_[t][k]] = trial.tensors[t]->picks[k];
    return picks;
  };
  std::map<int, Pick> picks = picks_of(best);
  const double enough = 1e-9;
  for (int parameter : passes_.parameters) {  // which of two dims on one axis is cut
    const std::size_t options = layouts_.options(parameter), kept = layouts_.chosen(parameter);
    std::size_t chosen = kept;
    for (std::size_t k = 0; k < options && options > 1; k++) {
      if (k == kept) continue;
      choose(parameter, k);
      std::map<int, Pick> others = picks;
      std::erase_if(others, [&](const auto& entry) {
        const Pass& p = passes_.passes[static_cast<std::size_t>(entry.first)];
        auto is = [&](const PassOperand& o) { return o.tensor == parameter || passes_.tensors[static_cast<std::size_t>(o.tensor)].of == parameter; };
        return is(p.writes) || std::any_of(p.reads.begin(), p.reads.end(), is);
      });
      Trial other = attempt(others);
      if (other.cost < best.cost * (1 - enough)) {
        best = std::move(other);
        chosen = k;
      }
    }
    choose(parameter, chosen);
    if (chosen != kept) picks = picks_of(best);
  }
  for (int round = 0; round < 2; round++) {
    const double before = best.cost;
    for (int pass : pass_order_) {
      if (!picks.contains(pass)) continue;
      for (const Pick& pick : candidates(pass)) {
        if (pick == picks[pass]) continue;
        std::map<int, Pick> others = picks;
        others[pass] = pick;
        const double limit = best.cost * (1 - enough);
        Trial other = attempt(others, limit);
        if (other.cost < limit) {
          best = std::move(other);
          picks = others;
        }
      }
    }
    if (best.cost > before * (1 - enough)) break;
  }
  return whole_of(best);
}

}  // namespace motley
