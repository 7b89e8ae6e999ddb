// SPDX-License-Identifier: Apache-2.0
#include "base/random.h"

#include <motley/error.h>

#include <cmath>

#include "base/hash.h"

namespace motley {
namespace {

constexpr std::uint32_t low(std::uint64_t x) {
  return static_cast<std::uint32_t>(x);
}
constexpr std::uint32_t high(std::uint64_t x) {
  return static_cast<std::uint32_t>(x >> 32);
}

double between(double bound, const RandomStream& draws, std::int64_t index) {
  check(index >= 0, "a random number's index is at least 0");
  return bound * (2.0 * draws.uniform(static_cast<std::uint64_t>(index)) - 1.0);
}

}  // namespace

PhiloxBlock philox(PhiloxBlock c, std::array<std::uint32_t, 2> key) {
  constexpr int kRounds = 10;
  for (int round = 0; round < kRounds; round++) {
    // Multipliers and Weyl constants (golden ratio, sqrt(3) - 1): the paper's table 2 and section 3.3.
    const std::uint64_t a = std::uint64_t{0xD2511F53} * c[0], b = std::uint64_t{0xCD9E8D57} * c[2];
    c = {high(b) ^ c[1] ^ key[0], low(b), high(a) ^ c[3] ^ key[1], low(a)};
    key[0] += 0x9E3779B9U;
    key[1] += 0xBB67AE85U;
  }
  return c;
}

RandomStream::RandomStream(std::uint64_t seed, std::string_view name) : key_{low(seed), high(seed)}, name_(hash_bytes(name)) {}

PhiloxBlock RandomStream::block(std::uint64_t counter) const {
  return philox({low(counter), high(counter), low(name_), high(name_)}, key_);
}

double RandomStream::uniform(std::uint64_t counter) const {
  const PhiloxBlock b = block(counter);
  const std::uint64_t bits = ((std::uint64_t{b[1]} << 32) | b[0]) >> 12;  // 52 bits
  return static_cast<double>(2 * bits + 1) * 0x1p-53;
}

double he_uniform(const RandomStream& draws, std::int64_t index, std::int64_t fan_in) {
  check(fan_in > 0, "a parameter that is drawn has a fan-in");
  return between(std::sqrt(6.0 / static_cast<double>(fan_in)), draws, index);
}

double bias_uniform(const RandomStream& draws, std::int64_t index, std::int64_t fan_in) {
  check(fan_in > 0, "a parameter that is drawn has a fan-in");
  return between(1.0 / std::sqrt(static_cast<double>(fan_in)), draws, index);
}

double normal(double deviation, const RandomStream& draws, std::int64_t index) {
  const auto first = 2 * static_cast<std::uint64_t>(index);
  return deviation * std::sqrt(-2 * std::log(draws.uniform(first))) * std::cos(2 * M_PI * draws.uniform(first + 1));
}

}  // namespace motley
