// SPDX-License-Identifier: Apache-2.0
// Exchange law: any layout to any layout and back is the identity, every rank has what its new box says, and as many bytes move as
// are counted element by element.
#include <motley/error.h>

#include <catch2/catch.hpp>
#include <cmath>
#include <functional>
#include <mutex>

#include "plan/schedules.h"
#include "tests/support/redistribute_law.h"
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
  return {mesh_of({{"all", static_cast<int>(parts.size())}}),
          {Shape{{"rows", 6}, {"cols", 4}}, {{"rows", {{0}, -1, {Partition::of(parts)}}}}}};
}

// Rows on an axis of some number, whatever the mesh's ranks.
LaidOut cut_on_axis(int axis, const std::vector<Index>& parts, int ranks) {
  LaidOut out = cut_rows(std::vector<Index>(static_cast<std::size_t>(ranks), 6 / ranks));
  out.layout.cuts.at("rows") = Cut{{axis}, -1, {Partition::of(parts)}};
  return out;
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
  CHECK(refused([&] {
          redistribute(std::span(all), one, cut_rows({3, 3}), *transport);
        }) == "the mesh has 2 ranks, the transport 1; start one rank per device");
  LaidOut other = one;
  other.layout = {Shape{{"rows", 6}, {"columns", 4}}, {}};
  CHECK(refused([&] { redistribute(std::span(all), one, other, *transport); }) ==
        "a tensor [rows=6 cols=4] cannot be redistributed to [rows=6 columns=4]: redistribute() keeps the names and sizes of the "
        "dims; give both layouts the same dims (in any order)");
  CHECK(refused([&] { moves(one, cut_rows({3, 2})); }) == "the parts of \"rows\" sum to 5, its size is 6");
  CHECK(refused([&] { moves(one, cut_on_axis(0, {2, 2, 2}, 2)); }) == "\"rows\" has 3 parts; its axes have 2 ranks");
  CHECK(refused([&] { moves(one, cut_on_axis(1, {3, 3}, 2)); }) == "the cut of \"rows\" names axis 1; the mesh has 1");
  LaidOut lists = cut_rows({3, 3});
  lists.layout.cuts.at("rows").lists.clear();
  CHECK(refused([&] { moves(one, lists); }) == "the cut of \"rows\" has 0 lists of parts; expected one");
  LaidOut here = one;  // a target whose box could not be computed
  here.layout.cuts["rows"] = lists.layout.cuts.at("rows");
  CHECK(refused([&] { redistribute(std::span(all), one, here, *transport); }) ==
        "the cut of \"rows\" has 0 lists of parts; expected one");
  LaidOut own = cut_rows({3, 3});
  own.layout.cuts.at("rows").per = 0;
  own.layout.cuts.at("rows").lists.push_back(own.layout.cuts.at("rows").lists.front());
  CHECK(refused([&] { moves(one, own); }) == "the lists of \"rows\" differ along axis 0, which the cut itself uses");
  LaidOut twice = cut_rows({3, 3});
  twice.layout.cuts.emplace("cols", Cut{{0}, -1, {Partition::of(std::vector<Index>{2, 2})}});
  const std::string by = twice.mesh.axes()[0].name;
  CHECK(refused([&] { moves(twice, one); }) ==
        "axis \"" + by + "\" cuts \"cols\" and \"rows\"; a layout cuts one dim along an axis");
  const std::vector<double> values(24);
  std::vector<double> room(23);
  CHECK(refused([&] {
          redistribute(std::as_bytes(std::span(values)), std::as_writable_bytes(std::span(room)), DType::f64, one, one, *transport);
        }) == "rank 0 is to hold 24 values, its box [0,6)x[0,4), but 23 were given; size it by layout.box(mesh, rank)");
  // A jagged circle leaves an element to no one.
  const Mesh mesh = mesh_of({{"x", 2}, {"y", 2}});
  auto jagged = [](int axis) {
    return Cut{{axis}, 1 - axis, {Partition::of(std::vector<Index>{2, 0}), Partition::of(std::vector<Index>{0, 2})}};
  };
  const LaidOut circle{
      mesh,
      {Shape{{"a", 2}, {"b", 2}},
       {{"a", jagged(0)}, {"b", {{1}, 0, {Partition::of(std::vector<Index>{0, 2}), Partition::of(std::vector<Index>{2, 0})}}}}}};
  const LaidOut whole{mesh, {Shape{{"a", 2}, {"b", 2}}, {}}};
  CHECK(refused([&] { moves(circle, whole); }).find("which no rank holds") != std::string::npos);
}

TEST_CASE("redistribute: senders of copies take turns, one message per pair", "[law]") {
  // Ranks 0 and 1 hold all, 2 and 3 nothing; then all hold all.
  const LaidOut two{mesh_of({{"all", 2}}), {Shape{{"rows", 6}, {"cols", 4}}, {}}},
      four{mesh_of({{"all", 4}}), {Shape{{"rows", 6}, {"cols", 4}}, {}}};
  std::vector<BoxMessage> travelling;
  for (const BoxMessage& m : moves(two, four))
    if (m.from != m.to) travelling.push_back(m);
  const Box all{{0, 6}, {0, 4}};
  CHECK(travelling == std::vector<BoxMessage>{{0, 2, all, {}}, {1, 3, all, {}}});
}

// ---- schedules that a plan takes

namespace {

// One tensor of `size` elements that `from` ranks have partials of or `to` ranks read; the others nothing of it. Two hosts of two
// ranks.
PlanData one_move(Index size, std::size_t move, const std::vector<std::pair<int, int>>& messages) {
  PlanData data;
  data.hosts = {0, 0, 2, 2};
  data.predicted.resize(4);
  data.busy = {0, 1, 2, 3};
  data.passes.tensors.resize(1);
  TensorPlan plan;
  for (const auto& [from, to] : messages) {
    auto& list = (plan.*kHops[move]).messages;
    list.push_back({from, to, {{0, size}}, move == 0 ? std::vector<int>{0} : std::vector<int>{}});
  }
  data.tensors = {plan};
  return data;
}

Profile links(double near_seconds, double near_rate, double far_seconds, double far_rate) {
  Profile out;
  for (int a = 0; a < 4; a++)
    for (int b = 0; b < 4; b++)
      if (a != b)
        out.links.push_back(
            {a, b, {{Index{1} << 40, a / 2 == b / 2 ? near_seconds : far_seconds, a / 2 == b / 2 ? near_rate : far_rate}}});
  return out;
}

Schedule chosen(PlanData data, std::size_t move, const Profile& profile) {
  choose_schedules(data, profile);
  return (data.tensors[0].*kHops[move]).schedule;
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
  CHECK(chosen(one_move(1 << 20, 2, to_all), 2, links(1e-6, 1e10, 1e-4, 1e9)).tree == Tree::two_level);
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
    const LinkSeconds link = links_of(profile, data.hosts);
    const double takes = seconds_of(stages_of(data.tensors[0], data.hosts)[move], 4, link, data.hosts);
    (data.tensors[0].*kHops[move]).schedule = {};
    const double direct = seconds_of(stages_of(data.tensors[0], data.hosts)[move], 4, link, data.hosts);
    INFO("case " << number);
    CHECK(takes <= direct);
  }
}

namespace {

Profile rates(const std::function<double(int, int)>& bytes_per_second) {
  Profile out;
  for (int a = 0; a < 4; a++)
    for (int b = 0; b < 4; b++)
      if (a != b) out.links.push_back({a, b, {{Index{1} << 40, 1e-5, bytes_per_second(a, b)}}});
  return out;
}

}  // namespace

TEST_CASE("schedules: never dearer than direct, whatever the links", "[law]") {
  int two_level = 0;
  for (unsigned number = 0; number < share_of(3000U); number++) {
    Random random(number);
    std::vector<double> rate;
    for (int i = 0; i < 16; i++) rate.push_back(std::pow(10.0, static_cast<double>(pick(random, 60, 100)) / 10));
    const Profile profile =
        rates([&](int a, int b) { return rate[static_cast<std::size_t>(4 * std::min(a, b) + std::max(a, b))]; });
    const std::size_t move = chance(random, 0.5) ? 0 : 2;
    const int root = static_cast<int>(pick(random, 0, 3));
    std::vector<std::pair<int, int>> messages;
    for (int r = 0; r < 4; r++)
      if (chance(random, 0.6)) messages.push_back(move == 0 ? std::pair{r, root} : std::pair{root, r});
    PlanData data = one_move(Index{1} << pick(random, 2, 22), move, messages);
    const LinkSeconds link = links_of(profile, data.hosts);
    choose_schedules(data, profile);
    const double takes = seconds_of(stages_of(data.tensors[0], data.hosts)[move], 4, link, data.hosts);
    CHECK(((data.tensors[0].*kHops[move]).schedule.tree == Tree::direct ||
           (data.tensors[0].*kHops[move]).schedule.tree == Tree::two_level));
    two_level += (data.tensors[0].*kHops[move]).schedule.tree == Tree::two_level ? 1 : 0;
    (data.tensors[0].*kHops[move]).schedule = {};
    INFO("case " << number);
    CHECK(takes <= seconds_of(stages_of(data.tensors[0], data.hosts)[move], 4, link, data.hosts));
  }
  CHECK(two_level > when_all(100));
}
