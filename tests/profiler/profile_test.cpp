// SPDX-License-Identifier: Apache-2.0
// Estimates from measured points: measured, steps along one extent, by the element, by rate; links.
#include <motley/profile.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <regex>

#include "tests/support/formulas.h"

using namespace motley;
using namespace motley::testing;

namespace {

KernelSpec conv(Index n, Index c, Index f, PassKind pass = PassKind::forward) {
  KernelSpec s;
  s.pass = pass;
  s.roles = {.n = n, .c = c, .h = 8, .w = 8, .f = f, .r = 3, .s = 3, .p = 8, .q = 8};
  s.padding = {1, 1, 1, 1};
  return s;
}

KernelPoint point(const KernelSpec& spec, double seconds, int device = 0) {
  return {device, spec, {seconds * 0.8, seconds * 0.9, seconds, 9}, "test"};
}

void check_estimate(const Estimate& e, double seconds, Known known) {
  CHECK(e.seconds == Approx(seconds).epsilon(1e-12));
  CHECK(e.known == known);
}

}  // namespace

TEST_CASE("a measured point answers for itself, of several the one with the smaller median is kept", "[profile]") {
  Profile p;
  CHECK(p.empty());
  p.add(point(conv(4, 16, 32), 2e-3));
  p.add(point(conv(4, 16, 32), 3e-3));
  check_estimate(p.seconds(0, conv(4, 16, 32)), 2e-3, Known::measured);
  p.add({0, conv(4, 16, 32), {1e-4, 5e-4, 1e-3, 3}, "other"});
  check_estimate(p.seconds(0, conv(4, 16, 32)), 1e-3, Known::measured);
  REQUIRE(p.kernels().size() == 1);
  CHECK(p.kernels()[0].seconds == Spread{1e-4, 5e-4, 1e-3, 3});
  CHECK(p.kernels()[0].implementation == "other");
  CHECK(p.seconds(1, conv(4, 16, 32)).known == Known::modelled);      // another device
  check_estimate(p.seconds(0, conv(0, 16, 32)), 0, Known::measured);  // nothing runs
}

TEST_CASE("workspaces: of the spec, without bias and epilogue, of the next larger one, of a smaller one times the flops",
          "[profile]") {
  Profile p;
  const auto add = [&](const KernelSpec& spec, Index bytes) {
    KernelPoint one = point(spec, 1e-3);
    one.workspace_bytes = bytes;
    p.add(one);
  };
  CHECK(p.workspace_bytes(0, conv(4, 16, 32)) == 0);
  add(conv(4, 16, 32), 1000);
  add(conv(4, 16, 64), 3000);
  CHECK(p.workspace_bytes(0, conv(4, 16, 32)) == 1000);
  CHECK(p.workspace_bytes(1, conv(4, 16, 32)) == 0);
  KernelSpec fused = conv(4, 16, 32);
  fused.bias = true;
  fused.epilogue = forward_of("relu");
  CHECK(p.workspace_bytes(0, fused) == 1000);
  fused.dtype = fused.result = DType::bf16;
  KernelSpec bare = conv(4, 16, 32);
  bare.dtype = bare.result = DType::bf16;
  add(bare, 500);
  CHECK(p.workspace_bytes(0, fused) == 500 + 4 * 32 * 64 * 4);
  CHECK(p.workspace_bytes(0, conv(4, 16, 33)) == 3000);
  CHECK(p.workspace_bytes(0, conv(3, 16, 32)) == 1000);
  CHECK(p.workspace_bytes(0, conv(4, 16, 128)) == 6000);
  CHECK(p.workspace_bytes(0, conv(4, 17, 33)) == 0);  // no measured one differs in one extent only
}

TEST_CASE("a bias is fused, but where implementations were timed with it: which is fastest is kept apart from how long it takes",
          "[profile]") {
  Profile p;
  KernelSpec biased = conv(4, 16, 32);
  biased.bias = true;
  p.add(point(biased, 2e-3));
  CHECK(p.kernels()[0].spec == conv(4, 16, 32));
  CHECK(p.implementation(0, conv(4, 16, 32)).empty());  // there was no choice
  p.add({0, biased, {1e-3, 1e-3, 1e-3, 3}, "inside", 3});
  p.add({0, conv(4, 16, 32), {1e-3, 1.2e-3, 1.5e-3, 3}, "bare", 2});
  check_estimate(p.seconds(0, biased), 1.5e-3, Known::measured);
  check_estimate(p.seconds(0, conv(4, 16, 31)), 1.5e-3, Known::interpolated);
  const Profile back = Profile::parse("p.json", [&] {
    p.devices = {{"a", "cuda", "x", "y", "z"}};
    return p.json();
  }());
  for (const Profile& one : {p, back}) {
    CHECK(one.implementation(0, biased) == "inside");
    CHECK(one.implementation(0, conv(4, 16, 32)) == "bare");
    CHECK(one.implementation(1, biased).empty());
  }
}

TEST_CASE("what a device cannot compute is a point without seconds; of the same kind only what was timed is supported",
          "[profile]") {
  Profile p;
  p.devices = {{"a", "cuda", "x", "y", "z"}, {"b", "cpu", "x", "y", "z"}};
  KernelSpec dilated = conv(4, 16, 32), then = conv(4, 16, 32);
  dilated.dilation = {2, 2};
  then.epilogue = forward_of("gelu");
  KernelSpec map;
  map.op = KernelOp::map;
  map.extents = {40};
  map.operands.assign(2, {DType::f32, {1}});
  map.formula = forward_of("gelu");
  p.add(point(conv(4, 16, 32), 1e-3));
  p.add(point(dilated, 1e-3, 1));
  for (const KernelSpec& spec : {dilated, then, map}) p.add({.device = 0, .spec = spec, .supported = false});
  const Profile back = Profile::parse("p.json", p.json());
  CHECK(back.json() == p.json());
  CHECK(p.json().find("\"implementation\": null") != std::string::npos);
  for (const Profile& one : {p, back}) {
    CHECK(one.supports(0, conv(4, 16, 32)));
    CHECK(one.supports(0, conv(8, 3, 5)));
    KernelSpec other = dilated;
    CHECK_FALSE(one.supports(0, other));
    check_estimate(one.seconds(0, other), kImpossibleSeconds, Known::measured);
    other.roles.n = 7;
    CHECK_FALSE(one.supports(0, other));
    CHECK(one.supports(1, other));
    other.roles.n = 0;
    CHECK(one.supports(0, other));  // nothing runs
    CHECK_FALSE(one.supports(0, then));
    then.epilogue = forward_of("relu");
    CHECK(one.supports(0, then));
    then.epilogue = forward_of("gelu");
    KernelSpec longer = map;
    longer.extents = {41};
    CHECK_FALSE(one.supports(0, longer));
    longer.formula = forward_of("relu");
    CHECK(one.supports(0, longer));
  }
  const std::string text = p.json();
  KernelSpec timed = dilated;
  timed.roles.n = 7;
  p.add(point(timed, 1e-3));
  CHECK(p.supports(0, timed));
  CHECK_FALSE(p.supports(0, dilated));
  timed.roles.n = 8;
  CHECK(p.supports(0, timed));
  const std::string without = std::regex_replace(text, std::regex("\"implementation\": null"), "\"implementation\": \"x\"");
  CHECK_THROWS_WITH(Profile::parse("p.json", without), Catch::Contains("/kernels/2") && Catch::Contains("expected \"seconds\""));
}

TEST_CASE("a message from or to a device's memory: three ways one after the other, the slowest sets the pace of its pieces",
          "[profile]") {
  Profile p;
  const Index most = Index{1} << 40;
  for (const auto& [from, to] : {std::pair{0, 1}, {1, 0}, {0, 2}}) p.links.push_back({from, to, {{most, 1e-6, 1e9}}});
  p.device_links = {{0, {{most, 10e-6, 4e9}}, {{most, 20e-6, 2e9}}}, {2, {{most, 30e-6, 5e8}}, {{most, 0, 1e9}}}};
  const auto time = [](double seconds, Index bytes, double rate) { return seconds + static_cast<double>(bytes) / rate; };
  check_estimate(p.seconds(1, 0, 1000), time(1e-6, 1000, 1e9) + time(10e-6, 1000, 4e9), Known::measured);
  check_estimate(p.seconds(0, 1, 1000), time(20e-6, 1000, 2e9) + time(1e-6, 1000, 1e9), Known::measured);
  check_estimate(p.seconds(0, 2, 1000), time(20e-6, 1000, 2e9) + time(1e-6, 1000, 1e9) + time(30e-6, 1000, 5e8), Known::measured);
  const Index piece = kStagedBytes;  // four of them: the copies to device 2 are the slowest
  check_estimate(p.seconds(0, 2, 4 * piece), time(20e-6, piece, 2e9) + time(1e-6, piece, 1e9) + 4 * time(30e-6, piece, 5e8),
                 Known::measured);
  check_estimate(p.wire_seconds(0, 2, 4 * piece), time(1e-6, 4 * piece, 1e9), Known::measured);
}

TEST_CASE("between measured sizes: the time of the next one not below; past them linear in flops", "[profile]") {
  Profile p;
  for (auto [f, ms] : {std::pair{64, 4.0}, {16, 1.5}, {32, 1.0}, {48, 3.0}}) p.add(point(conv(4, 16, f), ms * 1e-3));
  check_estimate(p.seconds(0, conv(4, 16, 1)), 1.5e-3, Known::interpolated);  // though 32 filters are faster than 16
  check_estimate(p.seconds(0, conv(4, 16, 17)), 1.0e-3, Known::interpolated);
  check_estimate(p.seconds(0, conv(4, 16, 33)), 3.0e-3, Known::interpolated);
  check_estimate(p.seconds(0, conv(4, 16, 63)), 4.0e-3, Known::interpolated);
  check_estimate(p.seconds(0, conv(4, 16, 96)), 6.0e-3, Known::interpolated);
  check_estimate(p.seconds(0, conv(4, 16, 16)), 1.5e-3, Known::measured);      // itself
  check_estimate(p.seconds(0, conv(2, 16, 64)), 2.0e-3, Known::interpolated);  // along n: a line from nothing
  p.add(point(conv(1, 16, 64), 1.6e-3));
  check_estimate(p.seconds(0, conv(3, 16, 64)), 3.2e-3, Known::interpolated);  // between two
  check_estimate(p.seconds(0, conv(4, 32, 64)), 8.0e-3, Known::interpolated);  // along c, past the last
  p.add(point(conv(4, 12, 20), 0.5e-3));
  check_estimate(p.seconds(0, conv(4, 12, 16)), 0.5e-3, Known::interpolated);  // the less of two families
  p.add(point(conv(4, 16, 48), 0.9e-3));                                       // a better time moves the step below it
  check_estimate(p.seconds(0, conv(4, 16, 33)), 0.9e-3, Known::interpolated);
  check_estimate(p.seconds(0, conv(4, 16, 17)), 1.0e-3, Known::interpolated);
}

TEST_CASE("of another family: no faster than the most similar kernels of that op and pass; else 1e9 flops per second",
          "[profile]") {
  Profile p;
  p.add(point(conv(4, 16, 32), 1e-3));
  p.add(point(conv(4, 16, 64), 4e-3));
  p.add(point(conv(4, 17, 64), 3e-3));
  p.add(point(conv(400, 160, 640), 1e3));  // slow, and far away
  const double rate = flops(conv(4, 16, 64)) / 4e-3;
  KernelSpec strided = conv(4, 8, 8);
  strided.stride = {2, 2};
  check_estimate(p.seconds(0, strided), flops(strided) / rate, Known::modelled);
  CHECK(p.seconds(0, conv(4, 8, 8)).known == Known::scaled);  // two extents away
  const KernelSpec backward = conv(4, 16, 32, PassKind::backward_data);
  check_estimate(p.seconds(0, backward), flops(backward) / 1e9, Known::modelled);
}

TEST_CASE("maps are scaled by their elements", "[profile]") {
  Profile p;
  const KernelSpec rows = copy_of({8, 100}, {{100, 1}, {100, 1}});
  p.add(point(rows, 8e-6));
  check_estimate(p.seconds(0, copy_of({4, 50}, {{50, 1}, {50, 1}})), 2e-6, Known::interpolated);
  check_estimate(p.seconds(0, copy_of({40, 100}, {{100, 1}, {100, 1}})), 40e-6, Known::interpolated);
  // Transposing is another family, and so is another function.
  CHECK(p.seconds(0, copy_of({4, 50}, {{50, 1}, {1, 4}})).known == Known::modelled);
  CHECK(p.seconds(0, map_of(forward_of("relu"), {4, 50}, {{50, 1}, {50, 1}})).known == Known::modelled);
  // Constants cost nothing; another expression does.
  auto scaled = [](double by, Index n) { return map_of(formula({by * operand(0)}), {n}, {{1}, {1}}); };
  p.add(point(scaled(0.1, 1000), 1e-6));
  check_estimate(p.seconds(0, scaled(0.9, 3000)), 3e-6, Known::interpolated);
  CHECK(p.seconds(0, map_of(formula({0.1 + operand(0)}), {1000}, {{1}, {1}})).known == Known::modelled);
}

TEST_CASE("attention is scaled by its products, wherever its queries begin and whatever results it makes", "[profile]") {
  KernelSpec spec;
  spec.op = KernelOp::attention;
  spec.pass = PassKind::backward_data;
  spec.roles = {.n = 8, .c = 4, .f = 16, .g = 2};
  spec.made = 7;
  Profile p;
  p.add(point(spec, 5e-3));
  KernelSpec other = spec;
  other.roles.n = 4;
  check_estimate(p.seconds(0, other), 2.5e-3, Known::interpolated);
  other = spec;
  other.made = 1;  // three products of five
  check_estimate(p.seconds(0, other), 3e-3, Known::interpolated);
  other = spec;
  other.share = 2;
  p.add(point(other, 6e-3));
  other.share = other.roles.g = 1;  // fewer heads have one row of the mask
  check_estimate(p.seconds(0, other), 3e-3, Known::interpolated);
  spec.causal = true;
  spec.origin = {8, 0};  // 9 to 16 keys
  p.add(point(spec, 1e-3));
  spec.origin = {0, 0};  // 1 to 8
  check_estimate(p.seconds(0, spec), 1e-3 * 36 / 100, Known::interpolated);
}

TEST_CASE("links answer by segment", "[profile]") {
  Profile p;
  p.links.push_back({0, 1, {{1024, 1e-6, 1e9}, {65536, 2e-6, 4e9}}});
  check_estimate(p.seconds(0, 1, 1000), 2e-6, Known::measured);
  check_estimate(p.seconds(0, 1, 4000), 3e-6, Known::measured);
  check_estimate(p.seconds(0, 1, 4000000), 1.002e-3, Known::measured);
  check_estimate(p.seconds(1, 0, 2000), 6e-6, Known::modelled);
  check_estimate(p.seconds(1, 1, 2000), 0, Known::measured);
}

TEST_CASE("a link is found wherever it is in the list", "[profile]") {
  Profile p;
  p.devices.resize(4);
  for (int from = 0; from < 4; from++)
    for (int to = 0; to < 4; to++)
      if (from != to) p.links.push_back({from, to, {{1024, 10.0 * from + to, 1e9}}});
  const auto check_all = [&](bool first_too) {
    for (int from = 0; from < 4; from++)
      for (int to = 0; to < 4; to++)
        if (from != to && (first_too || from + to > 1))
          check_estimate(p.wire_seconds(from, to, 0), 10.0 * from + to, Known::measured);
  };
  check_all(true);
  std::reverse(p.links.begin(), p.links.end());
  check_all(true);
  p.links.erase(p.links.end() - 1);
  check_all(false);
  check_estimate(p.wire_seconds(0, 1, 0), 5e-6, Known::modelled);
}
