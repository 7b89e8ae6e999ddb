// SPDX-License-Identifier: Apache-2.0
// A plan that was saved is the plan that is loaded: word for word, and step for step on every rank.
#include <fmt/format.h>
#include <motley/error.h>
#include <motley/program.h>

#include <catch2/catch.hpp>
#include <optional>

#include "balance/needed_kernels.h"
#include "plan/plan_file.h"
#include "plan/planner.h"
#include "tests/support/config_files.h"
#include "tests/support/random_network.h"
#include "tests/support/shrink.h"

using namespace motley;
using namespace motley::law;

namespace {

struct Planned {
  Network net{};
  Step step;
  Mesh mesh;
  Plan plan;
};

// Nothing: the rules do not go together.
std::optional<Planned> random_plan(unsigned number) {
  Random random(number);
  Case one{random_recipe(random), {{"a", static_cast<int>(pick(random, 1, 4))}}, {}, 0};
  if (chance(random, 0.4))
    for (Layer& l : one.net.layers) l.filters = chance(random, 0.5) ? 8 : 16;
  if (chance(random, 0.5)) one.axes = {{"a", 2}, {"b", 3}};
  Network net = build(one.net);
  one.cuts = random_cuts(random, net, one.axes, {.often = 0.5, .spatial = 0.3, .nested = 0.1, .jagged = 0.2});
  const Mesh mesh = mesh_of(one.axes, static_cast<int>(number % 3) + 1);
  const Step step = training(net.loss, Sgd{.learning_rate = 0.05, .momentum = 0.9});
  const DType dtype = chance(random, 0.5) ? DType::f32 : DType::f64;
  const LayoutRules rules = rules_of(one, net);
  try {
    const Plan plan = chance(random, 0.5) ? with_random_picks(step, mesh, rules, number, dtype)
                                          : balance(step, mesh, rules, {}, {.dtype = dtype});
    return Planned{std::move(net), step, mesh, chance(random, 0.5) ? with_random_schedules(plan, number) : plan};
  } catch (const UserError&) {
    return std::nullopt;
  }
}

// Every other kernel of every other rank by something that the device would have to have.
Plan with_implementations(const Planned& one) {
  PlanData data = one.plan.data();
  data.implementations.assign(static_cast<std::size_t>(one.mesh.ranks()), {});
  for (int r = 0; r < one.mesh.ranks(); r += 2) {
    std::vector<KernelSpec> specs = kernels_as_run(data, r);
    for (std::size_t i = 0; i < specs.size(); i += 2)
      data.implementations[static_cast<std::size_t>(r)].push_back({specs[i], "synthetic " + std::to_string(i)});
    const std::vector<KernelSpec> fused = kernels_fused_and_apart(data, r);
    data.apart.resize(static_cast<std::size_t>(one.mesh.ranks()));
    if (!fused.empty()) data.apart[static_cast<std::size_t>(r)].push_back(fused.front());
  }
  return plan_from(one.step, one.mesh, std::move(data));
}

std::string refusal(const std::string& file, const Step& step, const Mesh& mesh) {
  try {
    static_cast<void>(Plan::load(file, step, mesh));
  } catch (const UserError& e) {
    return e.what();
  }
  return "";
}

}  // namespace

TEST_CASE("plan file law: loaded is saved", "[law]") {
  const Folder folder("motley-plan-file");
  int held = 0, named = 0, tiled = 0, in_trees = 0;
  int apart = 0;
  for (unsigned number = 0; number < share_of(80U); number++) {
    auto one = random_plan(51000 + number);
    if (!one) continue;
    if (number % 2 == 0) one->plan = with_implementations(*one);
    INFO("case " << number);
    const std::string file = folder.write("plan.json", "");
    one->plan.save(file);
    const Plan loaded = Plan::load(file, one->step, one->mesh);
    CHECK(loaded.json() == one->plan.json());
    CHECK(loaded.table() == one->plan.table());
    for (std::size_t t = 0; t < one->plan.data().tensors.size(); t++) {
      const TensorPlan &was = one->plan.data().tensors[t], &is = loaded.data().tensors[t];
      CHECK((is.layout == was.layout && is.home == was.home && is.owners == was.owners && is.readers == was.readers));
      for (const auto hop : kHops) {
        CHECK(((is.*hop).messages == (was.*hop).messages && (is.*hop).schedule == (was.*hop).schedule &&
               (is.*hop).tiles == (was.*hop).tiles));
        in_trees += (is.*hop).schedule.tree != Tree::direct;
        tiled += (is.*hop).tiles > 1;
      }
    }
    for (int r = 0; r < one->mesh.ranks(); r++) {
      const Program was = compile(one->plan, r), is = compile(loaded, r);
      CHECK(is.steps.size() == was.steps.size());
      CHECK(is.exchange_names == was.exchange_names);
      CHECK(is.arena_bytes == was.arena_bytes);
      apart += loaded.data().apart.empty() ? 0 : static_cast<int>(loaded.data().apart[static_cast<std::size_t>(r)].size());
      for (std::size_t s = 0; s < was.steps.size(); s++)
        if (const auto* run = std::get_if<RunKernel>(&was.steps[s].what)) {
          const std::string& implementation = std::get<RunKernel>(is.steps[s].what).implementation;
          CHECK(implementation == run->implementation);
          named += !implementation.empty();
        }
    }
    held++;
  }
  CHECK(held > when_all(50));
  CHECK(named > when_all(100));
  CHECK(tiled > when_all(20));
  CHECK(apart > when_all(40));
  CHECK(in_trees > when_all(100));
}

TEST_CASE("plan file law: where another plan stores parameters is kept", "[law]") {
  const Folder folder("motley-plan-file");
  int found = 0;
  for (unsigned number = 0; number < share_of(20U); number++) {
    const auto one = random_plan(57000 + number);
    if (!one) continue;
    const Step step = inference({one->net.logits});
    LayoutRules rules{{"batch", one->mesh.axes().front().name, CutBy::even}};
    rules.homes = one->plan.homes();
    const Plan plan = balance(step, one->mesh, rules, {});
    std::string text = plan.json();
    const Plan loaded = Plan::load(folder.write("plan.json", text), step, one->mesh);
    CHECK(loaded.homes() == one->plan.homes());
    CHECK(loaded.hash() == plan.hash());
    CHECK(loaded.json() == text);
    const auto at = text.find("\"rank\": ", text.find("\"homes\""));
    std::string wide = text;
    wide.insert(at + 9, "4294967296, \"was\": ");  // no rank
    CHECK_THAT(refusal(folder.write("wide.json", wide), step, one->mesh), Catch::Contains("4294967296"));
    text.replace(at, 9, "\"rank\": 7");
    CHECK_THAT(refusal(folder.write("rank.json", text), step, one->mesh), Catch::Contains("hold each element of"));
    found++;
  }
  CHECK(found > when_all(10));
}

TEST_CASE("plan file law: what does not fit is refused", "[law]") {
  const Folder folder("motley-plan-file");
  const auto one = random_plan(51003), other = random_plan(51004);
  REQUIRE((one && other));
  const std::string file = folder.write("plan.json", one->plan.json());
  CHECK_THAT(refusal(file, other->step, one->mesh), Catch::Contains("for another step"));
  CHECK_THAT(refusal(file, one->step, Mesh({{"a", 7}}, std::vector<Device>(7))), Catch::Contains("other axes"));
  const auto version_text = [](int number) { return "\"version\": " + std::to_string(number); };
  const std::string version = version_text(kPlanVersion);
  for (const auto& [other_version, made_by] :
       {std::pair<std::string, const char*>{version_text(kPlanVersion - 1), "an older motley"},
        {version_text(kPlanVersion + 1), "a newer motley"},
        {"", "an older motley"}}) {
    std::string text = one->plan.json();
    const auto at = text.find(version);
    REQUIRE(at != std::string::npos);
    text.replace(at, version.size() + (other_version.empty() ? 1 : 0), other_version);  // without the key: its comma goes too
    CHECK_THAT(refusal(folder.write("version.json", text), one->step, one->mesh),
               Catch::Contains(made_by) && Catch::Contains("motley plan"));
  }
  std::string worded = one->plan.json();
  worded.replace(worded.find(version), version.size(), "\"version\": \"" + std::to_string(kPlanVersion) + "\"");
  CHECK_THAT(refusal(folder.write("worded.json", worded), one->step, one->mesh),
             Catch::Contains("\"version\" is a whole number, " + std::to_string(kPlanVersion)));
  std::string tree = one->plan.json();
  const auto list = tree.find('[', tree.find("\"hops\""));
  tree.replace(list, tree.find(']', list) - list + 1,
               R"([{"tensor": "image", "hop": "fill", "tree": "oak", "chunks": 1, "tiles": 0}])");
  CHECK_THAT(refusal(folder.write("tree.json", tree), one->step, one->mesh),
             Catch::Contains("\"oak\"") && Catch::Contains("halving"));
  tree.replace(tree.find("oak"), 3, "routed");
  CHECK_THAT(refusal(folder.write("routed.json", tree), one->step, one->mesh),
             Catch::Contains("\"routed\"") && Catch::Contains("two_level"));
  CHECK_THAT(refusal(folder.write("cut.json", one->plan.json().substr(0, 900)), one->step, one->mesh),
             Catch::Contains("cut.json:"));
  CHECK_THAT(refusal(folder.write("key.json", R"({"decisionz": 1})"), one->step, one->mesh),
             Catch::Contains("did you mean \"decisions\"?"));
  std::string parts = one->plan.json();
  const auto at = parts.find("\"parts\": [", parts.find("\"passes\""));
  REQUIRE(at != std::string::npos);
  const auto open = parts.find('[', at + 10), close = parts.find(']', open);
  parts.replace(open, close - open + 1, "[1000000]");
  CHECK_THAT(refusal(folder.write("parts.json", parts), one->step, one->mesh), Catch::Contains("parts that sum to"));
  // What follows from the decisions cannot be changed alone; nor can the devices trade places.
  std::string bytes = one->plan.json();
  const auto figure = bytes.find("\"bytes\": ", bytes.find("\"predicted\""));
  REQUIRE(figure != std::string::npos);
  bytes.insert(figure + 9, "7");
  CHECK_THAT(refusal(folder.write("bytes.json", bytes), one->step, one->mesh), Catch::Contains("/bytes is"));
  std::vector<Device> devices = one->mesh.devices();
  std::swap(devices.front().name, devices.back().name);
  CHECK_THAT(refusal(file, one->step, Mesh(one->mesh.axes(), devices)), Catch::Contains("other devices"));
}

// What the sweep never chooses: results would be wrong, and nothing else would say so.
TEST_CASE("plan file law: picks that no pass may have are refused", "[law]") {
  const Folder folder("motley-plan-file");
  const Dim n{"batch", 8}, f{"f", 4}, in{"in", 2}, rows{"rows", 4}, cols{"cols", 4};
  Graph g;
  const Tensor image = g.input("image", {n, in, rows, cols});
  Tensor x = batch_norm(conv2d(image, {.out = f, .window = 3, .padding = same, .name = "c"}), {.local = true, .name = "norm"});
  x = flatten(relu(x, {.name = "r"}), {.name = "flat"});
  const Tensor loss = mean(dense(x, {.out = {{"out", 3}}, .name = "d"}));
  const Step step = training(loss, Sgd{.learning_rate = 0.1});
  const Mesh mesh = mesh_of({{"a", 2}, {"b", 2}});
  LayoutRules rules{{n, "a", Sizes{{4, 4}}}};
  rules.place("r", {mesh.device(0).name});
  rules.tensor("r", {{n, Axes{}}});
  const Plan plan = balance(step, mesh, rules, {});
  const auto pass_names = [&] {
    std::vector<std::string> out;
    for (const Pass& p : plan.data().passes.passes) out.push_back(p.name);
    return out;
  }();
  const auto refused = [&](const std::string& pass, const std::string& pick) {
    REQUIRE(std::find(pass_names.begin(), pass_names.end(), pass) != pass_names.end());
    std::string text = plan.json();
    const auto at = text.find("\"pick\": [", text.find("\"pass\": \"" + pass + "\""));
    REQUIRE(at != std::string::npos);
    std::size_t end = text.find('[', at), open = 0;
    do open += text[end] == '[' ? 1 : text[end] == ']' ? static_cast<std::size_t>(-1) : 0;
    while (++end, open > 0);
    text.replace(at, end - at, "\"pick\": [" + pick + "]");
    return refusal(folder.write("pick.json", text), step, mesh);
  };
  const auto cut = [](int index, const std::string& axes, const std::string& parts, const std::string& per = "") {
    return fmt::format(R"({{"index": {}, "name": "x", "axes": [{}], {}"parts": [{}]}})", index, axes,
                       per.empty() ? "" : "\"per\": \"" + per + "\", ", parts);
  };
  const std::string even = R"("a")";
  CHECK_THAT(refused("c forward", cut(0, R"("a", "a")", "[2, 2, 2, 2]")), Catch::Contains("over one axis"));
  CHECK_THAT(refused("c forward", cut(0, even, "[4, 4]") + ", " + cut(1, even, "[1, 1]")), Catch::Contains("over one axis"));
  CHECK_THAT(refused("c forward", cut(0, even, "[4, 4]") + ", " + cut(0, R"("b")", "[4, 4]")),
             Catch::Contains("an index is cut twice"));
  CHECK_THAT(refused("c forward", cut(0, even, "[4, 4], [3, 5]", "a")), Catch::Contains("`per`"));
  CHECK_THAT(refused("r forward", cut(0, even, "[4, 4]")), Catch::Contains("on which the layer is not placed"));
  int whole = 0, own = 0;
  for (const Pass& p : plan.data().passes.passes) {
    const auto uneven = [&](int index) {
      const Index size = p.indices[static_cast<std::size_t>(index)].size;
      return cut(index, even, fmt::format("[{}, {}]", size - std::min<Index>(size, 1), std::min<Index>(size, 1)));
    };
    for (const int index : p.whole) {
      CHECK_THAT(refused(p.name, uneven(index)), Catch::Contains("every rank computes whole"));
      whole++;
    }
    if (p.own.of < 0) continue;
    CHECK_THAT(refused(p.name, uneven(p.own.of)), Catch::Contains("a mean over a rank's own part"));
    own++;
  }
  CHECK(whole > 0);
  CHECK(own > 0);
}
