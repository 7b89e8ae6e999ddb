// SPDX-License-Identifier: Apache-2.0
#include "explain/describe.h"

#include <fmt/format.h>
#include <algorithm>
#include <map>
#include <set>

#include "base/at.h"
#include "base/overlaps.h"
#include "base/utf8.h"
#include "plan/layouts.h"
#include "plan/moved_once.h"
#include "plan/schedules.h"

namespace motley {

namespace {

using Messages = std::vector<BoxMessage>;

// Whether several contributions to one element go to one reader.
bool adds(const Messages& messages) {
  for (std::size_t i = 0; i < messages.size(); i++)
    for (std::size_t j = i + 1; j < messages.size(); j++)
      if (messages[i].to == messages[j].to && messages[i].from != messages[j].from && overlaps(messages[i].box, messages[j].box))
        return true;
  return false;
}

// The messages are the edges of parts that the readers already hold, along dims over which windows slide; no reader then has all of
// such a dim.
bool is_halo(const Messages& messages, const Layout& layout, const std::set<std::string>& slid) {
  std::map<int, Box> own, all;
  for (const BoxMessage& m : messages) {
    auto add = [&](std::map<int, Box>& to) { to[m.to] = to.contains(m.to) ? hull(to[m.to], m.box) : m.box; };
    add(all);
    if (m.from == m.to) add(own);
  }
  std::vector<std::size_t> dims;
  for (std::size_t d = 0; d < layout.shape.rank(); d++)
    if (slid.contains(layout.shape[d].name) && layout.cuts.contains(layout.shape[d].name)) dims.push_back(d);
  auto whole = [&](const Box& box) {
    return std::any_of(dims.begin(), dims.end(), [&](std::size_t d) { return box[d].size() == layout.shape[d].size; });
  };
  bool travels = false, all_whole = true;
  for (const BoxMessage& m : messages) {
    if (m.from == m.to) continue;
    if (!own.contains(m.to) || contains(m.box, own[m.to])) return false;
    for (std::size_t d = 0; d < m.box.size(); d++)
      if (std::find(dims.begin(), dims.end(), d) == dims.end() && !contains({own[m.to][d]}, {m.box[d]})) return false;
    travels = true;
    all_whole = all_whole && whole(all[m.to]);
  }
  return travels && !dims.empty() && !all_whole;
}

Collective kind_of_copies(const Messages& messages) {
  std::set<int> from, to;
  std::map<int, std::set<Box>> sent;  // per sender: the boxes that it sends
  std::map<int, Index> ends_with;     // per reader: elements that it has after the move, including its own
  for (const BoxMessage& m : messages) {
    ends_with[m.to] += volume(m.box);
    if (m.from == m.to) continue;
    from.insert(m.from);
    to.insert(m.to);
    sent[m.from].insert(m.box);
  }
  if (from.empty()) return Collective::none;
  if (from.size() == 1 && to.size() == 1) return Collective::send;
  if (from.size() == 1) return sent.begin()->second.size() == 1 ? Collective::broadcast : Collective::scatter;
  if (to.size() == 1) return Collective::gather;
  const bool same = std::all_of(to.begin(), to.end(), [&](int r) { return ends_with[r] == ends_with[*to.begin()]; });
  const bool once = std::all_of(sent.begin(), sent.end(), [](const auto& s) { return s.second.size() == 1; });
  return same && once ? Collective::all_gather : Collective::all_to_all;
}

}  // namespace

bool adds_terms(const TensorPlan& plan) {
  return adds(plan.add.messages);
}

Collective kind_of(const TensorPlan& plan, const std::set<std::string>& slid, Hop TensorPlan::*hop) {
  auto of_copies = [&](const Messages& copies) {
    return is_halo(copies, plan.layout, slid) ? Collective::halo : kind_of_copies(copies);
  };
  if (hop == &TensorPlan::fill) return of_copies(plan.fill.messages);
  if (!plan.add.travels() && !plan.copy.travels()) return Collective::none;
  if (!adds(plan.add.messages)) return of_copies((plan.add.travels() ? plan.add : plan.copy).messages);
  if (!plan.copy.travels() && is_halo(plan.add.messages, plan.layout, slid))
    return Collective::halo;  // overlapping partial sums: the halo reversed
  return plan.copy.travels() ? Collective::all_reduce : Collective::reduce_scatter;
}

std::vector<Shard> resting_boxes(const PlanData& data, const Mesh& mesh, int tensor) {
  const TensorPlan& plan = at(data.tensors, tensor);
  if (at(data.passes.tensors, tensor).role != TensorRole::parameter) return plan.home;
  std::set<int> ranks;
  for (const Shard& h : plan.home) ranks.insert(h.rank);
  for (const Shard& h : plan.readers) ranks.insert(h.rank);
  std::vector<Shard> out;
  for (int r : ranks)
    if (Box box = plan.layout.box(mesh, r); volume(box) > 0) out.push_back({r, std::move(box)});
  return out;
}

std::string modelled_words(const Mesh& mesh) {
  const auto is = [](const Device& d) { return d.kind == DeviceKind::modelled; };
  if (std::none_of(mesh.devices().begin(), mesh.devices().end(), is)) return "";
  return std::all_of(mesh.devices().begin(), mesh.devices().end(), is) ? " (modelled)" : " (partly modelled)";
}

std::vector<std::string> idle_lines(const PlanData& data, const Mesh& mesh) {
  constexpr std::size_t kWidest = 30;                                     // characters of names
  std::vector<std::pair<std::string, std::vector<std::string>>> reasons;  // in the order of the ranks
  for (const IdleDevice& one : data.idle) {
    const auto same = std::find_if(reasons.begin(), reasons.end(), [&](const auto& r) { return r.first == one.why; });
    auto& names = same == reasons.end() ? reasons.emplace_back(one.why, std::vector<std::string>()).second : same->second;
    names.push_back(mesh.device(one.rank).name);
  }
  std::vector<std::string> out;
  for (const auto& [why, names] : reasons) {
    std::string line = first_characters(names.front(), kWidest);
    std::size_t named = 1;
    for (; named < names.size() && characters(line + ", " + names[named], 0, line.size() + 2 + names[named].size()) <= kWidest;
         named++)
      line += ", " + names[named];
    if (named < names.size()) line += fmt::format(" and {} more", names.size() - named);
    line.insert(0, "no work for ");
    out.push_back(line + ": " + why);
  }
  return out;
}

std::string percent_text(double share) {
  return share > 0 && share < 0.005 ? "< 1 %" : fmt::format("{:.0f} %", 100 * share);
}

std::string padded(std::string text, std::size_t width) {
  const std::size_t wide = characters(text, 0, text.size());
  text.append(std::max(width, wide + 1) - wide, ' ');
  return text;
}

std::vector<Described> describe_exchanges(const PlanData& data, int ranks) {
  std::vector<Described> out;
  const std::vector<Index> times = moves_per_step(data);
  auto entry = [&](std::size_t tensor, Collective kind, std::initializer_list<std::size_t> moves) {
    const StepTensor& t = data.passes.tensors[tensor];
    Described d{t.name, kind, std::vector<Index>(static_cast<std::size_t>(ranks), 0), false, {}};
    const Index item = item_bytes(data, tensor);
    const std::array<Stages, 3> all = stages_of(data.tensors[tensor], data.hosts);
    bool straight = true;
    for (std::size_t move : moves) {
      bool any = false;
      for (const Messages& stage : all[move])
        for (const BoxMessage& m : stage)
          if (m.from != m.to) {
            any = true;
            at(d.bytes, m.to) += volume(m.box) * item * times[tensor];
          }
      const Hop& hop = data.tensors[tensor].*kHops[move];
      d.tiled = d.tiled || (any && hop.tiles > 0);
      if (any) d.schedule += (d.schedule.empty() ? "" : ", then ") + to_string(hop.schedule);
      straight = straight && (!any || hop.schedule == Schedule{});
    }
    if (straight) d.schedule = to_string(Schedule{});
    out.push_back(std::move(d));
  };
  const std::set<std::string> slid = slid_dims(data.passes);
  for (std::size_t t = 0; t < data.tensors.size(); t++) {
    const TensorPlan& plan = data.tensors[t];
    if (const Collective kind = kind_of(plan, slid, &TensorPlan::add); kind != Collective::none) entry(t, kind, {0, 1});
    if (plan.fill.travels()) entry(t, kind_of(plan, slid, &TensorPlan::fill), {2});
  }
  return out;
}

}  // namespace motley
