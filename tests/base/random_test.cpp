// SPDX-License-Identifier: Apache-2.0
#include "base/random.h"

#include <catch2/catch.hpp>

#include <cmath>
#include <cstdint>
#include <set>
#include <string>

using namespace motley;

// Known answers of Random123's kat_vectors (Salmon et al. 2011), lines "philox4x32 10".
TEST_CASE("Philox4x32-10 gives the paper's known answers") {
  CHECK(philox({0, 0, 0, 0}, {0, 0}) == PhiloxBlock{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8});
  CHECK(philox({0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff}, {0xffffffff, 0xffffffff}) ==
        PhiloxBlock{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd});
  CHECK(philox({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}) ==
        PhiloxBlock{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1});
}

TEST_CASE("uniform numbers are in (0, 1), even, and determined by seed, name and counter alone") {
  constexpr int kMany = 20000;
  double sum = 0, squares = 0;
  for (std::uint64_t i = 0; i < kMany; i++) {
    const double u = RandomStream(1, "stream").uniform(i);
    REQUIRE(u > 0.0);
    REQUIRE(u < 1.0);
    REQUIRE(u != 0.5);
    sum += u;
    squares += u * u;
  }
  CHECK(sum / kMany == Approx(0.5).margin(0.01));  // standard error 0.002
  CHECK(squares / kMany == Approx(1.0 / 3.0).margin(0.01));
  CHECK(RandomStream(1, "stream").uniform(7) == RandomStream(1, "stream").uniform(7));
  CHECK(RandomStream(1, "stream").uniform(7) != RandomStream(2, "stream").uniform(7));
  CHECK(RandomStream(1, "stream").uniform(7) != RandomStream(1ULL << 32 | 1, "stream").uniform(7));
  CHECK(RandomStream(1, "stream").uniform(7) != RandomStream(1, "strean").uniform(7));
  CHECK(RandomStream(1, "stream").uniform(7) != RandomStream(1, "stream").uniform(7 + (1ULL << 32)));
}

TEST_CASE("the bits of a stream share blocks of four") {
  const RandomStream s(3, "bits");
  std::set<std::uint32_t> seen;
  for (std::uint64_t i = 0; i < 64; i++) {
    CHECK(s.bits(i) == s.block(i / 4)[i % 4]);
    seen.insert(s.bits(i));
  }
  CHECK(seen.size() == 64);
}

TEST_CASE("initial values fill their bounds, have no zero, and differ by tensor") {
  const double weight_bound = std::sqrt(6.0 / 49.0), bias_bound = 1.0 / 7.0;
  double least = 1, most = -1, squares = 0;
  constexpr int kMany = 10000;
  for (int i = 0; i < kMany; i++) {
    const double w = he_uniform(RandomStream(1, "conv2d_1.weight"), i, 49),
                 b = bias_uniform(RandomStream(1, "conv2d_1.bias"), i, 49);
    REQUIRE(std::abs(w) < weight_bound);
    REQUIRE(std::abs(b) < bias_bound);
    REQUIRE(static_cast<float>(w) != 0.0F);
    REQUIRE(static_cast<float>(b) != 0.0F);
    least = std::min(least, w);
    most = std::max(most, w);
    squares += w * w;
  }
  CHECK(least < -0.99 * weight_bound);
  CHECK(most > 0.99 * weight_bound);
  CHECK(squares / kMany == Approx(2.0 / 49.0).epsilon(0.05));  // He's variance
  CHECK(he_uniform(RandomStream(1, "conv2d_1.weight"), 5, 49) != he_uniform(RandomStream(1, "conv2d_2.weight"), 5, 49));
}

// From a second implementation (Philox in Python's integers on what `xxhsum -H3` says of the name). A change here changes the
// numbers of every training run.
TEST_CASE("the numbers of a stream stay what they are") {
  CHECK(RandomStream(1, "conv2d_1.weight").uniform(0) == 0x1.5ae3659e5dc92p-2);
  CHECK(RandomStream((1ULL << 40) + 5, "order").uniform((1ULL << 33) + 7) == 0x1.09c042cf68cc0p-7);
}
