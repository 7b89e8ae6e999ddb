// SPDX-License-Identifier: Apache-2.0
// Kernels that were not measured, from those that were: staircases along each extent, and how far such estimates are off.
#include "profiler/scaled.h"

#include <catch2/catch.hpp>
#include <functional>

using namespace motley;

namespace {

KernelSpec conv(Index n, Index c, Index f, Index rows = 8) {
  KernelSpec s;
  s.roles = {.n = n, .c = c, .h = rows, .w = 8, .f = f, .r = 3, .s = 3, .p = rows, .q = 8};
  s.padding = {1, 1, 1, 1};
  return s;
}

// A product: samples and rows on a line, channels on one with an offset, filters on a staircase of eight.
double product(const KernelSpec& s) {
  return 1e-6 * static_cast<double>(s.roles.n * s.roles.p * (5 + s.roles.c) * (3 + (s.roles.f + 7) / 8));
}

void add(Profile& p, const KernelSpec& spec, double seconds, int device = 0) {
  p.add({device, spec, {seconds, seconds, seconds, 5}, "test"});
}

// Of one layer: its samples, channels and filters, each on a line through the whole layer.
Profile lines_of(const std::function<double(const KernelSpec&)>& seconds) {
  Profile p;
  p.devices.push_back({.name = "one"});
  std::vector<KernelSpec> all;
  for (const Index n : {8, 16, 32}) all.push_back(conv(n, 32, 64));
  for (const Index c : {8, 16, 24}) all.push_back(conv(32, c, 64));
  for (Index f = 8; f < 64; f += 8) all.push_back(conv(32, 32, f));
  for (const KernelSpec& spec : all) add(p, spec, seconds(spec));
  return p;
}

double plain(const Estimate& e) {
  return e.seconds / (1 + e.error);
}

}  // namespace

TEST_CASE("a product of staircases is estimated exactly, and counts with its device's error", "[scaled]") {
  const Profile p = lines_of(product);
  for (const KernelSpec& spec : {conv(31, 8, 16), conv(20, 24, 33), conv(8, 5, 60), conv(20, 30, 17), conv(9, 17, 3)}) {
    INFO(summary(spec));
    const Estimate its = p.seconds(0, spec);
    CHECK(its.known == Known::scaled);
    CHECK(its.is_guess());
    CHECK(its.error == p.estimate_error(0)->q90);
    CHECK(plain(its) == Approx(product(spec)).epsilon(1e-12));
  }
  CHECK(p.seconds(0, conv(32, 32, 41)).known == Known::interpolated);  // one extent differs
  CHECK(p.seconds(0, conv(32, 32, 64)).known == Known::measured);
}

TEST_CASE("an extent that no line has counts in proportion", "[scaled]") {
  const Profile p = lines_of(product);  // rows have none
  CHECK(plain(p.seconds(0, conv(32, 16, 64, 4))) == Approx(product(conv(32, 16, 64)) / 2).epsilon(1e-12));
  CHECK(plain(p.seconds(0, conv(32, 16, 33, 24))) == Approx(product(conv(32, 16, 33)) * 3).epsilon(1e-12));
  Profile two;
  add(two, conv(32, 32, 64), 8e-3);
  CHECK(two.seconds(0, conv(8, 16, 64)).known == Known::modelled);  // how far such an estimate would be off is not known
  add(two, conv(16, 16, 64), 1e-3);
  CHECK(plain(two.seconds(0, conv(8, 16, 32))) == Approx(0.25e-3).epsilon(1e-12));
}

TEST_CASE("beyond a line's end seconds are in proportion, below its begin as between its first two, in whole granules",
          "[scaled]") {
  const Profile p = lines_of(product);
  CHECK(plain(p.seconds(0, conv(64, 12, 64))) == Approx(2 * product(conv(32, 12, 64))).epsilon(1e-12));
  CHECK(plain(p.seconds(0, conv(4, 12, 64))) == Approx(product(conv(8, 12, 64)) / 2).epsilon(1e-12));
  CHECK(plain(p.seconds(0, conv(20, 64, 64))) == Approx(2 * product(conv(20, 32, 64))).epsilon(1e-12));
  CHECK(plain(p.seconds(0, conv(20, 1, 64))) == Approx(product(conv(20, 1, 64))).epsilon(1e-12));
  CHECK(plain(p.seconds(0, conv(20, 32, 100))) == Approx(product(conv(20, 32, 64)) * 104 / 64).epsilon(1e-12));
  CHECK(plain(p.seconds(0, conv(20, 32, 1))) == Approx(product(conv(20, 32, 8))).epsilon(1e-12));
}

TEST_CASE("where measured filters are far apart a line of whole granules is between them", "[scaled]") {
  Profile p = lines_of(product);
  add(p, conv(32, 32, 128), product(conv(32, 32, 128)));
  for (const Index f : {65, 80, 81, 112, 127})
    CHECK(plain(p.seconds(0, conv(20, 32, f))) == Approx(product(conv(20, 32, f))).epsilon(1e-12));
}

TEST_CASE("convolutions with odd channels may take another implementation: once, however many channels are odd", "[scaled]") {
  const auto odd = [](const KernelSpec& s) { return s.roles.c % 8 != 0 || s.roles.f % 8 != 0; };
  const auto seconds = [&](const KernelSpec& s) { return (odd(s) ? 1.75 : 1) * product(s); };
  Profile p = lines_of(seconds);
  for (const Index f : {33, 34, 35}) add(p, conv(32, 32, f), seconds(conv(32, 32, f)));
  for (const KernelSpec& spec : {conv(20, 24, 33), conv(20, 30, 17), conv(20, 30, 24), conv(20, 24, 24), conv(20, 30, 34)}) {
    INFO(summary(spec));
    CHECK(plain(p.seconds(0, spec)) == Approx(seconds(spec)).epsilon(1e-12));
  }
}

TEST_CASE("no kernel is faster than the fastest of the device, or than launching one", "[scaled]") {
  Profile p = lines_of([](const KernelSpec& s) { return 1e-3 * product(s); });
  CHECK(plain(p.seconds(0, conv(1, 2, 2, 1))) == Approx(5e-6).epsilon(1e-12));
  add(p, conv(1, 1, 1), 2e-6);
  CHECK(plain(p.seconds(0, conv(1, 2, 2, 1))) == Approx(2e-6).epsilon(1e-12));
}

TEST_CASE("only kernels of one family are scaled from each other", "[scaled]") {
  const Profile p = lines_of(product);
  const KernelSpec near = conv(20, 30, 17);
  for (const auto change : std::initializer_list<void (*)(KernelSpec&)>{
           [](KernelSpec& s) { s.pass = PassKind::backward_data; }, [](KernelSpec& s) { s.dtype = DType::bf16; },
           [](KernelSpec& s) {
             s.stride = {2, 2};
           },
           [](KernelSpec& s) { s.roles.r = s.roles.s = 5; }, [](KernelSpec& s) { s.x_format = Format::channels_last; },
           [](KernelSpec& s) {
             s.dilation = {2, 1};
           }}) {
    KernelSpec other = near;
    change(other);
    CHECK(p.seconds(0, other).known == Known::modelled);
  }
  CHECK(p.seconds(1, near).known == Known::modelled);
  KernelSpec padded = conv(32, 32, 64);  // a part at another edge of the image
  padded.padding = {0, 1, 1, 1};
  CHECK(plain(p.seconds(0, padded)) == Approx(product(conv(32, 32, 64))).epsilon(1e-12));
}

TEST_CASE("equal extents: the less of their seconds", "[scaled]") {
  Profile p = lines_of(product);
  KernelSpec padded = conv(32, 32, 64);
  padded.padding = {0, 1, 1, 1};
  add(p, padded, product(padded) / 2);
  padded.padding = {1, 0, 1, 1};
  CHECK(plain(p.seconds(0, padded)) == Approx(product(padded) / 2).epsilon(1e-12));
}

TEST_CASE("the stated error is that of kernels left out with all that are one extent away", "[scaled]") {
  Profile p;
  CHECK_FALSE(p.estimate_error(0));
  add(p, conv(32, 32, 64), 1e-3);
  add(p, conv(16, 32, 64), 6e-4);
  CHECK_FALSE(p.estimate_error(0));  // nothing is left that could estimate either
  CHECK(p.seconds(0, conv(16, 16, 64)).known != Known::scaled);

  const Profile exact = lines_of([](const KernelSpec& s) { return 1e-9 * flops(s); });
  REQUIRE(exact.estimate_error(0));
  CHECK(exact.estimate_error(0)->q90 < 0.05);  // the windows' edges
  CHECK(exact.estimate_error(0)->kernels == 12);
  CHECK_FALSE(exact.estimate_error(1));
  CHECK(error_line(exact, 0).starts_with("estimates of kernels that were not measured, one: median error "));
  CHECK_THAT(error_line(exact, 0), Catch::EndsWith(" % (12 held-out sizes)"));

  // Every other kernel takes three times as long: estimates are wrong, and say so.
  int count = 0;
  const Profile rough = lines_of([&](const KernelSpec& s) { return 1e-9 * flops(s) * (count++ % 2 == 0 ? 1 : 3); });
  CHECK(rough.estimate_error(0)->q90 > 0.5);
  CHECK(rough.seconds(0, conv(20, 30, 17)).error == rough.estimate_error(0)->q90);
}

TEST_CASE("another measurement changes the estimates, of this profile and not of its copies", "[scaled]") {
  Profile p = lines_of(product);
  const KernelSpec spec = conv(20, 30, 16);
  const Profile before = p;
  const double was = p.seconds(0, spec).seconds;
  add(p, conv(16, 32, 8), 1e-9);
  CHECK(p.seconds(0, conv(16, 24, 8)).seconds != before.seconds(0, conv(16, 24, 8)).seconds);
  CHECK(before.seconds(0, spec).seconds == was);
  p = before;
  p.scale(0, 3);
  CHECK(p.seconds(0, spec).seconds == Approx(3 * was).epsilon(1e-12));
}

TEST_CASE("estimates are the same after a profile was written and read, and in whatever order points were added", "[scaled]") {
  const Profile p = lines_of(product);
  const Profile back = Profile::parse("p.json", p.json());
  Profile turned;
  for (auto k = p.kernels().rbegin(); k != p.kernels().rend(); ++k) turned.add(*k);
  for (Index n = 1; n < 40; n += 7)
    for (Index f = 1; f < 100; f += 13) {
      CHECK(back.seconds(0, conv(n, 20, f)).seconds == p.seconds(0, conv(n, 20, f)).seconds);
      CHECK(turned.seconds(0, conv(n, 20, f)).seconds == p.seconds(0, conv(n, 20, f)).seconds);
    }
}
