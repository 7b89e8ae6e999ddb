// SPDX-License-Identifier: Apache-2.0
#include "balance/layout_choices.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "balance/choose_parts.h"
#include "base/at.h"
#include "plan/effective_rules.h"
#include "plan/layouts.h"

namespace motley {

namespace {

constexpr Index kFewSamples = 4;          // per rank: with fewer, and in small steps, dims that windows slide over are choices too
constexpr std::size_t kMostDims = 2;      // of one choice, on meshes of several axes
constexpr std::size_t kMostChoices = 40;  // of one bundle

bool has(const std::vector<std::string>& list, const std::string& one) {
  return std::find(list.begin(), list.end(), one) != list.end();
}

void add_once(std::vector<std::string>& list, const std::string& one) {
  if (!has(list, one)) list.push_back(one);
}

bool is_data(const StepTensor& t) {
  return t.role == TensorRole::activation || t.role == TensorRole::parameter;
}

}  // namespace

LayoutChoices::LayoutChoices(const Passes& passes, const Mesh& mesh, const LayoutRules& rules)
    : passes_(passes),
      mesh_(mesh),
      given_(rules),
      bundles_(bundles_of(passes)),
      batch_(batch_dim(passes)),
      slid_(slid_dims(passes)),
      sizes_(reference_sizes(passes)) {
  for (const DerivedDim& d : passes.derived_dims) sources_[d.dim].push_back(d.of);
  const auto batch = sizes_.find(batch_);
  with_slid_ = is_small(passes, mesh) || batch == sizes_.end() || batch->second < kFewSamples * mesh.ranks();
  for (std::size_t b = 0; b < bundles_.list.size(); b++) {
    std::vector<std::string> output, weights;
    const std::string& head = bundles_.list[b].layers.front();
    for (const StepTensor& t : passes.tensors) {
      const bool is_weight = t.role == TensorRole::parameter && t.shape.rank() > 1;
      if (t.layer != head || !(t.name == head || is_weight)) continue;
      for (const Dim& d : t.shape.dims())
        if (!d.name.starts_with("window-")) add_once(is_weight ? weights : output, source_of(d.name));
    }
    made_.emplace_back();
    read_.emplace_back();
    for (const std::string& d : weights) (has(output, d) ? made_ : read_).back().push_back(d);
    if (weights.empty())
      for (const std::string& d : output)
        if (d != batch_ && !slid_.contains(d)) made_.back().push_back(d);
  }
  for (std::size_t b = 0; b < bundles_.list.size(); b++) choices_.push_back(choices_of(static_cast<int>(b)));
}

std::vector<std::string> LayoutChoices::names_of(const std::string& dim) const {
  std::vector<std::string> out{dim};
  for (std::size_t i = 0; i < out.size(); i++)
    if (const auto from = sources_.find(out[i]); from != sources_.end())
      for (const std::string& source : from->second) add_once(out, source);
  return out;
}

std::string LayoutChoices::source_of(const std::string& dim) const {
  return names_of(dim).back();
}

// Dims along which the tensors of the bundle's first layer may be cut.
std::vector<std::string> LayoutChoices::dims_of(int bundle) const {
  const std::string& head = at(bundles_.list, bundle).layers.front();
  std::vector<std::string> out;
  for (const StepTensor& t : passes_.tensors)
    if (t.layer == head && is_data(t))
      for (const Dim& d : t.shape.dims())
        if (!d.name.starts_with("window-") && d.size > 1 && sizes_.contains(source_of(d.name)) &&
            (with_slid_ || !slid_.contains(d.name) || has(given_.open.dims, d.name)))
          add_once(out, source_of(d.name));
  return out;
}

// Of a bundle of which one layer has rules of its own, nothing is chosen.
bool LayoutChoices::is_open(int bundle) const {
  const std::vector<std::string>& layers = at(bundles_.list, bundle).layers;
  const auto any = [&](auto holds) { return std::any_of(layers.begin(), layers.end(), holds); };
  const bool said = any([&](const std::string& layer) {
    return given_.places.contains(layer) || std::any_of(given_.tensors.begin(), given_.tensors.end(), [&](const auto& one) {
             return one.first == layer || one.first.starts_with(layer + ".");
           });
  });
  return !said && (given_.open.everything || any([&](const std::string& layer) { return has(given_.open.layers, layer); }));
}

std::vector<LayoutChoice> LayoutChoices::choices_of(int bundle) const {
  std::vector<std::string> dims = dims_of(bundle);
  std::vector<LayoutChoice> out;
  if (!is_open(bundle)) {
    out.push_back({{}, true});
    std::erase_if(dims, [&](const std::string& d) { return !has(given_.open.dims, d); });
  } else {
    out.emplace_back();  // no cut
    if (!given_.split.empty()) out.push_back({{}, true});
  }
  // For each axis none of the dims, or one.
  std::vector<LayoutChoice> all{LayoutChoice{}};
  for (const Axis& axis : mesh_.axes()) {
    if (axis.size < 2) continue;
    std::vector<LayoutChoice> next = all;
    for (const LayoutChoice& one : all)
      for (const std::string& d : dims) {
        LayoutChoice with = one;
        const auto same = std::find_if(with.cuts.begin(), with.cuts.end(), [&](const DimAxes& c) { return c.first == d; });
        if (same != with.cuts.end())
          same->second.push_back(axis.name);
        else
          with.cuts.push_back({d, {axis.name}});
        if (with.cuts.size() <= kMostDims) next.push_back(std::move(with));
      }
    all = std::move(next);
  }
  // What uses all axes first.
  const auto axes_of = [](const LayoutChoice& c) {
    std::size_t n = 0;
    for (const DimAxes& one : c.cuts) n += one.second.size();
    return n;
  };
  std::stable_sort(all.begin(), all.end(), [&](const LayoutChoice& a, const LayoutChoice& b) { return axes_of(a) > axes_of(b); });
  for (LayoutChoice& one : all)
    if (!one.cuts.empty() && out.size() < kMostChoices) out.push_back(std::move(one));
  return out;
}

// The dims of a tensor that its bundle's choice cuts, and over which axes; no axis twice.
std::vector<DimAxes> LayoutChoices::cuts_of(const StepTensor& tensor, const LayoutChoice& choice) const {
  std::vector<DimAxes> out;
  std::vector<std::string> used;
  for (const DimAxes& cut : choice.cuts)
    for (const Dim& d : tensor.shape.dims()) {
      if (!has(names_of(d.name), cut.first)) continue;
      if (std::any_of(cut.second.begin(), cut.second.end(), [&](const std::string& axis) { return has(used, axis); })) continue;
      out.push_back({d.name, cut.second});
      used.insert(used.end(), cut.second.begin(), cut.second.end());
    }
  return out;
}

LayoutRules LayoutChoices::rules(const std::vector<int>& chosen, Weights weights) const {
  LayoutRules out = given_;
  out.open = {};
  const auto choice = [&](std::size_t b) -> const LayoutChoice& { return at(choices_[b], at(chosen, b)); };
  const auto has_rule = [](const std::vector<Rule>& rules, const std::string& dim) {
    return std::any_of(rules.begin(), rules.end(), [&](const Rule& r) { return r.dim == dim; });
  };
  for (std::size_t b = 0; b < chosen.size(); b++)
    for (const auto& [dim, axes] : choice(b).cuts)
      if (!has_rule(out.split, dim)) out.split.emplace_back(dim, Axes(axes));
  // What a tensor would get by these rules and should not, or the other way round, is said for its layer.
  LayoutRules said = given_;
  said.open = {};
  const EffectiveRules before(said, passes_), after(out, passes_);  // which sees what is added to out.tensors
  for (std::size_t t = 0; t < passes_.tensors.size(); t++) {
    const StepTensor& tensor = passes_.tensors[t];
    const int bundle = at(bundles_.of_tensor, t);
    if (!is_data(tensor) || bundle < 0) continue;
    const LayoutChoice& its = choice(static_cast<std::size_t>(bundle));
    const std::vector<DimAxes> cuts = cuts_of(tensor, its);
    for (const Dim& d : tensor.shape.dims()) {
      const EffectiveRule now = after.rule_for(tensor, d.name), was = before.rule_for(tensor, d.name);
      Axes wanted;
      if (its.given)
        wanted = was.cuts() ? was.rule->axes : Axes{};
      else if (const auto cut = std::find_if(cuts.begin(), cuts.end(), [&](const DimAxes& c) { return c.first == d.name; });
               cut != cuts.end())
        wanted = Axes(cut->second);
      if ((now.cuts() ? now.rule->axes : Axes{}) == wanted) continue;
      const auto has_its_axes = [&](const DimAxes& c) { return Axes(c.second) == now.rule->axes; };
      if (weights == Weights::as_is_cheaper && tensor.role == TensorRole::parameter && now.cuts() && wanted.names.empty() &&
          std::any_of(cuts.begin(), cuts.end(), has_its_axes))
        continue;
      std::vector<Rule>& own = out.tensors[tensor.layer];
      if (!has_rule(own, d.name)) own.emplace_back(d.name, wanted);
    }
  }
  // An input is read where it is needed; it has one cut, since two over one axis would contradict each other.
  for (const StepTensor& t : passes_.tensors) {
    if (t.role != TensorRole::input && t.role != TensorRole::label) continue;
    std::vector<std::string> cut;
    std::string kept;
    for (const Dim& d : t.shape.dims()) {
      if (after.rule_for(t, d.name).cuts()) cut.push_back(d.name);
      if (before.rule_for(t, d.name).override_of != nullptr && before.rule_for(t, d.name).cuts()) kept = d.name;
    }
    if (kept.empty() && !cut.empty()) kept = has(cut, batch_) ? batch_ : cut.front();
    for (const std::string& d : cut)
      if (d != kept && !has_rule(out.tensors[t.name], d)) out.tensors[t.name].emplace_back(d, Axes{});
  }
  std::erase_if(out.tensors, [](const auto& one) { return one.second.empty(); });
  return out;
}

int LayoutChoices::find(int bundle, const std::vector<DimAxes>& cuts) const {
  const std::vector<LayoutChoice>& all = at(choices_, bundle);
  for (std::size_t k = 0; k < all.size(); k++)
    if (!all[k].given && all[k].cuts == cuts) return static_cast<int>(k);
  return -1;
}

std::vector<std::vector<int>> LayoutChoices::uniform() const {
  std::vector<std::string> axes;
  for (const Axis& a : mesh_.axes())
    if (a.size > 1) axes.push_back(a.name);
  std::vector<std::vector<int>> out;
  // cuts_of(bundle, its number among those with weights or -1): what to try, the first that it has.
  const auto add = [&](auto cuts_of) {
    std::vector<int> chosen;
    int weighted = 0;
    for (std::size_t b = 0; b < choices_.size(); b++) {
      chosen.push_back(0);
      for (const std::vector<DimAxes>& cuts : cuts_of(b, read_[b].empty() ? -1 : weighted++))
        if (const int k = find(static_cast<int>(b), cuts); k >= 0) {
          chosen.back() = k;
          break;
        }
    }
    if (std::find(out.begin(), out.end(), chosen) == out.end()) out.push_back(std::move(chosen));
  };
  using Several = std::vector<std::vector<DimAxes>>;
  const auto each = [&](const std::vector<std::string>& dims) {
    Several out_of;
    for (const std::string& d : dims) out_of.push_back({{d, axes}});
    return out_of;
  };
  add([&](std::size_t, int) { return each({batch_}); });
  add([&](std::size_t b, int) { return each(made_[b]); });
  if (with_slid_)
    for (const StepTensor& t : passes_.tensors) {
      const auto rows =
          std::find_if(t.shape.dims().begin(), t.shape.dims().end(), [&](const Dim& d) { return slid_.contains(d.name); });
      if (t.role != TensorRole::input || rows == t.shape.dims().end()) continue;
      add([&](std::size_t, int) { return each({rows->name}); });
      break;
    }
  for (const int first : {0, 1})
    add([&, first](std::size_t b, int number) {
      return number < 0 ? each({batch_}) : each(number % 2 == first ? made_[b] : read_[b]);
    });
  if (axes.size() > 1)
    add([&](std::size_t b, int) {
      Several out_of;
      for (const std::string& d : made_[b])
        out_of.push_back({{batch_, {axes.front()}}, {d, std::vector<std::string>(axes.begin() + 1, axes.end())}});
      return out_of;
    });
  return out;
}

std::vector<int> LayoutChoices::as_planned(std::vector<int> chosen, const PlanData& plan) const {
  for (std::size_t b = 0; b < chosen.size(); b++)
    for (std::size_t t = 0; t < passes_.tensors.size(); t++) {
      const StepTensor& tensor = passes_.tensors[t];
      if (tensor.role != TensorRole::parameter || tensor.shape.rank() < 2 || tensor.layer != bundles_.list[b].layers.front())
        continue;
      std::vector<DimAxes> cuts;
      for (const auto& [dim, cut] : plan.tensors[t].layout.cuts) {
        std::vector<std::string> axes;
        for (const int a : cut.axes) axes.push_back(at(mesh_.axes(), a).name);
        cuts.emplace_back(source_of(dim), std::move(axes));
      }
      if (const int k = cuts.empty() ? -1 : find(static_cast<int>(b), cuts); k >= 0) chosen[b] = k;
    }
  return chosen;
}

// What the first layer calls it.
std::string LayoutChoices::own_name(int bundle, const std::string& dim) const {
  for (const StepTensor& t : passes_.tensors)
    if (t.layer == at(bundles_.list, bundle).layers.front() && is_data(t))
      for (const Dim& d : t.shape.dims())
        if (has(names_of(d.name), dim)) return d.name;
  return dim;
}

std::string LayoutChoices::text_of(int bundle, int choice) const {
  const LayoutChoice& its = at(at(choices_, bundle), choice);
  if (its.given) return "as given";
  std::vector<std::string> dims;
  for (const auto& [dim, axes] : its.cuts)
    dims.push_back((has(at(read_, bundle), dim) ? "its input's " : "") + own_name(bundle, dim) +
                   (mesh_.axes().size() > 1 ? fmt::format(" over {}", fmt::join(axes, ", ")) : ""));
  return dims.empty() ? "not cut" : fmt::format("by {}", fmt::join(dims, " and "));
}

int LayoutChoices::rank_alone(int bundle, const PlanData& plan) const {
  return motley::rank_alone(plan.passes, at(bundles_.list, bundle),
                            [&](int pass) -> const std::vector<Work>& { return at(plan.pass_plans, pass).work; });
}

std::string LayoutChoices::text_of(int bundle, int choice, const std::vector<CutChoice>& cuts, const PlanData& plan) const {
  const LayoutChoice& its = at(at(choices_, bundle), choice);
  if (its.cuts.size() == 1 && mesh_.axes().size() == 1)
    for (const CutChoice& cut : cuts)
      if (cut.dim == its.cuts.front().first && !cut.parts.empty()) {
        const std::vector<Index>& parts = cut.parts.front();
        const auto has_any = [](Index part) { return part > 0; };
        if (std::count_if(parts.begin(), parts.end(), has_any) == 1)
          return fmt::format(
              "on {} alone",
              mesh_.device(static_cast<int>(std::find_if(parts.begin(), parts.end(), has_any) - parts.begin())).name);
      }
  const int alone = its.cuts.empty() && !its.given ? rank_alone(bundle, plan) : -1;
  return text_of(bundle, choice) + (alone < 0 ? "" : ", on " + mesh_.device(alone).name);
}

std::vector<std::string> LayoutChoices::named_layers(int bundle) const {
  const int logits = passes_.logits();
  std::vector<std::string> out = at(bundles_.list, bundle).layers;
  std::erase_if(out, [&](const std::string& layer) {
    const int tensor = passes_.find(layer);
    return tensor < 0 || (logits >= 0 && tensor > logits);
  });
  return out;
}

std::string LayoutChoices::name_of(int bundle) const {
  const std::vector<std::string> layers = named_layers(bundle);
  return layers.empty() ? "" : layers.size() == 1 ? layers.front() : layers.front() + " to " + layers.back();
}

std::string LayoutChoices::text(const std::vector<int>& chosen) const {
  struct Run {
    std::string first{}, last{}, how{};
    bool makes = false;  // each is cut along its own output channels
  };
  constexpr std::size_t kMostRuns = 8;
  std::vector<Run> runs;
  for (std::size_t b = 0; b < chosen.size(); b++) {
    const std::vector<std::string> layers = named_layers(static_cast<int>(b));
    if (layers.empty()) continue;
    const LayoutChoice& its = at(choices_[b], at(chosen, b));
    const std::string how = text_of(static_cast<int>(b), chosen[b]);
    const bool makes = its.cuts.size() == 1 && has(made_[b], its.cuts.front().first);
    if (!runs.empty() && (runs.back().how == how || (makes && runs.back().makes))) {
      if (runs.back().how != how) runs.back().how = "each by its output channels";
      runs.back().last = layers.back();
    } else {
      runs.push_back({layers.front(), layers.back(), how, makes});
    }
  }
  std::string out;
  for (std::size_t k = 0; k < runs.size() && k < kMostRuns; k++)
    out += fmt::format("{}{} {}", k == 0 ? "" : "; ",
                       runs[k].first == runs[k].last ? runs[k].first : runs[k].first + " to " + runs[k].last, runs[k].how);
  return runs.size() > kMostRuns ? out + fmt::format("; {} more (plan --layout FILE writes all)", runs.size() - kMostRuns) : out;
}

}  // namespace motley
