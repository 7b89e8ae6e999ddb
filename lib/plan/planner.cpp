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
  Sweeper sweeper(passes, mesh, layouts, cost);
  Sweep sweep = sweeper.improve();
  PlanData data = data_of(passes, mesh, layouts, std::move(sweep), dtype, profile);
  data.rules = resolved;
  return data;
}

namespace {

// The candidate that cuts the same indices on the same axes as `pick`, if possible at the same places.
const Pick* like_of(const std::vector<Pick>& candidates, const Pick& pick) {
  auto cuts_alike = [](const PickPart& a, const PickPart& b) { return a.index == b.index && a.cut.axes == b.cut.axes; };
  const Pick* found = nullptr;
  for (const Pick& c : candidates) {
    if (c == pick) return &c;
    if (found == nullptr && std::equal(c.begin(), c.end(), pick.begin(), pick.end(), cuts_alike)) found = &c;
  }
  return found;
}

bool cuts_the_same_dims(const Layout& a, const Layout& b) {
  return std::equal(a.cuts.begin(), a.cuts.end(), b.cuts.begin(), b.cuts.end(),
                    [](const auto& x, const auto& y) { return x.first == y.first; });
}

}  // namespace

PlanData plan_like(const PlanData& like, const Mesh& mesh, const LayoutRules& resolved, const Profile& profile, const Cost* known) {
  const Passes& passes = like.passes;
  Layouts layouts(passes, mesh, resolved);
  for (int p : passes.parameters)
    for (std::size_t option = layouts.options(p); option-- > 0 && !cuts_the_same_dims(layouts.of(p), at(like.tensors, p).layout);)
      layouts.choose(p, option);
  std::optional<Cost> own;
  const Cost& cost = cost_of(known, own, passes, mesh, layouts, profile, like.dtype);
  Sweeper sweeper(passes, mesh, layouts, cost);
  std::map<int, Pick> picks;
  for (std::size_t p = 0; p < passes.passes.size(); p++)
    if (const PassPlan& plan = like.pass_plans[p]; !plan.work.empty())
      if (const Pick* pick = like_of(sweeper.candidates(static_cast<int>(p)), plan.pick)) picks[static_cast<int>(p)] = *pick;
  PlanData data = data_of(passes, mesh, layouts, sweeper.run(picks), like.dtype, profile);
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
