// SPDX-License-Identifier: Apache-2.0
// Exchange law: any layout to any layout and back is the identity, every rank has what its new box says, and as many bytes move as
// are counted element by element. Paths: the cheapest way through other layouts.
#include <motley/error.h>

#include <catch2/catch.hpp>
#include <functional>
#include <limits>
#include <mutex>

#include "tests/support/redistribute_law.h"
#include "plan/schedules.h"
#include "tests/support/threads.h"

using namespace motley;
using namespace motley::law;

TEST_CASE("exchange law: any layout to any layout, and back", "[law]") {
  for (unsigned number = 0; number < share_of(240U); number++) {
    const int ranks = number % 40 == 39 ? 12 : static_cast<int>(number % 4) + 1;
    std::mutex mutex;
    std::string wrong;
    on_threads(ranks, [&](Transport& transport) {
      const std::string mine = redistribute_law(transport, number);
      const std::lock_guard lock(mutex);
      if (!mine.empty()) wrong = "rank " + std::to_string(transport.rank()) + ": " + mine;
    });
    INFO("case " << number << ", " << ranks << " ranks");
    CHECK(wrong == "");
  }
}

namespace {

LaidOut cut_rows(const std::vector<Index>& parts) {
  return {mesh_of({{"all", static_cast<int>(parts.size())}}), {Shape{{"rows", 6}, {"cols", 4}}, {{"rows", {{0}, -1, {Partition::of(parts)}}}}}};
}

std::string refused(const std::function<void()>& call) {
  try {
    call();
  } catch (const UserError& e) {
    return e.what();
  }
  return "";
}

}  // namespace

TEST_CASE("redistribute says what was found, what was expected, what to change", "[law]") {
  const auto transport = std::move(in_memory(1).front());
  const LaidOut one = cut_rows({6});
  const std::vector<float> few(23), all(24);
  CHECK(refused([&] { redistribute(std::span(few), one, one, *transport); }) ==
        "rank 0 holds 24 values, its box [0,6)x[0,4), but 23 were given; size it by layout.box(mesh, rank)");
  CHECK(refused([&] { redistribute(std::span(all), one, cut_rows({3, 3}), *transport); }) ==
        "the mesh has 2 ranks, the transport 1; start one rank per device");
  LaidOut other = one;
  other.layout = {Shape{{"rows", 6}, {"columns", 4}}, {}};
  CHECK(refused([&] { redistribute(std::span(all), one, other, *transport); }) ==
        "a tensor [rows=6 cols=4] cannot be redistributed to [rows=6 columns=4]: redistribute() moves values, names and sizes of the dims stay; "
        "give both layouts one shape (in any order)");
  CHECK(refused([&] { moves(one, cut_rows({3, 2})); }) == "the parts of \"rows\" sum to 5, its size is 6");
  const std::vector<double> values(24);
  std::vector<double> room(23);
  CHECK(refused([&] {
          redistribute(std::as_bytes(std::span(values)), std::as_writable_bytes(std::span(room)), DType::f64, one, one, *transport);
        }) == "rank 0 is to hold 24 values, its box [0,6)x[0,4), but 23 were given; size it by layout.box(mesh, rank)");
  // A jagged circle leaves an element to nobody.
  const Mesh mesh = mesh_of({{"x", 2}, {"y", 2}});
  auto jagged = [](int axis) { return Cut{{axis}, 1 - axis, {Partition::of(std::vector<Index>{2, 0}), Partition::of(std::vector<Index>{0, 2})}}; };
  const LaidOut circle{mesh, {Shape{{"a", 2}, {"b", 2}}, {{"a", jagged(0)}, {"b", {{1}, 0, {Partition::of(std::vector<Index>{0, 2}), Partition::of(std::vector<Index>{2, 0})}}}}}};
  const LaidOut whole{mesh, {Shape{{"a", 2}, {"b", 2}}, {}}};
  CHECK(refused([&] { moves(circle, whole); }).find("which no rank holds") != std::string::npos);
}

TEST_CASE("redistribute: senders of copies take turns, one message per pair", "[law]") {
  // Ranks 0 and 1 hold all, 2 and 3 nothing; then all hold all.
  const LaidOut two{mesh_of({{"all", 2}}), {Shape{{"rows", 6}, {"cols", 4}}, {}}}, four{mesh_of({{"all", 4}}), {Shape{{"rows", 6}, {"cols", 4}}, {}}};
  std::vector<BoxMessage> travelling;
  for (const BoxMessage& m : moves(two, four))
    if (m.from != m.to) travelling.push_back(m);
  const Box all{{0, 6}, {0, 4}};
  CHECK(travelling == std::vector<BoxMessage>{{0, 2, all, {}}, {1, 3, all, {}}});
}

// ---- paths

namespace {

// Two hosts of two ranks: between them a message takes 1 s and 1 s per byte, inside 0.1 s and 0.01 s per byte.
double two_hosts(int from, int to, Index bytes) {
  const bool near = from / 2 == to / 2;
  return (near ? 0.1 : 1.0) + static_cast<double>(bytes) * (near ? 0.01 : 1.0);
}

std::vector<Held> state_of(const LaidOut& lay) {
  std::vector<Held> out;
  for (int r = 0; r < lay.mesh.ranks(); r++)
    if (const Box box = lay.layout.box(lay.mesh, r); volume(box) > 0) out.push_back({r, box});
  return out;
}

// Every path without repetition.
double brute_force(const std::vector<Held>& from, const std::vector<Held>& to, std::vector<std::vector<Held>> via, const LinkSeconds& link, Index item) {
  double best = seconds_of(fill(from, to), item, link);
  for (std::size_t k = 0; k < via.size(); k++) {
    std::vector<std::vector<Held>> others = via;
    others.erase(others.begin() + static_cast<std::ptrdiff_t>(k));
    best = std::min(best, seconds_of(fill(from, via[k]), item, link) + brute_force(via[k], to, others, link, item));
  }
  return best;
}

const std::vector<std::vector<int>> kHosts{{0, 1}, {2, 3}};

}  // namespace

TEST_CASE("paths: what both ranks of a host read crosses the slow link once", "[law]") {
  const std::vector<Held> slices = state_of(cut_rows({2, 2, 1, 1}));
  const std::vector<Held> everywhere = state_of({mesh_of({{"all", 4}}), {Shape{{"rows", 6}, {"cols", 4}}, {}}});
  const std::vector<std::vector<Held>> via{relays(slices, everywhere, kHosts)};
  // Directly rank 0 sends 8 + 8 items of 4 bytes afar: 2 + 64 s, and 8 to its neighbour: 0.1 + 0.32 s.
  CHECK(seconds_of(fill(slices, everywhere), 4, two_hosts) == Approx(66.42));
  const Path path = cheapest_path(slices, everywhere, via, two_hosts);
  CHECK(path.through == std::vector<std::size_t>{0});
  CHECK(path.seconds < 0.6 * 66.42);
  Index across = 0;
  for (const BoxMessage& m : fill(slices, via[0])) across += m.from / 2 != m.to / 2 ? volume(m.box) : 0;
  CHECK(across == 24);  // each element once, to the other host
  for (const BoxMessage& m : fill(via[0], everywhere)) CHECK(m.from / 2 == m.to / 2);
  // Memory that has no room for both ends of a hop forbids it, and nothing but it.
  CHECK(cheapest_path(slices, everywhere, via, two_hosts, {.item_bytes = 4, .rank_bytes = {100, 100, 100, 100}}).through.empty());
}

TEST_CASE("paths: where messages cost and bytes do not, straight is the cheapest", "[law]") {
  const std::vector<Held> slices = state_of(cut_rows({2, 2, 1, 1}));
  const std::vector<Held> everywhere = state_of({mesh_of({{"all", 4}}), {Shape{{"rows", 6}, {"cols", 4}}, {}}});
  const std::vector<std::vector<Held>> via{relays(slices, everywhere, kHosts)};
  CHECK(cheapest_path(slices, everywhere, via, [](int, int, Index) { return 1.0; }).through.empty());
  CHECK(cheapest_path(slices, slices, via, two_hosts).seconds == 0);
}

TEST_CASE("paths: equal to brute force over all paths, never dearer than direct", "[law]") {
  int through = 0;
  for (unsigned number = 0; number < share_of(60U); number++) {
    Random random(number);
    const Shape shape{{"a", pick(random, 1, 6)}, {"b", pick(random, 1, 5)}, {"c", 2}};
    auto state = [&] {
      LaidOut lay = random_lay(random, shape, 4);
      lay.layout.shape = shape;
      return state_of(lay);
    };
    const std::vector<Held> from = state(), to = state();
    const std::vector<std::vector<Held>> via{state(), relays(from, to, kHosts), state(), relays(from, to, std::vector<std::vector<int>>{{0, 1, 2, 3}})};
    std::map<std::pair<int, int>, double> slow;
    for (int a = 0; a < 4; a++)
      for (int b = 0; b < 4; b++) slow[{a, b}] = static_cast<double>(pick(random, 1, 20));
    const LinkSeconds link = [&](int a, int b, Index bytes) { return slow.at({a, b}) * (0.5 + static_cast<double>(bytes)); };
    INFO("case " << number);
    // A relay that does not hold all that is asked for is no state to go through.
    std::vector<std::vector<Held>> usable;
    for (const auto& v : via)
      if (refused([&] { fill(v, to); }).empty()) usable.push_back(v);
    CHECK(usable.size() == 4);
    const Path path = cheapest_path(from, to, usable, link);
    CHECK(path.seconds == Approx(brute_force(from, to, usable, link, 4)));
    CHECK(path.seconds <= seconds_of(fill(from, to), 4, link));
    through += path.through.empty() ? 0 : 1;
    double along = 0;
    std::vector<Held> at = from;
    for (std::size_t k : path.through) {
      along += seconds_of(fill(at, usable[k]), 4, link);
      at = usable[k];
    }
    CHECK(along + seconds_of(fill(at, to), 4, link) == Approx(path.seconds));
  }
  CHECK(through > when_all(0));
}

// ---- schedules that a plan takes

namespace {

// One tensor of `size` elements that `from` ranks have terms of or `to` ranks read; the others nothing of it. Two hosts of two ranks.
PlanData one_move(Index size, std::size_t move, const std::vector<std::pair<int, int>>& messages) {
  PlanData data;
  data.hosts = {0, 0, 2, 2};
  data.predicted.resize(4);
  data.busy = {0, 1, 2, 3};
  data.passes.tensors.resize(1);
  TensorPlan plan;
  for (const auto& [from, to] : messages) {
    auto& list = move == 0 ? plan.first : plan.third;
    list.push_back({from, to, {{0, size}}, move == 0 ? std::vector<int>{0} : std::vector<int>{}});
  }
  data.tensors = {plan};
  return data;
}

Profile links(double near_seconds, double near_rate, double far_seconds, double far_rate) {
  Profile out;
  for (int a = 0; a < 4; a++)
    for (int b = 0; b < 4; b++)
      if (a != b) out.links.push_back({a, b, {{Index{1} << 40, a / 2 == b / 2 ? near_seconds : far_seconds, a / 2 == b / 2 ? near_rate : far_rate}}});
  return out;
}

Schedule chosen(PlanData data, std::size_t move, const Profile& profile) {
  choose_schedules(data, profile);
  return data.tensors[0].by[move];
}

}  // namespace

TEST_CASE("schedules: without measured links two levels where several ranks of another host are at it", "[law]") {
  CHECK(chosen(one_move(64, 2, {{0, 1}, {0, 2}, {0, 3}}), 2, {}) == Schedule{Tree::two_level});
  CHECK(chosen(one_move(64, 0, {{0, 0}, {2, 0}, {3, 0}}), 0, {}) == Schedule{Tree::two_level});
  CHECK(chosen(one_move(64, 2, {{0, 1}, {0, 2}}), 2, {}) == Schedule{});
  CHECK(chosen(one_move(64, 0, {{0, 0}, {1, 0}, {3, 0}}), 0, {}) == Schedule{});
}

TEST_CASE("schedules: the cheapest by the measured links, never dearer than direct", "[law]") {
  const std::vector<std::pair<int, int>> to_all{{0, 1}, {0, 2}, {0, 3}};
  CHECK(chosen(one_move(1 << 20, 2, to_all), 2, links(1e-6, 1e10, 1e-4, 1e9)).tree != Tree::direct);
  CHECK(chosen(one_move(4, 2, {{0, 1}, {1, 2}}), 2, links(1e-6, 1e10, 1e-4, 1e9)) == Schedule{});
  CHECK(chosen(one_move(1 << 20, 2, {{0, 1}}), 2, links(1e-6, 1e10, 1e-4, 1e9)) == Schedule{});  // it stays on its host
  for (unsigned number = 0; number < share_of(200U); number++) {
    Random random(number);
    std::vector<std::pair<int, int>> messages;
    const std::size_t move = chance(random, 0.5) ? 0 : 2;
    const int root = static_cast<int>(pick(random, 0, 3));
    for (int r = 0; r < 4; r++)
      if (chance(random, 0.8)) messages.push_back(move == 0 ? std::pair{r, root} : std::pair{root, r});
    auto rate = [&] { return static_cast<double>(pick(random, 1, 1000)) * 1e7; };
    auto wait = [&] { return static_cast<double>(pick(random, 1, 100)) * 1e-6; };
    const Profile profile = links(wait(), rate(), wait(), rate());
    PlanData data = one_move(Index{1} << pick(random, 2, 22), move, messages);
    choose_schedules(data, profile);
    const LinkSeconds link = [&](int from, int to, Index bytes) { return profile.seconds(from, to, bytes).seconds; };
    const double takes = seconds_of(stages_of(data.tensors[0], data.hosts, data.routes)[move], 4, link);
    data.tensors[0].by = {};
    const double direct = seconds_of(stages_of(data.tensors[0], data.hosts, data.routes)[move], 4, link);
    INFO("case " << number);
    CHECK(takes <= direct);
  }
}

namespace {

// Two hosts of two ranks; between them only ranks 1 and 2 have a fast link.
double one_bridge(int a, int b) { return a / 2 == b / 2 ? 1e10 : std::min(a, b) == 1 && std::max(a, b) == 2 ? 1e9 : 1e7; }

Profile rates(const std::function<double(int, int)>& bytes_per_second) {
  Profile out;
  for (int a = 0; a < 4; a++)
    for (int b = 0; b < 4; b++)
      if (a != b) out.links.push_back({a, b, {{Index{1} << 40, 1e-5, bytes_per_second(a, b)}}});
  return out;
}

}  // namespace

TEST_CASE("schedules: routed where a detour is faster than the own link, as fast as the cheapest path of states", "[law]") {
  const Profile profile = rates(one_bridge);
  const LinkSeconds link = [&](int from, int to, Index bytes) { return profile.seconds(from, to, bytes).seconds; };
  const Index size = 1 << 20;
  const Box box{{0, size}};
  const std::vector<std::vector<Held>> via{{{1, box}}, {{2, box}}};
  const Path path = cheapest_path(std::vector<Held>{{0, box}}, std::vector<Held>{{3, box}}, via, link);
  CHECK(path.through == std::vector<std::size_t>{0, 1});
  for (std::size_t move : {std::size_t{0}, std::size_t{2}}) {
    PlanData data = one_move(size, move, {{0, 3}});
    choose_schedules(data, profile);
    CHECK(data.tensors[0].by[move].tree == Tree::routed);
    CHECK((data.routes[0] == std::vector<int>{0, 0, 1, 2} && data.routes[3] == std::vector<int>{1, 2, 3, 3}));
    CHECK(seconds_of(stages_of(data.tensors[0], data.hosts, data.routes)[move], 4, link) < 0.9 * path.seconds);  // in chunks
    CHECK(data.predicted[1].bytes == 4 * size);
    CHECK(data.predicted[2].bytes == 4 * size);
    data.tensors[0].by[move].chunks = 1;
    CHECK(seconds_of(stages_of(data.tensors[0], data.hosts, data.routes)[move], 4, link) == Approx(path.seconds));
  }
  PlanData idle = one_move(size, 2, {{0, 3}});
  idle.busy = {0, 1, 3};  // a rank without a part receives nothing
  choose_schedules(idle, profile);
  CHECK(idle.predicted[2].bytes == 0);
  PlanData small = one_move(4, 2, {{0, 3}});
  choose_schedules(small, profile);
  CHECK((small.tensors[0].by[2] == Schedule{} && small.routes.empty()));
}

TEST_CASE("schedules: never dearer than direct, whatever the links", "[law]") {
  int routed = 0;
  for (unsigned number = 0; number < share_of(3000U); number++) {
    Random random(number);
    std::vector<double> rate;
    for (int i = 0; i < 16; i++) rate.push_back(std::pow(10.0, static_cast<double>(pick(random, 60, 100)) / 10));
    const Profile profile = rates([&](int a, int b) { return rate[static_cast<std::size_t>(4 * std::min(a, b) + std::max(a, b))]; });
    const LinkSeconds link = [&](int from, int to, Index bytes) { return profile.seconds(from, to, bytes).seconds; };
    const std::size_t move = chance(random, 0.5) ? 0 : 2;
    const int root = static_cast<int>(pick(random, 0, 3));
    std::vector<std::pair<int, int>> messages;
    for (int r = 0; r < 4; r++)
      if (chance(random, 0.6)) messages.push_back(move == 0 ? std::pair{r, root} : std::pair{root, r});
    PlanData data = one_move(Index{1} << pick(random, 2, 22), move, messages);
    choose_schedules(data, profile);
    const double takes = seconds_of(stages_of(data.tensors[0], data.hosts, data.routes)[move], 4, link);
    routed += data.tensors[0].by[move].tree == Tree::routed ? 1 : 0;
    data.tensors[0].by = {};
    INFO("case " << number);
    CHECK(takes <= seconds_of(stages_of(data.tensors[0], data.hosts)[move], 4, link));
  }
  CHECK(routed > when_all(300));
}
