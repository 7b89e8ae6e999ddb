// SPDX-License-Identifier: Apache-2.0
#include "plan/planner.h"

#include <algorithm>
#include <map>
#include <optional>

#include "base/at.h"
#include "graph/nodes.h"
#include "plan/formats.h"
#include "plan/schedules.h"

namespace motley {

Passes passes_for(const Step& step, const LayoutRules& rules) {
  Passes passes = step.passes();
  std::vector<std::string> keep;
  for (const auto& [name, overrides] : rules.tensors) keep.push_back(name);
  for (const auto& [name, devices] : rules.places) keep.push_back(name);
  merge_copies(passes, keep);
  return passes;
}

// Each rank's share of what the rules cut, relative to the largest; 1 where nothing is cut.
std::vector<double> speeds_from_parts(const Passes& passes, const Mesh& mesh, const Layouts& layouts) {
  std::vector<double> share(static_cast<std::size_t>(mesh.ranks()), 0.0);
  bool any = false;
  for (std::size_t t = 0; t < passes.tensors.size(); t++)
    for (const auto& [dim, cut] : layouts.of(static_cast<int>(t)).cuts)
      for (int r = 0; r < mesh.ranks(); r++) {
        at(share, r) += static_cast<double>(cut.at(mesh, r).size()) / static_cast<double>(passes.tensors[t].shape.size_of(dim));
        any = true;
      }
  const double most = *std::max_element(share.begin(), share.end());
  for (double& s : share) s = any && most > 0 ? std::max(s / most, 1e-6) : 1.0;
  return share;
}

std::vector<int> hosts_of(const Mesh& mesh) {
  std::vector<int> out;
  for (int r = 0; r < mesh.ranks(); r++) {
    const DeviceKind real = driven(mesh.device(r)).kind;
    int first = r;
    for (int q = 0; q < r && first == r; q++)
      if (real == DeviceKind::cpu && mesh.device(q).host == mesh.device(r).host && at(out, q) >= 0) first = q;
    out.push_back(real == DeviceKind::cpu ? first : -1 - r);
  }
  return out;
}

std::vector<int> machines_of(const Mesh& mesh) {
  std::map<std::string, int> first;
  std::vector<int> out;
  for (int r = 0; r < mesh.ranks(); r++) out.push_back(first.try_emplace(mesh.device(r).host, r).first->second);
  return out;
}

PlanData data_of(const Passes& passes, const Mesh& mesh, const Layouts& layouts, Sweep sweep, DType dtype, const Profile& profile) {
  PlanData data;
  data.dtype = dtype;
  data.passes = passes;
  data.formats = common_formats(passes, mesh, dtype);
  data.pass_plans = std::move(sweep.passes);
  data.tensors = std::move(sweep.tensors);
  data.busy = layouts.busy();
  data.hosts = hosts_of(mesh);
  data.predicted.resize(static_cast<std::size_t>(mesh.ranks()));
  for (int r = 0; r < mesh.ranks(); r++) {
    data.on_device.push_back(has_own_memory(mesh.device(r)));
    data.memory_bytes.push_back(mesh.device(r).memory_bytes);
  }
  choose_schedules(data, profile);
  return data;
}

PlanData plan_of_picks(const Passes& passes, const Mesh& mesh, const Layouts& layouts, const LayoutRules& rules,
                       const std::map<int, Pick>& picks, DType dtype, const Ownership& ownership) {
  const Profile none;
  const Cost cost(passes, mesh, none, speeds_from_parts(passes, mesh, layouts), dtype, common_formats(passes, mesh, dtype));
  PlanData data = data_of(passes, mesh, layouts, Sweeper(passes, mesh, layouts, cost, ownership).run(picks), dtype);
  data.rules = rules;
  return data;
}

namespace {

// `known` if it holds for these rules too, else a new one of the same weight.
const Cost& cost_of(const Cost* known, std::optional<Cost>& own, const Passes& passes, const Mesh& mesh, const Layouts& layouts,
                    const Profile& profile, DType dtype) {
  if (known != nullptr && known->measured()) return *known;
  return own.emplace(passes, mesh, profile, speeds_from_parts(passes, mesh, layouts), dtype, common_formats(passes, mesh, dtype),
                     known == nullptr ? 1 : known->message_weight());
}

}  // namespace

PlanData plan_with(const Passes& passes, const Mesh& mesh, const LayoutRules& resolved, const Profile& profile, DType dtype,
                   const Cost* known) {
  const Layouts layouts(passes, mesh, resolved);
  std::optional<Cost> own;
  const Cost& cost = cost_of(known, own, passes, mesh, layouts, profile, dtype);
  Sweep sweep = Sweeper(passes, mesh, layouts, cost).improve();
  PlanData data = data_of(passes, mesh, layouts, std::move(sweep), dtype, profile);
  data.rules = resolved;
  return data;
}

namespace {

// The new cut of what the part follows in the plan: of an operand's dim that is cut like it. Null: it follows no layout.
const Cut* cut_instead(const Pass& pass, const PickPart& part, const PlanData& like, const Layouts& layouts) {
  const auto in = [&](const PassOperand& o) -> const Cut* {
    for (std::size_t d = 0; d < o.indices.size(); d++) {
      if (o.indices[d] != part.index) continue;
      const Layout &before = at(like.tensors, o.tensor).layout, &now = layouts.of(o.tensor);
      const auto was = before.cuts.find(before.shape[d].name), is = now.cuts.find(now.shape[d].name);
      if (was != before.cuts.end() && is != now.cuts.end() && was->second == part.cut) return &is->second;
    }
    return nullptr;
  };
  if (const Cut* found = in(pass.writes)) return found;
  for (const PassOperand& o : pass.reads)
    if (const Cut* found = in(o)) return found;
  return nullptr;
}

bool cuts_the_same_dims(const Layout& a, const Layout& b) {
  return std::equal(a.cuts.begin(), a.cuts.end(), b.cuts.begin(), b.cuts.end(),
                    [](const auto& x, const auto& y) { return x.first == y.first; });
}

}  // namespace

Layouts layouts_like(const PlanData& like, const Mesh& mesh, const LayoutRules& resolved) {
  Layouts out(like.passes, mesh, resolved);
  for (int p : like.passes.parameters)
    for (std::size_t option = out.options(p); option-- > 0 && !cuts_the_same_dims(out.of(p), at(like.tensors, p).layout);)
      out.choose(p, option);
  return out;
}

std::map<int, Pick> picks_like(const PlanData& like, const Mesh& mesh, const Layouts& layouts) {
  std::map<int, Pick> out;
  for (std::size_t p = 0; p < like.passes.passes.size(); p++) {
    const Pass& pass = like.passes.passes[p];
    if (like.pass_plans[p].work.empty()) continue;
    Pick pick = like.pass_plans[p].pick;
    for (PickPart& part : pick)
      if (const Cut* cut = cut_instead(pass, part, like, layouts); cut != nullptr) part.cut = *cut;
    if (pick_mistake(pass, pick, mesh, layouts) == nullptr) out.emplace(static_cast<int>(p), std::move(pick));
  }
  return out;
}

PlanData plan_like(const PlanData& like, const Mesh& mesh, const LayoutRules& resolved, const Profile& profile, const Cost* known) {
  const Passes& passes = like.passes;
  const Layouts layouts = layouts_like(like, mesh, resolved);
  std::optional<Cost> own;
  const Cost& cost = cost_of(known, own, passes, mesh, layouts, profile, like.dtype);
  Sweep sweep = Sweeper(passes, mesh, layouts, cost).run(picks_like(like, mesh, layouts));
  PlanData data = data_of(passes, mesh, layouts, std::move(sweep), like.dtype, profile);
  data.rules = resolved;
  return data;
}

Plan plan_from(const Step& step, const Mesh& mesh, PlanData data) {
  return Plan(step, mesh, std::make_shared<const PlanData>(std::move(data)));
}

const PlanData& Plan::data() const {
  if (data_ == nullptr) throw UserError("a Plan was used that has been moved from");
  return *data_;
}

std::map<std::string, std::vector<Shard>> Plan::homes() const {
  std::map<std::string, std::vector<Shard>> out;
  for (const int p : data().passes.parameters) out.emplace(at(data().passes.tensors, p).name, at(data().tensors, p).home);
  return out;
}

}  // namespace motley
