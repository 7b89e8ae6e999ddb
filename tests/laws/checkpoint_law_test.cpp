// SPDX-License-Identifier: Apache-2.0
// Saved on one mesh and cuts, loaded on another: every value has the bits that it had, and training goes on with the same losses,
// bit for bit under the same plan. A damaged checkpoint is refused on all ranks before anything is overwritten.
#include <motley/error.h>
#include <motley/trainer.h>
#include <motley/weights.h>
#include <sys/resource.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <catch2/catch.hpp>
#include <cmath>
#include <csignal>
#include <fstream>
#include <mutex>
#include <optional>

#include "tests/support/directory.h"
#include "tests/support/random_feeds.h"
#include "tests/support/shrink.h"
#include "weights/checkpoint.h"

using namespace motley;
using namespace motley::law;
namespace fs = std::filesystem;

namespace {

constexpr int kBefore = 2, kAfter = 2;  // steps before and after the checkpoint

Optimizer optimizer_of(Index kind) {
  if (kind == 0) return Sgd{.learning_rate = 0.05, .momentum = 0.9};
  if (kind == 1) return Adam{.learning_rate = 0.01};
  return AdamW{.learning_rate = 0.01};
}

// How a training is optimized.
struct Optimized {
  Optimizer by{};
  RateSchedule schedule{};
  std::optional<double> rate{};  // set before the first step
};

Optimized random_optimized(Random& random) {
  using Kind = RateSchedule::Kind;
  Optimized out{optimizer_of(pick(random, 0, 2)), {.warmup_steps = 1, .steps = kBefore + kAfter}};
  out.schedule.kind =
      std::array{Kind::cosine, Kind::polynomial, Kind::one_cycle, Kind::plateau}[static_cast<std::size_t>(pick(random, 0, 3))];
  if (out.schedule.kind == Kind::one_cycle) out.schedule.warmup_steps = 0;
  out.schedule.patience = 0;
  if (chance(random, 0.2)) out.rate = 0.02;
  return out;
}

struct Planned {
  Network net;
  Plan plan;
  int ranks;
  std::optional<double> rate{};
};

// Nothing: the rules do not go together.
std::optional<Planned> planned(Random& random, const Recipe& recipe, const Optimized& optimized) {
  const int ranks = static_cast<int>(pick(random, 1, 4));
  Case one{recipe, axes_of(random, ranks), {}, 0};
  Network net = build(recipe);
  one.cuts = random_cuts(random, net, one.axes, {.often = 0.4, .spatial = 0.3, .nested = 0.1, .jagged = 0.15});
  const TrainingOptions options{.schedule = optimized.schedule};
  try {
    Plan plan =
        balance(training(net.loss, optimized.by, options), mesh_of(one.axes), rules_of(one, net), {}, {.dtype = DType::f64});
    return Planned{std::move(net), std::move(plan), ranks, optimized.rate};
  } catch (const UserError& e) {
    REQUIRE(std::string(e.what()).find("cannot both be cut") != std::string::npos);
    return std::nullopt;
  }
}

struct Course {
  std::vector<double> losses{}, rates{};
  std::map<std::pair<std::string, std::string>, std::vector<double>> values{};  // of the State, complete, at the checkpoint
};

void take_values(Runtime& rt, Trainer& trainer, Course& course) {
  for (const StateEntry& e : trainer.state().entries()) {
    auto values = trainer.state().get(rt.transport(), e.name, e.slot);
    if (rt.rank() == 0) course.values[{e.name, e.slot}] = std::move(values);
  }
}

// On a plateau the rate falls before each step but the first. Rates are kept beside the losses.
void train(Runtime& rt, Trainer& trainer, const Planned& one, int from, int steps, Course& course) {
  for (int s = from; s < from + steps; s++) {
    if (s == 0) trainer.set_learning_rate(one.rate);
    if (one.plan.step().scalars().schedule.kind == RateSchedule::Kind::plateau && trainer.evaluated(1) != (s > 0))
      throw InternalError("the rate falls where there was no gain");
    const StepReport report = trainer.step_named(feeds_of(one.net, s, true));
    if (rt.rank() != 0) continue;
    course.losses.push_back(report.loss);
    course.rates.push_back(report.learning_rate);
  }
}

Course saved(const Planned& one, const fs::path& checkpoint) {
  Course course;
  run_ranks_in_memory(one.ranks, [&](Runtime& rt) {
    Trainer trainer(rt, one.plan, {.seed = 5});
    train(rt, trainer, one, 0, kBefore, course);
    trainer.save(checkpoint, {.epoch = 3, .batch = 1, .batch_size = 4, .samples = 9});
    take_values(rt, trainer, course);
    train(rt, trainer, one, kBefore, kAfter, course);
  });
  for (auto* each : {&course.losses, &course.rates}) each->erase(each->begin(), each->begin() + kBefore);
  return course;
}

Course loaded(const Planned& one, const fs::path& checkpoint) {
  Course course;
  run_ranks_in_memory(one.ranks, [&](Runtime& rt) {
    Trainer trainer(rt, one.plan, {.seed = 77});
    const DataPosition at = trainer.load(checkpoint);
    if (at.epoch != 3 || at.batch != 1 || at.batch_size != 4 || at.samples != 9 || trainer.steps() != kBefore)
      throw InternalError("the position is not the one that was saved");
    take_values(rt, trainer, course);
    train(rt, trainer, one, kBefore, kAfter, course);
  });
  return course;
}

double apart(const std::vector<double>& a, const std::vector<double>& b) {
  double worst = a.size() == b.size() ? 0 : HUGE_VAL;
  for (std::size_t i = 0; i < std::min(a.size(), b.size()); i++)
    worst = std::max(worst, std::abs(a[i] - b[i]) / std::max(1e-30, std::abs(a[i])));
  return worst;
}

}  // namespace

TEST_CASE("checkpoint law: saved on one mesh and cuts, loaded on another, training goes on with the same losses", "[law]") {
  int compared = 0;
  for (int number = 0; number < share_of(60); number++) {
    INFO("case " << number);
    Random random(static_cast<unsigned>(91000 + number));
    const Recipe recipe = random_recipe(random);
    const Optimized optimized = random_optimized(random);
    const auto one = planned(random, recipe, optimized);
    if (!one) continue;
    const testing::Directory in;
    const Course course = saved(*one, in.path / "step-2");
    const Course again = loaded(*one, in.path / "step-2");
    CHECK(again.values == course.values);
    CHECK(again.losses == course.losses);
    CHECK(again.rates == course.rates);
    for (int k = 0; k < 3; k++) {
      const auto other = planned(random, recipe, optimized);
      if (!other) continue;
      const Course elsewhere = loaded(*other, in.path / "step-2");
      CHECK(elsewhere.values == course.values);
      CHECK(apart(elsewhere.losses, course.losses) < 1e-10);
      CHECK(elsewhere.rates == course.rates);
      compared++;
    }
  }
  CHECK(compared > when_all(100));
}

TEST_CASE("checkpoint law: what is written while steps go on is the State of when it was begun", "[law]") {
  constexpr int kMost = 1000000;  // a busy disk lets many steps pass
  for (int number = 0; number < share_of(20); number++) {
    INFO("case " << number);
    Random random(static_cast<unsigned>(93000 + number));
    const Recipe recipe = random_recipe(random);
    const auto one = planned(random, recipe, {optimizer_of(pick(random, 0, 2))});
    if (!one) continue;
    const testing::Directory in;
    int steps_until_saved = 0;
    run_ranks_in_memory(one->ranks, [&](Runtime& rt) {
      Trainer trainer(rt, one->plan, {.seed = 5});
      Course ignored;
      train(rt, trainer, *one, 0, 1, ignored);
      trainer.save(in.path / "at_once");
      trainer.begin_save(in.path / "begun");
      if (fs::exists(in.path / "begun")) throw InternalError("a checkpoint is there before it is finished");
      bool saved = false;
      int steps = 0;
      for (; !saved && steps < kMost; steps++) saved = trainer.step_named(feeds_of(one->net, steps, true)).saved;
      if (rt.rank() == 0) steps_until_saved = steps;
      trainer.finish_save();
      if (trainer.step_named(feeds_of(one->net, 0, true)).saved) throw InternalError("nothing is being saved any more");
      trainer.begin_save(in.path / "first");
      trainer.begin_save(in.path / "second");  // finishes the first
      if (!fs::exists(in.path / "first" / kMarker)) throw InternalError("the first one is not complete");
    });
    CHECK(steps_until_saved < kMost);
    Checkpoint(in.path / "begun").check_chunks();
    CHECK(to_text(Checkpoint(in.path / "begun").manifest()) == to_text(Checkpoint(in.path / "at_once").manifest()));
    CHECK_FALSE(fs::exists(in.path / "second"));      // it was not finished
    CHECK_FALSE(fs::exists(in.path / "second.new"));  // nor is anything left of it
  }
}

TEST_CASE("checkpoint law: weights files have the parameters of any layout", "[law]") {
  for (int number = 0; number < share_of(20); number++) {
    INFO("case " << number);
    Random random(static_cast<unsigned>(92000 + number));
    const Recipe recipe = random_recipe(random);
    const auto one = planned(random, recipe, {Sgd{}}), other = planned(random, recipe, {Sgd{}});
    if (!one || !other) continue;
    const testing::Directory in;
    Course from;
    run_ranks_in_memory(one->ranks, [&](Runtime& rt) {
      Trainer trainer(rt, one->plan, {.seed = 5});
      for (const char* name : {"w.safetensors", "w.npz"}) save_weights(rt, trainer.state(), in.path / name);
      trainer.save(in.path / "step-0");
      take_values(rt, trainer, from);
    });
    for (const char* name : {"w.safetensors", "w.npz", "step-0"}) {
      Course to;
      run_ranks_in_memory(other->ranks, [&](Runtime& rt) {
        Trainer trainer(rt, other->plan, {.seed = 6});
        load_weights(rt, trainer.state(), in.path / name);
        take_values(rt, trainer, to);
      });
      CHECK(to.values == from.values);
    }
  }
}

TEST_CASE("checkpoint law: what does not fit or is damaged is refused on all ranks, and nothing is overwritten", "[law]") {
  Random random(7);
  const Recipe recipe = random_recipe(random);
  const Network net = build(recipe);
  const Mesh mesh = mesh_of({{"a", 2}});
  const LayoutRules rules{{"classes", "a", Shares{{1, 1}}}};
  const auto plan_with = [&](const Optimizer& optimizer) {
    return balance(training(net.loss, optimizer), mesh, rules, {}, {.dtype = DType::f64});
  };
  const Plan sgd = plan_with(Sgd{.momentum = 0.9}), adam = plan_with(Adam{});
  const testing::Directory in;
  const fs::path checkpoint = in.path / "step-0";
  run_ranks_in_memory(2, [&](Runtime& rt) { Trainer(rt, sgd, {.seed = 5}).save(checkpoint); });
  REQUIRE(fs::exists(checkpoint / "rank-0.bin"));
  REQUIRE(fs::exists(checkpoint / "rank-1.bin"));
  // No space: all ranks learn of it, the checkpoint that was there is as it was, and nothing else is left.
  const Manifest was = Checkpoint(checkpoint).manifest();
  std::signal(SIGXFSZ, SIG_IGN);
  std::atomic<int> full = 0;
  run_ranks_in_memory(2, [&](Runtime& rt) {
    Trainer trainer(rt, sgd, {.seed = 8});
    static_cast<void>(agree(rt.transport(), 0));
    rlimit limit{};
    check(getrlimit(RLIMIT_FSIZE, &limit) == 0, "the limit is known");
    const rlimit little{100, limit.rlim_max};
    if (rt.rank() == 0) check(setrlimit(RLIMIT_FSIZE, &little) == 0, "it can be lowered");
    try {
      trainer.save(checkpoint);
    } catch (const UserError& e) {
      full += e.code() == Exit::io && std::string(e.what()).find("File too large") != std::string::npos ? 1 : 0;
    }
    static_cast<void>(agree(rt.transport(), 0));
    if (rt.rank() == 0) check(setrlimit(RLIMIT_FSIZE, &limit) == 0, "it can be raised again");
  });
  CHECK(full == 2);
  CHECK(to_text(Checkpoint(checkpoint).manifest()) == to_text(was));
  Checkpoint(checkpoint).check_chunks();
  CHECK(std::distance(fs::directory_iterator(in.path), {}) == 1);
  std::mutex lock;
  const auto refusals = [&](const Plan& plan, const fs::path& path) {
    std::vector<std::string> said;
    run_ranks_in_memory(2, [&](Runtime& rt) {
      Trainer trainer(rt, plan, {.seed = 6});
      Course before, after;
      take_values(rt, trainer, before);
      try {
        trainer.load(path);
      } catch (const UserError& e) {
        const std::lock_guard hold(lock);
        said.push_back(std::to_string(static_cast<int>(e.code())) + " " + e.what());
      }
      take_values(rt, trainer, after);
      if (before.values != after.values) throw InternalError("something was overwritten");
    });
    return said;
  };
  const auto other_slots = refusals(adam, checkpoint);
  REQUIRE(other_slots.size() == 2);
  CHECK_THAT(other_slots[0], Catch::Contains("65") &&
                                 Catch::Contains("its state of a parameter is \"velocity\", expected \"mean\" and \"square\""));
  CHECK(other_slots[0] == other_slots[1]);
  // Of equal slots, with another meaning.
  const fs::path of_adam = in.path / "adam";
  run_ranks_in_memory(2, [&](Runtime& rt) { Trainer(rt, adam, {.seed = 5}).save(of_adam); });
  CHECK_THAT(refusals(plan_with(Lamb{}), of_adam).at(0),
             Catch::Contains("65") && Catch::Contains("saved with another optimizer: \"adam\", expected \"lamb\""));
  run_ranks_in_memory(2, [&](Runtime& rt) { Trainer(rt, adam, {.seed = 6}).load(of_adam); });
  const auto others = [&] {  // each rank another checkpoint
    std::vector<std::string> said;
    run_ranks_in_memory(2, [&](Runtime& rt) {
      Trainer trainer(rt, sgd, {.seed = 6});
      try {
        trainer.load(rt.rank() == 0 ? checkpoint : of_adam);
      } catch (const UserError& e) {
        const std::lock_guard hold(lock);
        said.emplace_back(e.what());
      }
    });
    return said;
  };
  CHECK(others() == std::vector<std::string>(2, "rank 1 has another checkpoint than rank 0; give every rank the same files"));
  CHECK_THAT(refusals(sgd, in.path / "nowhere").at(0), Catch::Contains("66") && Catch::Contains("no such checkpoint"));
  // Rank 1's file alone: both ranks refuse.
  std::fstream file(checkpoint / "rank-1.bin", std::ios::binary | std::ios::in | std::ios::out);
  file.put('x');
  file.close();
  const auto damaged = refusals(sgd, checkpoint);
  REQUIRE(damaged.size() == 2);
  CHECK_THAT(damaged[1], Catch::Contains("65") && Catch::Contains("rank-1.bin: bytes 0 to") && Catch::Contains("are damaged"));
}
