// SPDX-License-Identifier: Apache-2.0
#include "balance/arrange.h"

#include <fmt/format.h>
#include <motley/error.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <optional>
#include <set>
#include <utility>

#include "balance/choose_layout.h"
#include "balance/dim_tables.h"
#include "base/at.h"
#include "base/hash.h"
#include "base/json.h"
#include "base/units.h"
#include "mesh/mesh_json.h"
#include "plan/plan_fields.h"

namespace motley {

namespace {

constexpr std::size_t kMostPlanned = 12;        // of a small step
constexpr std::size_t kMostPlannedOfLarge = 2;  // of others: a complete plan takes seconds
constexpr std::size_t kFewToPrice = 1000;       // passes, times ranks: plans with the parts of the tables, else sums of tables
constexpr double kNearTables = 0.15;            // share of the least one's seconds by which others may be slower
constexpr int kMostListed = 8;                  // ranks whose devices a text names

Device without_place(Device device) {
  device.name.clear();
  device.host.clear();
  device.index = 0;
  device.cores.clear();
  if (device.of) device.of = std::make_shared<const Device>(without_place(*device.of));
  return device;
}

// What a mesh says of a device that its kernels' seconds follow from.
std::string kind_of(const Device& device) {
  return to_text(to_json(without_place(device)));
}

// Equal numbers for equal texts, in the order in which these appear.
std::vector<int> numbered(const std::vector<std::string>& texts) {
  std::vector<int> out;
  std::vector<std::string> known;
  for (const std::string& text : texts) {
    const auto found = std::find(known.begin(), known.end(), text);
    out.push_back(static_cast<int>(found - known.begin()));
    if (found == known.end()) known.push_back(text);
  }
  return out;
}

class Arranger {
 public:
  explicit Arranger(const Mesh& given) : given_(given) {
    std::vector<std::string> kinds, hosts;
    for (const Device& d : given.devices()) {
      kinds.push_back(kind_of(d));
      hosts.push_back(d.host);
    }
    kinds_ = numbered(kinds);
    hosts_ = numbered(hosts);
  }

  std::vector<Arrangement> run() {
    const int ranks = given_.ranks();
    std::vector<int> listed(static_cast<std::size_t>(ranks));
    std::iota(listed.begin(), listed.end(), 0);
    add({{"all", ranks}}, listed, "one axis");
    for (int outer = 2; outer <= ranks / 2; outer++) {
      if (ranks % outer != 0) continue;
      const int inner = ranks / outer;
      const std::vector<Axis> axes{{"outer", outer}, {"inner", inner}};
      add(axes, listed, "as listed");
      for (const auto& [what, number] : {std::pair{"hosts", &hosts_}, {"kinds", &kinds_}}) {
        std::vector<int> sorted = listed;
        std::stable_sort(sorted.begin(), sorted.end(), [&, of = number](int a, int b) { return at(*of, a) < at(*of, b); });
        add(axes, sorted, fmt::format("{} along outer", what));
        std::vector<int> turned;
        for (int o = 0; o < outer; o++)
          for (int i = 0; i < inner; i++) turned.push_back(at(sorted, i * outer + o));
        add(axes, turned, fmt::format("{} along inner", what));
      }
    }
    return std::move(out_);
  }

 private:
  void add(const std::vector<Axis>& axes, const std::vector<int>& ranks, std::string how) {
    std::vector<std::pair<int, int>> places;
    std::vector<Device> devices;
    for (const int r : ranks) {
      places.emplace_back(at(kinds_, r), at(hosts_, r));
      devices.push_back(given_.device(r));
    }
    for (std::size_t k = 0; k < out_.size(); k++)
      if (out_[k].mesh.axes() == axes && places_[k] == places) return;
    places_.push_back(std::move(places));
    out_.push_back({Mesh(axes, std::move(devices), given_.links()), std::move(how)});
  }

  const Mesh& given_;
  std::vector<int> kinds_{}, hosts_{};  // by rank
  std::vector<std::vector<std::pair<int, int>>> places_{};
  std::vector<Arrangement> out_{};
};

// Besides the first those with as many ranks along outer as there are hosts, or kinds of devices: tables take seconds each, too.
void keep_groups(std::vector<Arrangement>& all) {
  std::set<std::string> hosts, kinds;
  for (const Device& d : all.front().mesh.devices()) {
    hosts.insert(d.host);
    kinds.insert(kind_of(d));
  }
  const auto is_other = [&](const Arrangement& one) {
    const auto outer = static_cast<std::size_t>(one.mesh.axes().front().size);
    return outer != hosts.size() && outer != kinds.size();
  };
  all.erase(std::remove_if(all.begin() + 1, all.end(), is_other), all.end());
}

using Say = std::function<void(const std::string&)>;

// "arrangement 3 of 11: outer 2 x inner 4, as listed"
void say_where(const Say& progress, const std::string& what, const std::vector<Arrangement>& all, const Arrangement& one) {
  if (!progress) return;
  std::string axes;
  for (const Axis& a : one.mesh.axes()) axes += fmt::format("{}{} {}", axes.empty() ? "" : " x ", a.name, a.size);
  progress(fmt::format("{} {} of {}: {}, {}", what, &one - all.data() + 1, all.size(), axes, one.how));
}

// Of a small step one axis speaks for all layouts that it can have. (Of others few arrangements are planned.)
Among layouts_of(const Arrangement& one, const Step& step) {
  const bool small = step.passes().passes.size() * static_cast<std::size_t>(one.mesh.ranks()) <= kFewToPrice;
  return small && one.mesh.axes().size() > 1 ? Among::beyond_one_axis : Among::all;
}

// Drops arrangements but the first that, with the parts of the tables, are slower than others. How many.
int drop_slower(std::vector<Arrangement>& all, const Step& step, const LayoutRules& rules, const Profile& profile,
                const ArrangeOptions& options) {
  const std::size_t before = all.size(), size = step.passes().passes.size() * static_cast<std::size_t>(all.front().mesh.ranks());
  const bool small = size <= kFewToPrice;
  if (!small) keep_groups(all);
  for (Arrangement& one : all) {
    say_where(options.progress, "looking at arrangement", all, one);
    const Profile its = in_order_of(one.mesh, profile);
    one.seconds = small ? seconds_with_table_parts(step, one.mesh, rules, its, options.dtype, layouts_of(one, step))
                        : least_on_tables(step, one.mesh, rules, its, options.dtype);
  }
  const auto seconds = [](const Arrangement& one) { return one.seconds.value_or(kNever); };
  std::stable_sort(all.begin() + 1, all.end(), [&](const Arrangement& a, const Arrangement& b) { return seconds(a) < seconds(b); });
  const std::size_t kept = small ? kMostPlanned : kMostPlannedOfLarge;
  const double most = all.size() == 1 ? kNever : std::min(seconds(all[0]), seconds(all[1])) * (1 + kNearTables);
  while (all.size() > 1 && (all.size() > kept || !all.back().seconds || seconds(all.back()) > most)) all.pop_back();
  if (!small)  // a complete plan takes much longer than this
    std::erase_if(all, [&](const Arrangement& one) {
      return one.mesh.axes().size() > 1 && !seconds_with_table_parts(step, one.mesh, rules, in_order_of(one.mesh, profile),
                                                                     options.dtype, Among::beyond_one_axis);
    });
  for (Arrangement& one : all) one.seconds.reset();
  return static_cast<int>(before - all.size());
}

// Of what each device computes, by its name.
std::uint64_t work_of(const PlanData& plan, const Mesh& mesh) {
  std::map<std::string, int> ranks;
  for (int r = 0; r < mesh.ranks(); r++) ranks[mesh.device(r).name] = r;
  Hash hash;
  for (std::size_t p = 0; p < plan.pass_plans.size(); p++) {
    hash.add(plan.passes.passes[p].name);
    for (const auto& [name, r] : ranks)
      if (const std::vector<Work>& work = plan.pass_plans[p].work; !work.empty() && at(work, r).any)
        hash.add(name).add(at(work, r).box);
  }
  return hash.value();
}

void predict_one(Arrangement& one, const Step& step, const LayoutRules& rules, const Profile& profile, DType dtype) {
  const PlanData plan =
      choose_layouts(step, one.mesh, rules, in_order_of(one.mesh, profile), dtype, layouts_of(one, step)).front().parts.plan;
  one.seconds = fits(plan) ? plan.step_seconds : std::nullopt;
  one.work = work_of(plan, one.mesh);
}

void require_open(const LayoutRules& rules) {
  const auto refuse = [](const std::string& why) {
    throw UserError("arrange() chooses axes together with the layout, and " + why +
                    "; expected LayoutRules::automatic(), or rules that leave layouts open and name no axis");
  };
  const auto look = [&](const std::vector<Rule>& of) {
    for (const Rule& rule : of)
      if (!rule.axes.names.empty()) refuse("a rule cuts \"" + rule.dim + "\" over the axis \"" + rule.axes.names.front() + "\"");
  };
  look(rules.split);
  for (const auto& [name, of] : rules.tensors) look(of);
  if (!rules.open.any()) refuse("these rules leave nothing open");
}

}  // namespace

std::vector<Arrangement> arrangements(const Mesh& given) {
  return Arranger(given).run();
}

Arranged arrange(const Step& step, const Mesh& mesh, const LayoutRules& rules, const Profile& profile,
                 const ArrangeOptions& options) {
  Arranged out{arrangements(mesh)};
  if (out.planned.size() == 1) return out;
  require_open(rules);
  if (profile.empty()) {
    out.dropped = static_cast<int>(out.planned.size()) - 1;
    out.planned.erase(out.planned.begin() + 1, out.planned.end());
    return out;
  }
  if (static_cast<int>(profile.devices.size()) != mesh.ranks())
    throw UserError(fmt::format("the profile is of {} devices, the mesh has {}", profile.devices.size(), mesh.ranks()));
  out.measured = true;
  out.dropped = drop_slower(out.planned, step, rules, profile, options);
  if (out.planned.size() == 1) return out;
  std::optional<UserError> refused;
  for (Arrangement& one : out.planned) try {
      say_where(options.progress, "planning arrangement", out.planned, one);
      predict_one(one, step, rules, profile, options.dtype);
    } catch (const UserError& e) {
      one.seconds.reset();
      refused = e;
    }
  std::stable_sort(out.planned.begin(), out.planned.end(), [](const Arrangement& a, const Arrangement& b) {
    return a.seconds.value_or(kNever) < b.seconds.value_or(kNever);
  });
  if (refused && !out.planned.front().seconds) throw UserError(*refused);
  return out;
}

std::string Arrangement::text() const {
  std::string out;
  for (const Axis& a : mesh.axes()) out += fmt::format("{}{} {}", out.empty() ? "" : " x ", a.name, a.size);
  if (mesh.axes().size() == 1) return out;
  out += ", " + how;
  const int inner = mesh.axes().back().size;
  for (int r = 0; r < mesh.ranks() && mesh.ranks() <= kMostListed; r++)
    out += fmt::format("{}{}{}",
                       r == 0           ? ": ["
                       : r % inner == 0 ? "], ["
                                        : ", ",
                       mesh.device(r).name, r + 1 == mesh.ranks() ? "]" : "");
  return out;
}

std::string Arranged::text() const {
  return axes_text(choice_of(*this));
}

AxesChoice choice_of(const Arranged& all) {
  const Arrangement& best = all.planned.front();
  AxesChoice out{.chosen = best.text(), .seconds = best.seconds, .dropped = all.dropped};
  if (all.measured) out.complete_plans = static_cast<int>(all.planned.size());
  const auto next = std::find_if(all.planned.begin() + 1, all.planned.end(),
                                 [&](const Arrangement& one) { return !one.seconds || one.work != best.work; });
  if (next != all.planned.end()) {
    out.next_best = next->text();
    out.next_best_seconds = next->seconds;
  }
  return out;
}

std::string axes_text(const AxesChoice& axes) {
  if (axes.complete_plans == 0 && axes.dropped > 0)
    return "axes auto: all devices along one axis, since nothing is measured yet; motley profile JOB measures, and the next "
           "command arranges them";
  const std::string out = "axes auto: " + axes.chosen;
  if (axes.complete_plans == 0) return out + ", the only arrangement";
  const auto seconds = [](const std::optional<double>& of) { return of ? seconds_text(*of) : "too little memory"; };
  std::string more = axes.seconds || axes.complete_plans > 1 ? ", predicted " + seconds(axes.seconds) : "";
  if (!axes.next_best.empty()) {
    const bool both = axes.seconds && axes.next_best_seconds;
    more += fmt::format("; next best {}, {}{}", axes.next_best, seconds(axes.next_best_seconds),
                        both ? " (" + price_text(*axes.next_best_seconds / std::max(*axes.seconds, 1e-30)) + ")" : "");
  } else if (axes.complete_plans > 1) {
    more += "; the others give the same plan";
  }
  more += fmt::format("; {} complete plan{}", axes.complete_plans, axes.complete_plans == 1 ? "" : "s");
  if (axes.dropped > 0)
    more += fmt::format(", {} more arrangement{} dropped: no gain by {} tables", axes.dropped, axes.dropped == 1 ? "" : "s",
                        axes.dropped == 1 ? "its" : "their");
  return out + more;
}

}  // namespace motley
