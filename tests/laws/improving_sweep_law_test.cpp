// SPDX-License-Identifier: Apache-2.0
// The improving sweep against descents from random plans, and against every plan where there are few.
#include <motley/error.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <optional>

#include "plan/formats.h"
#include "plan/planner.h"
#include "tests/support/random_network.h"

using namespace motley;
using namespace motley::law;

namespace {

struct Planner {
  Passes passes;
  Mesh mesh;
  Layouts layouts;
  Profile none{};
  Cost cost;
  Sweeper sweeper;
  Planner(const Case& one, const Network& net)
      : passes(passes_for(training(net.loss, Sgd{.learning_rate = 0.1}), rules_of(one, net))),
        mesh(mesh_of(one.axes)),
        layouts(passes, mesh, rules_of(one, net)),
        cost(passes, mesh, none, speeds_from_parts(passes, mesh, layouts), DType::f32, common_formats(passes, mesh, DType::f32)),
        sweeper(passes, mesh, layouts, cost) {}
  std::map<int, Pick> random_picks(Random& random) const {
    std::map<int, Pick> picks;
    for (int p = 0; p < static_cast<int>(passes.passes.size()); p++) {
      const auto all = sweeper.candidates(p);
      picks[p] = all[static_cast<std::size_t>(pick(random, 0, static_cast<Index>(all.size()) - 1))];
    }
    return picks;
  }
};

std::map<int, Pick> picks_of(const Sweep& sweep) {
  std::map<int, Pick> out;
  for (std::size_t p = 0; p < sweep.passes.size(); p++)
    if (!sweep.passes[p].work.empty()) out[static_cast<int>(p)] = sweep.passes[p].pick;
  return out;
}

// The least cost over every choice of picks; nothing where there are more than `most`.
std::optional<double> exhaustive(Planner& p, double most) {
  std::vector<std::vector<Pick>> all;
  double plans = 1;
  for (int i = 0; i < static_cast<int>(p.passes.passes.size()); i++) {
    all.push_back(p.sweeper.candidates(i));
    plans *= static_cast<double>(all.back().size());
  }
  if (plans > most) return std::nullopt;
  double least = HUGE_VAL;
  std::vector<std::size_t> at(all.size(), 0);
  for (bool more = true; more;) {
    std::map<int, Pick> picks;
    for (std::size_t i = 0; i < all.size(); i++) picks[static_cast<int>(i)] = all[i][at[i]];
    least = std::min(least, p.sweeper.run(picks).cost);
    more = false;
    for (std::size_t i = 0; i < all.size() && !more; i++) {
      more = ++at[i] < all[i].size();
      if (!more) at[i] = 0;
    }
  }
  return least;
}

// Nothing: the rules do not go together.
std::optional<Planner> planner_of(const Case& one, const Network& net) {
  std::optional<Planner> out;
  try {
    out.emplace(one, net);
  } catch (const UserError&) {
  }
  return out;
}

}  // namespace

TEST_CASE("the improving sweep is near the best of descents from random plans", "[law]") {
  double sum = 0, worst = 1;
  int cases = 0;
  for (unsigned number = 60000; number < 60000 + share_of(25U); number++) {
    Random random(number);
    Case one{random_recipe(random), {{"a", 2}, {"b", 2}}, {}, 0};
    one.cuts = random_cuts(random, build(one.net), one.axes, {.often = 0.5, .jagged = 0.1});
    const Network net = build(one.net);
    std::optional<Planner> p = planner_of(one, net);
    if (!p) continue;
    const Sweep sweep = p->sweeper.improve();
    const double found = sweep.cost;
    CHECK(p->sweeper.run(picks_of(sweep)).cost == Approx(found).epsilon(1e-9));
    double best = found;
    for (int k = 0; k < 4; k++) best = std::min(best, p->sweeper.improve(p->random_picks(random)).cost);
    INFO(to_text(one) << ": " << found << ", the best descent " << best);
    CHECK(found <= 1.25 * best);
    sum += found / best;
    worst = std::max(worst, found / best);
    cases++;
  }
  INFO(cases << " cases, mean " << sum / cases << ", worst " << worst);
  CHECK(cases > when_all(10));
  CHECK(sum <= 1.02 * cases);
}

TEST_CASE("the improving sweep is near the best of all plans where they are few", "[law]") {
  double sum = 0;
  int cases = 0;
  for (unsigned number = 61000; number < 61000 + share_of(150U); number++) {
    Random random(number);
    Case one{random_recipe(random), {{"a", static_cast<int>(pick(random, 2, 3))}}, {}, 0};
    one.net.layers.resize(1);
    one.net.layers.front().kind = Layer::Kind::conv;
    one.net.head = Recipe::Head::dense;
    one.net.integers = true;  // a sum is the loss: fewer passes
    one.net.hidden = 0;
    one.cuts = random_cuts(random, build(one.net), one.axes, {.often = 0.6});
    const Network net = build(one.net);
    std::optional<Planner> p = planner_of(one, net);
    if (!p) continue;
    const Sweep sweep = p->sweeper.improve();  // chooses which of two dims a weight is cut along: all plans below cut it there
    const double found = sweep.cost;
    const std::optional<double> least = exhaustive(*p, 20000);
    if (!least) continue;
    CHECK(p->sweeper.run(picks_of(sweep)).cost == Approx(found).epsilon(1e-9));
    INFO(to_text(one) << ": " << found << ", the least " << *least);
    CHECK(found >= *least * (1 - 1e-9));
    CHECK(found <= 1.25 * *least);
    sum += found / *least;
    cases++;
  }
  INFO(cases << " cases, mean " << sum / cases);
  CHECK(cases > when_all(20));
  CHECK(sum <= 1.02 * cases);
}
