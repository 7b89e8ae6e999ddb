// SPDX-License-Identifier: Apache-2.0
#include "tests/support/shrink.h"

#include <fmt/format.h>
#include <motley/error.h>

#include <algorithm>
#include <numeric>
#include <optional>

#include "plan/formats.h"
#include "plan/plan_data.h"
#include "plan/planner.h"
#include "plan/schedules.h"
#include "plan/tiles.h"
#include "tests/support/run_plan.h"

namespace motley::law {

Ownership random_ownership(unsigned number) {
  Random random(number);
  Ownership out;
  if (chance(random, 0.6)) out = {.whole_below = pick(random, 1, 40), .multiple = chance(random, 0.5) ? 1 : pick(random, 2, 5)};
  return out;
}

Plan with_random_picks(const Step& step, const Mesh& mesh, const LayoutRules& rules, unsigned number, DType dtype,
                       const Ownership& ownership) {
  Random random(number);
  const Passes passes = passes_for(step, rules);
  Layouts layouts(passes, mesh, rules);
  for (int p : passes.parameters)
    layouts.choose(p, static_cast<std::size_t>(pick(random, 0, static_cast<Index>(layouts.options(p)) - 1)));
  const Profile none;
  const Cost cost(passes, mesh, none, std::vector<double>(static_cast<std::size_t>(mesh.ranks()), 1.0), dtype,
                  common_formats(passes, mesh, dtype));
  const Sweeper sweeper(passes, mesh, layouts, cost);
  std::map<int, Pick> picks;
  for (int p = 0; p < static_cast<int>(passes.passes.size()); p++) {
    const auto all = sweeper.candidates(p);
    picks[p] = all[static_cast<std::size_t>(pick(random, 0, static_cast<Index>(all.size()) - 1))];
  }
  PlanData data = plan_of_picks(passes, mesh, layouts, rules, picks, dtype, ownership);
  tile_all(data, [&](const Hop&) { return chance(random, 0.5) ? static_cast<int>(pick(random, 1, 5)) : 0; });
  return plan_from(step, mesh, std::move(data));
}

Plan with_random_schedules(const Plan& plan, unsigned number) {
  PlanData data = plan.data();
  Random random(number);
  for (TensorPlan& t : data.tensors)
    for (const auto hop : kHops) {
      const auto tree = static_cast<Tree>(pick(random, 0, static_cast<Index>(kTreeNames.size()) - 1));
      const int chunks = tree == Tree::ring || tree == Tree::two_level ? static_cast<int>(pick(random, 1, 4)) : 1;
      if (t.add.tiles + t.copy.tiles + t.fill.tiles == 0) (t.*hop).schedule = {tree, chunks};  // a tile goes direct
    }
  count_bytes(data);
  return plan_from(plan.step(), plan.mesh(), std::move(data));
}

Plan with_hosts_apart(const Plan& plan) {
  PlanData data = plan.data();
  std::iota(data.hosts.begin(), data.hosts.end(), 0);
  count_bytes(data);
  return plan_from(plan.step(), plan.mesh(), std::move(data));
}

namespace {

// The first tensor of which some element of finished values arrives at a rank twice, or at a rank that has it; empty: none.
std::string sent_twice(const Plan& plan) {
  for (std::size_t t = 0; t < plan.data().tensors.size(); t++) {
    const TensorPlan& tensor = plan.data().tensors[t];
    const std::vector<Shard>* before = &tensor.owners;
    for (const auto* hop : {&tensor.copy.messages, &tensor.fill.messages}) {
      std::map<int, std::vector<Box>> has;
      for (const Shard& h : *before) has[h.rank].push_back(h.box);
      for (const BoxMessage& m : *hop) {
        if (m.from == m.to) continue;
        for (const Box& b : has[m.to])
          if (volume(intersect(b, m.box)) > 0) return plan.data().passes.tensors[t].name;
        has[m.to].push_back(m.box);
      }
      before = &tensor.home;
    }
  }
  return "";
}

// Every case that is one step smaller, what removes most first.
std::vector<Case> smaller(const Case& one) {
  std::vector<Case> out;
  auto offer = [&](const std::function<void(Case&)>& change) {
    Case other = one;
    change(other);
    out.push_back(std::move(other));
  };
  auto lower = [&](auto member, Index least) {  // to the least, to half, by one
    Case copy = one;
    const Index now = member(copy);
    for (Index next : {least, now / 2, now - 1})
      if (next >= least && next < now) offer([&](Case& c) { member(c) = next; });
  };
  for (std::size_t i = 0; i < one.cuts.size(); i++)
    offer([&](Case& c) { c.cuts.erase(c.cuts.begin() + static_cast<std::ptrdiff_t>(i)); });
  for (std::size_t i = 0; i < one.net.layers.size(); i++)
    offer([&](Case& c) { c.net.layers.erase(c.net.layers.begin() + static_cast<std::ptrdiff_t>(i)); });
  for (std::size_t a = 0; a < one.axes.size(); a++) {
    const std::string& name = one.axes[a].name;
    const bool used = std::any_of(one.cuts.begin(), one.cuts.end(), [&](const CutRecipe& c) {
      return c.per == name || std::find(c.axes.begin(), c.axes.end(), name) != c.axes.end();
    });
    if (!used && one.axes.size() > 1) offer([&](Case& c) { c.axes.erase(c.axes.begin() + static_cast<std::ptrdiff_t>(a)); });
    if (one.axes[a].size == 1) continue;
    offer([&](Case& c) {  // one rank fewer: the last part goes to the one before it
      c.axes[a].size--;
      for (CutRecipe& cut : c.cuts) {
        if (cut.per == name) cut.parts.pop_back();
        if (cut.axes != std::vector<std::string>{name}) continue;
        for (auto& list : cut.parts) {
          const Index last = list.back();
          list.pop_back();
          list.back() += last;
        }
      }
      std::erase_if(c.cuts, [&](const CutRecipe& cut) {
        return cut.axes.size() > 1 && std::count(cut.axes.begin(), cut.axes.end(), name) > 0;
      });
    });
  }
  for (std::size_t i = 0; i < one.cuts.size(); i++) {
    if (!one.cuts[i].per.empty())
      offer([&](Case& c) {
        c.cuts[i].per.clear();
        c.cuts[i].parts.resize(1);
      });
    for (std::size_t k = 0; k < one.cuts[i].parts.size(); k++) {
      const std::vector<Index> even(one.cuts[i].parts[k].size(), 1);
      if (one.cuts[i].parts[k] != even) offer([&](Case& c) { c.cuts[i].parts[k] = even; });
    }
  }
  if (one.picks != 0) offer([](Case& c) { c.picks = 0; });
  if (one.hosts > 1) offer([](Case& c) { c.hosts--; });
  if (one.schedules != 0) offer([](Case& c) { c.schedules = 0; });
  lower([](Case& c) -> Index& { return c.net.batch; }, 1);
  lower([](Case& c) -> Index& { return c.net.in; }, 1);
  lower([](Case& c) -> Index& { return c.net.rows; }, 1);
  lower([](Case& c) -> Index& { return c.net.cols; }, 1);
  lower([](Case& c) -> Index& { return c.net.hidden; }, 0);
  lower([](Case& c) -> Index& { return c.net.classes; }, 1);
  if (one.net.head != Recipe::Head::dense) offer([](Case& c) { c.net.head = Recipe::Head::dense; });
  for (std::size_t i = 0; i < one.net.layers.size(); i++) {
    const Layer& layer = one.net.layers[i];
    if (layer.kind == Layer::Kind::residual) offer([&](Case& c) { c.net.layers[i].kind = Layer::Kind::conv; });
    if (layer.bias) offer([&](Case& c) { c.net.layers[i].bias = false; });
    if (layer.same) offer([&](Case& c) { c.net.layers[i].same = false; });
    if (!layer.activation.empty()) offer([&](Case& c) { c.net.layers[i].activation.clear(); });
    lower([i](Case& c) -> Index& { return c.net.layers[i].filters; }, 1);
    lower([i](Case& c) -> Index& { return c.net.layers[i].inner; }, 1);
    lower([i](Case& c) -> Index& { return c.net.layers[i].groups; }, 1);
    for (Sliding Layer::*s : {&Layer::rows, &Layer::cols}) {
      lower([i, s](Case& c) -> Index& { return (c.net.layers[i].*s).window; }, 1);
      lower([i, s](Case& c) -> Index& { return (c.net.layers[i].*s).stride; }, 1);
      lower([i, s](Case& c) -> Index& { return (c.net.layers[i].*s).dilation; }, 1);
      lower([i, s](Case& c) -> Index& { return (c.net.layers[i].*s).before; }, 0);
      lower([i, s](Case& c) -> Index& { return (c.net.layers[i].*s).after; }, 0);
    }
  }
  return out;
}

}  // namespace

Verdict verdict_on(const Case& one) {
  Verdict verdict;
  try {
    const Network net = build(one.net);
    const bool integers = one.net.integers;
    const Step step = integers ? training(net.loss, Sgd{.learning_rate = 1, .momentum = 0})
                               : training(net.loss, Sgd{.learning_rate = 0.05, .momentum = 0.9, .weight_decay = 1e-3});
    const Mesh mesh = mesh_of(one.axes, one.hosts);
    const LayoutRules rules = rules_of(one, net);
    const DType dtype = integers ? DType::f32 : DType::f64;
    std::optional<Plan> many;
    try {
      many = one.picks != 0 ? with_random_picks(step, mesh, rules, one.picks, dtype, random_ownership(one.picks))
                            : balance(step, mesh, rules, {}, {.dtype = dtype});
    } catch (const UserError& e) {
      verdict.refused = std::string(e.what()).find("cannot both be cut") != std::string::npos;
      if (!verdict.refused) verdict.wrong = e.what();
      return verdict;
    }
    if (one.schedules != 0) many = with_random_schedules(*many, one.schedules);
    const Plan alone = balance(step, mesh_of({{"one", 1}}), {}, {}, {.dtype = DType::f64});
    const int steps = integers ? 1 : 2;
    const Outcome truth = run_plan(alone, {.steps = steps, .integers = integers});
    const Outcome cut = run_plan(*many, {.steps = steps, .integers = integers, .cpu_backend = integers});
    if (const double off = difference(cut, truth); !(off <= (integers ? 0 : 1e-11)))
      verdict.wrong = "it is " + fmt::format("{:.2g}", off) + " off";
    if (const std::string twice = sent_twice(*many); !twice.empty()) verdict.wrong += " parts of " + twice + " are sent twice";
    for (std::size_t r = 0; r < cut.counted.size(); r++)
      if (const Index planned = many->data().predicted[r].bytes; cut.counted[r] != planned)
        verdict.wrong += " rank " + std::to_string(r) + " received " + std::to_string(cut.counted[r]) + " bytes, " +
                         std::to_string(planned) + " were planned";
  } catch (const Error& e) {
    verdict.wrong = e.what();
  }
  return verdict;
}

Case smallest(Case failing, const std::function<bool(const Case&)>& fails, int tries) {
  for (bool shrunk = true; shrunk;) {
    shrunk = false;
    for (Case& other : smaller(failing)) {
      if (tries-- <= 0) return failing;
      if (!fails(other)) continue;
      failing = std::move(other);
      shrunk = true;
      break;
    }
  }
  return failing;
}

std::string broken(const Case& one, int* refused) {
  const Verdict verdict = verdict_on(one);
  if (refused != nullptr && verdict.refused) ++*refused;
  if (verdict.wrong.empty()) return "";
  const Case least = smallest(one, [](const Case& c) { return !verdict_on(c).wrong.empty(); });
  return to_text(least) + ": " + verdict_on(least).wrong + "\nfrom " + to_text(one) + ": " + verdict.wrong;
}

}  // namespace motley::law
