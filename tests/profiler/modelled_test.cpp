// SPDX-License-Identifier: Apache-2.0
// Devices that are described by numbers: what their kernels and links take.
#include "profiler/modelled.h"

#include <motley/error.h>

#include <catch2/catch.hpp>

using namespace motley;

namespace {

DeviceNumbers numbers() {
  DeviceNumbers out{.flops_per_second = 1e12, .memory_bytes_per_second = 1e11, .launch_seconds = 3e-6};
  out.granules = {.filters = 16, .channels = 4, .batch = 2, .rows = 8};
  return out;
}

Device modelled(const std::string& name, const std::string& host) {
  Device out{.name = name, .host = host};
  out.kind = DeviceKind::modelled;
  out.numbers = std::make_shared<const DeviceNumbers>(numbers());
  return out;
}

}  // namespace

TEST_CASE("a modelled kernel takes its launch, and its arithmetic in whole granules or its bytes") {
  KernelSpec conv;
  conv.roles = {.n = 3, .c = 30, .h = 28, .w = 28, .f = 17, .r = 3, .s = 3, .p = 28, .q = 28};
  conv.padding = {1, 1, 1, 1};
  CHECK(seconds_by_numbers(numbers(), conv) == Approx(3e-6 + 2.0 * 4 * 32 * 32 * 28 * 9 * 32 / 0.7e12).epsilon(1e-12));
  KernelSpec depthwise = conv;
  depthwise.roles.g = 30;
  depthwise.roles.c = depthwise.roles.f = 1;
  CHECK(seconds_by_numbers(numbers(), depthwise) == Approx(3e-6 + 2.0 * 32 * 4 * 32 * 28 * 9 / 0.15e12).epsilon(1e-12));
  KernelSpec dense;
  dense.op = KernelOp::dense;
  dense.roles = {.n = 1, .c = 1000, .f = 1000};
  CHECK(seconds_by_numbers(numbers(), dense) ==
        Approx(3e-6 + 4.0 * (1000 + 1000 * 1000 + 1000) / 1e11).epsilon(1e-12));  // its weights
  KernelSpec map;
  map.op = KernelOp::map;
  map.extents = {1000};
  map.operands = {{DType::f32, {1}}, {DType::f32, {1}}};
  CHECK(seconds_by_numbers(numbers(), map) == Approx(3e-6 + 8000 / 1e11).epsilon(1e-12));
  map.extents = {0};
  const Profile profile = modelled_profile(Mesh({{"all", 1}}, {modelled("a", "")}));
  CHECK(profile.seconds(0, map).seconds == 0);
  CHECK(profile.seconds(0, dense).seconds == seconds_by_numbers(numbers(), dense));
  CHECK(profile.seconds(0, dense).known == Known::modelled);
  CHECK(profile.supports(0, dense));
  CHECK_FALSE(profile.empty());
}

TEST_CASE("the profile of a mesh with modelled devices has its links, and what was measured of the others") {
  const Device here{.name = "here", .host = "b"};
  const Mesh mesh({{"all", 4}}, {modelled("new[0]", "a"), here, modelled("new[1]", "a"), Device{.name = "there", .host = "b"}},
                  {{MeshLink::Between::hosts, "", "", 1e-5, 1e9}, {MeshLink::Between::ranks, "", "", 1e-6, 1e10}});
  CHECK(has_modelled(mesh));
  try {
    static_cast<void>(modelled_profile(mesh));
    FAIL("made");
  } catch (const UserError& e) {
    CHECK(e.code() == Exit::missing);
    CHECK_THAT(e.what(), Catch::Contains("\"here\""));
  }
  Profile measured;
  for (const char* name : {"there", "here"}) measured.devices.push_back({.name = name, .kind = "cpu", .host = "b"});
  KernelSpec dense;
  dense.op = KernelOp::dense;
  measured.add({0, dense, {1, 1, 1, 5}, "there's"});
  measured.add({1, dense, {2, 2, 2, 5}, "here's"});
  measured.links = {{0, 1, {{1, 0.5, 1e9}}}, {1, 0, {{1, 0.25, 1e9}}}};
  const Profile profile = modelled_profile(mesh, measured);
  REQUIRE(profile.devices.size() == 4);
  CHECK(profile.devices[1].name == "here");
  CHECK(profile.devices[2].kind == "modelled");
  CHECK(profile.hosts() == std::vector<int>{0, 1, 0, 1});
  CHECK(profile.seconds(1, dense).seconds == 2);
  CHECK(profile.seconds(3, dense).seconds == 1);
  CHECK(profile.seconds(3, dense).known == Known::measured);
  CHECK(profile.seconds(2, dense).seconds == seconds_by_numbers(numbers(), dense));
  CHECK(profile.wire_seconds(3, 1, 0).seconds == 0.5);
  CHECK(profile.wire_seconds(1, 3, 0).known == Known::measured);
  CHECK(profile.wire_seconds(0, 2, 0).seconds == 1e-6);
  CHECK(profile.wire_seconds(0, 1, 1000).seconds == Approx(1e-5 + 1e-6));
  CHECK(profile.wire_seconds(0, 1, 1000).known == Known::modelled);
  CHECK(profile.card_seconds(0, 1, 1000) == Approx(1e-6));
}
