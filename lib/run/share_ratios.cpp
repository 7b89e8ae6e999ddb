// SPDX-License-Identifier: Apache-2.0
// What an update along a direction must know about complete parameters: the norms of their values and directions, of which each
// rank has only those of its boxes.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>

#include "run/bound_program.h"

namespace motley {

namespace {

struct Lengths {  // squared, of one box
  std::int64_t tensor = 0;
  double value = 0, direction = 0;
};

}  // namespace

// Every rank adds all ranks' numbers in the same order, so the ratios have the same bits everywhere.
void Executor::Bound::share_ratios() {
  std::vector<std::byte> room;
  const auto* lengths = reinterpret_cast<const double*>(host_bytes(program.lengths, room));
  std::vector<Lengths> mine;
  for (std::size_t i = 0; i < program.slices.size(); i++)
    mine.push_back({program.slices[i].tensor, lengths[2 * i], lengths[2 * i + 1]});
  std::map<std::int64_t, Lengths> all;
  for (const auto& bytes : transport.gather_all(std::as_bytes(std::span(mine))))
    for (std::size_t at = 0; at < bytes.size(); at += sizeof(Lengths)) {
      Lengths its;
      std::memcpy(&its, bytes.data() + at, sizeof its);
      Lengths& sum = all[its.tensor];
      sum.value += its.value;
      sum.direction += its.direction;
    }
  std::vector<double> ratios;
  for (const Lengths& own : mine) {
    const Lengths& sum = all.at(own.tensor);
    ratios.push_back(sum.value > 0 && sum.direction > 0 ? std::sqrt(sum.value) / std::sqrt(sum.direction) : 1);
  }
  const std::size_t bytes = ratios.size() * sizeof(double);
  std::byte* const to = address({program.ratios, 0});
  if (device != nullptr)
    copy_and_wait(*device, to, ratios.data(), bytes);
  else if (bytes > 0)
    std::memcpy(to, ratios.data(), bytes);
}

}  // namespace motley
