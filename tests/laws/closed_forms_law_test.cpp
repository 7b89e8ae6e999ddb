// SPDX-License-Identifier: Apache-2.0
// What the messages of a plan carry, against closed forms: elements received, per tensor. With P ranks and parts p_i of S:
//   all-gather S - p_i · reduce-scatter (P-1) p_i · all-reduce through owners 2 (P-1) S in all · re-cut the overlaps · halo
//   d(K-1)+1-s rows
#include <motley/error.h>
#include <motley/exchange.h>
#include <motley/ops.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <numeric>

#include "plan/formats.h"
#include "plan/plan_data.h"
#include "plan/planner.h"
#include "tests/support/random_network.h"

using namespace motley;
using namespace motley::law;

namespace {

using Counts = std::vector<Index>;
using Forced = std::map<std::string, std::vector<std::string>>;  // pass -> the indices that are cut

Plan planned(const Step& step, const Mesh& mesh, const LayoutRules& rules, const Forced& forced) {
  const Passes passes = passes_for(step, rules);
  const Layouts layouts(passes, mesh, rules);
  const Profile none;
  const Cost cost(passes, mesh, none, std::vector<double>(static_cast<std::size_t>(mesh.ranks()), 1.0), DType::f32,
                  common_formats(passes, mesh, DType::f32));
  Sweeper sweeper(passes, mesh, layouts, cost);
  std::map<int, Pick> picks;
  std::size_t found = 0;
  for (std::size_t p = 0; p < passes.passes.size(); p++) {
    const Pass& pass = passes.passes[p];
    const auto wanted = forced.find(pass.name);
    if (wanted == forced.end()) continue;
    for (const Pick& pick : sweeper.candidates(static_cast<int>(p))) {
      std::vector<std::string> names;
      for (const PickPart& part : pick) names.push_back(pass.indices[static_cast<std::size_t>(part.index)].name);
      if (std::is_permutation(names.begin(), names.end(), wanted->second.begin(), wanted->second.end()))
        picks[static_cast<int>(p)] = pick;
    }
    found += picks.contains(static_cast<int>(p));
  }
  REQUIRE(found == forced.size());
  return plan_from(step, mesh, data_of(passes, mesh, layouts, sweeper.run(picks), DType::f32));
}

// Elements of a tensor that each rank receives from others.
Counts received(const Plan& plan, const std::string& name) {
  const PlanData& data = plan.data();
  const int t = data.passes.find(name);
  REQUIRE(t >= 0);
  Counts out(static_cast<std::size_t>(plan.mesh().ranks()), 0);
  const TensorPlan& moves = data.tensors[static_cast<std::size_t>(t)];
  for (const auto hop : kHops)
    for (const BoxMessage& m : (moves.*hop).messages)
      if (m.from != m.to) out[static_cast<std::size_t>(m.to)] += volume(m.box);
  return out;
}
Index total(const Counts& counts) {
  return std::accumulate(counts.begin(), counts.end(), Index{0});
}

struct Net {
  Graph graph{};
  Tensor h{};
  explicit Net(Index batch, Index in, Index rows, Index cols) {
    h = graph.input("image", {{"batch", batch}, {"in", in}, {"rows", rows}, {"cols", cols}});
  }
  Net& conv(const std::string& out, Index filters, Index window, Index stride = 1, Index dilation = 1) {
    h = conv2d(h,
               {.out = {out, filters}, .window = window, .stride = stride, .dilation = dilation, .padding = same, .bias = false});
    return *this;
  }
  Step step() const { return training(sum(h), Sgd{.learning_rate = 1, .momentum = 0}); }
};

// A convolution whose in-channels are cut 3/2/1 and filters 1/2/4, all its passes along `index`.
Plan both_cut(const std::string& index) {
  Net net(2, 3, 6, 6);
  return planned(net.conv("c", 6, 1).conv("f", 7, 3).step(), mesh_of({{"all", 3}}),
                 {{"c", "all", Sizes{{3, 2, 1}}}, {"f", "all", Sizes{{1, 2, 4}}}},
                 {{"conv2d_2 forward", {index}}, {"conv2d_2 backward_data", {index}}, {"conv2d_2 backward_filter", {index}}});
}

}  // namespace

TEST_CASE("closed form: data parallel, a reduce-scatter and an all-gather per parameter, whatever the parts", "[law]") {
  for (const Counts& cut : {Counts{2, 2, 2}, Counts{4, 1, 1}}) {
    Net net(6, 2, 5, 5);
    const Plan plan = planned(net.conv("f", 96, 3).conv("g", 1, 3).step(), mesh_of({{"all", 3}}), {{"batch", "all", Sizes{cut}}},
                              {{"conv2d_1 backward_filter", {"batch"}}, {"conv2d_2 backward_filter", {"batch"}}});
    const Index w = 96 * 2 * 9, owned = w / 3, small = 96 * 9;
    CHECK(received(plan, "gradient of conv2d_1.weight") == Counts(3, 2 * owned));
    CHECK(received(plan, "conv2d_1.weight") == Counts(3, w - owned));
    CHECK(received(plan, "gradient of conv2d_2.weight") == Counts{2 * small, 0, 0});  // one owner
    CHECK(received(plan, "conv2d_2.weight") == Counts{0, small, small});
  }
}

TEST_CASE("closed form: stationary x, the output's partials are scattered, dy is gathered", "[law]") {
  const Plan plan = both_cut("c");
  const Index image = 2 * 6 * 6;
  CHECK(received(plan, "conv2d_2") == Counts{2 * image * 1, 2 * image * 2, 2 * image * 4});
  CHECK(total(received(plan, "gradient of conv2d_2.weight")) <= 6 * 7 * 9);
}

TEST_CASE("closed form: stationary y, x is gathered, dx's partials are scattered", "[law]") {
  const Plan plan = both_cut("f");
  const Index image = 2 * 6 * 6;
  CHECK(received(plan, "conv2d_1") == Counts{image * 3, image * 4, image * 5});
  CHECK(received(plan, "gradient of conv2d_1") == Counts{2 * image * 3, 2 * image * 2, 2 * image * 1});
}

TEST_CASE("closed form: a pair of convolutions, one sum forward and nothing between", "[law]") {
  Net net(2, 3, 6, 6);
  const Plan plan =
      planned(net.conv("c", 6, 3).conv("f", 5, 3).conv("g", 4, 1).step(), mesh_of({{"all", 3}}), {{"c", "all", Sizes{{3, 2, 1}}}},
              {{"conv2d_2 forward", {"c"}},
               {"conv2d_3 forward", {}},
               {"conv2d_2 backward_data", {"c"}},
               {"conv2d_2 backward_filter", {"c"}}});
  CHECK(total(received(plan, "conv2d_1")) == 0);
  const Index y = 2 * 5 * 6 * 6, bytes = total(received(plan, "conv2d_2"));
  CHECK(bytes <= 2 * 2 * y);  // all-reduce through owners: 2 (P-1) Y; less where not every rank reads all of it
  CHECK(bytes >= 2 * y);
}

TEST_CASE("closed form: stationary w on a 2x2 mesh, (Pc-1) T in and (Pf-1) T out", "[law]") {
  Net net(2, 4, 6, 6);
  const LayoutRules rules{{"c", "i", CutBy::even}, {"f", "o", CutBy::even}};
  const Plan plan = planned(net.conv("c", 4, 1).conv("f", 6, 3).step(), mesh_of({{"i", 2}, {"o", 2}}), rules,
                            {{"conv2d_2 forward", {"c", "f"}}, {"conv2d_1 forward", {"c"}}});
  CHECK(total(received(plan, "conv2d_1")) == 0);  // demand-driven: both columns compute what they read
  // Partials on i, alternatives none: every element of y has 2 partials and one reader per column's row.
  const Index y = 2 * 6 * 6 * 6;
  CHECK(total(received(plan, "conv2d_2")) % y == 0);
  CHECK(total(received(plan, "conv2d_2")) <= 2 * y);
}

TEST_CASE("closed form: halo rows at an inner boundary", "[law]") {
  struct Window {
    Index k, s, d;
  };
  for (const Window w : {Window{3, 1, 1}, {5, 1, 1}, {2, 1, 1}, {3, 1, 2}, {7, 2, 1}, {3, 2, 1}, {4, 2, 1}, {2, 2, 1}}) {
    Net net(2, 3, 24, 4);
    const Step step = net.conv("c", 5, 1).conv("f", 4, w.k, w.s, w.d).step();
    const Mesh mesh = mesh_of({{"all", 3}});
    const LayoutRules rules{{"rows", "all", Sizes{{8, 8, 8}}}};
    const Forced along{{"conv2d_2 forward", {"rows"}}, {"conv2d_2 backward_filter", {"rows"}}};
    Forced outputs = along, inputs = along;
    outputs["conv2d_2 backward_data"] = {"rows"};
    inputs["conv2d_2 backward_data"] = {"in:rows"};
    const Plan by_outputs = planned(step, mesh, rules, outputs), by_inputs = planned(step, mesh, rules, inputs);
    const Index rows = w.d * (w.k - 1) + 1 - w.s;
    INFO("window " << w.k << " stride " << w.s << " dilation " << w.d);
    CHECK(total(received(by_outputs, "conv2d_1")) == 2 * rows * 2 * 5 * 4);
    // Cut along the outputs the gradient's overlapping rows go back the same way, and dy does not move.
    CHECK(total(received(by_outputs, "gradient of conv2d_1")) == 2 * rows * 2 * 5 * 4);
    CHECK(total(received(by_outputs, "conv2d_2")) == 0);
  }
}

TEST_CASE("closed form: a halo over three ranks, empty ones between", "[law]") {
  Net net(1, 1, 17, 3);
  const Plan plan =
      planned(net.conv("c", 2, 1).conv("f", 2, 5).step(), mesh_of({{"all", 5}}), {{"rows", "all", Sizes{{12, 1, 1, 0, 3}}}},
              {{"conv2d_2 forward", {"rows"}}, {"conv2d_2 backward_filter", {"rows"}}});
  // Rows read beyond the own ones: 12-13 | 10-11, 13-14 | 11-12, 14-15 | none | 12-13
  CHECK(received(plan, "conv2d_1") == Counts{2 * 6, 4 * 6, 4 * 6, 0, 2 * 6});
}

TEST_CASE("closed form: rows and columns at once, with corners", "[law]") {
  Net net(1, 1, 8, 8);
  const Plan plan =
      planned(net.conv("c", 1, 1).conv("f", 1, 3).step(), mesh_of({{"down", 2}, {"across", 2}}),
              {{"rows", "down", CutBy::even}, {"cols", "across", CutBy::even}}, {{"conv2d_2 forward", {"rows", "cols"}}});
  CHECK(received(plan, "conv2d_1") == Counts(4, 4 + 4 + 1));
}

TEST_CASE("closed form: a dense head without rules moves its weights alone", "[law]") {
  Net net(4, 3, 4, 4);
  net.h = dense(net.h, {.out = {{"classes", 6}}, .bias = false});
  const Plan plan = planned(net.step(), mesh_of({{"all", 3}}), {}, {{"dense_1 forward", {}}, {"dense_1 backward_filter", {}}});
  CHECK(total(received(plan, "gradient of dense_1.weight")) == 0);
  CHECK(total(received(plan, "dense_1.weight")) <= 2 * 6 * 48);
}

TEST_CASE("closed form: changes of layout along one axis", "[law]") {
  const Index d = 100, e = 12;
  auto held = [&](const Counts& parts, std::size_t dim) {
    std::vector<Shard> out;
    for (int r = 0; r < static_cast<int>(parts.size()); r++) {
      Box box{{0, d}, {0, e}};
      box[dim] = Partition::of(parts).range(r);
      if (volume(box) > 0) out.push_back({r, box});
    }
    return out;
  };
  auto moved = [](const std::vector<Shard>& from, const std::vector<Shard>& to) {
    Counts out(3, 0);
    for (const BoxMessage& m : copies(from, to))
      if (m.from != m.to) out[static_cast<std::size_t>(m.to)] += volume(m.box);
    return out;
  };
  const Counts p{60, 30, 10}, q{34, 33, 33}, c{7, 0, 5};
  std::vector<Shard> all;
  for (int r = 0; r < 3; r++) all.push_back({r, {{0, d}, {0, e}}});
  CHECK(moved(held(p, 0), held(p, 0)) == Counts(3, 0));
  CHECK(moved(held(p, 0), all) == Counts{(d - 60) * e, (d - 30) * e, (d - 10) * e});
  CHECK(total(moved(held(p, 0), held(q, 0))) == 49 * e);
  CHECK(moved(held(p, 0), held(c, 1)) == Counts{7 * (d - 60), 0, 5 * (d - 10)});
  CHECK(moved(held({d, 0, 0}, 0), all) == Counts{0, d * e, d * e});            // broadcast
  CHECK(moved(held(p, 0), held({0, d, 0}, 0)) == Counts{0, (d - 30) * e, 0});  // gather
  CHECK(moved(held({0, 0, d}, 0), held(p, 0)) == Counts{60 * e, 30 * e, 0});   // scatter
}
