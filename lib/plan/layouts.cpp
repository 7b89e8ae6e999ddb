// SPDX-License-Identifier: Apache-2.0
#include "plan/layouts.h"

#include <motley/error.h>

#include <algorithm>
#include <numeric>

#include "base/at.h"

namespace motley {

bool in_a_circle(std::vector<const Cut*> cuts) {
  auto depends = [](const Cut* one, const Cut* other) {
    return one != other && std::find(other->axes.begin(), other->axes.end(), one->per) != other->axes.end();
  };
  for (bool removed = true; removed;) {  // take out what depends on nothing left
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

using Named = std::pair<std::string, Cut>;

struct CutMaker {
  const Mesh& mesh;
  std::string batch;
  const std::vector<int>* placed = nullptr;  // a placed layer's parts are dealt over these ranks

  int ranks_over(const std::vector<int>& axes) const {
    int n = 1;
    for (int a : axes) n *= at(mesh.axes(), a).size;
    return n;
  }
  // Which parts of the list belong to placed ranks (for the coordinate `at` of `per`, -1: any).
  std::vector<bool> open(const std::vector<int>& axes, int per, int here) const {
    std::vector<bool> out(static_cast<std::size_t>(ranks_over(axes)), placed == nullptr);
    if (placed != nullptr)
      for (int r : *placed) {
        const Coord c = mesh.coord(r);
        if (per >= 0 && at(c, per) != here) continue;
        int part = 0;
        for (int a : axes) part = part * at(mesh.axes(), a).size + at(c, a);
        at(out, part) = true;
      }
    return out;
  }
  Partition dealt(std::vector<double> shares, const std::vector<bool>& open, Index size) const {
    for (std::size_t i = 0; i < shares.size(); i++)
      if (!open[i]) shares[i] = 0;
    if (std::all_of(shares.begin(), shares.end(), [](double s) { return s == 0; }))
      for (std::size_t i = 0; i < shares.size(); i++) shares[i] = open[i] ? 1 : 0;
    return Partition::proportional(size, shares);
  }
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
    const int ranks = ranks_over(cut.axes);
    const std::vector<bool> all = open(cut.axes, -1, -1);
    if (const auto* shares = std::get_if<Shares>(&rule.parts)) {
      if (static_cast<int>(shares->of.size()) != ranks)
        throw UserError("dim \"" + rule.dim + "\" has " + std::to_string(shares->of.size()) + " shares, but its axis has " +
                        std::to_string(ranks) + " ranks");
      cut.lists = {dealt(shares->of, all, size)};
    } else if (const auto* given = std::get_if<Sizes>(&rule.parts)) {
      cut.lists = {sizes(rule.dim, given->of, ranks, size)};
    } else if (const auto* jagged = std::get_if<Jagged>(&rule.parts)) {
      cut.per = mesh.axis(jagged->per);
      if (static_cast<int>(jagged->of.size()) != at(mesh.axes(), cut.per).size)
        throw UserError("dim \"" + rule.dim + "\" has " + std::to_string(jagged->of.size()) +
                        " lists of parts; expected one per coordinate of \"" + jagged->per + "\"");
      for (const auto& one : jagged->of) cut.lists.push_back(sizes(rule.dim, one, ranks, size));
    } else {
      cut.lists = {dealt(std::vector<double>(static_cast<std::size_t>(ranks), 1.0), all, size)};
    }
    return cut;
  }
};

bool share_an_axis(const Cut& a, const Cut& b) {
  return std::any_of(a.axes.begin(), a.axes.end(),
                     [&](int x) { return std::find(b.axes.begin(), b.axes.end(), x) != b.axes.end(); });
}

// Maximal sets of cuts that tile together: no two share an axis. In dim order.
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

// Dims that a change of shape makes, without a rule of their own, are cut as the dims they come from.
void inherit(const Passes& passes, const std::map<std::string, Index>& reference, const CutMaker& maker,
             std::map<std::string, Rule>& split) {
  for (const DerivedDim& derived : passes.derived_dims) {
    auto rule = split.find(derived.of);
    if (split.contains(derived.dim) || rule == split.end() || rule->second.axes.names.empty()) continue;
    const Index size = reference.at(derived.of);
    const Cut cut = maker.make(rule->second, size).scaled(size, derived.of_size);
    Rule inherited = rule->second;
    inherited.dim = derived.dim;
    std::vector<std::vector<Index>> lists;
    for (const Partition& list : cut.lists)
      lists.push_back((derived.kind == DerivedDim::Kind::scaled ? list.scaled(derived.of_size, derived.size)
                                                                : list.shifted(derived.shift, derived.size))
                          .sizes());
    if (cut.per >= 0)
      inherited.parts = Jagged{lists, at(maker.mesh.axes(), cut.per).name};
    else
      inherited.parts = Sizes{lists.front()};
    split.emplace(derived.dim, inherited);
  }
}

}  // namespace

std::set<std::string> slid_dims(const Passes& passes) {
  std::set<std::string> out;
  for (const Pass& p : passes.passes)
    for (const Window& w : p.windows) out.insert(at(p.indices, w.made).name);
  return out;
}

Cut cut_of(const Passes& passes, const Mesh& mesh, const Rule& rule) {
  const auto sizes = reference_sizes(passes);
  auto size = sizes.find(rule.dim);
  if (size == sizes.end()) throw UserError("no tensor has the dim \"" + rule.dim + "\"");
  return CutMaker{mesh, batch_dim(passes)}.make(rule, size->second);
}

Layouts::Layouts(const Passes& passes, const Mesh& mesh, const LayoutRules& rules) {
  for (int r = 0; r < mesh.ranks(); r++) all_.push_back(r);
  for (const auto& [layer, devices] : rules.places)
    for (const std::string& name : devices)
      for (int r = 0; r < mesh.ranks(); r++)
        if (mesh.device(r).name == name) places_[layer].push_back(r);
  for (auto& [layer, ranks] : places_) std::sort(ranks.begin(), ranks.end());
  const std::map<std::string, Index> reference = reference_sizes(passes);
  CutMaker maker{mesh, batch_dim(passes)};
  std::map<std::string, Rule> split;
  for (const Rule& r : rules.split) split.insert_or_assign(r.dim, r);
  inherit(passes, reference, maker, split);
  std::set<int> with_part, with_parameter;
  for (std::size_t i = 0; i < passes.tensors.size(); i++) {
    const StepTensor& t = passes.tensors[i];
    roots_.push_back(t.of >= 0 ? at(roots_, t.of) : i);
    options_.emplace_back();
    choice_.push_back(0);
    if (t.of >= 0) continue;
    std::map<std::string, Rule> own = split;
    for (const std::string& name : {t.layer, t.name})
      if (auto found = rules.tensors.find(name); found != rules.tensors.end())
        for (const Rule& r : found->second) own.insert_or_assign(r.dim, r);
    maker.placed = placed(t.layer) ? &place(t.layer) : nullptr;
    std::vector<Named> found;
    for (const Dim& d : t.shape.dims()) {
      auto rule = own.find(d.name);
      if (rule == own.end() || rule->second.axes.names.empty()) continue;
      const Index size = reference.at(d.name);
      Cut cut = maker.make(rule->second, size).scaled(size, d.size);
      if (maker.placed != nullptr) {  // explicit parts that give others something: the placed layer does not follow them
        bool outside = false;
        for (int r : all_)
          if (std::find(maker.placed->begin(), maker.placed->end(), r) == maker.placed->end())
            outside = outside || cut.at(mesh, r).size() > 0;
        if (outside) continue;
      }
      found.emplace_back(d.name, std::move(cut));
    }
    for (const auto& set : compatible(found)) {
      Layout layout{t.shape, {}};
      layout.cuts.insert(set.begin(), set.end());
      for (int r : all_)
        if (!set.empty() && std::all_of(set.begin(), set.end(), [&](const Named& n) { return n.second.at(mesh, r).size() > 0; }))
          (t.role == TensorRole::parameter ? with_parameter : with_part).insert(r);
      options_.back().push_back(std::move(layout));
    }
    if (options_.back().size() > 1 && t.role != TensorRole::parameter) {
      std::string dims;
      for (const Named& n : found) dims += (dims.empty() ? "\"" : ", \"") + n.first + "\"";
      throw LayoutError(t.name, found.back().first,
                        "in \"" + t.name + "\" the dims " + dims +
                            " cannot both be cut over one axis, or their parts differ along each other's; say in `tensors` which "
                            "is not cut there, e.g. \"tensors\": { \"" +
                            (t.layer.empty() ? t.name : t.layer) + "\": { \"" + found.back().first + "\": null } }");
    }
  }
  if (with_part.empty()) with_part = with_parameter;
  busy_.assign(with_part.begin(), with_part.end());
  for (const auto& [layer, ranks] : places_)
    for (int r : ranks)
      if (std::find(busy_.begin(), busy_.end(), r) == busy_.end()) busy_.push_back(r);
  std::sort(busy_.begin(), busy_.end());
  if (with_part.empty()) busy_ = all_;
}

const std::vector<int>& Layouts::place(const std::string& layer) const {
  auto found = places_.find(layer);
  return found == places_.end() ? all_ : found->second;
}

}  // namespace motley
