// SPDX-License-Identifier: Apache-2.0
// Random numbers for the cases of laws: those of a number of a case.
#pragma once
#include <motley/dims.h>

#include <cstdint>
#include <initializer_list>

namespace motley::testing {

class Random {
 public:
  Random(std::uint64_t seed, int number) : state_(seed * 0x9e3779b97f4a7c15u + static_cast<std::uint64_t>(number)) { next(); }
  // splitmix64 (Steele, Lea, Flood 2014)
  std::uint64_t next() {
    std::uint64_t z = (state_ += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
  }
  Index in(Index least, Index most) { return least + static_cast<Index>(next() % static_cast<std::uint64_t>(most - least + 1)); }
  bool one_in(Index n) { return in(1, n) == 1; }
  double real(double least, double most) { return least + (most - least) * static_cast<double>(next() >> 11) * 0x1p-53; }
  template <class T>
  T of(std::initializer_list<T> list) {
    return *(list.begin() + in(0, static_cast<Index>(list.size()) - 1));
  }

 private:
  std::uint64_t state_;
};

}  // namespace motley::testing
