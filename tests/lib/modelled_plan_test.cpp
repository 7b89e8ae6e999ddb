// SPDX-License-Identifier: Apache-2.0
// Plans for devices that are not here: of networks of one layer the predicted seconds are closed forms of the mesh's numbers.
#include <motley/ops.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>

#include "plan/plan_data.h"
#include "profiler/modelled.h"

using namespace motley;

namespace {

constexpr Index kSamples = 64, kIn = 512, kOut = 2048;
constexpr double kRate = 1e12, kMemory = 1e11, kLaunch = 3e-6, kLinkSeconds = 10e-6, kLinkRate = 1e9;

Device modelled(const std::string& name, const std::string& host) {
  DeviceNumbers numbers{.flops_per_second = kRate, .memory_bytes_per_second = kMemory, .launch_seconds = kLaunch};
  numbers.granules.filters = 8;
  Device out{.name = name, .host = host};
  out.kind = DeviceKind::modelled;
  out.numbers = std::make_shared<const DeviceNumbers>(numbers);
  return out;
}

Mesh machine(int hosts) {
  std::vector<Device> devices;
  for (int r = 0; r < hosts; r++) devices.push_back(modelled("device[" + std::to_string(r) + "]", "host " + std::to_string(r)));
  std::vector<MeshLink> links{{MeshLink::Between::hosts, "", "", kLinkSeconds, kLinkRate}};
  return Mesh({{"all", hosts}}, std::move(devices), std::move(links));
}

Step one_layer() {
  Graph graph;
  const Tensor x = graph.input("x", {{"batch", kSamples}, {"in", kIn}});
  return inference({dense(x, {.out = {{"out", kOut}}, .bias = false})});
}

double dense_seconds(Index samples) {
  const double n = static_cast<double>(samples), c = kIn, f = kOut;
  return kLaunch + std::max(2 * n * c * f / (0.7 * kRate), 4 * (n * c + f * c + n * f) / kMemory);
}

// In pieces, as from and to any device with memory of its own.
double message_seconds(Index elements) {
  const double bytes = 4 * static_cast<double>(elements), pieces = std::ceil(bytes / static_cast<double>(kStagedBytes));
  return pieces * kLinkSeconds + bytes / kLinkRate;
}

PlanData plan_of(const Mesh& mesh, const LayoutRules& rules) {
  return balance(one_layer(), mesh, rules, modelled_profile(mesh)).data();
}

}  // namespace

TEST_CASE("one modelled device takes what its numbers say") {
  const PlanData plan = plan_of(machine(1), {});
  CHECK(*plan.step_seconds == Approx(dense_seconds(kSamples)).epsilon(1e-12));
  CHECK(*estimated_share(plan) == 1);
}

TEST_CASE("two modelled devices take their kernels and messages") {
  // Each owns a half of the weights and computes a half of the samples; rank 0 reads the result. Its own half of the weights is
  // copied beside the other one while that arrives.
  constexpr Index kHalf = kIn * kOut / 2;
  const PlanData plan = plan_of(machine(2), {{"batch", "all", CutBy::even}});
  const double kernel = dense_seconds(kSamples / 2), copy = kLaunch + 2 * 4.0 * kHalf / kMemory;
  CHECK(plan.predicted[1].seconds == Approx(copy + kernel).epsilon(1e-12));
  CHECK(*plan.step_seconds == Approx(message_seconds(kHalf) + kernel + message_seconds(kSamples / 2 * kOut)).epsilon(1e-12));
  CHECK(*estimated_share(plan) == 1);
}

TEST_CASE("a modelled device whose link is slow gets nothing") {
  const PlanData plan = plan_of(machine(2), {{"batch", "all"}});
  CHECK(*plan.step_seconds == Approx(dense_seconds(kSamples)).epsilon(1e-12));
  CHECK(plan.cuts.front().parts.front() == std::vector<Index>{kSamples, 0});
}
