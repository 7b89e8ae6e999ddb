// SPDX-License-Identifier: Apache-2.0
// A profile's file: what is written is read, what does not fit is refused with its place.
#include <motley/error.h>
#include <motley/profile.h>
#include <unistd.h>

#include <catch2/catch.hpp>

using namespace motley;
using Catch::Contains;

namespace {

Profile sample() {
  Profile p;
  p.devices = {{"fast", "cpu", "AMD EPYC", "avx512_core", "oneDNN 2.6.3", "", 1, 0.875},
               {"slow", "cpu", "AMD EPYC", "avx2", "oneDNN 2.6.3", "old-node", 2}};
  KernelSpec conv;
  conv.roles = {.n = 8, .c = 64, .h = 28, .w = 28, .f = 16, .r = 3, .s = 3, .p = 28, .q = 28};
  conv.padding = {1, 1, 1, 1};
  conv.x_format = Format::channels_last;
  p.add({0, conv, {0.1, 0.125, 0.3, 25}, "jit:avx512_core"});
  p.add({1, conv, {1e-7, 2e-7, 3e-7, 3}, "jit:avx2", 1, 4096});
  KernelSpec map;
  map.op = KernelOp::map;
  map.extents = {3, 5};
  map.operands = {{DType::f32, {5, 1}}, {DType::f32, {1, 3}}};
  p.add({1, map, {3e-9, 3e-9, 4e-9, 5}, "motley:avx2"});
  p.links = {{0, 1, {{1024, 5e-7, 3e9}, {1 << 20, 1.7e-6, 7.6e9}}}, {1, 0, {{1024, 5e-7, 3e9}}, {{64, 1e-8, 1e10}}, 4e-7}};
  p.device_links = {{1, {{4096, 1e-5, 1e10}, {1 << 20, 2e-5, 2.5e10}}, {{1 << 20, 1.5e-5, 2e10}}}};
  p.notes = {"device 0: contended"};
  return p;
}

}  // namespace

TEST_CASE("a profile of an older motley is read without the points that are written otherwise today", "[profile][json]") {
  const Profile p = sample();
  const std::string now = p.json();
  for (const auto& [today, old] :
       {std::pair{"\"channels_last\"", "\"blocked16\""}, {"\"padding\"", "\"margin\""}, {"\"map\"", "\"fold\""}}) {
    std::string text = now;
    const auto at = text.find(today);
    REQUIRE(at != std::string::npos);
    text.replace(at, std::string(today).size(), old);
    CHECK(Profile::parse("old.json", text).kernels().size() < p.kernels().size());
  }
}

TEST_CASE("a profile is read as it was written", "[profile][json]") {
  const Profile p = sample();
  const Profile back = Profile::parse("here.json", p.json());
  CHECK(back.devices == p.devices);
  CHECK(back.notes == p.notes);
  CHECK(back.json() == p.json());
  CHECK(back.exchange_seconds(1, 0).seconds == 4e-7);
  CHECK(back.exchange_seconds(1, 0).known == Known::measured);
  CHECK(back.exchange_seconds(0, 1).seconds == kUnknownExchangeSeconds);  // as of an older motley
  CHECK(back.exchange_seconds(0, 1).known == Known::modelled);
  CHECK(back.exchange_seconds(0, 0).seconds == 0);
  CHECK(back.to_device_seconds(1, 1 << 20) == Approx(2e-5 + (1 << 20) / 2.5e10));
  CHECK(back.from_device_seconds(1, 100) == Approx(1.5e-5 + 100 / 2e10));
  CHECK(back.to_device_seconds(0, 100) == 0);
  REQUIRE(back.kernels().size() == 3);
  for (std::size_t i = 0; i < 3; i++) {
    CHECK(back.kernels()[i].device == p.kernels()[i].device);
    CHECK(back.kernels()[i].spec == p.kernels()[i].spec);
    CHECK(back.kernels()[i].seconds == p.kernels()[i].seconds);
    CHECK(back.kernels()[i].implementation == p.kernels()[i].implementation);
    CHECK(back.kernels()[i].workspace_bytes == p.kernels()[i].workspace_bytes);
  }
  CHECK(back.json() == p.json());
  CHECK(back.seconds(0, 1, 2048).seconds == p.seconds(0, 1, 2048).seconds);

  const auto file = std::filesystem::temp_directory_path() / ("motley_profile_test_" + std::to_string(getpid()) + ".json");
  p.save(file);
  CHECK(Profile::load(file).json() == p.json());
  std::filesystem::remove(file);
  CHECK_THROWS_AS(Profile::load(file), UserError);
}

TEST_CASE("a profile that does not fit is refused with its place", "[profile][json]") {
  auto refused = [](const std::string& text, const std::string& what) {
    CHECK_THROWS_WITH(Profile::parse("p.json", text), Contains("p.json:") && Contains(what));
  };
  const std::string device = R"({"name":"a","kind":"cpu","model":"m","isa":"avx2","threads":1,"library":"l"})";
  const std::string kernel =
      R"({"device":DEVICE,"spec":{"op":"map","extents":[8],"operands":[{"strides":[1]},{"strides":[1]}]},"seconds":{"min":MIN,"q25":1,"median":1,"n":3},"implementation":"x"})";
  auto profile = [&](std::string d, std::string m) {
    std::string k = kernel;
    k.replace(k.find("DEVICE"), 6, d);
    k.replace(k.find("MIN"), 3, m);
    return "{\"version\":1,\"devices\":[" + device + "],\"kernels\":[" + k + "],\"links\":[]}";
  };
  CHECK(Profile::parse("p.json", profile("0", "0.5")).kernels().size() == 1);
  refused(profile("1", "0.5"), "/kernels/0/device");
  refused(profile("0", "-1"), "/kernels/0/seconds/min");
  refused(profile("0", "\"fast\""), "/kernels/0/seconds/min");
  refused(R"({"version":2,"devices":[],"kernels":[]})", "/version");
  refused(R"({"version":1,"devices":[],"kernel":[]})", "kernels");
  refused(R"({"version":1,"devices":[],"kernels":[],"links":[{"from":0,"to":1,"segments":[]}]})", "/links/0/segments");
  refused(R"({"version":1,"devices":[],"kernels":[],"links":[{"from":0,"to":7,"segments":[]}]})", "/links/0/to");
  refused(R"({"version":1,"devices":[],"kernels":[{"device":0,"spec":{"rolez":{}}},{"device":0,"spec":{"op":"conv3d"}}]})",
          "/kernels/0/spec/rolez");
  refused(R"({"version":1,"devices":[],"kernels":[{"device":0,"spec":{"rolez":{}}},{"device":0,"spec":{"op":"conv3d"}}]})",
          "/kernels/1/spec/op");
  refused("{", "p.json:1");
}
