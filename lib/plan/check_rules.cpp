// SPDX-License-Identifier: Apache-2.0
#include "plan/check_rules.h"

#include <motley/error.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <set>

#include "base/at.h"
#include "base/json.h"
#include "plan/effective_rules.h"
#include "plan/layouts.h"
#include "plan/rule_conflicts.h"
#include "plan/statistics.h"

namespace motley {

namespace {

template <class T>
std::string list_of(const std::vector<T>& values) {
  std::string out;
  for (const T& v : values) out += (out.empty() ? "" : ", ") + std::to_string(v);
  return "[" + out + "]";
}

std::string plural(std::size_t n, const std::string& one) {
  return std::to_string(n) + " " + one + (n == 1 ? "" : "s");
}

class RuleChecker {
 public:
  RuleChecker(const RuleSubject& subject, const LayoutRules& rules)
      : subject_(subject),
        passes_(subject.passes == nullptr ? kNothing : *subject.passes),
        rules_(rules),
        sizes_(reference_sizes(passes_)),
        batch_(batch_dim(passes_)) {
    const int logits = passes_.logits();
    for (std::size_t i = 0; i < passes_.tensors.size(); i++) {
      const StepTensor& t = passes_.tensors[i];
      if (t.role == TensorRole::gradient || t.role == TensorRole::parameter_gradient || t.role == TensorRole::seed) continue;
      tensors_.insert(t.name);
      if (t.layer.empty()) continue;
      layers_.insert(t.layer);
      if (logits < 0 || static_cast<int>(i) <= logits) known_layers_.insert(t.layer);
    }
    for (std::string here : subject.refused)
      for (; !here.empty(); here.erase(here.rfind('/'))) bad_.insert(here);
  }

  std::vector<RuleComplaint> run() {
    if (const Mesh* mesh = subject_.mesh;
        mesh != nullptr && !rules_.arrangement.axes.empty() && order_of(*mesh) != rules_.arrangement)
      complain("/arrangement",
               "this layout is for " + order_text(rules_.arrangement) + "; the mesh is " + order_text(order_of(*mesh)) +
                   "; expected a mesh with these axes and devices, or one of these devices with \"axes\": \"auto\"");
    check_split();
    check_tensors();
    check_places();
    check_open();
    check_homes();
    for (RuleComplaint& c : conflicts_of_rules(subject_, passes_, rules_, bad_)) out_.push_back(std::move(c));
    return std::move(out_);
  }

 private:
  void complain(const std::string& pointer, const std::string& text) { out_.push_back({pointer, text}); }

  static bool is_window(const std::string& dim) { return dim.starts_with("window-"); }

  void check_once(const std::string& here, const std::vector<Rule>& rules) {
    std::vector<std::string> seen;
    for (const Rule& rule : rules) {
      if (Reader::is_one_of(rule.dim, seen))
        complain(here + pointer_token(rule.dim), "two rules for dim " + quoted(rule.dim) + "; keep one");
      seen.push_back(rule.dim);
    }
  }

  void check_split() {
    std::vector<std::string> known;
    for (const auto& [dim, size] : sizes_)
      if (!is_window(dim)) known.push_back(dim);
    check_once("/split/", rules_.split);
    for (const Rule& rule : rules_.split) {
      const std::string here = "/split/" + pointer_token(rule.dim);
      if (Reader::is_one_of(rule.dim, known) || subject_.may_be(rule.dim))
        check_rule(here, rule);
      else
        refuse(here, "the model has no dim " + quoted(rule.dim) + did_you_mean(rule.dim, known));
    }
  }

  void check_tensors() {
    std::vector<std::string> known(tensors_.begin(), tensors_.end());
    std::erase_if(known, [&](const std::string& name) {
      const std::string layer = name.substr(0, name.rfind('.'));
      return layers_.contains(layer) && (!known_layers_.contains(layer) || (!is_parameter(name) && !layers_.contains(name)));
    });
    for (const auto& [name, dims] : rules_.tensors) {
      const std::string here = "/tensors/" + pointer_token(name);
      if (name.starts_with("gradient of ")) {
        refuse(here, "gradients are laid out like their tensors; name " + quoted(name.substr(12)));
        continue;
      }
      const bool unsure = subject_.may_be(name) || subject_.may_be(name.substr(0, name.rfind('.')));
      if (!tensors_.contains(name) && !layers_.contains(name) && !unsure) {
        refuse(here, "the model has no input, layer or parameter " + quoted(name) + did_you_mean(name, known));
        continue;
      }
      std::vector<std::string> has;
      for (const StepTensor& t : passes_.tensors)
        if (t.name == name || t.layer == name)
          for (const Dim& d : t.shape.dims())
            if (!is_window(d.name) && !Reader::is_one_of(d.name, has)) has.push_back(d.name);
      check_once(here + "/", dims);
      for (const Rule& rule : dims) {
        const std::string inner = here + "/" + pointer_token(rule.dim);
        if (Reader::is_one_of(rule.dim, has) || unsure)
          check_rule(inner, rule);
        else
          refuse(inner, quoted(name) + " has no dim " + quoted(rule.dim) + did_you_mean(rule.dim, has));
      }
    }
  }

  bool is_parameter(const std::string& name) const {
    return std::any_of(passes_.parameters.begin(), passes_.parameters.end(),
                       [&](int p) { return at(passes_.tensors, p).name == name; });
  }
  // A complaint after which the rule is not checked again.
  void refuse(const std::string& pointer, const std::string& text) {
    complain(pointer, text);
    bad_.insert(pointer);
  }

  void check_rule(const std::string& here, const Rule& rule) {
    const std::size_t before = out_.size();
    std::size_t ranks = 1;
    for (std::size_t i = 0; i < rule.axes.names.size(); i++) {
      const std::string& name = rule.axes.names[i];
      const std::string inner = here + "/axis/" + std::to_string(i);
      if (const int axis = axis_of(inner, name); axis >= 0)
        ranks *= static_cast<std::size_t>((*subject_.axes)[static_cast<std::size_t>(axis)].size);
      if (std::find(rule.axes.names.begin(), rule.axes.names.begin() + static_cast<std::ptrdiff_t>(i), name) !=
          rule.axes.names.begin() + static_cast<std::ptrdiff_t>(i))
        complain(inner, "axis " + quoted(name) + " is listed twice");
    }
    if (rule.axes.names.empty() && rule.parts != Parts(CutBy::profile))
      complain(here, "has parts but no axis; name the mesh axes of the cut, or leave the parts out (not cut)");
    if (out_.size() == before && !rule.axes.names.empty())
      check_parts(here, rule, subject_.mesh != nullptr ? ranks : 0);
    else if (const auto* jagged = std::get_if<Jagged>(&rule.parts))
      static_cast<void>(axis_of(here + "/per", jagged->per));
    if (out_.size() != before) bad_.insert(here);
  }

  int axis_of(const std::string& pointer, const std::string& name) {
    if (subject_.axes == nullptr) return -1;
    std::vector<std::string> known;
    for (std::size_t i = 0; i < subject_.axes->size(); i++) {
      if ((*subject_.axes)[i].name == name) return static_cast<int>(i);
      known.push_back((*subject_.axes)[i].name);
    }
    std::string hint = did_you_mean(name, known);
    if (Reader::is_one_of(name, {"profile", "even", "proportional"}) && !known.empty())
      hint = "; that says how to cut, not where: { \"axis\": " + quoted((*subject_.axes)[0].name) + ", \"parts\": " + quoted(name) +
             " }";
    complain(pointer, "the mesh has no axis " + quoted(name) + hint);
    return -1;
  }

  // ranks 0: not known, because axes and devices do not fit each other.
  void check_parts(const std::string& here, const Rule& rule, std::size_t ranks) {
    if (const auto* shares = std::get_if<Shares>(&rule.parts)) {
      const bool odd = std::any_of(shares->of.begin(), shares->of.end(), [](double s) { return !(s >= 0) || !std::isfinite(s); });
      if (ranks > 0 && shares->of.size() != ranks)
        complain(here + "/parts/shares", wrong_number(shares->of.size(), "share", rule, ranks));
      else if (odd || std::none_of(shares->of.begin(), shares->of.end(), [](double s) { return s > 0; }))
        complain(here + "/parts/shares", "shares are numbers of at least 0, one of them above 0");
    } else if (const auto* sizes = std::get_if<Sizes>(&rule.parts)) {
      check_sizes(here + "/parts", sizes->of, rule, ranks);
    } else if (const auto* jagged = std::get_if<Jagged>(&rule.parts)) {
      const int per = axis_of(here + "/per", jagged->per);
      if (Reader::is_one_of(jagged->per, rule.axes.names))
        return complain(here + "/per", "\"per\" may not be an axis of the cut itself; " + quoted(jagged->per) + " is");
      if (per < 0) return;
      const auto rows =
          ranks == 0 ? jagged->of.size() : static_cast<std::size_t>((*subject_.axes)[static_cast<std::size_t>(per)].size);
      if (jagged->of.size() != rows)
        return complain(here + "/parts", plural(jagged->of.size(), "list") + " of parts, but axis " + quoted(jagged->per) +
                                             " has the size " + std::to_string(rows) + "; expected one list per coordinate of it");
      for (std::size_t i = 0; i < rows; i++) check_sizes(here + "/parts/" + std::to_string(i), jagged->of[i], rule, ranks);
    }
  }

  static std::string wrong_number(std::size_t found, const std::string& what, const Rule& rule, std::size_t ranks) {
    std::string axes;
    for (const std::string& a : rule.axes.names) axes += (axes.empty() ? "" : " and ") + quoted(a);
    const bool one = rule.axes.names.size() == 1;
    return plural(found, what) + ", but " + (one ? "axis " : "the axes ") + axes + (one ? " has " : " have ") +
           plural(ranks, "rank") + "; expected one " + what + " per rank (0 is allowed)";
  }

  void check_sizes(const std::string& here, const std::vector<Index>& parts, const Rule& rule, std::size_t ranks) {
    if (std::any_of(parts.begin(), parts.end(), [](Index s) { return s < 0; }))
      return complain(here, "the size of a part must be at least 0");
    if (ranks > 0 && parts.size() != ranks) return complain(here, wrong_number(parts.size(), "part", rule, ranks));
    if (!sizes_.contains(rule.dim)) return;  // what declares it could not be built
    const Index sum = std::accumulate(parts.begin(), parts.end(), Index{0});
    const Index size = sizes_.at(rule.dim) * (rule.dim == batch_ ? passes_.accumulate : 1);  // of all micro-batches
    const Index other = rule.dim == batch_ ? subject_.model_batch : size;                    // from which they are rescaled
    if (rule.dim == batch_ && sum == 0) return complain(here, "expected at least one part above 0");
    if (sum == size || sum == other || other == 0) return;
    const std::vector<double> shares(parts.begin(), parts.end());
    const std::vector<Index> right =
        (sum > 0 ? Partition::proportional(size, shares) : Partition::even(size, static_cast<int>(parts.size()))).sizes();
    complain(here, "the parts sum to " + std::to_string(sum) + ", but " + quoted(rule.dim) + " has the size " +
                       std::to_string(size) +
                       (other != size            ? " in the job and " + std::to_string(other) + " in the model"
                        : is_slid_over(rule.dim) ? " in the inputs"
                                                 : "") +
                       "; " + list_of(right) + " would be right");
  }

  bool is_slid_over(const std::string& dim) const {
    return std::any_of(passes_.tensors.begin(), passes_.tensors.end(), [&](const StepTensor& t) {
      return t.role == TensorRole::activation && t.shape.has(dim) && t.shape.size_of(dim) != sizes_.at(dim);
    });
  }

  void check_open() {
    std::vector<std::string> dims;
    for (const auto& [dim, size] : sizes_)
      if (!is_window(dim)) dims.push_back(dim);
    for (const std::string& dim : rules_.open.dims)
      if (!Reader::is_one_of(dim, dims) && !subject_.may_be(dim))
        refuse("/split/" + pointer_token(dim), "the model has no dim " + quoted(dim) + did_you_mean(dim, dims));
    const std::vector<std::string> layers(known_layers_.begin(), known_layers_.end());
    for (const std::string& layer : rules_.open.layers)
      if (!layers_.contains(layer) && !subject_.may_be(layer))
        refuse("/tensors/" + pointer_token(layer),
               "the layout of a layer can be \"auto\"; the model has no layer " + quoted(layer) + did_you_mean(layer, layers));
  }

  void check_places() {
    std::vector<std::string> devices;
    if (subject_.devices != nullptr)
      for (const Device& d : *subject_.devices) devices.push_back(d.name);
    for (const auto& [layer, on] : rules_.places) {
      const std::string here = "/place/" + pointer_token(layer);
      if (!layers_.contains(layer) && !subject_.may_be(layer))
        refuse(here, "the model has no layer " + quoted(layer) + did_you_mean(layer, {known_layers_.begin(), known_layers_.end()}));
      if (on.empty() && !bad_.contains(here)) refuse(here, "expected at least one device");
      for (std::size_t i = 0; i < on.size(); i++) {
        const std::string inner = here + "/" + std::to_string(i);
        if (subject_.devices != nullptr && !Reader::is_one_of(on[i], devices)) {
          complain(inner, "the mesh has no device " + quoted(on[i]) + did_you_mean(on[i], devices));
          bad_.insert(here);
        }
        if (std::count(on.begin(), on.begin() + static_cast<std::ptrdiff_t>(i), on[i]) > 0)
          complain(inner, "device " + quoted(on[i]) + " is listed twice");
      }
    }
  }

  void check_homes() {
    for (const StepTensor& t : passes_.tensors) {
      const auto found = rules_.homes.find(t.name);
      if (t.role != TensorRole::parameter || found == rules_.homes.end()) continue;
      const int ranks = subject_.devices == nullptr ? std::numeric_limits<int>::max() : static_cast<int>(subject_.devices->size());
      std::vector<Box> boxes;
      Index held = 0;
      bool fits = true;
      for (const Shard& h : found->second) {
        fits = fits && h.rank >= 0 && h.rank < ranks && h.box.size() == t.shape.rank() && contains(whole(t.shape), h.box) &&
               (volume(h.box) > 0 || t.shape.elements() == 0);
        held += fits ? volume(h.box) : 0;
        boxes.push_back(h.box);
      }
      if (!fits || held != t.shape.elements() || !subtract(whole(t.shape), boxes).empty())
        complain("/homes/" + pointer_token(t.name), "expected boxes of the mesh's ranks that hold each element of " +
                                                        quoted(t.name) + " once, as Plan::homes() gives");
    }
  }

  inline static const Passes kNothing{};
  const RuleSubject& subject_;
  const Passes& passes_;
  const LayoutRules& rules_;
  std::map<std::string, Index> sizes_;
  std::string batch_;
  std::set<std::string> tensors_{}, layers_{}, bad_{};
  std::set<std::string> known_layers_{};  // without those of the loss, which no one has named
  std::vector<RuleComplaint> out_{};
};

}  // namespace

std::vector<RuleComplaint> check_rules(const RuleSubject& subject, const LayoutRules& rules) {
  return RuleChecker(subject, rules).run();
}

std::vector<RuleComplaint> check_rules(const Passes& passes, const Mesh& mesh, const LayoutRules& rules) {
  return check_rules({.passes = &passes, .mesh = &mesh, .axes = &mesh.axes(), .devices = &mesh.devices()}, rules);
}

std::optional<RuleComplaint> check_layouts(const Passes& passes, const Mesh& mesh, const LayoutRules& rules) {
  try {
    require_statistics(passes, mesh, rules, Layouts(passes, mesh, rules));
    return std::nullopt;
  } catch (const LayoutError& e) {
    const StepTensor& tensor = at(passes.tensors, passes.find(e.tensor));
    return RuleComplaint{EffectiveRules(rules, passes).rule_for(tensor, e.dim).pointer(), e.what()};
  } catch (const UserError& e) {
    return RuleComplaint{"", e.what()};
  }
}

LayoutRules rules_within(const Step& step, LayoutRules rules) {
  return rules_within(step.passes(), std::move(rules));
}

LayoutRules rules_within(const Passes& passes, LayoutRules rules) {
  const auto sizes = reference_sizes(passes);
  auto known = [&](const std::string& name) {
    return std::any_of(passes.tensors.begin(), passes.tensors.end(),
                       [&](const StepTensor& t) { return t.name == name || t.layer == name; });
  };
  std::erase_if(rules.split, [&](const Rule& rule) { return !sizes.contains(rule.dim); });
  std::erase_if(rules.tensors, [&](const auto& one) { return !known(one.first); });
  std::erase_if(rules.places, [&](const auto& one) { return !known(one.first); });
  std::erase_if(rules.open.dims, [&](const std::string& dim) { return !sizes.contains(dim); });
  std::erase_if(rules.open.layers, [&](const std::string& layer) { return !known(layer); });
  return rules;
}

DeviceOrder order_of(const Mesh& mesh) {
  DeviceOrder out;
  for (const Axis& a : mesh.axes()) out.axes.push_back({a.name, a.size});
  for (const Device& d : mesh.devices()) out.devices.push_back(d.name);
  return out;
}

std::optional<Mesh> mesh_in_order(const DeviceOrder& order, const Mesh& devices) {
  std::vector<Axis> axes;
  Index ranks = 1;
  for (const NamedSize& a : order.axes) {
    if (a.size < 1 || a.size > devices.ranks() / ranks) return std::nullopt;
    axes.push_back({a.name, static_cast<int>(a.size)});
    ranks *= a.size;
  }
  const auto& all = devices.devices();
  if (ranks != devices.ranks() || order.devices.size() != all.size()) return std::nullopt;
  std::vector<Device> ordered;
  for (const std::string& wanted : order.devices) {
    const auto found = std::find_if(all.begin(), all.end(), [&](const Device& d) { return d.name == wanted; });
    if (found == all.end()) return std::nullopt;
    ordered.push_back(*found);
  }
  return Mesh(std::move(axes), std::move(ordered), devices.links());
}

std::string order_text(const DeviceOrder& order) {
  constexpr std::size_t kMostNamed = 8;
  std::string out;
  for (const NamedSize& a : order.axes) out += (out.empty() ? "" : " x ") + a.name + " " + std::to_string(a.size);
  for (std::size_t k = 0; k < std::min(order.devices.size(), kMostNamed); k++) out += (k == 0 ? " of " : ", ") + order.devices[k];
  return out + (order.devices.size() > kMostNamed ? ", ..." : "");
}

void require_rules(const Passes& passes, const Mesh& mesh, const LayoutRules& rules) {
  const auto complaints = check_rules(passes, mesh, rules);
  if (!complaints.empty()) throw UserError("layout rules, " + complaints.front().pointer + ": " + complaints.front().text);
}

}  // namespace motley
