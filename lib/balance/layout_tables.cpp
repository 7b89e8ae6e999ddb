// SPDX-License-Identifier: Apache-2.0
#include "balance/layout_tables.h"

#include <algorithm>
#include <numeric>

#include "balance/balance_sum.h"
#include "balance/candidate_sizes.h"
#include "base/at.h"
#include "mesh/parts.h"
#include "plan/infer_required.h"
#include "plan/kernel_of.h"

namespace motley {

namespace {

constexpr std::size_t kMostOfTensor = 4096;  // of one tensor's table
constexpr Index kSizesForParts = 16;         // of a dim, for its parts

bool uses(const Pick& pick, int index, const Cut& cut) {
  return std::any_of(pick.begin(), pick.end(), [&](const PickPart& part) {
    return part.index == index || std::any_of(cut.axes.begin(), cut.axes.end(), [&](int a) {
             return std::find(part.cut.axes.begin(), part.cut.axes.end(), a) != part.cut.axes.end();
           });
  });
}

std::vector<int> without_repeats(std::vector<int> list) {
  std::sort(list.begin(), list.end());
  list.erase(std::unique(list.begin(), list.end()), list.end());
  return list;
}

}  // namespace

LayoutTables::LayoutTables(const Passes& passes, const Mesh& mesh, const LayoutChoices& choices, const Cost& cost)
    : passes_(passes),
      mesh_(mesh),
      choices_(choices),
      cost_(cost),
      writers_(passes.tensors.size()),
      readers_(passes.tensors.size()) {
  for (std::size_t p = 0; p < passes.passes.size(); p++) {
    if (at(choices.bundles().of_pass, p) < 0) continue;
    at(writers_, passes.passes[p].writes.tensor).push_back(static_cast<int>(p));
    for (const PassOperand& o : passes.passes[p].reads) at(readers_, o.tensor).push_back(static_cast<int>(p));
  }
  layouts_ = layouts();
  find_parts();
  layouts_ = layouts();
  for (const Layouts& its : layouts_) sweepers_.emplace_back(passes, mesh, its, cost);
  add_work();
}

std::vector<int> LayoutTables::values() const {
  std::vector<int> out;
  for (std::size_t b = 0; b < choices_.bundles().list.size(); b++)
    out.push_back(static_cast<int>(choices_.of(static_cast<int>(b)).size()));
  return out;
}

int LayoutTables::most_choices() const {
  const std::vector<int> all = values();
  return all.empty() ? 0 : *std::max_element(all.begin(), all.end());
}

bool LayoutTables::same_work(int bundle, int a, int b) const {
  for (std::size_t p = 0; p < work_.size(); p++) {
    if (at(choices_.bundles().of_pass, p) != bundle) continue;
    const std::vector<Work>&x = at(work_[p], a).work, &y = at(work_[p], b).work;
    const auto same = [](const Work& one, const Work& other) { return one.any == other.any && (!one.any || one.box == other.box); };
    if (!std::equal(x.begin(), x.end(), y.begin(), y.end(), same)) return false;
  }
  return true;
}

int LayoutTables::rank_alone(int bundle, int choice) const {
  return motley::rank_alone(passes_, at(choices_.bundles().list, bundle),
                            [&](int pass) -> const std::vector<Work>& { return at(at(work_, pass), choice).work; });
}

LayoutRules LayoutTables::with_parts(LayoutRules rules) const {
  const auto resolve = [&](Rule& rule) {
    if (rule.axes.names.empty() || !std::holds_alternative<CutBy>(rule.parts)) return;
    const auto known =
        std::find_if(parts_.begin(), parts_.end(), [&](const Part& p) { return p.dim == rule.dim && p.axes == rule.axes.names; });
    if (known != parts_.end()) rule.parts = Sizes{known->sizes};
  };
  for (Rule& rule : rules.split) resolve(rule);
  for (auto& [name, list] : rules.tensors)
    for (Rule& rule : list) resolve(rule);
  return rules;
}

std::vector<Layouts> LayoutTables::layouts() const {
  std::vector<Layouts> out;
  for (int k = 0; k < most_choices(); k++) {
    std::vector<int> chosen;
    for (const int n : values()) chosen.push_back(std::min(k, n - 1));
    try {
      out.emplace_back(passes_, mesh_, with_parts(choices_.rules(chosen)));
    } catch (const LayoutError&) {  // derived dims leave two cuts of one tensor on one axis: priced as if nothing was cut
      out.emplace_back(passes_, mesh_, LayoutRules{});
    }
  }
  return out;
}

// The pass cuts what its own layer's tensors are cut along: the result, or what it reads of it.
Pick LayoutTables::pick_of(int pass, int choice) const {
  const Pass& p = at(passes_.passes, pass);
  const Layouts& layouts = at(layouts_, choice);
  const int bundle = at(choices_.bundles().of_pass, pass);
  Pick pick;
  const auto offer = [&](const PassOperand& o) {
    if (at(choices_.bundles().of_tensor, o.tensor) != bundle) return;
    const Layout& layout = layouts.of(o.tensor);
    for (std::size_t d = 0; d < layout.shape.rank(); d++) {
      const auto cut = layout.cuts.find(layout.shape[d].name);
      if (cut == layout.cuts.end() || uses(pick, o.indices[d], cut->second)) continue;
      pick.push_back({o.indices[d], cut->second});
      if (pick_mistake(p, pick, mesh_, layouts) != nullptr) pick.pop_back();
    }
  };
  offer(p.writes);
  for (const PassOperand& o : p.reads) offer(o);
  return pick;
}

// On axes without a cut: of a layer that is not cut, and of a contraction, all on the fastest; else by speed along the first dim.
void LayoutTables::fill(int pass, int choice, Pick& pick) const {
  const Pass& p = at(passes_.passes, pass);
  const Sweeper& sweeper = at(sweepers_, choice);
  const LayoutChoice& its = choices_.of(at(choices_.bundles().of_pass, pass))[static_cast<std::size_t>(choice)];
  if (its.given || !p.index_maps.empty() || p.writes.indices.empty() || sweeper.layouts().placed(p.layer)) return;
  std::vector<int> axes;
  for (std::size_t a = 0; a < mesh_.axes().size(); a++)
    if (mesh_.axes()[a].size > 1 && !uses(pick, -1, Cut{{static_cast<int>(a)}, -1, {}})) axes.push_back(static_cast<int>(a));
  if (axes.empty()) return;
  std::vector<double> speeds = sweeper.speeds_over(axes);
  if (its.cuts.empty() || p.op != KernelOp::map) {
    const auto fastest = std::max_element(speeds.begin(), speeds.end()) - speeds.begin();
    std::fill(speeds.begin(), speeds.end(), 0.0);
    at(speeds, fastest) = 1;
  }
  const int index = p.writes.indices.front();
  pick.push_back({index, {axes, -1, {Partition::proportional(at(p.indices, index).size, speeds)}}});
  if (pick_mistake(p, pick, mesh_, sweeper.layouts()) != nullptr) pick.pop_back();
}

// Adds the seconds of a pass, by size, to each rank's if its bundle may be cut along this dim alone.
void LayoutTables::add_seconds(int p, const Part& part, const Variable& v,
                               std::vector<std::vector<std::pair<Index, double>>>& of_rank) const {
  const int bundle = at(choices_.bundles().of_pass, p);
  if (bundle < 0) return;
  const std::vector<LayoutChoice>& all = choices_.of(bundle);
  const auto alone = std::find_if(all.begin(), all.end(), [&](const LayoutChoice& c) {
    return c.cuts.size() == 1 && c.cuts.front().first == part.dim && c.cuts.front().second == part.axes;
  });
  if (alone == all.end()) return;
  const Pick pick = pick_of(p, static_cast<int>(alone - all.begin()));
  if (pick.empty() || pick.front().cut.axes != v.axes) return;
  const Pass& pass = at(passes_.passes, p);
  Box whole;
  for (const PassIndex& i : pass.indices) whole.push_back({0, i.size});
  for (int r = 0; r < mesh_.ranks(); r++)
    for (auto& [k, seconds] : at(of_rank, r)) seconds += cost_.pass(r, p, with_part(whole, pass, pick.front().index, v, k));
}

// Each dim's parts: those with the least sum of its kernels' seconds, over all layers that may be cut along it alone.
void LayoutTables::find_parts() {
  std::vector<Part> found;
  for (std::size_t p = 0; p < passes_.passes.size(); p++) {
    const int bundle = at(choices_.bundles().of_pass, p);
    if (bundle < 0) continue;
    for (const LayoutChoice& choice : choices_.of(bundle))
      for (const auto& [dim, axes] : choice.cuts)
        if (std::none_of(found.begin(), found.end(), [&](const Part& one) { return one.dim == dim && one.axes == axes; }))
          found.push_back({dim, axes, {}});
  }
  const auto sizes_of_dims = reference_sizes(passes_);
  for (Part& part : found) {
    Variable v{.dim = part.dim, .size = sizes_of_dims.at(part.dim)};
    for (const std::string& name : part.axes) {
      v.axes.push_back(mesh_.axis(name));
      v.parts *= at(mesh_.axes(), v.axes.back()).size;
    }
    const std::vector<Index> sizes = candidate_sizes(v.size, kSizesForParts);
    using Points = std::vector<std::pair<Index, double>>;
    Points nothing;
    for (const Index k : sizes) nothing.emplace_back(k, 0.0);
    std::vector<Points> of_rank(static_cast<std::size_t>(mesh_.ranks()), nothing);
    for (std::size_t p = 0; p < passes_.passes.size(); p++) add_seconds(static_cast<int>(p), part, v, of_rank);
    std::vector<Points> points(static_cast<std::size_t>(v.parts), nothing);  // of each part's slowest rank
    for (int r = 0; r < mesh_.ranks(); r++)
      for (std::size_t i = 0; i < nothing.size(); i++) {
        double& slowest = at(points, part_of(mesh_, v.axes, r))[i].second;
        slowest = std::max(slowest, at(of_rank, r)[i].second);
      }
    SizeTables tables;
    for (const auto& of_part : points) tables.push_back(step_table(of_part, v.size));
    SumOptions options;
    options.steps = sizes;
    part.sizes = balance_sum({tables}, v.size, options).parts;
  }
  parts_ = std::move(found);
}

void LayoutTables::add_work() {
  for (std::size_t p = 0; p < passes_.passes.size(); p++) {
    work_.emplace_back();
    const int bundle = at(choices_.bundles().of_pass, p);
    if (bundle < 0) continue;
    for (int k = 0; k < static_cast<int>(choices_.of(bundle).size()); k++) {
      Pick pick = pick_of(static_cast<int>(p), k);
      fill(static_cast<int>(p), k, pick);
      work_.back().push_back(at(sweepers_, k).work_of(static_cast<int>(p), pick));
    }
  }
}

std::vector<int> LayoutTables::bundles_of(int tensor, const std::vector<int>& writers, const std::vector<int>& readers) const {
  std::vector<int> out;
  if (const int own = at(choices_.bundles().of_tensor, tensor); own >= 0) out.push_back(own);
  for (const std::vector<int>* list : {&writers, &readers})
    for (const int p : *list) out.push_back(at(choices_.bundles().of_pass, p));
  return without_repeats(std::move(out));
}

double LayoutTables::cost_of(int tensor, const std::vector<int>& writers, const std::vector<int>& readers,
                             const std::vector<int>& chosen) const {
  const auto work = [&](int pass) -> const PassPlan& {
    return at(at(work_, pass), at(chosen, at(choices_.bundles().of_pass, pass)));
  };
  const int own = at(choices_.bundles().of_tensor, tensor);
  const Sweeper& sweeper = at(sweepers_, own < 0 ? 0 : at(chosen, own));
  Sweeper::Boxes needs = sweeper.outside_needs(tensor);
  for (const int reader : readers)
    for (std::size_t r = 0; r < needs.size(); r++)
      if (const Work& its = work(reader).work[r]; its.any)
        for (const PassOperand& o : at(passes_.passes, reader).reads)
          if (o.tensor == tensor) Sweeper::want(needs[r], operand_box(o, its.box));
  std::vector<PassPlan> made;
  for (const int writer : writers) made.push_back(work(writer));
  return sweeper.cost_of_tensor(tensor, made, needs);
}

CostTable LayoutTables::table_of(int tensor, const std::vector<int>& writers, const std::vector<int>& readers) const {
  CostTable out{bundles_of(tensor, writers, readers), {}};
  const std::vector<int> values = this->values();
  std::vector<int> chosen(values.size(), 0);
  std::size_t entries = 1;
  for (const int b : out.scope) entries *= static_cast<std::size_t>(at(values, b));
  for (std::size_t here = 0; here < entries; here++, next_values(values, out.scope, chosen))
    out.seconds.push_back(cost_of(tensor, writers, readers, chosen));
  return out;
}

std::vector<CostTable> LayoutTables::tables() const {
  const std::vector<int> values = this->values();
  std::vector<CostTable> out;
  for (std::size_t p = 0; p < passes_.passes.size(); p++) {
    const int bundle = at(choices_.bundles().of_pass, p);
    if (bundle < 0) continue;
    CostTable seconds{{bundle}, {}};
    for (const PassPlan& work : work_[p]) seconds.seconds.push_back(sweepers_.front().compute(static_cast<int>(p), work));
    out.push_back(std::move(seconds));
  }
  for (std::size_t t = 0; t < passes_.tensors.size(); t++) {
    const int tensor = static_cast<int>(t);
    if (writers_[t].empty() && passes_.tensors[t].role != TensorRole::parameter) continue;
    std::size_t entries = 1;
    for (const int b : bundles_of(tensor, writers_[t], readers_[t]))
      entries = std::min(entries * static_cast<std::size_t>(at(values, b)), kMostOfTensor + 1);
    if (entries <= kMostOfTensor) {
      out.push_back(table_of(tensor, writers_[t], readers_[t]));
      continue;
    }
    // As if its readers read in turn, a mean share each.
    for (const int reader : readers_[t]) {
      CostTable one = table_of(tensor, writers_[t], {reader});
      for (double& s : one.seconds) s /= static_cast<double>(readers_[t].size());
      out.push_back(std::move(one));
    }
  }
  return out;
}

}  // namespace motley
