// SPDX-License-Identifier: Apache-2.0
// Real steps: which plans run, that the fastest of them is chosen, and that nothing else is.
#include <motley/measure_steps.h>

#include <catch2/catch.hpp>

#include "balance/near_rules.h"
#include "balance/timed_steps.h"
#include "plan/cost.h"
#include "plan/plan_data.h"
#include "tests/lib/train_nets.h"
#include "tests/support/synthetic_profile.h"
#include "train/real_steps.h"

namespace motley {
namespace {

const LayoutRules kRules{{"f1", "all"}, {"f2", "all"}};

Sizes parts_of(const Plan& plan, std::size_t rule = 0) {
  return std::get<Sizes>(plan.data().rules.split[rule].parts);
}

// As if these plans had run, in so many seconds of the first one's each.
void add_rows(Profile& profile, const Step& step, const Mesh& mesh, const std::vector<std::pair<LayoutRules, double>>& rows,
              const LayoutRules& given = kRules) {
  TimedSteps steps = steps_of(step, mesh, given, profile, DType::f32);
  steps.reference = decisions_of(rows.front().first);
  steps.reference_seconds = {1e-3, 1e-3, 1e-3, 3};
  for (const auto& [rules, over] : rows) steps.plans.push_back({decisions_of(rules), "one", over, over, over, 3});
  add_timed_steps(profile, std::move(steps));
}

LayoutRules resolved(const Step& step, const Mesh& mesh, const Parts& f1, const Parts& f2) {
  return balance(step, mesh, {{"f1", "all", f1}, {"f2", "all", f2}}, {}).data().rules;
}

}  // namespace

TEST_CASE("real steps: of the plans that ran and are listed the fastest is chosen, for the step that ran alone") {
  const Step step = small_step(8);
  const Mesh mesh = line_of(2);
  Profile profile = testing::synthetic_profile(mesh, {1, 0.4}, 1e9);
  const Plan predicted = balance(step, mesh, kRules, profile);
  CHECK_FALSE(measured_seconds(profile, predicted, kRules));
  const LayoutRules even = resolved(step, mesh, Sizes{Partition::even(5, mesh.ranks()).sizes()},
                                    Sizes{Partition::even(4, mesh.ranks()).sizes()}),
                    alone = resolved(step, mesh, Sizes{{5, 0}}, Sizes{{4, 0}}),
                    unlisted = resolved(step, mesh, Sizes{{0, 5}}, Sizes{{1, 3}});
  REQUIRE(predicted.data().rules != even);
  for (const LayoutRules& fastest : {predicted.data().rules, even, alone}) {
    Profile ran = profile;
    std::vector<std::pair<LayoutRules, double>> rows{{predicted.data().rules, 1}, {even, 1}, {alone, 1}, {unlisted, 0.1}};
    for (auto& [rules, over] : rows) over = rules == fastest ? 0.5 : over;
    add_rows(ran, step, mesh, rows);
    const Profile again = Profile::parse("again", ran.json());
    CHECK(again.json() == ran.json());
    for (const Profile& of : {ran, again}) {
      const Plan plan = balance(step, mesh, kRules, of);
      CHECK(plan.data().rules == fastest);
      CHECK(measured_seconds(of, plan, kRules) == Approx(0.5e-3));
      CHECK((fastest == predicted.data().rules) == (plan.data().cuts.front().why != "the fastest in real steps"));
    }
    // Another batch, other rules, another device, another motley.
    CHECK(parts_of(balance(small_step(16), mesh, kRules, ran)) == parts_of(balance(small_step(16), mesh, kRules, profile)));
    CHECK(parts_of(balance(step, mesh, {{"f1", "all"}}, ran)) == parts_of(balance(step, mesh, {{"f1", "all"}}, profile)));
    Profile other = ran;
    other.devices.front().isa = "avx512_core";
    CHECK(balance(step, mesh, kRules, other).data().rules == predicted.data().rules);
    other = ran;
    other.steps.front().build = "0.0.1";
    CHECK(balance(step, mesh, kRules, other).data().rules == predicted.data().rules);
  }
}

TEST_CASE("real steps: what is said of an automatic layout is that of the plan which they chose") {
  const Step step = small_step(8);
  const Mesh mesh = line_of(2);
  const LayoutRules open = LayoutRules::automatic();
  const Profile profile = testing::synthetic_profile(mesh, {1, 0.9}, 1e9);
  const std::vector<NearRules> near = near_rules(choose_layouts(step, mesh, open, profile, DType::f32), mesh);
  REQUIRE(near.size() > 2);
  for (const NearRules& fastest : near) {
    CAPTURE(fastest.name);
    std::vector<std::pair<LayoutRules, double>> rows;
    for (const NearRules& one : near) rows.emplace_back(one.rules, one.rules == fastest.rules ? 0.5 : 1);
    Profile ran = profile;
    add_rows(ran, step, mesh, rows, open);
    const Plan plan = balance(step, mesh, open, ran);
    CHECK(plan.data().rules == fastest.rules);
    CHECK(!plan.data().layout.empty());
    for (const LayerChoice& one : plan.data().layout) {
      if (one.next_best_seconds) CHECK(*one.next_best_seconds >= *plan.data().step_seconds * (1 - 1e-12));
      if (fastest.name.ends_with(" alone") && !one.cut.starts_with("not cut")) CHECK(one.cut == "on " + fastest.name);
    }
  }
}

TEST_CASE("real steps: visits in which other processes had a core do not count, if there are two others") {
  const StepRounds reference{{10, false}, {30, true}, {12, false}};
  CHECK(counted_seconds(reference) == std::vector<double>{10, 12});
  CHECK(over_reference({{5, false}, {5, true}, {6, false}}, reference) == std::vector<double>{0.5, 0.5});
  CHECK(over_reference({{5, false}, {33, false}}, {{10, false}, {30, true}, {10, false}}) == std::vector<double>{0.5, 3.3});
  CHECK(over_reference({{5, true}, {15, false}}, reference) == std::vector<double>{0.5, 0.5});
  const StepRounds never{{20, true}, {40, false}};
  CHECK(counted_seconds(never) == std::vector<double>{20, 40});
  CHECK(over_reference({{10, true}, {40, false}}, never) == std::vector<double>{0.5, 1});
}

TEST_CASE("real steps: a plan that ran is not taken where it does not fit into memory") {
  const Step step = small_step(8);
  Mesh mesh = line_of(2);
  Profile profile = testing::synthetic_profile(mesh, {1, 0.4}, 1e9);
  const Plan free = balance(step, mesh, kRules, profile);
  const LayoutRules alone = resolved(step, mesh, Sizes{{0, 5}}, Sizes{{0, 4}});
  std::vector<Device> devices(2);
  devices[1].memory_bytes = free.data().predicted[1].memory_bytes;
  const Mesh limited({{"all", 2}}, devices);
  add_rows(profile, step, limited, {{free.data().rules, 1}, {alone, 0.1}});
  CHECK(fits(balance(step, limited, kRules, profile).data()));
}

TEST_CASE("real steps: the chosen plan, even parts and the fastest rank alone run; the second call runs nothing") {
  const Step step = small_step(8);
  for (const int ranks : {1, 2, 3}) {
    const Mesh mesh = line_of(ranks);
    const Folder folder;
    const std::filesystem::path file = folder.path() / "profile.json";
    Profile first, second;
    run_ranks_in_memory(ranks, [&](Runtime& rt) {
      const Profile synthetic = testing::synthetic_profile(mesh, std::vector<double>(static_cast<std::size_t>(ranks), 1), 1e9);
      const Profile ran = measure_steps(rt, mesh, step, kRules, synthetic, file, {.seconds = 1000});
      const Profile again = measure_steps(rt, mesh, step, kRules, ran, file, {.seconds = 1000});
      if (rt.rank() == ranks - 1) first = ran, second = again;
    });
    CHECK(first.json() == second.json());
    CHECK(first.steps.size() == (ranks == 1 ? 0 : 1));
    CHECK(std::filesystem::exists(file) == (ranks > 1));
    if (ranks == 1) continue;
    CHECK(Profile::load(file).json() == first.json());
    const TimedSteps& steps = first.steps.front();
    CHECK(steps.plans.size() >= 2);
    CHECK(steps.plans.size() <= 8);
    CHECK(steps.plans.front().decisions == steps.reference);
    for (const LayoutRules& must :
         {resolved(step, mesh, Sizes{Partition::even(5, mesh.ranks()).sizes()}, Sizes{Partition::even(4, mesh.ranks()).sizes()})})
      CHECK(timed_plan(steps, must) != nullptr);
    for (const TimedPlan& plan : steps.plans) {
      CHECK(plan.n >= 2);
      CHECK((plan.q25 <= plan.median && plan.median <= plan.q75));
    }
    // The plan is the least measured of those that are listed.
    const Plan plan = balance(step, mesh, kRules, first);
    REQUIRE(timed_plan(steps, plan.data().rules) != nullptr);
  }
}

TEST_CASE("real steps: too little time runs nothing, and is said once") {
  const Step step = small_step(8);
  const Mesh mesh = line_of(2);
  std::vector<std::string> said;
  run_ranks_in_memory(2, [&](Runtime& rt) {
    Profile profile = testing::synthetic_profile(mesh, {1, 1}, 1e9);
    for (int call = 0; call < 2; call++)
      profile = measure_steps(rt, mesh, step, kRules, profile, "",
                              {.seconds = 1e-9, .warn = [&](const std::string& line) { said.push_back(line); }});
    if (rt.rank() == 0) {
      CHECK(profile.steps.size() == 1);
      CHECK(profile.steps.front().plans.empty());
    }
  });
  REQUIRE(said.size() == 1);
  CHECK_THAT(said.front(), Catch::Contains("do not fit into 1e-09 s"));
}

}  // namespace motley
