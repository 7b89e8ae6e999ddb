// SPDX-License-Identifier: Apache-2.0
// Layout law of updates: those of any optimizer under any cut equal the unsharded ones, norms of complete parameters and moving
// averages included; and what they compute, by loops.
#include <motley/error.h>
#include <motley/predictor.h>
#include <motley/trainer.h>
#include <motley/weights.h>

#include <catch2/catch.hpp>
#include <cmath>
#include <mutex>

#include "plan/plan_data.h"
#include "tests/lib/train_nets.h"
#include "tests/support/plain_optimizers.h"
#include "tests/support/random_feeds.h"
#include "tests/support/random_network.h"
#include "tests/support/run_plan.h"
#include "tests/support/shrink.h"

using namespace motley;
using namespace motley::law;

namespace {

Plan in_f64(const Step& step, const Mesh& mesh, const LayoutRules& rules = {}) {
  return balance(step, mesh, rules, {}, {.dtype = DType::f64});
}

}  // namespace

TEST_CASE("layout and pick law: updates", "[law]") {
  int refused = 0;
  for (unsigned number = 880000; number < 880000 + share_of(200U); number++) {
    Random random(number);
    const Recipe recipe = random_recipe(random);
    const Network net = build(recipe);
    const Decay decay = chance(random, 0.5) ? Decay::all : Decay::weights;
    std::vector<Optimizer> optimizers;
    each_optimizer(decay, [&](const auto& o) { optimizers.emplace_back(o); });
    const Optimizer& optimizer = optimizers[static_cast<std::size_t>(pick(random, 0, 5))];
    const Step step = training(net.loss, optimizer, {.average = chance(random, 0.4) ? 0.9 : 0});
    Case one{recipe, {{"a", static_cast<int>(pick(random, 1, 4))}}, {}, 0};
    one.cuts = random_cuts(random, net, one.axes, {.often = 0.5, .spatial = 0.3});
    INFO("case " << number << ", " << optimizer.kind);
    const Outcome truth = run_plan(in_f64(step, mesh_of({{"one", 1}})));
    try {
      std::vector<Device> devices(static_cast<std::size_t>(one.axes.front().size));
      for (Device& device : devices)  // memory of its own
        if (chance(random, 0.2)) device.kind = DeviceKind::cuda;
      const Mesh mesh(one.axes, devices);
      const LayoutRules rules = rules_of(one, net);
      const Plan plan = number % 2 == 0 ? in_f64(step, mesh, rules)
                                        : with_random_picks(step, mesh, rules, number, DType::f64, random_ownership(number));
      const Outcome cut = run_plan(plan, {.restless = number % 3 == 0 ? number : 0});
      CHECK(difference(cut, truth) < 1e-9);
      for (std::size_t r = 0; r < cut.counted.size(); r++) CHECK(cut.counted[r] == plan.data().predicted[r].bytes);
    } catch (const UserError&) {
      refused++;
    }
  }
  CHECK(refused < static_cast<int>(share_of(100U)));
}

TEST_CASE("a step's update, by loops: who decays is said by who declares the parameter", "[law]") {
  const Dim batch{"batch", 6}, positions{"positions", 4}, in{"in", 6}, hidden{"hidden", 6};
  for (const Decay decay : {Decay::all, Decay::weights})
    each_optimizer(decay, [&](const auto& options) {
      const auto run = [&](double rate, int ranks) {
        Graph g;
        auto its = options;
        its.learning_rate = rate;
        Tensor h = g.input("x", {batch, positions, in});
        h = dense(h, {.in = {in}, .out = {hidden}, .name = "d"});
        h = add(h, g.parameter({positions, hidden}, {.name = "place"}));
        h = attention(layer_norm(h, {.epsilon = 0.1, .name = "norm"}), {.heads = {"heads", 2}, .name = "a"});
        const Step step = training(mean(mul(h, h)), its);
        const LayoutRules rules = ranks == 1 ? LayoutRules{} : LayoutRules{{hidden, "all", Sizes{{1, 0, 5}}}};
        return run_plan(in_f64(step, mesh_of({{"all", ranks}}), rules), {.steps = 1});
      };
      const Outcome before = run(0, 1), after = run(options.learning_rate, 3);
      for (const auto& [name, w] : before.weights) {
        Plain plain{w};
        const bool weight = !name.ends_with(".bias") && !name.starts_with("norm.");
        plain.step(options, after.gradients.at(name), 1, decay == Decay::all || weight);
        INFO(Optimizer(options).kind << " " << name);
        for (std::size_t i = 0; i < w.size(); i++)
          CHECK(after.weights.at(name)[i] == Approx(plain.w[i]).epsilon(1e-11).margin(1e-13));
      }
    });
}

TEST_CASE("several steps of every optimizer, by loops, with averages", "[law]") {
  constexpr int kSteps = 4;
  each_optimizer(Decay::all, [&](const auto& options) {
    const Fed net;
    for (const double average : {0.0, 0.75})
      for (int ranks = 1; ranks <= 4; ranks++)
        for (int way = 0; way < 3; way++) {
          INFO(Optimizer(options).kind << " on " << ranks << " ranks, way " << way << ", average " << average);
          const Step step = training(net.loss, options, {.average = average});
          const Plan plan = in_f64(step, mesh_of({{"a", ranks}}), fed_rules(ranks, way));
          std::map<std::string, Values> begin, end, averages;
          std::mutex lock;
          run_ranks_in_memory(ranks, [&](Runtime& rt) {
            Trainer trainer(rt, plan, {.seed = 3});
            std::map<std::string, Values> first, last, its;
            for (const std::string& name : trainer.state().names()) first[name] = trainer.state().get(rt.transport(), name);
            for (int s = 1; s <= kSteps; s++) trainer.step_named(feeds(net, s));
            for (const std::string& name : trainer.state().names()) {
              last[name] = trainer.state().get(rt.transport(), name);
              if (average > 0) its[name] = trainer.state().get(rt.transport(), name, "average");
            }
            const std::lock_guard hold(lock);
            if (rt.rank() == 0) begin = first, end = last, averages = its;
          });
          for (const auto& [name, input] : {std::pair{std::string("p.weight"), net.x}, {"q.weight", net.y}}) {
            Plain plain{begin.at(name)};
            Values mean;
            for (int s = 1; s <= kSteps; s++) {
              plain.step(options, all_values(input.name(), input.shape(), s), s, true);
              if (s == 1) mean = plain.w;
              for (std::size_t i = 0; i < mean.size(); i++) mean[i] = average * mean[i] + (1 - average) * plain.w[i];
            }
            for (std::size_t i = 0; i < plain.w.size(); i++) {
              CHECK(end.at(name)[i] == Approx(plain.w[i]).epsilon(1e-11).margin(1e-14));
              if (average > 0) CHECK(averages.at(name)[i] == Approx(mean[i]).epsilon(1e-11).margin(1e-14));
            }
          }
        }
  });
}

TEST_CASE("lamb: a parameter or a direction of length 0 has the ratio 1", "[law]") {
  const Fed net(InitialWeights::zeros);
  const Plan plan = in_f64(training(net.loss, Lamb{.learning_rate = 0.1, .weight_decay = 0}), mesh_of({{"a", 2}}), fed_rules(2, 0));
  run_ranks_in_memory(2, [&](Runtime& rt) {
    Trainer trainer(rt, plan, {.seed = 3});
    const Values q = trainer.state().get(rt.transport(), "q.weight");
    const auto zeros = [](const Box& box, std::span<std::byte> out) {
      std::fill_n(reinterpret_cast<double*>(out.data()), volume(box), 0.0);
    };
    trainer.step_named({{"x", values("x", net.x.shape(), 1)}, {"y", zeros}});
    CHECK(trainer.state().get(rt.transport(), "q.weight") == q);
    Plain plain{Values(static_cast<std::size_t>(kRows * kCols), 0.0)};
    plain.step(Lamb{.learning_rate = 0.1, .weight_decay = 0}, all_values("x", net.x.shape(), 1), 1, true);
    const Values p = trainer.state().get(rt.transport(), "p.weight");
    CHECK(std::abs(p.front()) > 0.05);
    for (std::size_t i = 0; i < p.size(); i++) CHECK(p[i] == Approx(plain.w[i]).epsilon(1e-12));
  });
}

TEST_CASE("updates: micro-batches and clipped gradients move as the complete batch", "[law]") {
  constexpr Index kBatch = 12;
  const Datasets data = small_data(40);
  each_optimizer(Decay::weights, [&](const auto& options) {
    const auto train = [&](int ranks, Index accumulate) {
      Graph g;
      const Step step = training(small_net(g, kBatch).loss, options, {.clip_norm = 0.3, .accumulate = accumulate, .average = 0.5});
      const Plan plan = balance(step, line_of(ranks), small_rules(ranks), {}, {.dtype = DType::f64});
      std::map<std::string, Values> out;
      std::mutex lock;
      run_ranks_in_memory(ranks, [&](Runtime& rt) {
        Trainer trainer(rt, plan, {.seed = 5, .compare_copies_every = 2});
        Order order(40, kBatch, 1);
        for (int s = 0; s < 3; s++) {
          const Batch b = batch_of(data.train, order.batch_of(s), s, 0);
          trainer.step_named({{"image", b.images}, {"label", b.labels}});
        }
        for (const std::string& name : trainer.state().names()) {
          const Values its = trainer.state().get(rt.transport(), name, "average");
          const std::lock_guard hold(lock);
          if (rt.rank() == 0) out[name] = its;
        }
      });
      return out;
    };
    const auto truth = train(1, 1);
    for (int ranks = 1; ranks <= 4; ranks++) {
      const auto cut = train(ranks, ranks % 2 == 0 ? 3 : 12);
      for (const auto& [name, w] : truth)
        for (std::size_t i = 0; i < w.size(); i++) CHECK(cut.at(name)[i] == Approx(w[i]).epsilon(1e-9).margin(1e-11));
    }
  });
}

TEST_CASE("averages: predicted with, in files of weights, and gone on with under another cut", "[law]") {
  const Fed net;
  const Folder folder;
  const Step step = training(net.loss, Lamb{.learning_rate = 0.1}, {.average = 0.5});
  const auto plan_on = [&](int ranks) { return in_f64(step, mesh_of({{"a", ranks}}), fed_rules(ranks, 0)); };
  Values straight;
  run_ranks_in_memory(3, [&](Runtime& rt) {
    const Plan plan = plan_on(3);
    Trainer trainer(rt, plan, {.seed = 3});
    LayoutRules rules;
    rules.homes = plan.homes();
    const Plan predicts = in_f64(inference({net.out, net.other}), plan.mesh(), rules);
    Predictor averaged(rt, predicts, trainer.state()), current(rt, predicts, trainer.state(), PredictedWeights::current);
    const auto check_outputs = [&] {
      const Values x = all_values("x", net.x.shape(), 9);
      for (Predictor* predictor : {&averaged, &current}) {
        predictor->run_named(feeds(net, 9));
        const Values w = trainer.state().get(rt.transport(), "p.weight", predictor == &averaged ? "average" : ""),
                     out = predictor->get(net.out);
        for (std::size_t i = 0; i < w.size(); i++) check(std::abs(out[i] - w[i] * x[i]) < 1e-15, "the output is by these weights");
      }
    };
    check_outputs();  // before any step both are the initial ones
    for (int s = 1; s <= 2; s++) trainer.step_named(feeds(net, s));
    check_outputs();
    check(trainer.state().get(rt.transport(), "p.weight") != trainer.state().get(rt.transport(), "p.weight", "average"),
          "the average lags");
    trainer.save(folder.path() / "step-2");
    save_weights(rt, trainer.state(), folder.path() / "w.safetensors");
    const Values average = trainer.state().get(rt.transport(), "p.weight", "average");
    for (const char* from : {"w.safetensors", "step-2"}) {
      State state(predicts, rt.rank(), 1);
      load_weights(rt, state, folder.path() / from);
      check(state.get(rt.transport(), "p.weight") == average, "files of weights hold averages");
    }
    for (int s = 3; s <= 4; s++) trainer.step_named(feeds(net, s));
    const Values its = trainer.state().get(rt.transport(), "p.weight", "average");
    if (rt.rank() == 0) straight = its;
  });
  run_ranks_in_memory(2, [&](Runtime& rt) {
    Trainer trainer(rt, plan_on(2), {.seed = 8});
    static_cast<void>(trainer.load(folder.path() / "step-2"));
    for (int s = 3; s <= 4; s++) trainer.step_named(feeds(net, s));
    const Values its = trainer.state().get(rt.transport(), "p.weight", "average");
    for (std::size_t i = 0; i < its.size(); i++) check(std::abs(its[i] - straight[i]) < 1e-12, "as one that was never stopped");
  });
  // Averaging that begins with a checkpoint begins with its weights.
  const Folder without;
  run_ranks_in_memory(2, [&](Runtime& rt) {
    Trainer plain(rt, in_f64(training(net.loss, Lamb{.learning_rate = 0.1}), mesh_of({{"a", 2}}), fed_rules(2, 0)), {.seed = 3});
    plain.step_named(feeds(net, 1));
    plain.save(without.path() / "step-1");
    Trainer trainer(rt, plan_on(2), {.seed = 8});
    static_cast<void>(trainer.load(without.path() / "step-1"));
    check(trainer.state().get(rt.transport(), "q.weight", "average") == plain.state().get(rt.transport(), "q.weight"),
          "they begin so");
    // One without averages leaves those of the checkpoint out.
    trainer.step_named(feeds(net, 2));
    trainer.save(without.path() / "step-2");
    static_cast<void>(plain.load(without.path() / "step-2"));
    check(trainer.state().get(rt.transport(), "q.weight") == plain.state().get(rt.transport(), "q.weight"), "it goes on so");
  });
  CHECK_THROWS_WITH(training(net.loss, Sgd{}, {.average = 1}), Catch::Contains("above 0 and below 1"));
}
