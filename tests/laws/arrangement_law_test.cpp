// SPDX-License-Identifier: Apache-2.0
// "axes": "auto": the chosen arrangement, given by hand, is predicted no slower than every other one given by hand, within the half
// per cent for which a simpler layout is taken: of layouts that one axis has too, other orders of the devices are not searched.
#include <motley/error.h>
#include <motley/ops.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <set>

#include "balance/arrange.h"
#include "plan/plan_data.h"
#include "tests/support/random_network.h"
#include "tests/support/synthetic_profile.h"

using namespace motley;
using namespace motley::law;

namespace {

Mesh listed(const std::vector<std::string>& hosts, const std::vector<std::string>& isas) {
  std::vector<Device> devices;
  for (std::size_t r = 0; r < hosts.size(); r++)
    devices.push_back({.name = "d" + std::to_string(r), .host = hosts[r], .isa = isas[r]});
  return {{{"all", static_cast<int>(hosts.size())}}, std::move(devices)};
}

// Links between hosts are a hundred times slower than those of one.
Profile profile_of(const Mesh& mesh, const std::vector<double>& speeds) {
  Profile out = testing::synthetic_profile(mesh, speeds, 10e9);
  for (Link& link : out.links)
    if (mesh.device(link.from).host != mesh.device(link.to).host) link.segments.front().bytes_per_second = 100e6;
  return out;
}

Step small_step() {
  const Dim batch{"batch", 12}, classes{"classes", 10};
  Graph g;
  const Tensor image = g.input("image", {batch, {"channels", 3}, {"rows", 8}, {"cols", 8}});
  const Tensor label = g.input("label", {batch}, DType::i32);
  const Tensor h = max_pool2d(relu(conv2d(image, {.out = {"filters", 24}, .window = 3, .padding = same})), {.window = 2});
  return training(mean(softmax_cross_entropy(dense(h, {.out = {classes}}), label, classes)), Sgd{.learning_rate = 0.05});
}

double by_hand(const Step& step, const Mesh& mesh, const Profile& profile) {
  return *balance(step, mesh, LayoutRules::automatic(), in_order_of(mesh, profile), {.baselines = false}).data().step_seconds;
}

}  // namespace

TEST_CASE("the chosen arrangement is the least predicted of the list") {
  struct Case {
    std::vector<std::string> hosts, isas;
    std::vector<double> speeds;
  };
  const std::vector<Case> cases{
      {{"", "", "", ""}, {"", "avx2", "", "avx2"}, {1, 0.5, 1, 0.5}},
      {{"a", "b", "a", "b"}, {"", "", "", ""}, {1, 1, 1, 1}},
      {{"a", "a", "a", "b", "b", "b"}, {"", "avx2", "sse41", "", "avx2", "sse41"}, {1, 0.5, 0.2, 1, 0.5, 0.2}}};
  const Step step = small_step();
  for (std::size_t n = 0; n < share_of(cases.size()); n++) {
    const Case& c = cases[n];
    const Mesh mesh = listed(c.hosts, c.isas);
    const Profile profile = profile_of(mesh, c.speeds);
    const Arranged all = arrange(step, mesh, LayoutRules::automatic(), profile);
    CHECK((all.measured && all.planned.size() <= 12));
    CHECK(all.planned.size() + static_cast<std::size_t>(all.dropped) == arrangements(mesh).size());
    const Arrangement& best = all.planned.front();
    const double chosen = by_hand(step, best.mesh, profile);
    for (const Arrangement& one : arrangements(mesh)) {
      CAPTURE(one.text(), all.text());
      const double seconds = by_hand(step, one.mesh, profile);
      CHECK(chosen <= seconds * 1.005);
      if (best.seconds) CHECK(chosen <= *best.seconds * (1 + 1e-12));
    }
  }
}

TEST_CASE("arrangements: each device once, no two equal; one axis for one device and for a prime number") {
  for (const std::size_t ranks : {1, 2, 3, 7}) {
    const std::vector<std::string> same_for_all(ranks);
    CHECK(arrangements(listed(same_for_all, same_for_all)).size() == 1);
  }
  CHECK(arrangements(listed({"", "", "", ""}, {"", "", "", ""})).size() == 2);  // equal devices: 4 and 2 x 2
  const Mesh mesh = listed({"a", "a", "b", "b"}, {"", "avx2", "", "avx2"});
  const std::vector<Arrangement> all = arrangements(mesh);
  CHECK(all.front().mesh.axes() == std::vector<Axis>{{"all", 4}});
  std::set<std::string> texts;
  for (const Arrangement& one : all) {
    std::set<std::string> names;
    for (const Device& d : one.mesh.devices()) names.insert(d.name);
    CHECK(names.size() == 4);
    texts.insert(one.text());
  }
  CHECK(texts == std::set<std::string>{"all 4", "outer 2 x inner 2, as listed: [d0, d1], [d2, d3]",
                                       "outer 2 x inner 2, hosts along inner: [d0, d2], [d1, d3]"});
}

TEST_CASE(
    "arrange() without a profile takes one axis; it refuses rules that name an axis or leave nothing open, and other profiles") {
  const Step step = small_step();
  const Mesh mesh = listed({"a", "b", "a", "b"}, {"", "", "", ""}), one = listed({""}, {""});
  const Profile profile = profile_of(mesh, {1, 1, 1, 1});
  const LayoutRules rules = LayoutRules::automatic();
  const Arranged unknown = arrange(step, mesh, rules, Profile());
  REQUIRE(unknown.planned.size() == 1);
  CHECK(unknown.planned.front().mesh.axes() == mesh.axes());
  CHECK((!unknown.planned.front().seconds && unknown.dropped > 0));
  CHECK(arrange(step, one, {}, Profile()).text() == "axes auto: all 1, the only arrangement");
  CHECK_THROWS_AS(arrange(step, mesh, {}, profile), UserError);
  CHECK_THROWS_AS(arrange(step, mesh, rules, profile_of(one, {1})), UserError);
  LayoutRules named = rules;
  named.split.push_back({"filters", "all"});
  CHECK_THROWS_WITH(arrange(step, mesh, named, profile), Catch::Contains("a rule cuts \"filters\" over the axis \"all\""));
}

TEST_CASE("a profile in another order is the same profile") {
  const Mesh mesh = listed({"a", "a", "b", "b"}, {"", "", "", ""});
  const Mesh turned({{"all", 4}}, {mesh.device(2), mesh.device(0), mesh.device(3), mesh.device(1)});
  const Profile profile = profile_of(mesh, {1, 0.5, 0.3, 0.2}), other = in_order_of(turned, profile);
  CHECK(other.devices[0].name == "d2");
  CHECK(other.seconds(0, 2, 1 << 20).seconds == profile.seconds(2, 3, 1 << 20).seconds);
  CHECK(other.seconds(0, 1, 1 << 20).seconds == profile.seconds(2, 0, 1 << 20).seconds);
  CHECK(in_order_of(mesh, other).json() == profile.json());
}
