// SPDX-License-Identifier: Apache-2.0
// Fine-tuning law: frozen parameters and groups with their own rate and decay, under any cut, equal the unsharded network, and
// plain loops; a checkpoint goes on with another frozen set.
#include <motley/error.h>
#include <motley/trainer.h>
#include <motley/weights.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <mutex>
#include <set>

#include "graph/name_patterns.h"
#include "plan/plan_data.h"
#include "plan/schedules.h"
#include "tests/lib/train_nets.h"
#include "tests/support/plain_optimizers.h"
#include "tests/support/random_network.h"
#include "tests/support/run_plan.h"
#include "tests/support/shrink.h"

using namespace motley;
using namespace motley::law;

namespace {

using Named = std::map<std::string, Values>;

Plan in_f64(const Step& step, const Mesh& mesh, const LayoutRules& rules = {}) {
  return balance(step, mesh, rules, {}, {.dtype = DType::f64});
}

// Some of the parameters, by name, by layer or by ending; at least one is left.
std::vector<std::string> random_freeze(Random& random, const std::vector<std::string>& names) {
  std::vector<std::string> out;
  const auto spared = static_cast<std::size_t>(pick(random, 0, static_cast<Index>(names.size()) - 1));
  for (std::size_t i = 0; i < names.size(); i++) {
    const std::string pattern = chance(random, 0.5) ? names[i] : names[i].substr(0, names[i].rfind('.'));
    if (i != spared && chance(random, 0.5) && !matches_name(pattern, names[spared])) out.push_back(pattern);
  }
  return out;
}

std::vector<ParameterGroup> random_groups(Random& random, const std::vector<std::string>& names) {
  std::vector<ParameterGroup> out;
  for (int k = 0; k < 3; k++) {
    ParameterGroup group{
        chance(random, 0.3) ? "*" : names[static_cast<std::size_t>(pick(random, 0, static_cast<Index>(names.size()) - 1))]};
    group.learning_rate_factor = chance(random, 0.2) ? 0 : 0.5 * static_cast<double>(pick(random, 1, 6));
    if (chance(random, 0.5)) group.weight_decay = 0.1 * static_cast<double>(pick(random, 0, 4));
    out.push_back(std::move(group));
  }
  return out;
}

bool is_backward(const Pass& p) {
  return p.name.find("backward") != std::string::npos;
}

// What an optimizer is to a parameter of a group, by loops.
template <class T>
T with(T options, const std::vector<ParameterGroup>& groups, const std::string& name, bool decays) {
  if (!decays) options.weight_decay = 0;
  for (const ParameterGroup& group : groups)
    if (matches_name(group.match, name)) {
      options.learning_rate *= group.learning_rate_factor;
      options.weight_decay = group.weight_decay.value_or(options.weight_decay);
      break;
    }
  return options;
}

}  // namespace

TEST_CASE("names match patterns, and all that is below them", "[law]") {
  for (const auto& [pattern, name] : std::vector<std::pair<std::string, std::string>>{{"fc.weight", "fc.weight"},
                                                                                      {"fc", "fc.weight"},
                                                                                      {"fc.*", "fc.bias"},
                                                                                      {"layer1", "layer1.0.conv1.weight"},
                                                                                      {"layer1.*", "layer1.0.conv1.weight"},
                                                                                      {"layer1.*.conv*", "layer1.0.conv1.weight"},
                                                                                      {"*.bias", "a.b.bias"},
                                                                                      {"*", "x"},
                                                                                      {"*a*b*", "xxaxxabx"}})
    CHECK(matches_name(pattern, name));
  for (const auto& [pattern, name] : std::vector<std::pair<std::string, std::string>>{{"fc", "fc2.weight"},
                                                                                      {"layer1.", "layer1.0.weight"},
                                                                                      {"conv", "conv1.weight"},
                                                                                      {"weight", "fc.weight"},
                                                                                      {"*.bias", "bias"},
                                                                                      {"", "x"},
                                                                                      {"*a*b*", "xxbxxax"}})
    CHECK(!matches_name(pattern, name));
  const std::vector<std::string> names{"conv1.weight", "layer1.0.weight", "fc.bias"};
  CHECK(wrong_pattern("conv1", names).empty());
  CHECK(wrong_pattern("conv2", names) == "\"conv2\" matches no parameter; did you mean \"conv1\"?");
  CHECK(wrong_pattern("layr1.*", names) == "\"layr1.*\" matches no parameter; did you mean \"layer1.*\"?");
  CHECK(wrong_pattern("*.bais", names) == "\"*.bais\" matches no parameter; did you mean \"*.bias\"?");
  CHECK(wrong_pattern("zzzzzz", names) == "\"zzzzzz\" matches no parameter; one of the names is \"conv1.weight\"");
}

TEST_CASE("layout and pick law: frozen parameters and groups", "[law]") {
  int refused = 0, without_backward = 0, keeps = 0;
  for (unsigned number = 890000; number < 890000 + share_of(200U); number++) {
    Random random(number);
    const Recipe plain = random_recipe(random);
    const Recipe recipe = number % 3 == 0 ? with_norms(plain, random) : number % 3 == 1 ? with_attention(plain, random) : plain;
    const Network net = number % 7 == 6 ? token_network(random) : build(recipe);
    std::vector<Optimizer> optimizers;
    each_optimizer(chance(random, 0.5) ? Decay::all : Decay::weights, [&](const auto& o) { optimizers.emplace_back(o); });
    // Adam and LAMB move the bias of attention's keys, and one before a norm, by rounding alone.
    const bool any = number % 3 == 2 && number % 7 != 6;
    const Optimizer& optimizer = optimizers[static_cast<std::size_t>(pick(random, 0, any ? 5 : 1))];
    TrainingOptions options{.clip_norm = chance(random, 0.5) ? 0.5 : 0, .average = chance(random, 0.3) ? 0.9 : 0};
    const Step all = training(net.loss, optimizer, options);
    options.freeze = random_freeze(random, all.parameters());
    options.groups = random_groups(random, all.parameters());
    const Step step = training(net.loss, optimizer, options);
    INFO("case " << number << ", " << optimizer.kind);
    CHECK(step.passes().passes.size() <= all.passes().passes.size());
    without_backward += step.passes().passes.size() < all.passes().passes.size() ? 1 : 0;
    Case one{recipe, {{"a", static_cast<int>(pick(random, 1, 4))}}, {}, 0};
    if (number % 7 != 6) one.cuts = random_cuts(random, net, one.axes, {.often = 0.5, .spatial = 0.3});
    const Mesh alone = mesh_of({{"one", 1}});
    const Outcome truth = run_plan(in_f64(step, alone)), before = run_plan(in_f64(step, alone), {.steps = 0});
    for (const auto& [name, w] : truth.weights) {
      const bool frozen = matches_any(options.freeze, name), statistic = name.find(".running_") != std::string::npos;
      if (frozen && !statistic) CHECK(w == before.weights.at(name));
      CHECK(truth.gradients.contains(name) == (!frozen && !statistic));
    }
    try {
      std::vector<Device> devices(static_cast<std::size_t>(one.axes.front().size));
      if (number % 8 == 7) devices.front().kind = DeviceKind::cuda;  // with memory of its own
      const Mesh mesh(one.axes, devices);
      const LayoutRules rules = rules_of(one, net);
      const Plan plan = number % 2 == 0 ? in_f64(step, mesh, rules)
                                        : with_random_picks(step, mesh, rules, number, DType::f64, random_ownership(number));
      const Outcome cut = run_plan(plan, {.program = {.share = number % 4 > 1}, .restless = number % 5 == 0 ? number : 0});
      CHECK(difference(cut, truth) < 1e-9);
      const std::vector<Index> kept = kept_bytes(plan.data());
      for (std::size_t r = 0; r < cut.counted.size(); r++) {
        const Index bytes = plan.data().predicted[r].bytes;
        CHECK(cut.counted[r] == bytes);
        if (number % 5 > 0) CHECK(cut.first[r] == bytes + kept[r]);
        keeps += kept[r] > 0 ? 1 : 0;
      }
    } catch (const UserError&) {
      refused++;
    }
  }
  CHECK(refused < static_cast<int>(share_of(100U)));
  CHECK(without_backward > when_all(60));
  CHECK(keeps > when_all(60));
}

TEST_CASE("a frozen beginning has no backward pass, and the other gradients stay as they are", "[law]") {
  const Dim batch{"batch", 6}, in{"in", 3}, rows{"rows", 6}, cols{"cols", 6}, f{"f", 4}, g{"g", 5}, classes{"classes", 3};
  Graph graph;
  Tensor h = graph.input("x", {batch, in, rows, cols});
  const Tensor label = graph.input("label", {batch}, DType::i32);
  h = conv2d(h, {.out = f, .over = {rows, cols}, .window = 3, .name = "conv1"});
  h = relu(batch_norm(h, {.name = "bn1"}));
  h = relu(conv2d(h, {.out = g, .over = {rows, cols}, .window = 3, .name = "conv2"}));
  h = dense(h, {.in = {g, rows, cols}, .out = {classes}, .name = "fc"});
  const Tensor loss = mean(softmax_cross_entropy(h, label, classes));
  const Step all = training(loss, Sgd{.learning_rate = 0.1});
  const auto layers_backward = [](const Step& step) {
    std::set<std::string> out;
    for (const Pass& p : step.passes().passes)
      if (is_backward(p)) out.insert(p.layer);
    return out;
  };
  const auto frozen = [&](std::vector<std::string> patterns) {
    return training(loss, Sgd{.learning_rate = 0.1}, {.freeze = std::move(patterns)});
  };
  const Step head = frozen({"conv1", "bn1.*", "conv2"}), upper = frozen({"conv1"}), lower = frozen({"fc", "conv2.bias"});
  CHECK(layers_backward(all).contains("conv1"));
  CHECK(layers_backward(head) == std::set<std::string>{"fc", "softmax_cross_entropy_7", "mean_8"});
  CHECK(!layers_backward(upper).contains("conv1"));
  CHECK(layers_backward(upper).contains("bn1"));
  CHECK(layers_backward(lower).contains("conv1"));
  CHECK(head.parameters() == all.parameters());
  // Nothing is dropped where nothing is frozen; each set is another step.
  CHECK(frozen({"conv1"}).hash() == upper.hash());
  for (const Step* other : {&head, &upper, &lower}) CHECK(other->hash() != all.hash());
  CHECK(head.hash() != upper.hash());
  const Outcome truth = run_plan(in_f64(all, mesh_of({{"one", 1}})), {.steps = 1});
  for (const Step* step : {&head, &upper, &lower})
    for (int ranks = 1; ranks <= 4; ranks++) {
      LayoutRules rules;
      if (ranks > 1) rules = {{batch, "a"}};
      const Outcome its = run_plan(in_f64(*step, mesh_of({{"a", ranks}}), rules), {.steps = 1});
      for (const auto& [name, gradient] : its.gradients)
        for (std::size_t i = 0; i < gradient.size(); i++)
          CHECK(gradient[i] == Approx(truth.gradients.at(name)[i]).epsilon(1e-9).margin(1e-13));
      // Its statistics move as those of a norm that is trained.
      for (const char* name : {"bn1.running_mean", "bn1.running_var"})
        for (std::size_t i = 0; i < truth.weights.at(name).size(); i++)
          CHECK(its.weights.at(name)[i] == Approx(truth.weights.at(name)[i]).epsilon(1e-12).margin(1e-14));
    }
}

TEST_CASE("frozen parameters and groups, by loops", "[law]") {
  constexpr int kSteps = 3;
  const std::vector<std::vector<ParameterGroup>> all{
      {},
      {{.match = "q.*", .learning_rate_factor = 3}, {.match = "*", .weight_decay = 0.1}},
      {{.match = "*.weight", .learning_rate_factor = 0.5, .weight_decay = 0}, {.match = "p", .learning_rate_factor = 100}}};
  for (const bool freezes : {false, true})
    for (const auto& groups : all)
      each_optimizer(Decay::all, [&](const auto& options) {
        const Fed net;
        const double clip = 0.7;
        TrainingOptions its{.clip_norm = clip, .average = 0.5, .groups = groups};
        if (freezes) its.freeze = {"q"};
        for (int ranks = 1; ranks <= 4; ranks++) {
          INFO(Optimizer(options).kind << " on " << ranks << " ranks, " << groups.size() << " groups, frozen " << freezes);
          const Plan plan = in_f64(training(net.loss, options, its), mesh_of({{"a", ranks}}), fed_rules(ranks, ranks % 3));
          Named begin, end, averages;
          std::mutex lock;
          run_ranks_in_memory(ranks, [&](Runtime& rt) {
            Trainer trainer(rt, plan, {.seed = 3});
            Named first, last, mean;
            for (const std::string& name : trainer.state().names()) first[name] = trainer.state().get(rt.transport(), name);
            for (int s = 1; s <= kSteps; s++) trainer.step_named(feeds(net, s));
            for (const std::string& name : trainer.state().names()) {
              last[name] = trainer.state().get(rt.transport(), name);
              if (trainer.state().has(name, "average")) mean[name] = trainer.state().get(rt.transport(), name, "average");
            }
            const std::lock_guard hold(lock);
            if (rt.rank() == 0) begin = first, end = last, averages = mean;
          });
          std::map<std::string, Plain> plain{{"p.weight", {begin.at("p.weight")}}, {"q.weight", {begin.at("q.weight")}}};
          const std::map<std::string, Tensor> inputs{{"p.weight", net.x}, {"q.weight", net.y}};
          for (int s = 1; s <= kSteps; s++) {
            Named gradients;
            double squares = 0;
            for (const auto& [name, input] : inputs) {
              gradients[name] = all_values(input.name(), input.shape(), s);
              if (!freezes || name != "q.weight") squares += std::pow(norm_of(gradients[name]), 2);
            }
            const double factor = std::min(1.0, clip / (std::sqrt(squares) + 1e-6));
            for (auto& [name, one] : plain) {
              if (freezes && name == "q.weight") continue;
              for (double& g : gradients[name]) g *= factor;
              one.step(with(options, groups, name, true), gradients[name], s, true);
            }
          }
          for (const auto& [name, one] : plain)
            for (std::size_t i = 0; i < one.w.size(); i++) CHECK(end.at(name)[i] == Approx(one.w[i]).epsilon(1e-11).margin(1e-14));
          if (freezes) CHECK(end.at("q.weight") == begin.at("q.weight"));
          CHECK(averages.contains("q.weight") == !freezes);
        }
      });
}

TEST_CASE("groups and decay are read when a step runs: one hash, one plan", "[law]") {
  const Fed net;
  const Step step = training(net.loss, AdamW{});
  for (const Step& other :
       {training(net.loss, AdamW{.learning_rate = 0.5, .weight_decay = 0.3, .decay = Decay::weights}),
        training(net.loss, AdamW{}, {.groups = {{.match = "p", .learning_rate_factor = 2, .weight_decay = 0}}})})
    CHECK(other.hash() == step.hash());
  CHECK(training(net.loss, AdamW{.beta1 = 0.8}).hash() != step.hash());
  // Ranks that would train with other groups are refused.
  const auto with_factor = [&](double factor) {
    return in_f64(training(net.loss, AdamW{}, {.groups = {{.match = "p", .learning_rate_factor = factor}}}), mesh_of({{"a", 2}}),
                  fed_rules(2, 0));
  };
  std::string said;
  std::mutex lock;
  run_ranks_in_memory(2, [&](Runtime& rt) {
    try {
      Trainer(rt, with_factor(rt.rank() == 0 ? 1 : 2));
    } catch (const UserError& e) {
      const std::lock_guard hold(lock);
      said = e.what();
    }
  });
  CHECK_THAT(said, Catch::Contains("groups [\"p\" times"));
}

TEST_CASE("what is frozen or grouped is checked", "[law]") {
  const Fed net;
  const auto said = [&](const TrainingOptions& options) -> std::string {
    try {
      static_cast<void>(training(net.loss, Sgd{}, options));
    } catch (const UserError& e) {
      return e.what();
    }
    return "";
  };
  CHECK(said({.freeze = {"p"}}).empty());
  CHECK(said({.freeze = {"pp"}}) == "freeze: \"pp\" matches no parameter; did you mean \"p\"?");
  CHECK(said({.freeze = {"p", "q.weight"}}) == "freeze: all parameters are frozen: there is nothing to train");
  CHECK(said({.groups = {{.match = "*.bias"}}}) ==
        "groups, match: \"*.bias\" matches no parameter; one of the names is \"p.weight\"");
  CHECK(said({.groups = {{.match = "p", .learning_rate_factor = -1}}}) ==
        "groups, learning_rate_factor: expected a number of at least 0, found -1");
  CHECK(said({.groups = {{.match = "p", .weight_decay = -1}}}) ==
        "groups, weight_decay: expected a number of at least 0, found -1");
}

TEST_CASE("a checkpoint goes on with another frozen set: new slots begin at 0", "[law]") {
  each_optimizer(Decay::all, [&](const auto& options) {
    const Fed net;
    const Folder folder;
    const auto plan_of = [&](int ranks, std::vector<std::string> freeze) {
      const Step step = training(net.loss, options, {.average = 0.5, .freeze = std::move(freeze)});
      return in_f64(step, mesh_of({{"a", ranks}}), fed_rules(ranks, 0));
    };
    Named begin, end, averages;
    std::mutex lock;
    run_ranks_in_memory(2, [&](Runtime& rt) {
      Trainer trainer(rt, plan_of(2, {"q"}), {.seed = 3});
      Named first;
      for (const std::string& name : trainer.state().names()) first[name] = trainer.state().get(rt.transport(), name);
      for (int s = 1; s <= 2; s++) trainer.step_named(feeds(net, s));
      trainer.save(folder.path() / "step-2");
      const std::lock_guard hold(lock);
      if (rt.rank() == 0) begin = first;
    });
    run_ranks_in_memory(3, [&](Runtime& rt) {
      Trainer trainer(rt, plan_of(3, {"p"}), {.seed = 8});
      for (int s = 1; s <= 2; s++) trainer.step_named(feeds(net, s + 5));  // what it has trained itself does not stay
      static_cast<void>(trainer.load(folder.path() / "step-2"));
      for (int s = 3; s <= 4; s++) trainer.step_named(feeds(net, s));
      Named last;
      for (const std::string& name : trainer.state().names()) last[name] = trainer.state().get(rt.transport(), name);
      const Values mean = trainer.state().get(rt.transport(), "q.weight", "average");
      const std::lock_guard hold(lock);
      if (rt.rank() == 0) end = last, averages["q.weight"] = mean;
    });
    INFO(Optimizer(options).kind);
    Plain p{begin.at("p.weight")}, q{begin.at("q.weight")};
    for (int s = 1; s <= 2; s++) p.step(options, all_values("x", net.x.shape(), s), s, true);
    Values mean = q.w;
    for (int s = 3; s <= 4; s++) {
      q.step(options, all_values("y", net.y.shape(), s), s, true);
      for (std::size_t i = 0; i < mean.size(); i++) mean[i] = 0.5 * mean[i] + 0.5 * q.w[i];
    }
    for (const auto& [name, one] : {std::pair{"p.weight", p}, {"q.weight", q}})
      for (std::size_t i = 0; i < one.w.size(); i++) CHECK(end.at(name)[i] == Approx(one.w[i]).epsilon(1e-11).margin(1e-14));
    for (std::size_t i = 0; i < mean.size(); i++) CHECK(averages.at("q.weight")[i] == Approx(mean[i]).epsilon(1e-11).margin(1e-14));
  });
}

TEST_CASE("weights to begin with: all but the fresh ones, on any ranks", "[law]") {
  const Fed net;
  const Folder folder;
  const auto plan_of = [&](int ranks) { return in_f64(training(net.loss, Adam{}), mesh_of({{"a", ranks}}), fed_rules(ranks, 0)); };
  Named kept;
  std::mutex lock;
  const auto values_of = [](Runtime& rt, Trainer& trainer) {
    Named out;
    for (const std::string& name : trainer.state().names()) out[name] = trainer.state().get(rt.transport(), name);
    return out;
  };
  run_ranks_in_memory(2, [&](Runtime& rt) {
    Trainer trainer(rt, plan_of(2), {.seed = 3});
    trainer.step_named(feeds(net, 1));
    save_weights(rt, trainer.state(), folder.path() / "w.safetensors");
    Named its = values_of(rt, trainer);
    const std::lock_guard hold(lock);
    if (rt.rank() == 0) kept = std::move(its);
  });
  run_ranks_in_memory(3, [&](Runtime& rt) {
    Trainer trainer(rt, plan_of(3), {.seed = 8});
    const Named drawn = values_of(rt, trainer);
    load_weights(rt, trainer.state(), folder.path() / "w.safetensors", {.fresh = {"q"}});
    const Named its = values_of(rt, trainer);
    check(its.at("q.weight") == drawn.at("q.weight"), "a fresh tensor keeps its values");
    check(its.at("p.weight") == kept.at("p.weight"), "all others are read");
    for (const auto& [fresh, text] : {std::pair{"r", "\"r\" matches no parameter"}, {"", "matches no parameter"}}) try {
        load_weights(rt, trainer.state(), folder.path() / "w.safetensors", {.fresh = {fresh}});
        check(false, "a pattern that matches nothing is refused");
      } catch (const UserError& e) {
        check(e.code() == Exit::config && std::string(e.what()).find(text) != std::string::npos, "with its text");
      }
  });
}

// On one rank nothing is kept of what others own.
TEST_CASE("frozen parameters that are set or loaded are sent again", "[law]") {
  const Folder folder;
  const Datasets data = small_data(12);
  const std::string name = "conv2d_1.weight";
  std::map<int, std::vector<double>> losses;
  for (const int ranks : {1, 2, 3}) {
    Graph g;
    const Step step = training(small_net(g, 6).loss, Sgd{.learning_rate = 0.05}, {.freeze = {"conv2d_1"}});
    const LayoutRules rules = ranks == 1 ? LayoutRules{} : LayoutRules{{Dim{"batch", 6}, "all"}};
    const Plan plan = balance(step, line_of(ranks), rules, {}, {.dtype = DType::f64});
    const auto saved = folder.path() / ("step-" + std::to_string(ranks)), file = folder.path() / (std::to_string(ranks) + ".npz");
    std::mutex lock;
    run_ranks_in_memory(ranks, [&](Runtime& rt) {
      Trainer trainer(rt, plan, {.seed = 3});
      const Values begin = trainer.state().get(rt.transport(), name);
      const auto scaled = [&](double by) {
        Values out = begin;
        for (double& v : out) v *= by;
        return out;
      };
      std::vector<double> mine;
      const auto train = [&] {
        for (const Batch& b : Epoch(data.train, 6, 1)) mine.push_back(trainer.step_named(feeds_of(b)).loss);
      };
      train();
      trainer.state().set(name, scaled(2));
      train();
      trainer.save(saved);
      save_weights(rt, trainer.state(), file);
      trainer.state().set(name, scaled(-1));
      train();
      static_cast<void>(trainer.load(saved));
      train();
      trainer.state().set(name, scaled(0.5));
      train();
      load_weights(rt, trainer.state(), file);
      train();
      const std::lock_guard hold(lock);
      if (rt.rank() == 0) losses[ranks] = mine;
    });
    REQUIRE(losses[ranks].size() == losses[1].size());
    for (std::size_t i = 0; i < losses[1].size(); i++) {
      INFO("step " << i << " on " << ranks << " ranks");
      CHECK(losses[ranks][i] == Approx(losses[1][i]).epsilon(1e-12));
    }
  }
}
