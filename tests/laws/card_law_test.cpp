// SPDX-License-Identifier: Apache-2.0
// What messages take where the ranks of a host share its network card: k equal senders behind one card take k times one, exchanges
// take what their closed forms say, and the search and the simulator agree on both. An exchange in shared memory takes its own
// seconds once per peer, however little it moves. With n bytes of a tensor, P ranks, k of them on each host, messages of a + n/b:
//   direct     (P-1) (a + n/Pb), or if that is more, a + k (P-k) n/Pb through the card
//   two_level  (k-1) (a1 + (P/k-1) n/P b1), then (k-1) (a1 + n/P b1) + (P/k-1) (a2 + n/P b2), or a2 + k (P/k-1) n/P b2
#include <motley/program.h>
#include <motley/schedule.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <map>

#include "plan/formats.h"
#include "plan/planner.h"
#include "plan/schedules.h"
#include "tests/support/random_network.h"
#include "tests/support/synthetic_profile.h"

using namespace motley;
using namespace motley::law;

namespace {

struct Wire {
  double seconds = 0, bytes_per_second = 1;
  double of(double bytes) const { return seconds + bytes / bytes_per_second; }
};

// P ranks, k on each host; no kernel takes time.
Profile machine(int ranks, int per_host, const Wire& near, const Wire& far) {
  Profile out;
  for (int r = 0; r < ranks; r++) {
    DeviceFacts& facts = out.devices.emplace_back();
    facts.host = "host " + std::to_string(r / per_host);
    for (int q = 0; q < ranks; q++) {
      const Wire& wire = q / per_host == r / per_host ? near : far;
      if (q != r) out.links.push_back({r, q, {{Index{1} << 50, wire.seconds, wire.bytes_per_second}}});
    }
  }
  return out;
}

// Every stage is one exchange of messages; what one rank sends another in a stage is one message.
std::vector<Program> programs_of(const Stages& stages, int ranks, Index item_bytes) {
  std::vector<Program> out(static_cast<std::size_t>(ranks));
  for (std::size_t stage = 0; stage < stages.size(); stage++) {
    std::map<std::pair<int, int>, Index> bytes;
    for (const BoxMessage& m : stages[stage])
      if (m.from != m.to) bytes[{m.from, m.to}] += volume(m.box) * item_bytes;
    for (int r = 0; r < ranks; r++) {
      Post post{static_cast<int>(stage), {}, {}};
      for (const auto& [ends, size] : bytes) {
        if (ends.first == r) post.sends.push_back({ends.second, {0, 0}, size});
        if (ends.second == r) post.receives.push_back({ends.first, {0, 0}, size});
      }
      Program& program = out[static_cast<std::size_t>(r)];
      program.steps.push_back({post});
      program.steps.push_back({Wait{static_cast<int>(stage)}});
    }
  }
  for (Program& p : out) p.exchange_names.assign(stages.size(), "stage");
  return out;
}

// A tensor of `size` elements of which every rank has a partial sum and owns an equal part.
std::vector<BoxMessage> reduce_scatter(int ranks, Index size) {
  std::vector<BoxMessage> out;
  const Index part = size / ranks;
  for (int to = 0; to < ranks; to++)
    for (int from = 0; from < ranks; from++) out.push_back({from, to, {{to * part, (to + 1) * part}}, {0}});
  return out;
}

struct Seconds {
  double simulated = 0, searched = 0;
};
Seconds seconds_of(const Stages& stages, int ranks, const Profile& profile) {
  constexpr Index kItem = 4;
  const std::vector<int> hosts = profile.hosts();
  const LinkSeconds link = [&](int from, int to, Index bytes) -> MessageSeconds {
    return {profile.seconds(from, to, bytes).seconds, profile.card_seconds(from, to, bytes)};
  };
  return {simulate(programs_of(stages, ranks, kItem), profile).step_seconds, motley::seconds_of(stages, kItem, link, hosts)};
}

void check_seconds(const Seconds& found, double expected) {
  CHECK(found.simulated == Approx(expected).epsilon(1e-12));
  CHECK(found.searched == Approx(expected).epsilon(1e-12));
}

}  // namespace

TEST_CASE("card law: k equal senders behind one card take k times one, in either direction", "[law]") {
  for (const int k : {1, 2, 3, 8}) {
    const Profile profile = machine(2 * k, k, {1e-6, 1e10}, {0, 1e9});
    Stages together{{}};
    for (int r = 0; r < k; r++) together[0].push_back({r, k + r, {{0, 1000}}});  // from one host to the other
    check_seconds(seconds_of(together, 2 * k, profile), k * 4000 / 1e9);
    for (int r = 0; r < k; r++) together[0].push_back({k + r, r, {{0, 1000}}});  // and back at the same time
    check_seconds(seconds_of(together, 2 * k, profile), k * 4000 / 1e9);
    const Profile late = machine(2 * k, k, {1e-6, 1e10}, {5e-6, 1e9});  // each waits for its own latency
    check_seconds(seconds_of(together, 2 * k, late), 5e-6 + k * 4000 / 1e9);
  }
  // Messages inside a host do not occupy its card.
  const Profile profile = machine(4, 2, {0, 1e9}, {0, 1e9});
  const Stages near_and_far{{{0, 1, {{0, 1000}}}, {0, 2, {{0, 1000}}}, {1, 0, {{0, 1000}}}}};
  check_seconds(seconds_of(near_and_far, 4, profile), 4000 / 1e9);
}

TEST_CASE("card law: direct exchanges take what their closed form says", "[law]") {
  constexpr Index kSize = 9600;
  const double n = 4.0 * kSize;
  for (const Wire& far : {Wire{20e-6, 1e9}, Wire{0, 1e8}, Wire{1e-3, 1e10}})
    for (const int ranks : {2, 3, 4, 8}) {
      const auto messages = reduce_scatter(ranks, kSize);
      const double part = n / ranks;
      check_seconds(seconds_of(sum_stages(messages, {}, {}), ranks, machine(ranks, 1, {}, far)), (ranks - 1) * far.of(part));
      check_seconds(seconds_of(sum_stages(messages, {}, {}), ranks, machine(ranks, ranks, far, {})), (ranks - 1) * far.of(part));
      for (const int k : {2, 4}) {
        if (ranks % k != 0 || ranks == k) continue;
        const int away = ranks - k;
        const double line = (k - 1) * far.of(part) + away * far.of(part),
                     card = far.seconds + k * away * part / far.bytes_per_second;
        check_seconds(seconds_of(sum_stages(messages, {}, {}), ranks, machine(ranks, k, far, far)), std::max(line, card));
      }
    }
}

TEST_CASE("card law: two_level exchanges take what their closed form says", "[law]") {
  constexpr Index kSize = 9600;
  const Wire near{2e-6, 1e10};
  for (const Wire& far : {Wire{20e-6, 1e9}, Wire{0, 1e8}, Wire{1e-3, 1e10}})
    for (const auto& [ranks, k] : {std::pair{4, 2}, {8, 2}, {8, 4}, {6, 3}}) {
      const auto messages = reduce_scatter(ranks, kSize);
      const Profile profile = machine(ranks, k, near, far);
      const double part = 4.0 * kSize / ranks;
      const int others = ranks / k - 1;
      const double first = (k - 1) * near.of(others * part),
                   second = std::max((k - 1) * near.of(part) + others * far.of(part),
                                     far.seconds + k * others * part / far.bytes_per_second);
      INFO(ranks << " ranks, " << k << " on each host");
      check_seconds(seconds_of(sum_stages(messages, {Tree::two_level}, profile.hosts()), ranks, profile), first + second);
    }
}

TEST_CASE("card law: an exchange in shared memory takes its own seconds, once for every rank that is read", "[law]") {
  Profile profile = machine(3, 3, {}, {});
  for (Link& link : profile.links) {
    link.in_place = {{Index{1} << 50, 1e-7, 1e10}};
    link.exchange_seconds = 1e-6 * (1 + link.from);
  }
  std::vector<Program> programs(3);
  for (int r = 0; r < 3; r++) {
    Program& program = programs[static_cast<std::size_t>(r)];
    program.exchange_names = {"nothing"};
    Post post{0, {}, {}};
    for (int q = 0; q < 3; q++)
      if (q != r)
        for (auto* pieces : {&post.sends, &post.receives})
          for (int twice = 0; twice < 2; twice++) pieces->push_back({q, {0, 0}, 0, true});
    program.steps = {{post}, {Wait{0}}};
  }
  const Simulated times = simulate(programs, profile);
  CHECK(times.step_seconds == Approx(5e-6).epsilon(1e-12));  // rank 0 waits for ranks 1 and 2
  CHECK(times.waiting_seconds[2] == Approx(3e-6).epsilon(1e-12));
}

namespace {

Plan planned(const Step& step, const Mesh& mesh, const Profile& profile) {
  return balance(step, mesh, {{"batch", mesh.axes().front().name}}, profile, {.baselines = false});
}

Step network() {
  Graph graph;
  const Dim batch{"batch", 32}, classes{"classes", 10};
  Tensor h = graph.input("image", {batch, {"in", 3}, {"rows", 8}, {"cols", 8}});
  for (const char* f : {"f", "g"}) h = relu(conv2d(h, {.out = {f, 32}, .window = 3, .padding = same}));
  const Tensor label = graph.input("label", {batch}, DType::i32);
  return training(mean(softmax_cross_entropy(dense(h, {.out = {classes}}), label, classes)), Sgd{.learning_rate = 0.1});
}

Profile two_hosts(const Mesh& mesh, double far_seconds, double far_bytes_per_second) {
  Profile out = testing::synthetic_profile(mesh, std::vector<double>(static_cast<std::size_t>(mesh.ranks()), 1.0), 10e9);
  const std::vector<int> hosts = out.hosts();
  for (Link& link : out.links)
    if (hosts[static_cast<std::size_t>(link.from)] != hosts[static_cast<std::size_t>(link.to)])
      link.segments = {{Index{1} << 40, far_seconds, far_bytes_per_second}};
  return out;
}

}  // namespace

TEST_CASE("card law: a given plan is never slower with faster links, and a chosen one is not either", "[law]") {
  const Step step = network();
  const Mesh mesh = mesh_of({{"a", 4}}, 2);
  double before = 0, chosen = 0;
  const Plan plan = planned(step, mesh, two_hosts(mesh, 50e-6, 1e8));
  for (const double faster : {100.0, 10.0, 3.0, 1.0, 0.3}) {  // slower from one to the next
    const Profile profile = two_hosts(mesh, 50e-6 / faster, 1e8 * faster);
    const double seconds = *balance(step, mesh, plan.data().rules, profile, {.baselines = false}).data().step_seconds;
    const double best = *planned(step, mesh, profile).data().step_seconds;
    CHECK(seconds >= before * (1 - 1e-9));
    CHECK(best >= chosen * (1 - 1e-9));
    CHECK(best <= seconds * (1 + 1e-9));
    before = seconds;
    chosen = best;
  }
}

TEST_CASE("card law: one more device does not make the plan slower", "[law]") {
  const Step step = network();
  double before = HUGE_VAL;
  for (const int ranks : {1, 2, 3, 4}) {
    const Mesh mesh = mesh_of({{"a", ranks}});
    const double seconds = *planned(step, mesh, two_hosts(mesh, 0, 1e9)).data().step_seconds;
    CHECK(seconds <= before * (1 + 1e-9));
    before = seconds;
  }
}

TEST_CASE("card law: the search counts what crosses a host's card, not what each rank receives alone", "[law]") {
  // A sum over four ranks that each own a quarter: 3 quarters arrive at a rank of its own host; with two ranks on each host 2 at
  // each rank, and 4 through each card.
  const Step step = network();
  const LayoutRules rules{{"batch", "a", CutBy::even}};
  const auto cost_on = [&](int hosts) {
    const Mesh mesh = mesh_of({{"a", 4}}, hosts);
    const Profile profile = two_hosts(mesh, 0, 1e7);
    const Passes passes = passes_for(step, rules);
    const Layouts layouts(passes, mesh, rules);
    const Cost cost(passes, mesh, profile, {1, 1, 1, 1}, DType::f32, common_formats(passes, mesh, DType::f32));
    Sweeper sweeper(passes, mesh, layouts, cost);
    std::map<int, Pick> picks;
    for (int p = 0; p < static_cast<int>(passes.passes.size()); p++)
      for (const Pick& pick : sweeper.candidates(p))
        if (pick.size() == 1 &&
            passes.passes[static_cast<std::size_t>(p)].indices[static_cast<std::size_t>(pick[0].index)].name == "batch")
          picks[p] = pick;
    return sweeper.run(picks).cost;
  };
  CHECK(cost_on(2) > 1.1 * cost_on(4));
}
