// SPDX-License-Identifier: Apache-2.0
// What a device cannot compute is given to others, or refused before anything runs.
#include <motley/error.h>
#include <motley/motley.h>

#include <catch2/catch.hpp>

#include "plan/plan_data.h"
#include "tests/support/synthetic_profile.h"

using namespace motley;
using namespace motley::testing;

namespace {

struct Net {
  Step step;
  Mesh mesh;
};

Net small_net() {
  Graph graph;
  const Tensor image = graph.input("image", {{"batch", 8}, {"in", 3}, {"rows", 8}, {"cols", 8}});
  const Tensor hidden = relu(conv2d(image, {.out = {"f", 16}, .window = 3, .padding = same, .name = "first"}));
  const Tensor out = conv2d(hidden, {.out = {"g", 8}, .window = 3, .dilation = 2, .padding = same, .name = "dilated"});
  std::vector<Device> devices(2);
  devices[0].name = "old";
  devices[1].name = "new";
  return {training(sum(out), Sgd{.learning_rate = 1}), Mesh({{"all", 2}}, devices)};
}

// Device 0 cannot compute dilated convolutions.
Profile profile_of(const Net& net) {
  Profile out = synthetic_profile(net.mesh, {4, 1}, 1e9);
  const Plan plain = balance(net.step, net.mesh, {{"batch", "all", CutBy::even}}, out);
  for (const ProgramStep& s : compile(plain, 0).steps)
    if (const auto* run = std::get_if<RunKernel>(&s.what); run != nullptr && run->spec.dilation[0] > 1) {
      KernelSpec spec = run->spec;
      spec.bias = false;
      out.add({.device = 0, .spec = spec, .supported = false});
    }
  return out;
}

int dilated_kernels(const Plan& plan, int rank) {
  int out = 0;
  for (const ProgramStep& s : compile(plan, rank).steps)
    if (const auto* run = std::get_if<RunKernel>(&s.what)) out += run->spec.dilation[0] > 1 && flops(run->spec) > 0;
  return out;
}

}  // namespace

TEST_CASE("a cut that the profile chooses leaves a device out of what it cannot compute", "[supports]") {
  const Net net = small_net();
  const Profile profile = profile_of(net);
  const Plan plan = balance(net.step, net.mesh, {{"g", "all", CutBy::profile}}, profile);
  CHECK(dilated_kernels(plan, 0) == 0);
  CHECK(dilated_kernels(plan, 1) > 0);
  REQUIRE(plan.data().step_seconds);
  CHECK(*plan.data().step_seconds < 1);
  CHECK(dilated_kernels(balance(net.step, net.mesh, {{"g", "all", CutBy::profile}}, synthetic_profile(net.mesh, {4, 1}, 1e9)), 0) >
        0);
}

TEST_CASE("where no rule cuts a pass it goes to a device that can compute it", "[supports]") {
  const Net net = small_net();
  const Plan plan = balance(net.step, net.mesh, {}, profile_of(net));
  CHECK(dilated_kernels(plan, 0) == 0);
  CHECK(dilated_kernels(plan, 1) > 0);
}

TEST_CASE("rules that leave no other choice are refused", "[supports]") {
  const Net net = small_net();
  const Profile profile = profile_of(net);
  LayoutRules rules;
  rules.places["dilated"] = {"old"};
  try {
    balance(net.step, net.mesh, rules, profile);
    FAIL("it is not possible");
  } catch (const UserError& e) {
    CHECK(e.code() == Exit::config);
    for (const std::string part : {"layer \"dilated\"", "dilated forward", "rank 0 (old)", "\"place\" the layer on another device"})
      CHECK_THAT(e.what(), Catch::Contains(part));
  }
  CHECK_NOTHROW(balance(net.step, net.mesh, rules, {}));  // a device that was not measured computes everything
}
