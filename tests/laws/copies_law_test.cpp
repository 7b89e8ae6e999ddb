// SPDX-License-Identifier: Apache-2.0
// Copies law, on ranks of one process: no copy of a parameter ever differs from its owner's bits; one that is made to differ is
// found and named with its owner and its reader, on every rank; and what a comparison sends grows with the ranks, not with their
// square. (Ranks of unlike ISA, thousands of steps: copies.py.)
#include <motley/error.h>

#include <catch2/catch.hpp>
#include <mutex>
#include <optional>

#include "plan/plan_data.h"
#include "program/views.h"
#include "run/copies.h"
#include "tests/support/random_network.h"
#include "tests/support/shrink.h"
#include "tests/support/threads.h"

using namespace motley;
using namespace motley::law;

namespace {

// What a reader's copy suffers before it is compared.
enum class Harm : std::uint8_t { none, last_bit, two_signs };
constexpr Harm kHarms[] = {Harm::none, Harm::last_bit, Harm::two_signs};

struct Found {
  std::vector<std::vector<CopyDifference>> by_rank{};
  std::optional<CopyDifference> harmed{};
  std::vector<Index> sent{};
};

// A message of the plan that brings another rank a copy of two elements or more; with a number, one of them.
std::optional<std::pair<int, BoxMessage>> some_copy(const PlanData& data, unsigned number) {
  std::vector<std::pair<int, BoxMessage>> all;
  for (int p : data.passes.parameters)
    for (const BoxMessage& m : data.tensors[static_cast<std::size_t>(p)].fill.messages)
      if (m.from != m.to && volume(m.box) > 1) all.emplace_back(p, m);
  if (all.empty()) return std::nullopt;
  return all[number % all.size()];
}

void harm(Executor& executor, int buffer, const Box& box, Harm how) {
  std::vector<double> values = executor.read(buffer, box);
  if (how == Harm::two_signs)  // of equal size or not: a pair, as a hash that mixes too little would forgive it
    values.front() = -values.front(), values.back() = -values.back();
  else
    values.back() = std::nextafter(static_cast<float>(values.back()), 1e9F);
  executor.write(buffer, box, values);
}

Found compare(const Plan& plan, Harm how, unsigned number, bool messages) {
  const PlanData& data = plan.data();
  const auto target = how == Harm::none ? std::nullopt : some_copy(data, number);
  Found out;
  const auto ranks = static_cast<std::size_t>(plan.mesh().ranks());
  out.by_rank.resize(ranks);
  out.sent.resize(ranks);
  if (target) out.harmed = {target->first, target->second.from, target->second.to};
  on_threads(plan.mesh().ranks(), [&](Transport& transport) {
    const int me = transport.rank();
    std::vector<int> alone;
    for (int r = 0; r < transport.size(); r++) alone.push_back(r);
    const Program program = compile(plan, me, {.hosts = messages ? alone : transport.hosts()});
    const auto backend = reference_backend();
    State state(plan, program.rank, 3);
    Executor executor(program, *backend, transport, state);
    executor.feed([](const std::string&, const Box&, std::span<std::byte> to) { std::fill(to.begin(), to.end(), std::byte{0}); });
    executor.run();
    Copies copies(plan, program, executor, transport);
    int at = -1, buffer = -1;
    if (target && target->second.to == me) {
      buffer = program.buffer_of(target->first, Stored::As::reader, target->second.box);
      at = std::min(program.buffers[static_cast<std::size_t>(buffer)].last, program.forward_steps) - 1;
    }
    executor.run_forward([&](int step) {
      if (step == at) harm(executor, buffer, target->second.box, how);
      copies.after_step(step);
    });
    out.by_rank[static_cast<std::size_t>(me)] = copies.compare();
    out.sent[static_cast<std::size_t>(me)] = copies.bytes_sent();
  });
  return out;
}

std::optional<Plan> random_plan(unsigned number) {
  Random random(number);
  Case one{random_recipe(random), {{"a", static_cast<int>(pick(random, 1, 4))}}, {}, 0};
  if (chance(random, 0.3)) one.axes = {{"a", 2}, {"b", 2}};
  const Network net = build(one.net);
  one.cuts = random_cuts(random, net, one.axes, {.often = 0.5, .spatial = 0.3, .nested = 0.1, .jagged = 0.2});
  const Step step = training(net.loss, Sgd{.learning_rate = 0.05, .momentum = 0.9});
  const Mesh mesh = mesh_of(one.axes, static_cast<int>(number % 2) + 1);
  try {
    const LayoutRules rules = rules_of(one, net);
    const Plan plan = chance(random, 0.5) ? with_random_picks(step, mesh, rules, number, DType::f32, random_ownership(number))
                                          : balance(step, mesh, rules, {});
    return chance(random, 0.5) ? with_random_schedules(plan, number) : plan;
  } catch (const UserError&) {
    return std::nullopt;
  }
}

}  // namespace

TEST_CASE("copies law: none differs, and one that is made to differ is named on every rank", "[law]") {
  int held = 0, harmed = 0;
  for (unsigned number = 0; number < share_of(60U); number++) {
    const auto plan = random_plan(91000 + number);
    if (!plan) continue;
    held++;
    for (const Harm how : kHarms) {
      INFO("case " << number << ", harm " << static_cast<int>(how));
      const Found found = compare(*plan, how, number, number % 3 == 0);
      for (const auto& list : found.by_rank) CHECK(list == found.by_rank.front());
      const auto& list = found.by_rank.front();
      if (!found.harmed) {
        CHECK(list.empty());
        continue;
      }
      harmed++;
      // Where ranks keep the copy together, all of its readers have it.
      CHECK(std::find(list.begin(), list.end(), *found.harmed) != list.end());
      for (const CopyDifference& d : list) CHECK(d.tensor == found.harmed->tensor);
    }
  }
  CHECK(held > when_all(30));
  CHECK(harmed > when_all(40));
}

TEST_CASE("copies law: what a comparison sends grows with the ranks, not with their square", "[law]") {
  Graph g;
  const Dim batch{"batch", 32}, in{"in", 1}, rows{"rows", 6}, cols{"cols", 6}, f{"f", 64}, classes{"classes", 4};
  const Tensor y = conv2d(g.input("image", {batch, in, rows, cols}), {.out = f, .window = 3, .padding = same});
  const Step step =
      training(mean(softmax_cross_entropy(dense(y, {.out = {classes}}), g.input("label", {batch}, DType::i32), classes)), Sgd{});
  const Index parameters = static_cast<Index>(step.parameters().size());
  for (const int ranks : {1, 2, 4, 8, 16}) {
    const Plan plan = balance(step, mesh_of({{"all", ranks}}), {{batch, "all", CutBy::even}}, {});
    const Found found = compare(plan, Harm::none, 0, true);
    CHECK(found.by_rank.front().empty());
    Index most = 0;
    for (const Index sent : found.sent) most = std::max(most, sent);
    INFO(ranks << " ranks");
    CHECK(most <= 8 * parameters * (ranks - 1));
    CHECK((ranks == 1 || most > 0));
  }
}
