// SPDX-License-Identifier: Apache-2.0
#include "plan/layouts.h"

#include <motley/error.h>

#include <algorithm>
#include <numeric>

#include "base/at.h"
#include "plan/effective_rules.h"

namespace motley {

bool in_a_circle(std::vector<const Cut*> cuts) {
  auto depends = [](const Cut* one, const Cut* other) {
    return one != other && std::find(other->axes.begin(), other->axes.end(), one->per) != other->axes.end();
  };
  for (bool removed = true; removed;) {  // remove the cuts that depend on none of the others left
    removed = false;
    for (std::size_t k = 0; k < cuts.size() && !removed; k++)
      if (std::none_of(cuts.begin(), cuts.end(), [&](const Cut* other) { return depends(cuts[k], other); })) {
        cuts.erase(cuts.begin() + static_cast<std::ptrdiff_t>(k));
        removed = true;
      }
  }
  return !cuts.empty();
}

std::map<std::string, Index> reference_sizes(const Passes& passes) {
  std::map<std::string, Index> sizes;
  for (const TensorRole role : {TensorRole::input, TensorRole::activation, TensorRole::parameter})
    for (const StepTensor& t : passes.tensors)
      if (t.role == role)
        for (const Dim& d : t.shape.dims()) sizes.emplace(d.name, d.size);
  return sizes;
}

std::string batch_dim(const Passes& passes) {
  for (const StepTensor& t : passes.tensors)
    if (t.role == TensorRole::input) {
      if (t.shape.has("batch")) return "batch";
      if (t.shape.rank() > 0) return t.shape[0].name;
    }
  return "batch";
}

namespace {

int ranks_over(const Mesh& mesh, const std::vector<int>& axes) {
  int n = 1;
  for (int a : axes) n *= at(mesh.axes(), a).size;
  return n;
}

}  // namespace

std::vector<bool> parts_of_ranks(const Mesh& mesh, const std::vector<int>& axes, int per, int here, const std::vector<int>& ranks) {
  std::vector<bool> out(static_cast<std::size_t>(ranks_over(mesh, axes)), false);
  for (int r : ranks) {
    const Coord c = mesh.coord(r);
    if (per >= 0 && at(c, per) != here) continue;
    int part = 0;
    for (int a : axes) part = part * at(mesh.axes(), a).size + at(c, a);
    at(out, part) = true;
  }
  return out;
}

Partition dealt(std::vector<double> shares, const std::vector<bool>& open, Index size) {
  for (std::size_t i = 0; i < shares.size(); i++)
    if (!open[i]) shares[i] = 0;
  if (std::all_of(shares.begin(), shares.end(), [](double s) { return s == 0; }))
    for (std::size_t i = 0; i < shares.size(); i++) shares[i] = open[i] ? 1 : 0;
  return Partition::proportional(size, shares);
}

bool reaches_others(const Mesh& mesh, const Cut& cut, const std::vector<int>& placed) {
  for (int r = 0; r < mesh.ranks(); r++)
    if (std::find(placed.begin(), placed.end(), r) == placed.end() && cut.at(mesh, r).size() > 0) return true;
  return false;
}

namespace {

using Named = std::pair<std::string, Cut>;

struct CutMaker {
  const Mesh& mesh;
  std::string batch;
  const std::vector<int>* placed = nullptr;  // a placed layer's parts are distributed over these ranks

  Partition sizes(const std::string& dim, const std::vector<Index>& parts, int ranks, Index size) const {
    if (static_cast<int>(parts.size()) != ranks)
      throw UserError("dim \"" + dim + "\" has " + std::to_string(parts.size()) + " parts, but its axis has " +
                      std::to_string(ranks) + " ranks");
    const Index sum = std::accumulate(parts.begin(), parts.end(), Index{0});
    if (sum != size && dim == batch && sum > 0)
      return Partition::proportional(size, std::vector<double>(parts.begin(), parts.end()));
    if (sum != size)
      throw UserError("the parts of dim \"" + dim + "\" sum to " + std::to_string(sum) + "; its size is " + std::to_string(size));
    return Partition::of(parts);
  }
  Cut make(const Rule& rule, Index size) const {
    Cut cut;
    for (const std::string& a : rule.axes.names) cut.axes.push_back(mesh.axis(a));
    const int ranks = ranks_over(mesh, cut.axes);
    const std::vector<bool> open = placed != nullptr ? parts_of_ranks(mesh, cut.axes, -1, -1, *placed)
                                                     : std::vector<bool>(static_cast<std::size_t>(ranks), true);
    if (const auto* shares = std::get_if<Shares>(&rule.parts)) {
      if (static_cast<int>(shares->of.size()) != ranks)
        throw UserError("dim \"" + rule.dim + "\" has " + std::to_string(shares->of.size()) + " shares, but its axis has " +
                        std::to_string(ranks) + " ranks");
      cut.lists = {dealt(shares->of, open, size)};
    } else if (const auto* given = std::get_if<Sizes>(&rule.parts)) {
      cut.lists = {sizes(rule.dim, given->of, ranks, size)};
    } else if (const auto* jagged = std::get_if<Jagged>(&rule.parts)) {
      cut.per = mesh.axis(jagged->per);
      if (static_cast<int>(jagged->of.size()) != at(mesh.axes(), cut.per).size)
        throw UserError("dim \"" + rule.dim + "\" has " + std::to_string(jagged->of.size()) +
                        " lists of parts; expected one per coordinate of \"" + jagged->per + "\"");
      for (const auto& one : jagged->of) cut.lists.push_back(sizes(rule.dim, one, ranks, size));
    } else {
      cut.lists = {dealt(std::vector<double>(static_cast<std::size_t>(ranks), 1.0), open, size)};
    }
    return cut;
  }
};

bool share_an_axis(const Cut& a, const Cut& b) {
  return std::any_of(a.axes.begin(), a.axes.end(),
                     [&](int x) { return std::find(b.axes.begin(), b.axes.end(), x) != b.axes.end(); });
}

// Maximal sets of compatible cuts: no two share an axis. In dim order.
std::vector<std::vector<Named>> compatible(const std::vector<Named>& found) {
  std::vector<std::vector<Named>> sets;
  std::vector<std::vector<std::size_t>> taken;
  for (std::size_t bits = (std::size_t{1} << found.size()); bits-- > 0;) {
    std::vector<std::size_t> set;
    for (std::size_t i = 0; i < found.size(); i++)
      if (bits >> (found.size() - 1 - i) & 1U) set.push_back(i);
    std::vector<const Cut*> cuts_of_set;
    for (std::size_t i : set) cuts_of_set.push_back(&found[i].second);
    bool good = !in_a_circle(cuts_of_set);
    for (std::size_t i = 0; i < set.size(); i++)
      for (std::size_t j = i + 1; j < set.size(); j++) good = good && !share_an_axis(found[set[i]].second, found[set[j]].second);
    const bool inside = std::any_of(taken.begin(), taken.end(),
                                    [&](const auto& t) { return std::includes(t.begin(), t.end(), set.begin(), set.end()); });
    if (!good || inside) continue;
    taken.push_back(set);
    std::vector<Named> cuts;
    for (std::size_t i : set) cuts.push_back(found[i]);
    sets.push_back(cuts);
  }
  return sets;
}

// The cuts of a tensor's dims, each by the rule that applies to it.
class CutsByRule {
 public:
  CutsByRule(const Passes& passes, const Mesh& mesh, const LayoutRules& rules)
      : mesh_(mesh), rules_(rules, passes), reference_(reference_sizes(passes)), maker_{mesh, batch_dim(passes)} {
    for (const DerivedDim* derived : rules_.derived()) derived_.emplace(derived->dim, inherited(*derived));
  }

  std::vector<Named> of(const StepTensor& t, const std::vector<int>* placed) {
    maker_.placed = placed;
    std::vector<Named> found;
    for (const Dim& d : t.shape.dims()) {
      const EffectiveRule rule = rules_.rule_for(t, d.name);
      if (!rule.cuts()) continue;
      const Index size = reference_.at(d.name);
      Cut cut = maker_.make(resolved(rule, d.name), size).scaled(size, d.size);
      // The placed layer does not follow explicit parts that give something to other ranks.
      if (placed == nullptr || !reaches_others(mesh_, cut, *placed)) found.emplace_back(d.name, std::move(cut));
    }
    return found;
  }

 private:
  const Rule& resolved(const EffectiveRule& rule, const std::string& dim) const {
    return rule.derived != nullptr ? derived_.at(dim) : *rule.rule;
  }

  // The rule of a derived dim: explicit parts, with the boundaries of its source dim scaled or shifted.
  Rule inherited(const DerivedDim& derived) const {
    const Rule& source = resolved(rules_.rule_of_split(derived.of), derived.of);
    const Index size = reference_.at(derived.of);
    const Cut cut = maker_.make(source, size).scaled(size, derived.of_size);
    Rule out = source;
    out.dim = derived.dim;
    std::vector<std::vector<Index>> lists;
    for (const Partition& list : cut.lists)
      lists.push_back((derived.kind == DerivedDim::Kind::scaled ? list.scaled(derived.of_size, derived.size)
                                                                : list.shifted(derived.shift, derived.size))
                          .sizes());
    if (cut.per >= 0)
      out.parts = Jagged{lists, at(mesh_.axes(), cut.per).name};
    else
      out.parts = Sizes{lists.front()};
    return out;
  }

  const Mesh& mesh_;
  EffectiveRules rules_;
  std::map<std::string, Index> reference_;
  CutMaker maker_;
  std::map<std::string, Rule> derived_{};  // parts resolved
};

// For a tensor whose cuts are not compatible.
[[noreturn]] void refuse(const StepTensor& t, const std::vector<Named>& cuts) {
  std::string dims;
  for (const Named& n : cuts) dims += (dims.empty() ? "\"" : ", \"") + n.first + "\"";
  throw LayoutError(
      t.name, cuts.back().first,
      "in \"" + t.name + "\" the dims " + dims +
          " cannot both be cut over one axis, or with parts that differ along each other's axes; say in `tensors` which "
          "is not cut there, e.g. \"tensors\": { \"" +
          (t.layer.empty() ? t.name : t.layer) + "\": { \"" + cuts.back().first + "\": null } }");
}

}  // namespace

std::set<std::string> slid_dims(const Passes& passes) {
  std::set<std::string> out;
  for (const Pass& p : passes.passes)
    for (const Window& w : p.windows)
      if (&w != channel_window(p)) out.insert(at(p.indices, w.made).name);
  return out;
}

Cut cut_of(const Passes& passes, const Mesh& mesh, const Rule& rule) {
  const auto sizes = reference_sizes(passes);
  auto size = sizes.find(rule.dim);
  if (size == sizes.end()) throw UserError("no tensor has the dim \"" + rule.dim + "\"");
  return CutMaker{mesh, batch_dim(passes)}.make(rule, size->second);
}

std::map<std::string, std::vector<int>> ranks_of_places(const Mesh& mesh, const LayoutRules& rules) {
  std::map<std::string, std::vector<int>> out;
  for (const auto& [layer, devices] : rules.places)
    for (const std::string& name : devices)
      for (int r = 0; r < mesh.ranks(); r++)
        if (mesh.device(r).name == name) out[layer].push_back(r);
  for (auto& [layer, ranks] : out) std::sort(ranks.begin(), ranks.end());
  return out;
}

Layouts::Layouts(const Passes& passes, const Mesh& mesh, const LayoutRules& rules)
    : places_(ranks_of_places(mesh, rules)), homes_(rules.homes) {
  for (int r = 0; r < mesh.ranks(); r++) all_.push_back(r);
  CutsByRule cuts(passes, mesh, rules);
  std::set<int> with_part, with_parameter;
  for (std::size_t i = 0; i < passes.tensors.size(); i++) {
    const StepTensor& t = passes.tensors[i];
    roots_.push_back(t.of >= 0 ? at(roots_, t.of) : i);
    options_.emplace_back();
    choice_.push_back(0);
    if (t.of >= 0) continue;
    const bool parameter = t.role == TensorRole::parameter;
    const std::vector<Named> found = cuts.of(t, placed(t.layer) ? &place(t.layer) : nullptr);
    for (const auto& set : compatible(found)) {
      Layout layout{t.shape, {}};
      layout.cuts.insert(set.begin(), set.end());
      for (int r : all_)
        if (!set.empty() && std::all_of(set.begin(), set.end(), [&](const Named& n) { return n.second.at(mesh, r).size() > 0; }))
          (parameter ? with_parameter : with_part).insert(r);
      options_.back().push_back(std::move(layout));
    }
    if (options_.back().size() > 1 && !parameter) refuse(t, found);
  }
  if (with_part.empty()) with_part = with_parameter;
  set_busy(with_part);
}

void Layouts::set_busy(const std::set<int>& with_part) {
  if (with_part.empty()) {
    busy_ = all_;
    return;
  }
  std::set<int> busy = with_part;
  for (const auto& [layer, ranks] : places_) busy.insert(ranks.begin(), ranks.end());
  busy_.assign(busy.begin(), busy.end());
}

const std::vector<Shard>* Layouts::home(const std::string& parameter) const {
  const auto found = homes_.find(parameter);
  return found == homes_.end() ? nullptr : &found->second;
}

const std::vector<int>& Layouts::place(const std::string& layer) const {
  auto found = places_.find(layer);
  return found == places_.end() ? all_ : found->second;
}

}  // namespace motley
