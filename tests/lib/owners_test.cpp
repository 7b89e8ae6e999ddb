// SPDX-License-Identifier: Apache-2.0
// Who owns which part of a network's parameters: the small ones are spread over the ranks, and cost few messages.
#include <motley/ops.h>
#include <motley/plan.h>

#include <algorithm>
#include <catch2/catch.hpp>

#include "plan/plan_data.h"

using namespace motley;

namespace {

constexpr Index kSmall = Ownership{}.whole_below;

struct Net {
  Graph graph{};
  Tensor loss{};
};

// A chain of convolutions, each with a weight and a bias.
Step chain(Net& net, const std::vector<Index>& filters) {
  Tensor h = net.graph.input("image", {{"batch", 8}, {"channels", 3}, {"rows", 8}, {"cols", 8}});
  for (std::size_t k = 0; k < filters.size(); k++)
    h = relu(conv2d(h, {.out = {"f" + std::to_string(k), filters[k]}, .window = 3, .padding = same}));
  const Tensor label = net.graph.input("label", {{"batch", 8}}, DType::i32);
  const Dim c{"classes", 10};
  net.loss = mean(softmax_cross_entropy(dense(global_avg_pool2d(h), {.out = {c}}), label, c));
  return training(net.loss, Sgd{.learning_rate = 0.1});
}

std::vector<Index> mixed() {
  std::vector<Index> out;
  for (Index k = 0; k < 30; k++) out.push_back(4 + k * 7 % 61);
  return out;
}

Plan plan_on(const std::vector<Axis>& axes, const Step& step, const LayoutRules& rules, DType dtype = DType::f32) {
  int ranks = 1;
  for (const Axis& a : axes) ranks *= a.size;
  return balance(step, Mesh(axes, std::vector<Device>(static_cast<std::size_t>(ranks))), rules, {}, {.dtype = dtype});
}

struct Counts {
  Index small = 0, elements = 0;
};
// Per rank: boxes below the limit that others hold too, by the layout alone.
std::vector<Counts> small_shares(const Plan& plan) {
  std::vector<Counts> out(static_cast<std::size_t>(plan.mesh().ranks()));
  for (int t : plan.data().passes.parameters) {
    const TensorPlan& of = plan.data().tensors[static_cast<std::size_t>(t)];
    for (const Shard& h : of.home)
      if (volume(h.box) < kSmall && of.layout.box(plan.mesh(), h.rank) == h.box) {
        out[static_cast<std::size_t>(h.rank)].small++;
        out[static_cast<std::size_t>(h.rank)].elements += volume(h.box);
      }
  }
  return out;
}

// From one rank to another, of the parameter and of its gradient.
std::pair<Index, Index> messages_of(const Plan& plan, int parameter) {
  Index values = 0, gradients = 0;
  auto count = [&](const TensorPlan& of) {
    Index sum = 0;
    for (const auto hop : kHops)
      for (const BoxMessage& m : (of.*hop).messages) sum += m.from != m.to ? 1 : 0;
    return sum;
  };
  const PlanData& data = plan.data();
  for (std::size_t t = 0; t < data.tensors.size(); t++) {
    if (static_cast<int>(t) == parameter) values = count(data.tensors[t]);
    if (data.passes.tensors[t].role == TensorRole::parameter_gradient && data.passes.tensors[t].of == parameter)
      gradients = count(data.tensors[t]);
  }
  return {values, gradients};
}

}  // namespace

TEST_CASE("small parameters of a network of many layers are spread evenly over the ranks") {
  Net net;
  const Step step = chain(net, mixed());
  for (const int ranks : {2, 3, 4, 7}) {
    const std::vector<Counts> all = small_shares(plan_on({{"all", ranks}}, step, {{"batch", "all", CutBy::even}}));
    const auto by_count = [](const Counts& a, const Counts& b) { return a.small < b.small; };
    const auto by_elements = [](const Counts& a, const Counts& b) { return a.elements < b.elements; };
    const auto [fewest, most] = std::minmax_element(all.begin(), all.end(), by_count);
    CHECK(fewest->small > 0);
    CHECK(most->small - fewest->small <= 1);
    const auto [least, greatest] = std::minmax_element(all.begin(), all.end(), by_elements);
    CHECK(greatest->elements - least->elements < kSmall);
  }
  // Filters cut on one axis: two ranks of the other have each part.
  LayoutRules rules{{"batch", "b", CutBy::even}};
  for (std::size_t k = 0; k < mixed().size(); k += 2) rules.split.push_back({"f" + std::to_string(k), "f", CutBy::even});
  const std::vector<Counts> all = small_shares(plan_on({{"f", 2}, {"b", 2}}, step, rules));
  const auto [fewest, most] =
      std::minmax_element(all.begin(), all.end(), [](const Counts& a, const Counts& b) { return a.small < b.small; });
  CHECK(most->small - fewest->small <= 2);
}

TEST_CASE("owners are the same in every dtype, and every element has one") {
  Net net;
  const Step step = chain(net, mixed());
  const Plan f32 = plan_on({{"all", 3}}, step, {{"batch", "all", CutBy::even}}),
             f64 = plan_on({{"all", 3}}, step, {{"batch", "all", CutBy::even}}, DType::f64);
  for (int t : f32.data().passes.parameters) {
    const auto& home = f32.data().tensors[static_cast<std::size_t>(t)].home;
    CHECK(home == f64.data().tensors[static_cast<std::size_t>(t)].home);
    const Index elements = f32.data().passes.tensors[static_cast<std::size_t>(t)].shape.elements();
    Index owned = 0;
    for (const Shard& h : home) owned += volume(h.box);
    CHECK(owned == elements);
    CHECK((home.size() == 1) == (elements < kSmall));
  }
}

TEST_CASE("a batch-cut network sends a small parameter to and from one rank, a large one to and from all") {
  Net net;
  const Step step = chain(net, std::vector<Index>(8, 16));
  for (const Index ranks : {2, 4}) {
    const Plan plan = plan_on({{"all", static_cast<int>(ranks)}}, step, {{"batch", "all", CutBy::even}});
    for (int t : plan.data().passes.parameters) {
      if (!plan.data().passes.tensors[static_cast<std::size_t>(t)].name.starts_with("conv2d")) continue;
      const bool small = plan.data().passes.tensors[static_cast<std::size_t>(t)].shape.elements() < kSmall;
      const Index expected = small ? ranks - 1 : ranks * (ranks - 1);
      CHECK(messages_of(plan, t) == std::pair(expected, expected));
    }
  }
}
