// SPDX-License-Identifier: Apache-2.0
// Which picks a pass can have, and the cheapest of them.
#include <algorithm>
#include <cmath>
#include <tuple>

#include "base/at.h"
#include "kernels/operands.h"
#include "mesh/parts.h"
#include "plan/kernel_of.h"
#include "plan/sweep.h"

namespace motley {

namespace {

// Without regard to means over a rank's own part.
const char* parts_mistake(const Pass& pass, const Pick& pick, const Mesh& mesh, const Layouts& layouts) {
  const auto has = [](const auto& list, int one) { return std::find(list.begin(), list.end(), one) != list.end(); };
  std::vector<int> axes, indices;
  std::vector<const Cut*> cuts;
  for (const PickPart& part : pick) {
    for (const int a : part.cut.axes) {
      if (has(axes, a)) return "two cuts, or one twice, are over one axis";
      axes.push_back(a);
    }
    if (has(part.cut.axes, part.cut.per)) return "a cut is over the axis that its lists of parts are for (`per`)";
    if (has(indices, part.index)) return "an index is cut twice";
    const bool is_tap = std::any_of(pass.windows.begin(), pass.windows.end(), [&](const Window& w) { return w.tap == part.index; });
    if (is_tap || has(pass.whole, part.index)) return "an index is cut that every rank computes whole";
    if (layouts.placed(pass.layer) && reaches_others(mesh, part.cut, layouts.place(pass.layer)))
      return "a rank gets a part on which the layer is not placed";
    indices.push_back(part.index);
    cuts.push_back(&part.cut);
  }
  return in_a_circle(cuts) ? "the lists of parts depend on each other's axes in a circle" : nullptr;
}

}  // namespace

const char* pick_mistake(const Pass& pass, const Pick& pick, const Mesh& mesh, const Layouts& layouts) {
  if (const char* const wrong = parts_mistake(pass, pick, mesh, layouts); wrong != nullptr || pass.own.of < 0) return wrong;
  // A mean over a rank's own part is cut as the layout says if it can be (that of a placed layer may not), else not at all.
  const Layout& layout = layouts.of(pass.writes.tensor);
  const auto dim = std::find(pass.writes.indices.begin(), pass.writes.indices.end(), pass.own.of) - pass.writes.indices.begin();
  const auto cut = layout.cuts.find(layout.shape[static_cast<std::size_t>(dim)].name);
  const bool by_layout = cut != layout.cuts.end() && parts_mistake(pass, {{pass.own.of, cut->second}}, mesh, layouts) == nullptr;
  const auto part = std::find_if(pick.begin(), pick.end(), [&](const PickPart& one) { return one.index == pass.own.of; });
  const bool good = by_layout ? part != pick.end() && part->cut == cut->second : part == pick.end();
  return good ? nullptr : "a mean over a rank's own part is not cut as what it is the mean of";
}

std::size_t Sweeper::parts_over(const std::vector<int>& axes) const {
  std::size_t parts = 1;
  for (int a : axes) parts *= static_cast<std::size_t>(at(mesh_.axes(), a).size);
  return parts;
}

// Per part along these axes the whole-step speed of its slowest rank; 0 where no rank has a part in the step.
std::vector<double> Sweeper::speeds_over(const std::vector<int>& axes) const {
  std::vector<double> out(parts_over(axes), HUGE_VAL);
  for (int r : layouts_.busy()) {
    double& least = at(out, part_of(mesh_, axes, r));
    least = std::min(least, at(speeds_, r));
  }
  for (double& s : out)
    if (std::isinf(s)) s = 0;
  return out;
}

// The parts of a parameter's first dim that its owners have, along these axes; none if these are not consecutive parts of it.
std::optional<Partition> Sweeper::owned_parts(int parameter, const std::vector<int>& axes) const {
  std::vector<Range> ranges(parts_over(axes));
  for (const Shard& own : home(parameter)) {
    Range& range = at(ranges, part_of(mesh_, axes, own.rank));
    if (own.box.empty() || (range.size() > 0 && range != own.box.front())) return std::nullopt;
    range = own.box.front();
  }
  std::vector<Index> sizes;
  Index end = 0;
  for (const Range& range : ranges) {
    if (range.size() > 0 && range.begin != end) return std::nullopt;
    end += range.size();
    sizes.push_back(range.size());
  }
  return end == at(passes_.tensors, parameter).shape[0].size ? std::optional(Partition::of(sizes)) : std::nullopt;
}

// Where no rule cuts the result along some axes: an index distributed over them by the ranks' speed, or all on the fastest; what is
// made of a parameter alone (its copy in bf16, a bias in all places) also where its owners have it. The index is the first dim of
// the result, or of the first tensor that is read: in every format slices of the first dim are contiguous, so that messages need no
// packing.
void Sweeper::offer_unruled(int pass, std::vector<PickPart>& cuts) const {
  const Pass& p = at(passes_.passes, pass);
  if (!p.index_maps.empty() || layouts_.placed(p.layer)) return;
  const std::vector<bool> has = ruled(layouts_.of(p.writes.tensor));
  std::vector<int> axes;
  for (std::size_t a = 0; a < has.size(); a++)
    if (!has[a] && mesh_.axes()[a].size > 1) axes.push_back(static_cast<int>(a));
  if (axes.empty()) return;
  std::vector<int> indices;
  for (const PassOperand* o : {&p.writes, &p.reads.front()})
    if (!o->indices.empty() && std::find(indices.begin(), indices.end(), o->indices.front()) == indices.end())
      indices.push_back(o->indices.front());
  const std::vector<double> speeds = speeds_over(axes);
  std::vector<double> fastest(speeds.size(), 0.0);
  at(fastest, std::max_element(speeds.begin(), speeds.end()) - speeds.begin()) = 1;
  const std::size_t by_rules = cuts.size();
  for (int index : indices) {
    if (std::find(p.whole.begin(), p.whole.end(), index) != p.whole.end()) continue;
    if (std::any_of(cuts.begin(), cuts.begin() + static_cast<std::ptrdiff_t>(by_rules),
                    [&](const PickPart& c) { return c.index == index; }))
      continue;
    const Index size = at(p.indices, index).size;
    std::vector<Partition> parts{Partition::proportional(size, speeds), Partition::proportional(size, fastest)};
    const PassOperand& read = p.reads.front();
    if (p.reads.size() == 1 && at(passes_.tensors, read.tensor).role == TensorRole::parameter && index == read.indices.front()) {
      const std::optional<Partition> owned = owned_parts(read.tensor, axes);
      const auto is_owned = [&](const Partition& one) { return one.sizes() == owned->sizes(); };
      if (owned && std::none_of(parts.begin(), parts.end(), is_owned)) parts.push_back(*owned);
    }
    for (Partition& one : parts) cuts.push_back({index, {axes, -1, {std::move(one)}}});
  }
}

const std::vector<Pick>& Sweeper::candidates(int pass) const {
  std::vector<Pick>& known = at(candidates_, pass);
  if (known.empty()) known = all_candidates(pass);
  return known;
}

std::vector<Pick> Sweeper::all_candidates(int pass) const {
  const Pass& p = at(passes_.passes, pass);
  std::vector<PickPart> cuts;
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
  offer_unruled(pass, cuts);
  std::vector<Pick> out;
  for (std::size_t bits = 0; bits < (std::size_t{1} << cuts.size()); bits++) {
    Pick pick;
    for (std::size_t i = 0; i < cuts.size(); i++)
      if ((bits >> i & 1U) != 0) pick.push_back(cuts[i]);
    if (pick_mistake(p, pick, mesh_, layouts_) == nullptr) out.push_back(std::move(pick));
  }
  std::stable_sort(out.begin(), out.end(), [](const Pick& a, const Pick& b) { return a.size() < b.size(); });
  return out;
}

// The cost of receiving from an unspecified rank: the mean over those that have a part in the step.
double Sweeper::incoming(int rank, Index bytes) const {
  double sum = 0;
  int others = 0;
  for (int from : layouts_.busy())
    if (from != rank) {
      sum += cost_.message(from, rank, bytes).seconds + cost_.exchange(from, rank);
      others++;
    }
  return others == 0 ? 0 : sum / others;
}

// Cost: compute of the slowest rank + bytes in (from the layout's box; free where there is no rule: its producer pays) + bytes out.
Pick Sweeper::cheapest(int pass, const std::vector<Shard>& required, const std::vector<Boxes>& needs) const {
  const Pass& p = at(passes_.passes, pass);
  const std::vector<Pick>& all = candidates(pass);
  if (all.size() == 1) return all.front();
  Pick best;
  std::tuple<double, Index, std::size_t> best_cost{};
  bool first = true;
  for (const Pick& pick : all) {
    std::vector<PassPlan> plan{work(pass, pick, required)};
    const Moves moves = route({pass}, plan, required);
    std::vector<Index> bytes(static_cast<std::size_t>(mesh_.ranks()), 0);
    double seconds = compute(pass, plan[0]);
    for (const std::vector<Transfer>& hop :
         {transfers(p.writes.tensor, moves.add, moves.owners), transfers(p.writes.tensor, moves.copy, required)}) {
      seconds += seconds_of(hop);
      for (const Transfer& t : hop) at(bytes, t.to) += t.bytes;
    }
    std::vector<double> in(static_cast<std::size_t>(mesh_.ranks()), 0.0);
    for (const PassOperand& o : p.reads) {
      const StepTensor& t = at(passes_.tensors, o.tensor);
      if (t.role == TensorRole::input || t.role == TensorRole::label || t.role == TensorRole::key || t.role == TensorRole::seed)
        continue;
      const bool parameter = t.role == TensorRole::parameter;
      if (!parameter && layouts_.of(o.tensor).cuts.empty()) continue;
      const std::vector<Shard> owned = parameter ? home(o.tensor) : std::vector<Shard>{};
      for (int r = 0; r < mesh_.ranks(); r++) {
        const Work& w = at(plan[0].work, r);
        if (!w.any) continue;
        std::vector<Box> have = at(at(needs, o.tensor), r);
        if (!parameter) have.push_back(layouts_.of(o.tensor).box(mesh_, r));
        for (const Shard& h : owned)
          if (h.rank == r) have.push_back(h.box);
        Index missing = 0;
        for (const Box& b : subtract(operand_box(o, w.box), have)) missing += volume(b);
        missing *= cost_.item_bytes(o.tensor);
        at(bytes, r) += missing;
        if (missing > 0) at(in, r) += incoming(r, missing);
      }
    }
    seconds += *std::max_element(in.begin(), in.end());
    Index total = 0;
    for (Index b : bytes) total += b;
    const std::tuple<double, Index, std::size_t> cost{seconds, total, pick.size()};
    // Costs that differ only by rounding are equal: then fewer bytes, then fewer cuts, then the first.
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

}  // namespace motley
