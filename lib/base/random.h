// SPDX-License-Identifier: Apache-2.0
// Random numbers without a state: a number is determined by (seed, stream name, counter) alone, so every mesh, layout and rank
// count draws the same numbers. Counter = row-major global index of the element, never an offset in memory.
#pragma once
#include <array>
#include <cstdint>
#include <string_view>

namespace motley {

// Philox4x32-10: Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC11, section 3.
using PhiloxBlock = std::array<std::uint32_t, 4>;
PhiloxBlock philox(PhiloxBlock counter, std::array<std::uint32_t, 2> key);

// The random numbers of one name: key = seed, counter = (counter, XXH3 of the name, 64 bits). Cheap to copy.
class RandomStream {
 public:
  RandomStream(std::uint64_t seed, std::string_view name);
  // In (0, 1), an odd multiple of 2^-53: 0, 1/2 and 1 are never drawn.
  double uniform(std::uint64_t counter) const;
  // 32 uniform bits; four consecutive counters share one Philox block.
  std::uint32_t bits(std::uint64_t counter) const { return block(counter / 4)[counter % 4]; }
  PhiloxBlock block(std::uint64_t counter) const;

 private:
  std::array<std::uint32_t, 2> key_;
  std::uint64_t name_;
};

// Initial values; never 0. draws: of the tensor's name. index: row-major in the tensor's declared dim order. fan_in: global,
// elements contracted per output. He et al. 2015, "Delving deep into rectifiers", equation 10, as a uniform of that variance:
// +-sqrt(6 / fan_in).
double he_uniform(const RandomStream& draws, std::int64_t index, std::int64_t fan_in);
// +-1 / sqrt(fan_in): the range of PyTorch's initial biases.
double bias_uniform(const RandomStream& draws, std::int64_t index, std::int64_t fan_in);

// A normal number with this deviation: Box and Muller, "A note on the generation of random normal deviates", 1958.
double normal(double deviation, const RandomStream& draws, std::int64_t index);

}  // namespace motley
