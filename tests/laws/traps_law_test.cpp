// SPDX-License-Identifier: Apache-2.0
// Traps that other systems fell into, each with its case here:
//    1 per-rank means averaged although the batch is uneven
//    2 a global shape computed from local ones
//    3 flatten across an uneven cut
//    4 nested cuts, unpadded at the wrong place
//    5 empty parts in every kind of exchange
//    6 the rank in the whole mesh taken for the rank on one axis
//    7 a batch cut refused by checks that are meant for rows
//    8 a dim over two axes gathered whole to give up one of them
//    9 planned bytes that the run does not move (also: every law counts)
//   10 the remainder always given to the first ranks
//   11 counts beyond 31 bits
//   12 the mean over a class dim's part instead of the whole: softmax over a cut dim, logits not gathered
// Not here: groups that are not rescaled per rank (no op has groups).
#include <motley/error.h>
#include <motley/exchange.h>

#include <algorithm>
#include <catch2/catch.hpp>

#include "plan/plan_data.h"
#include "tests/support/run_plan.h"
#include "tests/support/shrink.h"

using namespace motley;
using namespace motley::law;

namespace {

Layer conv(Index id, Index filters, Index window, Index stride = 1) {
  Layer layer;
  layer.id = id;
  layer.filters = filters;
  layer.rows = layer.cols = {window, stride, 1, window / 2, window / 2};
  layer.activation = "relu";
  layer.bias = true;
  return layer;
}

Recipe small() {
  Recipe r;
  r.batch = 6;
  r.in = 2;
  r.rows = 9;
  r.cols = 7;
  r.layers = {conv(0, 5, 3), conv(1, 4, 3)};
  r.hidden = 5;
  r.classes = 4;
  return r;
}

const std::vector<Axis> kThree{{"all", 3}}, kTwoByThree{{"a", 2}, {"b", 3}};

}  // namespace

TEST_CASE("trap 1: the loss divides by the global batch", "[law]") {
  CHECK(broken({small(), kThree, {{"batch", {"all"}, "", {{4, 2, 0}}}}, 0}) == "");
  CHECK(broken({small(), kThree, {{"batch", {"all"}, "", {{1, 1, 4}}}}, 0}) == "");
}

TEST_CASE("trap 2: parts tile every tensor", "[law]") {
  const Case one{small(), kThree, {{"rows", {"all"}, "", {{7, 1, 1}}}}, 0};
  const Network net = build(one.net);
  const Plan plan = balance(training(net.loss, Sgd{}), mesh_of(one.axes), rules_of(one, net), {});
  for (std::size_t t = 0; t < plan.data().tensors.size(); t++) {
    const Layout& layout = plan.data().tensors[t].layout;
    if (!layout.cuts.contains("rows")) continue;
    Index at = 0;
    for (int r = 0; r < 3; r++) {
      const Range part = layout.cuts.at("rows").at(plan.mesh(), r);
      CHECK(part.begin == at);
      at = part.end;
    }
    CHECK(at == layout.shape.size_of("rows"));
  }
}

TEST_CASE("trap 3: flatten across an uneven cut", "[law]") {
  for (const char* dim : {"rows", "f1", "cols", "batch"}) {
    Case one{small(), kThree, {{dim, {"all"}, "", {{3, 0, 1}}}}, 0};
    one.net.head = Recipe::Head::flatten;
    CHECK(broken(one) == "");
  }
}

TEST_CASE("trap 4: a dim over two axes, uneven, with empty parts", "[law]") {
  for (const char* dim : {"rows", "f0", "batch", "classes"})
    CHECK(broken({small(), kTwoByThree, {{dim, {"b", "a"}, "", {{3, 0, 1, 2, 0, 1}}}}, 0}) == "");
}

TEST_CASE("trap 5: empty parts everywhere", "[law]") {
  for (const char* dim : {"batch", "rows", "cols", "f0", "f1", "hidden", "classes"})
    for (const std::vector<Index>& parts : {std::vector<Index>{0, 1, 0}, {1, 0, 1}, {0, 0, 1}})
      for (unsigned picks : {0U, 17U}) CHECK(broken({small(), kThree, {{dim, {"all"}, "", {parts}}}, picks}) == "");
}

TEST_CASE("trap 6: rows on the second axis of a mesh", "[law]") {
  CHECK(broken({small(), kTwoByThree, {{"rows", {"b"}, "", {{4, 2, 3}}}, {"f0", {"a"}, "", {{4, 1}}}}, 0}) == "");
  CHECK(broken({small(), {{"a", 2}, {"b", 2}, {"c", 2}}, {{"cols", {"b"}, "", {{5, 2}}}, {"rows", {"c"}, "", {{4, 5}}}}, 0}) == "");
}

TEST_CASE("trap 7: a batch cut with windows that no row cut would like", "[law]") {
  Case one{small(), kThree, {{"batch", {"all"}, "", {{3, 2, 1}}}}, 0};
  one.net.layers = {conv(0, 5, 7, 2)};
  CHECK(broken(one) == "");
}

TEST_CASE("trap 8: giving up one of two axes moves what is missing only", "[law]") {
  const Mesh mesh = mesh_of({{"a", 2}, {"b", 2}});
  const Cut nested{{0, 1}, -1, {Partition::even(8, 4)}}, inner{{1}, -1, {Partition::of(std::vector<Index>{4, 4})}};
  std::vector<Shard> from, to;
  for (int r = 0; r < 4; r++) {
    from.push_back({r, {nested.at(mesh, r)}});
    to.push_back({r, {inner.at(mesh, r)}});
  }
  std::vector<Index> received(4, 0);
  for (const BoxMessage& m : copies(from, to))
    if (m.from != m.to) received[static_cast<std::size_t>(m.to)] += volume(m.box);
  CHECK(received == std::vector<Index>{2, 4, 4, 2});  // rank 0 keeps [0,2), rank 3 [6,8)
}

TEST_CASE("trap 9: planned bytes are counted bytes where a pooled border is cut", "[law]") {
  Case one{small(), kThree, {{"rows", {"all"}, "", {{5, 1, 3}}}}, 0};
  Layer pool;
  pool.kind = Layer::Kind::max_pool;
  pool.rows = pool.cols = {3, 2, 1, 1, 1};
  one.net.layers.insert(one.net.layers.begin() + 1, pool);
  for (unsigned picks = 0; picks < 8; picks++) {
    one.picks = picks;
    CHECK(broken(one) == "");
  }
}

TEST_CASE("trap 10: what remains goes to the largest remainder", "[law]") {
  CHECK(Partition::proportional(10, std::vector<double>{1, 1, 4}).sizes() == std::vector<Index>{2, 2, 6});
  CHECK(Partition::proportional(11, std::vector<double>{1, 1, 4}).sizes() == std::vector<Index>{2, 2, 7});
}

TEST_CASE("trap 11: bytes beyond 31 bits are planned", "[law]") {
  Graph graph;
  const Tensor image = graph.input("image", {{"batch", 1 << 16}, {"in", 1}, {"rows", 256}, {"cols", 256}});
  const Tensor y = conv2d(image, {.out = {"f", 1}, .window = 1, .bias = false});
  const Step step = training(sum(conv2d(y, {.out = {"g", 1}, .window = 5, .padding = same, .bias = false})),
                             Sgd{.learning_rate = 1, .momentum = 0});
  const Plan plan = balance(step, mesh_of({{"all", 2}}), {{"rows", "all", CutBy::even}}, {});
  Index most = 0;
  for (const TensorPlan& t : plan.data().tensors)
    for (const Hop* hop : {&t.add, &t.fill})
      for (const BoxMessage& m : hop->messages)
        if (m.from != m.to) most = std::max(most, volume(m.box) * 4);
  const Index halo = Index{1 << 16} * 2 * 256 * 4;  // two rows
  CHECK(most >= halo);
  CHECK(plan.data().predicted[0].bytes >= halo);
  CHECK(plan.data().predicted[0].memory_bytes > Index{1} << 32);
}

TEST_CASE("trap 12: softmax over a cut class dim, on one axis and on two", "[law]") {
  Recipe net = small();
  net.classes = 7;
  for (unsigned picks = 0; picks < 6; picks++) {
    CHECK(broken({net, kThree, {{"classes", {"all"}, "", {{4, 0, 3}}}}, picks}) == "");
    CHECK(broken({net, kTwoByThree, {{"classes", {"b"}, "", {{1, 4, 2}}}, {"batch", {"a"}, "", {{5, 1}}}}, picks}) == "");
    CHECK(broken({net, kTwoByThree, {{"classes", {"a", "b"}, "", {{2, 1, 0, 1, 0, 3}}}}, picks}) == "");
    CHECK(broken({net, kTwoByThree, {{"classes", {"b"}, "a", {{1, 4, 2}, {0, 0, 7}}}, {"rows", {"a"}, "", {{5, 4}}}}, picks}) ==
          "");
  }
  const Case one{net, kThree, {{"classes", {"all"}, "", {{4, 0, 3}}}}, 0};
  const Network built = build(one.net);
  const Plan plan = balance(training(built.loss, Sgd{}), mesh_of(one.axes), rules_of(one, built), {});
  const TensorPlan& logits = plan.data().tensors[static_cast<std::size_t>(plan.data().passes.logits())];
  for (const auto hop : kHops) CHECK_FALSE((logits.*hop).travels());
}

TEST_CASE("trap 13: a rank that has a part of a parameter alone owns it", "[law]") {
  Graph g;
  const Dim batch{"batch", 3}, channels{"channels", 3}, rows{"rows", 5}, classes{"classes", 3};
  const Tensor label = g.input("label", {batch}, DType::i32);
  const Tensor y = dense(g.input("image", {batch, channels, rows}), {.out = {classes}});
  const Step step = training(mean(softmax_cross_entropy(y, label, classes)), Sgd{.learning_rate = 0.05});
  LayoutRules rules{{batch, "all", Sizes{{3, 0}}}, {channels, "all", CutBy::even}};
  rules.tensor("image", {{channels, Axes{}}});
  const Plan many = balance(step, mesh_of({{"all", 2}}), rules, {}, {.dtype = DType::f64});
  const Plan one = balance(step, mesh_of({{"one", 1}}), {}, {}, {.dtype = DType::f64});
  for (int p : many.data().passes.parameters) {
    Index owned = 0;
    for (const Shard& own : many.data().tensors[static_cast<std::size_t>(p)].home) owned += volume(own.box);
    CHECK(owned == many.data().passes.tensors[static_cast<std::size_t>(p)].shape.elements());
  }
  CHECK(difference(run_plan(many), run_plan(one)) < 1e-12);
}
